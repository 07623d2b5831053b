"""Answers to assertions that are not ours to answer: the operator's functions, and a judge."""

import asyncio
import secrets
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final, cast

from langchain_core.language_models import BaseChatModel
from sqlalchemy import Connection

from configs.redaction import redact
from connectors.grading.function import Interpreter, ask_function
from connectors.models.chat import open_model
from connectors.traces.tool_arguments import Asked, asked_by_models
from contracts.gate import Case
from contracts.harness import Observation
from contracts.json_types import Json, JsonObject, canonical_json, sha256_hex
from contracts.traces import Span
from memory.workspace import Workspace
from nodes.gate.agreement import majority, votes
from nodes.gate.judging import ANSWER_TOKENS, Grade, grade_once, judge_subject
from nodes.gate.score import Answer, arguments

OUTSIDE: Final = frozenset({"python", "judge"})
_DRAWS = float(1 << 32)  # eight hex digits


async def answers(ws: Workspace, case: Case, observation: Observation) -> Mapping[int, Answer]:
    """The answers to the case's `python` and `judge` assertions, by their place from 0.

    What nobody could answer is "unknown". A run that was not observed, or in which the agent
    failed, is not asked about: its result does not hang on it.

    Raises:
        ConfigError: the judge model cannot be opened.
    """
    if observation.missing is not None or observation.error is not None:
        return {}
    found: dict[int, Answer] = {}
    for place, assertion in enumerate(case.assertions):
        kind, argument = next(iter(assertion.items()))
        if kind == "python":
            found[place] = await _by_function(ws, case, observation, argument)
        elif kind == "judge":
            found[place] = await _by_judge(ws, case, observation, argument)
    return found


def judge_model(ws: Workspace, argument: Json) -> str | None:
    """The pinned model of one assertion: its own, else that of the settings."""
    own = argument.get("model") if isinstance(argument, Mapping) else None
    return str(own) if own else ws.settings.gate.judge.model


async def _by_function(
    ws: Workspace, case: Case, observation: Observation, argument: Json
) -> Answer:
    wanted: Mapping[str, Json] = (
        argument if isinstance(argument, Mapping) else {"function": argument}
    )
    probe = ws.settings.probe
    where = Interpreter(
        command=ws.settings.gate.python, root=ws.root, env=probe.env if probe else ()
    )
    said = await ask_function(
        where, str(wanted["function"]), run_json(case, observation),
        cast("Mapping[str, Json]", wanted.get("args") or {}),
    )  # fmt: skip
    return _answer(said.holds)


def run_json(case: Case, observation: Observation) -> JsonObject:
    """A run as the operator's function sees it; `tools` None: the run left no spans."""
    trace, usage = observation.trace, observation.usage
    tools: list[Json] | None = None
    if trace is not None:
        calls = sorted((s for s in trace.spans if s.kind == "tool"), key=lambda s: s.started_at)
        asked = asked_by_models(trace)
        tools = [_call_json(span, asked) for span in calls]
    return {
        "input": case.input, "output": observation.output, "tools": tools,
        "seconds": observation.seconds,
        "usage": {
            "input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens,
            "cost_usd": usage.cost_usd,
        },
    }  # fmt: skip


def _call_json(span: Span, asked: Asked) -> JsonObject:
    given = arguments(span, asked)
    return {
        "name": span.tool_name or span.name,
        "args": None if given is None else dict(given),
        "result": None if span.output is None else span.output.text,
        "error": None if span.error is None else span.error.message,
    }


async def _by_judge(ws: Workspace, case: Case, observation: Observation, argument: Json) -> Answer:
    name = judge_model(ws, argument)
    if name is None:
        return "unknown"
    question = str(argument["question"] if isinstance(argument, Mapping) else argument)
    model = await asyncio.to_thread(_opened, name, ws.root)
    subject = judge_subject(name)
    needed = await asyncio.to_thread(_votes, ws, subject)
    again = needed == 1 and _drawn(ws.settings.gate.judge.regrade, question, observation.output)
    asked = max(needed, 2 if again else 1)
    grades = [await grade_once(model, question, case.input, observation.output)]
    for _ in range(asked - 1):
        if grades[0].holds is None:
            break  # it is down or cannot tell: asking again until it can would be luck
        grades.append(await grade_once(model, question, case.input, observation.output))
    await asyncio.to_thread(_keep, ws, name, subject, grades, again=again)
    said = [grade.holds for grade in grades]
    return _answer(majority(said) if needed > 1 else said[0])


@lru_cache(maxsize=8)
def _opened(name: str, root: Path) -> BaseChatModel:
    return open_model(name, key="gate.judge.model", root=root, answer_tokens=ANSWER_TOKENS)


def _votes(ws: Workspace, subject: str) -> int:
    """Grades an answer, by what regrading changed since the judge was last calibrated."""
    last = ws.ledger.gate_checks.last("judge", subject)
    seen = [
        check
        for check in ws.ledger.gate_checks.listed("regrade")
        if check.subject == subject and (last is None or check.at >= last.at)
    ]
    return votes(len(seen), sum(not check.ok for check in seen))


def _drawn(share: float, question: str, output: Json) -> bool:
    """A share of the answers, by their own hash, so that a repeated run is drawn again."""
    digest = sha256_hex(canonical_json([question, output]))
    return int(digest[:8], 16) < share * _DRAWS


def _keep(ws: Workspace, name: str, subject: str, grades: list[Grade], *, again: bool) -> None:
    """What the grades cost, and whether grading again changed the answer."""

    def write(tx: Connection) -> None:
        for grade in grades:
            ws.ledger.spends.add(
                tx, "judge", name, key=secrets.token_hex(8), tokens=grade.tokens,
                cost_usd=grade.cost_usd,
            )  # fmt: skip
        if again and len(grades) > 1 and grades[1].holds is not None:
            same = grades[0].holds == grades[1].holds
            body: dict[str, Json] = {
                "grades": [grade.holds for grade in grades],
                "whys": [redact(grade.why) for grade in grades],
            }
            ws.ledger.gate_checks.put(tx, "regrade", ok=same, body=body, subject=subject)

    with ws.ledger.db.write() as tx:
        write(tx)


def _answer(holds: bool | None) -> Answer:
    if holds is None:
        return "unknown"
    return "yes" if holds else "no"
