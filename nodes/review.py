"""Pause until a person answers. Nothing before the interrupt computes or writes."""

import asyncio
from typing import NotRequired

from langgraph.runtime import Runtime
from langgraph.types import interrupt
from pydantic import ValidationError
from typing_extensions import TypedDict

from connectors.review.payload import ResumeAnswer
from contracts.context import RunContext
from contracts.errors import UsageError
from contracts.json_types import Json
from contracts.proposals import CardKind
from memory.workspace import open_workspace


class ReviewReads(TypedDict):
    """What review reads."""

    proposal: str
    card: CardKind
    revision: int
    answer_problem: NotRequired[str | None]


class ReviewWrites(TypedDict):
    """What review writes: the answer as it came, or what was wrong with it."""

    answer: dict[str, Json] | None
    answer_problem: str | None


async def review(state: ReviewReads, runtime: Runtime[RunContext]) -> ReviewWrites:
    """Show the card and wait.

    Reads `proposal`, `revision`, `card`, `answer_problem`; writes `answer`, `answer_problem`. A bad
    answer comes back as data: an exception would hide the thread from the inboxes of some servers,
    and a saved bad answer would be replayed for ever.
    """
    ws = await open_workspace(runtime)
    revision = state["revision"]
    card = await asyncio.to_thread(
        ws.ledger.proposals.card, state["proposal"], revision, state["card"]
    )
    if card is None:
        raise UsageError(f"{state['proposal']} r{revision} has no card of kind {state['card']!r}")
    payload: dict[str, Json] = dict(card.payload)
    if problem := state.get("answer_problem"):
        payload["problem"] = problem
    try:
        answer = interrupt(payload, response_schema=ResumeAnswer)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "answer"
        return {"answer": None, "answer_problem": f"{where}: {first['msg']}"}
    return {"answer": answer.model_dump(mode="json"), "answer_problem": None}
