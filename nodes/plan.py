"""Freeze what the gate will do, hash it into the proposal, and write the card."""

import asyncio
from dataclasses import dataclass, replace
from typing import Literal, NotRequired, cast

from langgraph.runtime import Runtime
from sqlalchemy import Connection
from typing_extensions import TypedDict

from contracts.codec import to_json
from contracts.context import RunContext
from contracts.gate import GatePlan
from contracts.json_types import Json
from contracts.proposals import CardKind, Proposal
from memory.proposals import StoredProposal
from memory.workspace import Workspace, open_workspace, thread_of
from nodes.gate.design import PlanRefused
from nodes.planning import Inputs, make_plan, read_inputs
from nodes.precheck import precheck, precheck_notes
from nodes.showing import card_for


class PlanReads(TypedDict):
    """What plan reads."""

    proposal: str


class PlanWrites(TypedDict):
    """What plan writes."""

    planned: bool
    card: CardKind
    revision: int
    """Which revision the card shows; what a person sees stays that, whatever comes after."""
    why: NotRequired[str | None]
    """Why the plan was refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drafted:
    """A revision that has no plan yet, and the plan that it would have without a precheck."""

    proposal: Proposal
    inputs: Inputs
    plan: GatePlan
    step: str


async def plan(state: PlanReads, runtime: Runtime[RunContext]) -> PlanWrites:
    """Plan the gate of a drafted revision, or make the second card of an inconclusive one.

    Reads `proposal`; writes the ledger, `planned` and `card`. Which card it is follows from where
    the newest revision stands in the ledger. A plan is frozen after the precheck, which runs the
    agent as it is; nothing that was drafted runs here.
    """
    ws = await open_workspace(runtime)
    thread = thread_of(runtime)
    begun = await asyncio.to_thread(_begin, ws, thread, state["proposal"])
    if not isinstance(begun, _Drafted):
        return begun
    problem = await precheck(ws, begun.plan, begun.inputs.cases, runtime.stream_writer)
    return await asyncio.to_thread(_freeze, ws, thread, begun, problem)


def _begin(ws: Workspace, thread: str, proposal_id: str) -> PlanWrites | _Drafted:
    stored = ws.ledger.proposals.latest(proposal_id)
    if stored.state in ("drafting", "waiting"):
        return _draft(ws, thread, stored.proposal)
    if stored.state == "inconclusive":
        return _show(ws, thread, stored, "override")
    if stored.state == "invalid":
        return _draft(ws, thread, _again(ws, stored.proposal))
    return _show(ws, thread, stored, "undo")


def _draft(ws: Workspace, thread: str, proposal: Proposal) -> PlanWrites | _Drafted:
    step = f"plan:{proposal.revision}:approve"
    found = ws.ledger.steps.get(thread, step)
    if found is not None:
        return cast("PlanWrites", found)
    inputs = read_inputs(ws, proposal)
    try:
        first = make_plan(ws, proposal, inputs, ws.ledger.case_runs.counts(proposal.base_revision))
    except PlanRefused as refused:
        return _refuse(ws, thread, step, proposal, str(refused))
    return _Drafted(proposal=proposal, inputs=inputs, plan=first, step=step)


def _freeze(ws: Workspace, thread: str, begun: _Drafted, problem: str | None) -> PlanWrites:
    """The plan with what the precheck saw, hashed into the proposal, and its card."""
    proposal = begun.proposal
    runs = ws.ledger.case_runs.counts(proposal.base_revision)
    made = make_plan(ws, proposal, begun.inputs, runs)
    made = replace(made, notes=(*precheck_notes(made, runs, problem), *made.notes))
    frozen = replace(proposal, plan=to_json(made))
    card = card_for(ws, StoredProposal(proposal=frozen, state="waiting"), "approve")

    def write(tx: Connection) -> dict[str, Json]:
        ws.ledger.proposals.freeze(tx, frozen)
        ws.ledger.proposals.put_card(tx, card)
        return {"planned": True, "card": "approve", "revision": frozen.revision}

    return cast("PlanWrites", ws.ledger.steps.once(thread, begun.step, write))


def _again(ws: Workspace, proposal: Proposal) -> Proposal:
    """The use that the plan assumed was taken: the same edit as the next revision, planned anew."""
    fresh = replace(
        proposal, revision=proposal.revision + 1, plan={}, created_at=ws.ledger.db.clock()
    )
    with ws.ledger.db.write() as tx:
        ws.ledger.proposals.insert(tx, fresh, state="drafting")
    return fresh


def _refuse(ws: Workspace, thread: str, step: str, proposal: Proposal, reason: str) -> PlanWrites:
    def write(tx: Connection) -> dict[str, Json]:
        ws.ledger.proposals.set_state(tx, proposal, "invalid")
        which: dict[str, Json] = {"card": "approve", "revision": proposal.revision}
        return {"planned": False, "why": reason, **which}

    return cast("PlanWrites", ws.ledger.steps.once(thread, step, write))


def _show(ws: Workspace, thread: str, stored: StoredProposal, kind: CardKind) -> PlanWrites:
    step = f"plan:{stored.proposal.revision}:{kind}"
    found = ws.ledger.steps.get(thread, step)
    if found is not None:
        return cast("PlanWrites", found)
    card = card_for(ws, stored, kind)

    def write(tx: Connection) -> dict[str, Json]:
        ws.ledger.proposals.put_card(tx, card)
        return {"planned": True, "card": kind, "revision": stored.proposal.revision}

    return cast("PlanWrites", ws.ledger.steps.once(thread, step, write))


async def after_plan(state: PlanWrites, runtime: Runtime[RunContext]) -> Literal["review", "learn"]:
    """On to the person; a plan that could test nothing ends the run."""
    del runtime
    return "review" if state["planned"] else "learn"
