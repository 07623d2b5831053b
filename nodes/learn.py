"""Keep what a proposal taught, and move its finding on."""

import asyncio
from typing import NotRequired

from langgraph.runtime import Runtime
from sqlalchemy import Connection
from typing_extensions import TypedDict

from contracts.codec import to_json
from contracts.context import RunContext
from contracts.gate import Lesson
from contracts.json_types import Json, content_id
from contracts.proposals import CardKind, Decision
from memory.proposals import StoredProposal
from memory.workspace import Workspace, open_workspace, thread_of
from nodes.insights.recall import lesson_vectors


class LearnReads(TypedDict):
    """What learn reads."""

    proposal: NotRequired[str]
    watched: NotRequired[str]


class LearnWrites(TypedDict):
    """What learn writes."""

    lesson: str | None


async def learn(state: LearnReads, runtime: Runtime[RunContext]) -> LearnWrites:
    """Store a lesson with the outcome. Reads `proposal` and `watched`, writes `lesson`."""
    ws = await open_workspace(runtime)
    proposal = state.get("proposal")
    if proposal is None:
        return {"lesson": None}
    lesson = await asyncio.to_thread(_learn, ws, thread_of(runtime), proposal, state.get("watched"))
    return {"lesson": lesson}


def _learn(ws: Workspace, thread: str, proposal_id: str, watched: str | None) -> str:
    stored = ws.ledger.proposals.latest(proposal_id)
    outcome = watched or _outcome(ws, stored)
    # Not by the outcome: learning itself moves the proposal on, and who learns a second time, after
    # a crash or beside another run of the node, must find what was learned and not another outcome.
    step = ":".join(("learn", stored.proposal.hash, *([watched] if watched else [])))
    lesson = _lesson(ws, stored, outcome)
    vectors = lesson_vectors(ws, lesson)

    def write(tx: Connection) -> dict[str, Json]:
        ws.ledger.knowledge.put_lesson(tx, lesson)
        ws.ledger.vectors.put(tx, vectors)
        _move(ws, tx, stored, outcome)
        return {"lesson": lesson.id}

    return str(ws.ledger.steps.once(thread, step, write)["lesson"])


def _outcome(ws: Workspace, stored: StoredProposal) -> str:
    """What the ledger says became of the proposal, in one word."""
    verdict = ws.ledger.gate.report(stored.proposal.hash)
    failed = stored.state in ("gate_rejected", "inconclusive", "invalid")
    return "gate: not accepted" if failed and verdict is not None else stored.state


def _decision(ws: Workspace, stored: StoredProposal) -> Decision | None:
    which = stored.proposal
    cards: tuple[CardKind, ...] = ("undo", "override", "approve")
    for card in cards:
        found = ws.ledger.proposals.decision(which.id, which.revision, card)
        if found is not None:
            return found
    return None


def _lesson(ws: Workspace, stored: StoredProposal, outcome: str) -> Lesson:
    proposal = stored.proposal
    finding = ws.ledger.knowledge.finding(proposal.finding_id).finding
    decision = _decision(ws, stored)
    # Of the gate only one bit goes into memory: what a drafter could learn from more of it would
    # have to be paid for in the level of the next use of the sealed set.
    return Lesson(
        id=content_id("l-", proposal.hash, outcome),
        finding_id=finding.id, signature=finding.signature, cause=finding.diagnosis.cause,
        edit=f"{proposal.draft.author}: {', '.join(change.path for change in proposal.files)}",
        decision=decision.type if decision is not None else "none",
        reason=decision.reason if decision is not None else None,
        outcome=outcome, at=ws.ledger.db.clock(),
        facts={"files": [to_json(change) for change in proposal.files]},
    )  # fmt: skip


def _move(ws: Workspace, tx: Connection, stored: StoredProposal, outcome: str) -> None:
    finding = stored.proposal.finding_id
    if stored.state == "watching":
        return  # what a watch saw is a lesson; the finding stays where it is
    ws.ledger.knowledge.targets_to_training(tx, finding)
    if outcome == "applied":
        ws.ledger.knowledge.set_finding(tx, finding, "watching")
        ws.ledger.proposals.set_state(tx, stored.proposal, "watching")
    elif outcome == "undone":
        ws.ledger.knowledge.set_finding(tx, finding, "reopened")
    else:
        ws.ledger.knowledge.set_finding(tx, finding, "open")
