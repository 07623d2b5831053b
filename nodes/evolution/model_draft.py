"""Ask the editor model for an edit, tell it what is wrong with it, and give up in time."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel, Field, field_validator, model_validator

from connectors.models.chat import TIMEOUT_S, Answer, Budget, ask
from connectors.review.clean import one_line
from contracts.proposals import Draft, Operation
from memory.budget import DRAFTING_TOKENS, count_tokens
from nodes.evolution.prompt import Brief, finding_text, system_text

MAX_TRIES = 3
MAX_OPERATIONS = 4
MAX_REASON = 300
"""Characters kept of the model's reasons; a card has room for no more."""
MAX_SHOWN_BACK = 4_000
"""Characters of a refused answer that the model is shown again."""


class EditOperation(BaseModel):
    """One small edit: replace an anchor, insert after it, or add a skill."""

    op: Literal["replace", "insert_after", "add_skill"]
    path: str
    anchor: str | None = None
    text: str


class EditAnswer(BaseModel):
    """One edit of the agent's text, with its reasons."""

    operations: list[EditOperation] = Field(description="1 to 4, merged in this order")
    why: str = Field(description="why this mends the cause")
    falsifier: str = Field(description="what would prove the edit wrong")
    evidence: list[str] = Field(description="ids of the quotes it rests on, such as e1")

    @field_validator("why", "falsifier")
    @classmethod
    def _said(cls, text: str) -> str:
        if not text.strip():
            raise ValueError("must say something")
        return text

    @model_validator(mode="after")
    def _sound(self) -> "EditAnswer":
        if not 1 <= len(self.operations) <= MAX_OPERATIONS:
            raise ValueError(f"{len(self.operations)} operations; give 1 to {MAX_OPERATIONS}")
        try:
            self.model_dump_json()
        except ValueError:
            raise ValueError("holds half a surrogate pair, which is no text") from None
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What the editor model came to: a draft that holds, or the reason that there is none."""

    draft: Draft | None
    problem: str | None
    tries: int
    tokens: int


async def model_draft(
    model: BaseChatModel,
    name: str,
    brief: Brief,
    judge: Callable[[Draft], str | None],
    *,
    keep: Callable[[Sequence[BaseMessage]], None] = lambda _: None,
    tokens: int = DRAFTING_TOKENS,
    timeout_s: float = TIMEOUT_S,
) -> Written:
    """The model's draft, or why there is none after three tries or at the end of the budget.

    Args:
        model: the editor.
        name: `provider:name`, for the draft's author.
        brief: what the model is told.
        judge: merges a draft and runs the policy on it; says what is wrong, None when it holds.
        keep: told what the model is shown, before it is.
        tokens: for all tries together, input and output.
        timeout_s: for one answer.
    """
    messages = await asyncio.to_thread(_first, brief)
    await asyncio.to_thread(keep, messages)
    left, structured, problem, tries = tokens, True, "", 0
    for _ in range(MAX_TRIES):
        budget = Budget(tokens=left, count_tokens=_count, timeout_s=timeout_s)
        answer = await ask(model, messages, EditAnswer, budget=budget, structured=structured)
        left -= answer.tokens
        if answer.tokens == 0:
            problem = "; then ".join(filter(None, [problem, answer.problem]))
            break
        tries += 1
        draft, wrong = _draft(answer, name, brief)
        if draft is not None:
            wrong = await asyncio.to_thread(judge, draft)
            if wrong is None:
                return Written(draft=draft, problem=None, tries=tries, tokens=tokens - left)
        problem = wrong or "no answer"
        if answer.failed:
            structured = False  # it may be the schema that this provider refuses
        else:
            messages = [*messages, *_correction(answer, problem)]
    return Written(
        draft=None, problem=one_line(problem, MAX_REASON), tries=tries, tokens=tokens - left
    )


def _first(brief: Brief) -> list[BaseMessage]:
    user = finding_text(brief, count_tokens=_count)
    return [SystemMessage(system_text(brief)), HumanMessage(user)]


def _count(text: str) -> int:
    return count_tokens(text).tokens


def _draft(answer: Answer[EditAnswer], name: str, brief: Brief) -> tuple[Draft | None, str | None]:
    """The answer as a draft, or what is wrong with it before anything is merged."""
    said = answer.parsed
    if said is None:
        return None, answer.problem
    known = brief.ids
    if wrong := _evidence_problem(said.evidence, list(known)):
        return None, wrong
    places = [f"{known[e].trace_id}/{known[e].span_id}" for e in dict.fromkeys(said.evidence)]
    rests = one_line(f"Rests on {', '.join(places)}.", MAX_REASON) if places else ""
    draft = Draft(
        operations=tuple(
            Operation(op=o.op, path=o.path, text=o.text, anchor=o.anchor) for o in said.operations
        ),
        why=f"{one_line(said.why, MAX_REASON)} {rests}".rstrip(),
        falsifier=one_line(said.falsifier, MAX_REASON),
        author=f"model:{name}",
        model_written=True,
    )
    return draft, None


def _evidence_problem(named: Sequence[str], known: Sequence[str]) -> str | None:
    """What is wrong with the ids that an answer rests on."""
    choice = f"name one or more of {', '.join(known)}" if known else "the list must be empty"
    unknown = [one_line(one, 40) for one in named if one not in known]
    if unknown:
        return f"evidence: {unknown[0]!r} is none: {choice}"
    return f"evidence: {choice}" if known and not named else None


def _correction(answer: Answer[EditAnswer], problem: str) -> list[BaseMessage]:
    """The refused answer and the reason. As text: not every provider takes open tool calls back."""
    return [
        AIMessage(answer.text[:MAX_SHOWN_BACK] or "(no text)"),
        HumanMessage(
            f"Not taken: {one_line(problem, 2 * MAX_REASON)}\n"
            "Answer again with the whole JSON object, this put right."
        ),
    ]
