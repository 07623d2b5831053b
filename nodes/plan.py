"""Freeze what the gate will do, hash it into the proposal, and write the card. Runs nothing."""

import asyncio
from dataclasses import replace
from typing import Literal, NotRequired, cast

from langgraph.runtime import Runtime
from sqlalchemy import Connection
from typing_extensions import TypedDict

from contracts.codec import to_json
from contracts.context import RunContext
from contracts.gate import Case, GatePlan
from contracts.json_types import Json, sha256_hex
from contracts.proposals import CardKind, Proposal
from memory.cases import fingerprint, keep_apart, load_cases
from memory.families import assign_families
from memory.proposals import StoredProposal
from memory.workspace import Workspace, open_workspace, thread_of
from nodes.evolution.change import added_text
from nodes.gate.design import PlanRefused, design_plan
from nodes.gate.leaks import leaked
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


async def plan(state: PlanReads, runtime: Runtime[RunContext]) -> PlanWrites:
    """Plan the gate of a drafted revision, or make the second card of an inconclusive one.

    Reads `proposal`; writes the ledger, `planned` and `card`. Which card it is follows from where
    the newest revision stands in the ledger.
    """
    ws = await open_workspace(runtime)
    return await asyncio.to_thread(_plan, ws, thread_of(runtime), state["proposal"])


def _plan(ws: Workspace, thread: str, proposal_id: str) -> PlanWrites:
    stored = ws.ledger.proposals.latest(proposal_id)
    proposal = stored.proposal
    if stored.state in ("drafting", "waiting"):
        return _plan_revision(ws, thread, proposal)
    if stored.state == "inconclusive":
        return _show(ws, thread, stored, "override")
    if stored.state == "invalid":
        return _plan_again(ws, thread, proposal)
    return _show(ws, thread, stored, "undo")


def _plan_revision(ws: Workspace, thread: str, proposal: Proposal) -> PlanWrites:
    step = f"plan:{proposal.revision}:approve"
    found = ws.ledger.steps.get(thread, step)
    if found is not None:
        return cast("PlanWrites", found)
    try:
        gate_plan, notes = _design(ws, proposal)
    except PlanRefused as refused:
        return _refuse(ws, thread, step, proposal, str(refused))
    frozen = replace(proposal, plan=to_json(replace(gate_plan, notes=(*gate_plan.notes, *notes))))
    card = card_for(ws, StoredProposal(proposal=frozen, state="waiting"), "approve")

    def write(tx: Connection) -> dict[str, Json]:
        ws.ledger.proposals.freeze(tx, frozen)
        ws.ledger.proposals.put_card(tx, card)
        return {"planned": True, "card": "approve", "revision": frozen.revision}

    return cast("PlanWrites", ws.ledger.steps.once(thread, step, write))


def _plan_again(ws: Workspace, thread: str, proposal: Proposal) -> PlanWrites:
    """The use that the plan assumed was taken: the same edit as the next revision, planned anew."""
    fresh = replace(
        proposal, revision=proposal.revision + 1, plan={}, created_at=ws.ledger.db.clock()
    )
    with ws.ledger.db.write() as tx:
        ws.ledger.proposals.insert(tx, fresh, state="drafting")
    return _plan_revision(ws, thread, fresh)


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


def _design(ws: Workspace, proposal: Proposal) -> tuple[GatePlan, tuple[str, ...]]:
    """The plan from cases as they are now.

    Raises:
        PlanRefused: there is nothing to test.
    """
    targets = ws.ledger.knowledge.targets(proposal.finding_id)
    filed = load_cases(ws.root, ws.settings.cases)
    # Families are drawn over both together, so that no sibling of a target stays sealed.
    loose = [replace(case, family="") for case in targets]
    cases, notes = keep_apart(assign_families((*loose, *filed)))
    sealed, retired = _unleaked(ws, proposal, _tagged(cases, "sealed"))
    gate, probe = ws.settings.gate, ws.settings.probe
    return (
        design_plan(
            base=proposal.base_revision, candidate=proposal.candidate_revision,
            targets=_tagged(cases, "target"), sealed=sealed,
            critical=_tagged(cases, "critical"), profile=gate.profile, margin=gate.margin,
            uses=gate.uses, use=ws.ledger.gate.uses() + 1,
            issue_use=ws.ledger.gate.issue_uses(proposal.finding_id) + 1,
            max_targets=gate.max_targets, max_runs=gate.max_runs, max_usd=gate.max_usd,
            max_seconds=gate.max_seconds, deadline_s=probe.timeout_s if probe else 30.0,
            seed=seed_of(proposal), discordance=None,
        ),
        (*notes, *retired),
    )  # fmt: skip


def _unleaked(
    ws: Workspace, proposal: Proposal, sealed: tuple[Case, ...]
) -> tuple[tuple[Case, ...], tuple[str, ...]]:
    """Sealed cases whose text is not in the edit, and a note for each that is."""
    base = ws.ledger.artifacts.snapshot(proposal.base_revision)
    candidate = ws.ledger.artifacts.snapshot(proposal.candidate_revision)
    gone = leaked(sealed, added_text(base, candidate))
    notes = tuple(
        f"a sealed case (fingerprint {fingerprint(case)[:12]}) is left out: its text is in the edit"
        for case in gone
    )
    return tuple(case for case in sealed if case not in gone), notes


def seed_of(proposal: Proposal) -> int:
    """Fixed by what is tested, so that nobody can draw again until the plan looks better."""
    text = f"{proposal.project}|{proposal.finding_id}|{proposal.candidate_revision}"
    return int(sha256_hex(text.encode())[:8], 16)


def _tagged(cases: tuple[Case, ...], tag: str) -> tuple[Case, ...]:
    return tuple(case for case in cases if tag in case.tags)


async def after_plan(state: PlanWrites, runtime: Runtime[RunContext]) -> Literal["review", "learn"]:
    """On to the person; a plan that could test nothing ends the run."""
    del runtime
    return "review" if state["planned"] else "learn"
