"""Compare the judge with people's labels, and keep whether it may grade."""

import asyncio
import json
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connectors.models.chat import open_model
from contracts.errors import ConfigError
from contracts.json_types import Json, JsonObject
from memory.workspace import Workspace
from nodes.gate.agreement import Agreement, agreement, too_little
from nodes.gate.judging import ANSWER_TOKENS, Grade, grade_once, judge_subject

_AT_ONCE = 4
_KEYS: Final = frozenset({"question", "input", "output", "label", "by"})
_LABELS: Final = {"yes": True, "no": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What a person said of one answer."""

    question: str
    input: Json
    output: Json
    holds: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """How the judge did. `problem` None: it may grade."""

    subject: str
    agreement: Agreement
    regraded: int
    flipped: int
    problem: str | None
    disagreed: tuple[int, ...]
    """Lines of the label file that the judge grades otherwise, from 1."""


def read_labels(file: Path) -> Sequence[Label]:
    """Labels of a JSONL file: `{question, input, output, label: yes|no, by}` a line.

    Raises:
        ConfigError: names the line and what is wrong with it.
    """
    try:
        lines = file.read_text("utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"gate.judge.labels: {file.name} cannot be read: {error}") from None
    return [_label(line, f"{file.name}:{i}") for i, line in enumerate(lines, 1) if line.strip()]


def _label(line: str, place: str) -> Label:
    try:
        value: object = json.loads(line)
    except (ValueError, RecursionError):
        raise ConfigError(f"{place}: not JSON") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{place}: needs an object with question, input, output, label")
    unknown = sorted(set(value) - _KEYS)
    missing = sorted({"question", "output", "label"} - set(value))
    if unknown or missing:
        said = f"unknown key {unknown[0]!r}" if unknown else f"{missing[0]}: missing"
        raise ConfigError(f"{place}: {said}")
    if value["label"] not in _LABELS or not isinstance(value["question"], str):
        raise ConfigError(f"{place}: label is `yes` or `no`, question is a text")
    return Label(
        question=value["question"], input=value.get("input"), output=value["output"],
        holds=_LABELS[value["label"]],
    )  # fmt: skip


async def calibrate(
    ws: Workspace, said: Callable[[int, int], None] = lambda _done, _of: None
) -> Calibration:
    """Let the judge grade every labelled answer once, a share of them twice; keep the result.

    Raises:
        ConfigError: no judge or no labels are configured, or one of them cannot be used.
    """
    spec = ws.settings.gate.judge
    if spec.model is None or spec.labels is None:
        what = "model" if spec.model is None else "labels"
        raise ConfigError(f"gate.judge.{what}: missing; see docs/gate.md, section Judge")
    labels = await asyncio.to_thread(read_labels, ws.root / spec.labels)
    model = await asyncio.to_thread(
        open_model, spec.model, key="gate.judge.model", root=ws.root, answer_tokens=ANSWER_TOKENS
    )
    free = asyncio.Semaphore(_AT_ONCE)
    done = 0

    async def one(label: Label) -> Grade:
        nonlocal done
        async with free:
            grade = await grade_once(model, label.question, label.input, label.output)
        done += 1
        said(done, len(labels))
        return grade

    grades = await asyncio.gather(*(one(label) for label in labels))
    step = max(1, round(1 / spec.regrade)) if spec.regrade else len(labels) + 1
    firsts = grades[step - 1 :: step]
    second = await asyncio.gather(*(one(label) for label in labels[step - 1 :: step]))
    pairs = [(a.holds, b.holds) for a, b in zip(firsts, second, strict=True)]
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    found = agreement([(x.holds, g.holds) for x, g in zip(labels, grades, strict=True)])
    result = Calibration(
        subject=judge_subject(spec.model), agreement=found, regraded=len(known),
        flipped=sum(a != b for a, b in known), problem=too_little(found),
        disagreed=tuple(
            i for i, (x, g) in enumerate(zip(labels, grades, strict=True), 1)
            if g.holds is not None and g.holds != x.holds
        ),
    )  # fmt: skip
    await asyncio.to_thread(_keep, ws, spec.model, result, [*grades, *second])
    return result


def _keep(ws: Workspace, model: str, result: Calibration, grades: Sequence[Grade]) -> None:
    with ws.ledger.db.write() as tx:
        for grade in grades:
            ws.ledger.spends.add(
                tx, "judge", model, key=secrets.token_hex(8), tokens=grade.tokens,
                cost_usd=grade.cost_usd,
            )  # fmt: skip
        ws.ledger.gate_checks.put(
            tx, "judge", ok=result.problem is None, body=calibration_json(result),
            subject=result.subject,
        )  # fmt: skip


def calibration_json(result: Calibration) -> JsonObject:
    """The record as it is kept and printed."""
    found = result.agreement
    return {
        "labels": found.labels, "agree": found.agree, "kappa": found.kappa,
        "kappa_lower": found.lower, "unanswered": found.unanswered,
        "regraded": result.regraded, "flipped": result.flipped, "problem": result.problem,
        "disagreed": list(result.disagreed),
    }  # fmt: skip


def judge_problem(ws: Workspace, model: str | None) -> str | None:
    """Why this judge's grades cannot count now; None: they do."""
    if model is None:
        return "gate.judge.model is not set, and a case asks for a judge"
    last = ws.ledger.gate_checks.last("judge", judge_subject(model))
    if last is None:
        return f"{model} was never compared with people; run `tracemend gate judge`"
    if last.ok:
        return None
    return str(last.body.get("problem") or "its last comparison with people failed")
