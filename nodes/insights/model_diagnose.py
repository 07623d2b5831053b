"""Ask a model once why a finding fails: what it is told, and which of its answers count.

The model is not told what the rules concluded, so that an answer which agrees says something.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel, Field, field_validator

from configs.taxonomy import Cause
from connectors.models.answers import Share
from connectors.models.chat import TIMEOUT_S, Answer, Budget, ask
from connectors.review.clean import one_line
from contracts.findings import Finding
from contracts.traces import SpanId, TraceId
from nodes.fence import fenced
from nodes.insights.digest import Digest, digest
from nodes.insights.opinions import OTHER, Opinion, said
from nodes.insights.prompt_files import Prompt
from nodes.insights.skeleton import Skeleton
from nodes.insights.spending import ANSWER_TOKENS, count

MAX_TRIES = 2
MAX_NAMED = 20
"""Pieces of evidence of one answer that are looked at."""
MAX_SHOWN_BACK = 2_000


class OpinionAnswer(BaseModel):
    """Why the agent keeps failing in this way."""

    cause: str = Field(description="one of the list, or other")
    remedy: Literal[
        "instructions", "skill", "tool", "retrieval", "model", "infrastructure", "data"
    ] = Field(description="where the fix belongs")
    evidence: list[str] = Field(description="ids that show it, such as e1")
    confidence: Share
    summary: str = Field(description="what goes wrong and why")
    falsifier: str = Field(description="what would prove this wrong")

    @field_validator("summary", "falsifier")
    @classmethod
    def _said(cls, text: str) -> str:
        if not any(char.isalpha() for char in text):
            raise ValueError("must say something")
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """All that the analyst may know of one finding."""

    finding: Finding
    unit: str
    failing: tuple[Skeleton, ...]
    passing: tuple[Skeleton, ...]
    causes: Mapping[str, Cause]


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What one asking came to: an opinion that counts, or why there is none."""

    opinion: Opinion | None
    evidence: tuple[tuple[TraceId, SpanId], ...] = ()
    invalid: int = 0
    """Ids that it named and that do not exist."""
    problem: str | None = None
    tokens: int = 0
    """0: no call was made."""
    cost_usd: float | None = None
    tries: int = 0


def system_text(prompt: Prompt, causes: Mapping[str, Cause]) -> str:
    """The instructions, with the causes that an answer may name."""
    offered = [name for name in sorted(causes) if causes[name].remedies != ("none",)]
    listed = [f"  - `{name}` (fix: {', '.join(causes[name].remedies)})" for name in offered]
    return prompt.filled(causes="\n".join(listed))


def user_text(brief: Brief, *, seed: int, limit: int) -> tuple[str, Digest]:
    """The finding and its runs within about `limit` tokens; the seed orders the runs."""
    head = "\n".join(["## Finding", fenced("finding", _finding(brief)), "", ""])
    order = list(brief.failing)
    Random(f"{brief.finding.id}:{seed}").shuffle(order)  # noqa: S311  # an order, not a secret
    told = digest(order, brief.passing, limit=limit - count(head), count_tokens=count)
    return head + told.text, told


async def ask_once(
    model: BaseChatModel,
    brief: Brief,
    prompt: Prompt,
    *,
    seed: int,
    tokens: int,
    prompt_tokens: int,
    timeout_s: float = TIMEOUT_S,
) -> Said:
    """One independent answer. Never raises for what a model does.

    Args:
        model: the analyst.
        brief: what it is told.
        prompt: its instructions.
        seed: orders the runs, so that no run is first in every asking.
        tokens: for all tries together, answers included.
        prompt_tokens: of the first message and the instructions.
        timeout_s: for one answer.
    """
    system = system_text(prompt, brief.causes)
    room = prompt_tokens - count(system)
    text, told = await asyncio.to_thread(user_text, brief, seed=seed, limit=room)
    messages: list[BaseMessage] = [SystemMessage(system), HumanMessage(text)]
    left, structured, problem, tries = tokens, True, "", 0
    cost: float | None = 0.0
    for _ in range(MAX_TRIES):
        budget = Budget(
            tokens=left, count_tokens=count, answer_tokens=ANSWER_TOKENS, timeout_s=timeout_s
        )
        answer = await ask(model, messages, OpinionAnswer, budget=budget, structured=structured)
        if answer.tokens == 0:
            problem = problem or answer.problem or "no answer"
            break
        left, tries = left - answer.tokens, tries + 1
        cost = None if cost is None or answer.cost_usd is None else cost + answer.cost_usd
        found = _read(answer, told, brief.causes)
        if found.opinion is not None:
            return _spent(found, tokens - left, cost, tries)
        problem = found.problem or "no answer"
        if answer.failed:
            structured = False  # it may be the schema that this provider refuses
        else:
            messages = [*messages, *_correction(answer, problem)]
    none = Said(opinion=None, problem=one_line(problem, 200))
    return _spent(none, tokens - left, cost, tries)


def _spent(one: Said, tokens: int, cost: float | None, tries: int) -> Said:
    return Said(
        opinion=one.opinion, evidence=one.evidence, invalid=one.invalid, problem=one.problem,
        tokens=tokens, cost_usd=cost if tries else None, tries=tries,
    )  # fmt: skip


def _read(answer: Answer[OpinionAnswer], told: Digest, causes: Mapping[str, Cause]) -> Said:
    """The answer as an opinion, or what is wrong with it."""
    one = answer.parsed
    if one is None:
        return Said(opinion=None, problem=answer.problem)
    cause = one.cause.strip().strip("`")
    known = cause == OTHER or (cause in causes and causes[cause].remedies != ("none",))
    if not known:
        return Said(opinion=None, problem=f"cause: {one_line(cause, 40)!r} is not in the list")
    named = list(dict.fromkeys(name.strip() for name in one.evidence))[:MAX_NAMED]
    valid = [told.places[name] for name in named if name in told.places]
    if not valid:
        return Said(
            opinion=None, invalid=len(named),
            problem=f"evidence: name ids of failing runs, e1 to e{len(told.places)}",
        )  # fmt: skip
    return Said(
        opinion=Opinion(
            cause=cause,
            remedy=one.remedy,
            confidence=one.confidence * len(valid) / len(named),
            summary=said(one.summary),
            falsifier=said(one.falsifier),
        ),
        evidence=tuple(dict.fromkeys(valid)),
        invalid=len(named) - len(valid),
    )


def _correction(answer: Answer[OpinionAnswer], problem: str) -> Sequence[BaseMessage]:
    """The refused answer and the reason. As text: not every provider takes open tool calls back."""
    return [
        AIMessage(answer.text[:MAX_SHOWN_BACK] or "(no text)"),
        HumanMessage(
            f"Not taken: {one_line(problem, 400)}\n"
            "Answer again with the whole JSON object, this put right."
        ),
    ]


def _finding(brief: Brief) -> str:
    """What was counted. Neither the rules' cause nor their remedy is told."""
    found = brief.finding
    low, middle, high = found.rate
    before = (
        "nothing to compare with"
        if found.baseline_units is None
        else f"{found.baseline_units} of {found.baseline_total} {brief.unit}s before"
    )
    lines = [
        f"what: {found.title}",
        f"signature: {found.signature}, severity {found.severity}",
        f"failing: {found.units} of {found.units_total} {brief.unit}s, {middle:.1%} "
        f"(95 % interval {low:.1%} to {high:.1%})",
        f"compared: {found.change}, {before}",
        *(f"more often when failing: {one.sentence}" for one in found.contrasts[:5]),
    ]
    return "\n".join(one_line(line, 300) for line in lines)
