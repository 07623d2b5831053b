"""Apply an approved and accepted edit exactly once, or take a release back.

The truth is looked up in the target: an effect row says what was intended, the files say what
happened. Whatever was killed and whenever, the next run finishes it, or says why it cannot.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from langgraph.runtime import Runtime
from sqlalchemy import Connection
from typing_extensions import TypedDict

from contracts.context import RunContext
from contracts.errors import ForeignChange, LeaseLost, TracemendError
from contracts.harness import Effect, EffectKind, HarnessSnapshot, effect_key
from contracts.json_types import content_id
from contracts.proposals import CardKind, Decision, Proposal, Release, ReleaseId
from contracts.protocols import Harness
from memory.leases import Lease
from memory.workspace import Workspace, open_workspace
from nodes.decide import seats_needed, settled
from nodes.ports import open_harness


class ApplyReads(TypedDict):
    """What apply reads."""

    proposal: str


class ApplyWrites(TypedDict):
    """What apply writes: where it ended, for people who look at the thread."""

    applied: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change to make: the effect's identity, and the harness on both of its sides."""

    kind: EffectKind
    proposal: Proposal
    decision: Decision
    before: HarnessSnapshot
    after: HarnessSnapshot
    undoes: ReleaseId | None


async def apply(state: ApplyReads, runtime: Runtime[RunContext]) -> ApplyWrites:
    """Do what the ledger allows, once. Reads `proposal`, writes the ledger, the target, `applied`.

    Raises:
        TracemendError: no decision allows a change; nothing was written.
    """
    ws = await open_workspace(runtime)
    change = await asyncio.to_thread(_allowed, ws, state["proposal"])
    harness = await asyncio.to_thread(open_harness, ws)
    effect = await asyncio.to_thread(_intend, ws, change, harness.target)
    if effect.state == "intended":
        lease = await _take(ws, harness.target)
        try:
            await asyncio.to_thread(ws.ledger.effects.claim, effect, lease)
            effect = await _perform(ws, change, effect, harness, lease)
        finally:
            await asyncio.to_thread(ws.ledger.leases.release, lease)
    await harness.discard(effect)
    return {"applied": effect.state}


def _allowed(ws: Workspace, proposal_id: str) -> Change:
    """The change that decisions and verdict allow. Everything is read from the ledger."""
    stored = ws.ledger.proposals.latest(proposal_id)
    proposal = stored.proposal
    base = ws.ledger.artifacts.snapshot(proposal.base_revision)
    candidate = ws.ledger.artifacts.snapshot(proposal.candidate_revision)
    released = ws.ledger.effects.release_of(proposal.hash)
    if released is not None:
        decision = _undo_decision(ws, proposal)
        if decision is not None and decision.binds == released.id:
            return Change(
                kind="undo", proposal=proposal, decision=decision, before=candidate, after=base,
                undoes=released.id,
            )  # fmt: skip
    decision = _yes(ws, proposal, "approve")
    report = ws.ledger.gate.report(proposal.hash)
    if decision is not None and report is not None and report[0].verdict != "accept":
        override = _yes(ws, proposal, "override")
        bound = override is not None and override.binds == report[1]
        decision = override if bound and report[0].verdict == "inconclusive" else None
    if decision is None or report is None:
        raise TracemendError(f"{proposal.id} r{proposal.revision}: no decision allows a change")
    return Change(
        kind="apply", proposal=proposal, decision=decision, before=base, after=candidate,
        undoes=None,
    )  # fmt: skip


def _yes(ws: Workspace, proposal: Proposal, card: CardKind) -> Decision | None:
    """The approval of exactly this revision and hash on this kind of card."""
    needed = seats_needed(proposal.risk, ws.settings.review.second_person)
    counted = settled(ws.ledger.proposals.decisions(proposal.id, proposal.revision, card), needed)
    if counted is None or counted.type != "approve" or counted.proposal_hash != proposal.hash:
        return None
    return counted


def _undo_decision(ws: Workspace, proposal: Proposal) -> Decision | None:
    """The newest yes on an undo card. One person may take back what was there, at any risk."""
    said = ws.ledger.proposals.decisions(proposal.id, proposal.revision, "undo")
    return next((d for d in reversed(said) if d.type == "approve"), None)


def _intend(ws: Workspace, change: Change, target: str) -> Effect:
    """Step 1: the intent and its audit entry, in one transaction."""
    effect = Effect(
        key=effect_key(change.kind, change.proposal.hash, change.decision.id, target),
        kind=change.kind, project=ws.project, proposal_hash=change.proposal.hash,
        decision_id=change.decision.id, target=target, before=change.before.revision,
        after=change.after.revision,
    )  # fmt: skip
    with ws.ledger.db.write() as tx:
        return ws.ledger.effects.intend(tx, effect)


