"""The shape of an editor model's answer, and how one becomes a draft. Pure."""

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, Field, field_validator, model_validator

from connectors.review.clean import one_line
from contracts.proposals import Draft, Operation
from nodes.evolution.prompt import Brief

MAX_OPERATIONS = 4
MAX_TEXT = 20_000
"""Characters of one operation; policy allows far less, and an answer is kept with the run."""
MAX_REASON = 300
"""Characters kept of the model's reasons; a card has room for no more."""


class EditOperation(BaseModel):
    """One small edit of one file."""

    op: Literal["replace", "insert_after", "remove", "add_skill"]
    path: str
    anchor: str | None = None
    text: str = ""


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
        if len(self.operations) > MAX_OPERATIONS:
            raise ValueError(f"{len(self.operations)} operations; give 1 to {MAX_OPERATIONS}")
        for number, operation in enumerate(self.operations):
            if max(len(operation.text), len(operation.anchor or "")) > MAX_TEXT:
                raise ValueError(f"operations.{number}: over {MAX_TEXT} characters")
        try:
            self.model_dump_json()
        except ValueError:
            raise ValueError("holds half a surrogate pair, which is no text") from None
        return self


def draft_of(said: EditAnswer, name: str, brief: Brief) -> Draft | str:
    """The answer as a draft, or what is wrong with it before anything is merged.

    Args:
        said: the answer.
        name: of the model, as `provider:name`.
        brief: what the model was told; `evidence` names quotes of it.
    """
    if not said.operations:
        return f"0 operations; give 1 to {MAX_OPERATIONS}"
    known = brief.ids
    if wrong := _evidence_problem(said.evidence, list(known)) or _remove_problem(said, brief):
        return wrong
    named = dict.fromkeys(said.evidence)
    return Draft(
        operations=tuple(
            Operation(op=o.op, path=o.path, text=o.text, anchor=o.anchor) for o in said.operations
        ),
        why=one_line(said.why, MAX_REASON),
        falsifier=one_line(said.falsifier, MAX_REASON),
        author=f"model:{name}",
        model_written=True,
        evidence=tuple(f"{known[e].trace_id}/{known[e].span_id}" for e in named),
    )


def _evidence_problem(named: Sequence[str], known: Sequence[str]) -> str | None:
    """What is wrong with the ids that an answer rests on."""
    choice = f"name one or more of {', '.join(known)}" if known else "the list must be empty"
    unknown = [one_line(one, 40) for one in named if one not in known]
    if unknown:
        return f"evidence: {unknown[0]!r} is none: {choice}"
    return f"evidence: {choice}" if known and not named else None


def _remove_problem(said: EditAnswer, brief: Brief) -> str | None:
    """A line goes only where a quote of a failure shows that it hurts."""
    if not any(operation.op == "remove" for operation in said.operations):
        return None
    if any(brief.ids[one].failed for one in said.evidence):
        return None
    failed = [name for name, line in brief.ids.items() if line.failed]
    if not failed:
        return "remove: no quote of a failure was kept, so that nothing shows that a line hurts"
    return f"remove: needs a quote of a failure in `evidence`: one of {', '.join(failed)}"