async def _take(ws: Workspace, target: str) -> Lease:
    """Step 2: the target's lease; waits while another process of ours writes it."""
    for _ in range(600):
        lease = await asyncio.to_thread(ws.ledger.leases.take, f"target:{target}")
        if lease is not None:
            return lease
        await asyncio.sleep(0.1)
    raise LeaseLost(f"another process has been writing {target} for a minute; run `resume` later")


async def _perform(
    ws: Workspace, change: Change, effect: Effect, harness: Harness, lease: Lease
) -> Effect:
    """Steps 3 to 6, by the table: what the ledger says is intended and what the target is.

    Where the target is not `after` yet, the harness compares every file and moves on, or puts back
    what this effect had switched and says which file is somebody else's.
    """
    if await harness.standing(change.before, change.after) != "after":
        try:
            await harness.stage(effect, change.before, change.after)
            await harness.switch(effect, change.before, change.after)
        except ForeignChange as foreign:
            stop = _stopped(foreign.paths, switched=foreign.switched)
            return await asyncio.to_thread(_record, ws, change, effect, lease, stop)
        if await harness.standing(change.before, change.after) != "after":
            now = await harness.read()
            stop = _stopped(now.changed(change.after), switched=True)
            return await asyncio.to_thread(_record, ws, change, effect, lease, stop)
    return await asyncio.to_thread(_record, ws, change, effect, lease, Ended(state="done"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How an effect ended, and why when it was not done."""

    state: Literal["done", "aborted", "stuck"]
    reason: str | None = None


def _stopped(paths: Sequence[str], *, switched: bool) -> Ended:
    """A foreign file stopped the switch: before any file of ours was visible, or after."""
    listed = ", ".join(paths)
    if switched:
        return Ended(state="stuck", reason=f"foreign_change: {listed} changed in the middle")
    return Ended(state="aborted", reason=f"base_moved: {listed} changed since")


def _record(ws: Workspace, change: Change, effect: Effect, lease: Lease, end: Ended) -> Effect:
    """Step 6: end state, release and audit in one transaction, fenced by the target's lease."""
    with ws.ledger.db.write() as tx:
        ended = ws.ledger.effects.finish(tx, effect, lease, state=end.state, reason=end.reason)
        if end.state == "done":
            ws.ledger.effects.put_release(tx, _release(ws, change, effect))
            _end_epoch(ws, tx, change)
        _move(ws, tx, change, end.state)
    return ended


def _end_epoch(ws: Workspace, tx: Connection, change: Change) -> None:
    """An accept that is in place ends the sealed set's epoch; taking it back begins none."""
    report = ws.ledger.gate.report(change.proposal.hash)
    if change.kind == "apply" and report is not None and report[0].verdict == "accept":
        ws.ledger.sealed.rotate(tx, change.proposal.hash)


def _release(ws: Workspace, change: Change, effect: Effect) -> Release:
    return Release(
        id=release_id(change.kind, change.proposal.hash, change.decision.id),
        proposal=change.proposal.id, proposal_hash=change.proposal.hash,
        decision_id=change.decision.id, target=effect.target, before=change.before.revision,
        after=change.after.revision, at=ws.ledger.db.clock(), undoes=change.undoes,
    )  # fmt: skip


def release_id(kind: EffectKind, proposal_hash: str, decision_id: str) -> ReleaseId:
    """Made from content, so that a re-run records the same release."""
    return ReleaseId(content_id("r-", kind, proposal_hash, decision_id))


def _move(
    ws: Workspace, tx: Connection, change: Change, state: Literal["done", "aborted", "stuck"]
) -> None:
    if change.kind == "undo":
        if state == "done":
            ws.ledger.proposals.set_state(tx, change.proposal, "undone")
        return
    to: dict[str, Literal["applied", "stale", "stuck"]] = {
        "done": "applied", "aborted": "stale", "stuck": "stuck",
    }  # fmt: skip
    ws.ledger.proposals.set_state(tx, change.proposal, to[state])


async def after_apply(
    state: ApplyReads, runtime: Runtime[RunContext]
) -> Literal["learn", "evolution"]:
    """On to the lesson; a base that moved before anything was written needs a new revision."""
    ws = await open_workspace(runtime)
    return await asyncio.to_thread(_after, ws, state["proposal"])


def _after(ws: Workspace, proposal_id: str) -> Literal["learn", "evolution"]:
    proposal = ws.ledger.proposals.latest(proposal_id).proposal
    undone = ws.ledger.effects.find(kind="undo", proposal_hash=proposal.hash)
    effect = undone or ws.ledger.effects.find(kind="apply", proposal_hash=proposal.hash)
    moved = effect is not None and effect.state == "aborted" and effect.kind == "apply"
    return "evolution" if moved else "learn"
