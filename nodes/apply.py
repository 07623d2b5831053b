"""Apply an approved and accepted edit exactly once, or take a release back.

The truth is looked up in the target: an effect row says what was intended, the files say what
happened. Whatever was killed and whenever, the next run finishes it, or says why it cannot.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from langgraph.runtime import Runtime
from sqlalchemy import Connection
from typing_extensions import TypedDict

from connectors.harness.several import Places
from connectors.review.clean import one_line
from contracts.context import RunContext
from contracts.errors import LeaseLost, TracemendError
from contracts.harness import (
    Effect,
    EffectKind,
    EffectState,
    HarnessSnapshot,
    Provenance,
    effect_key,
)
from contracts.json_types import content_id
from contracts.proposals import (
    CardKind,
    Decision,
    Proposal,
    ProposalState,
    Release,
    ReleaseId,
    TargetRelease,
)
from memory.leases import Lease
from memory.workspace import Workspace, open_workspace
from nodes.decide import seats_needed, settled
from nodes.ports import open_harness
from nodes.switching import Outcome, Part, parts_of, switch_all


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The parts of a change, with the lease of each one's target."""

    parts: Sequence[Part]
    leases: Mapping[str, Lease]
    """By target."""


async def apply(state: ApplyReads, runtime: Runtime[RunContext]) -> ApplyWrites:
    """Do what the ledger allows, once. Reads `proposal`, writes the ledger, the target, `applied`.

    Raises:
        TracemendError: no decision allows a change; nothing was written.
    """
    ws = await open_workspace(runtime)
    change = await asyncio.to_thread(_allowed, ws, state["proposal"])
    places = await asyncio.to_thread(open_harness, ws)
    parts = await asyncio.to_thread(_intend, ws, change, places)
    effects = [part.effect for part in parts]
    if any(effect.state == "intended" for effect in effects):
        work = Work(parts=parts, leases=await _take(ws, [one.target for one in effects]))
        try:
            await asyncio.to_thread(_claim, ws, work)
            effects = await _perform(ws, change, places, work)
        finally:
            await asyncio.to_thread(_let_go, ws, work.leases)
    for part in parts:
        await part.harness.discard(part.effect)
        await part.harness.discard(part.back.effect)  # a rollback that was killed had staged it
    return {"applied": worst(effect.state for effect in effects)}


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


def _intend(ws: Workspace, change: Change, places: Places) -> tuple[Part, ...]:
    """Step 1: the intent of each changed place and its audit entry, in one transaction."""
    about = _provenance(ws, change)
    with ws.ledger.db.write() as tx:

        def intended(target: str, before: HarnessSnapshot, after: HarnessSnapshot) -> Effect:
            effect = Effect(
                key=effect_key(change.kind, change.proposal.hash, change.decision.id, target),
                kind=change.kind, project=ws.project, proposal_hash=change.proposal.hash,
                decision_id=change.decision.id, target=target, before=before.revision,
                after=after.revision,
            )  # fmt: skip
            return replace(ws.ledger.effects.intend(tx, effect), about=about)

        return parts_of(places, change.before, change.after, intended)


def _provenance(ws: Workspace, change: Change) -> Provenance:
    """What a target's own log may say, from the ledger alone: a re-run says the same."""
    proposal = change.proposal
    report = ws.ledger.gate.report(proposal.hash)
    undone = ws.ledger.effects.release(change.undoes) if change.undoes is not None else None
    finding = ws.ledger.knowledge.finding(proposal.finding_id).finding
    title = one_line(finding.title, 120)
    return Provenance(
        title=f"Take back: {title}" if undone else title,
        finding=proposal.finding_id, proposal=proposal.id, revision=proposal.revision,
        approver=change.decision.by, at=change.decision.at,
        gate_report=report[1] if report is not None and undone is None else None,
        undoes=undone.id if undone else None,
        undoes_origin=_origin(undone) if undone else None,
    )  # fmt: skip


def _origin(release: Release) -> str | None:
    said = [one.origin for one in release.targets if one.origin]
    return "; ".join(said) or None


async def _take(ws: Workspace, targets: Iterable[str]) -> Mapping[str, Lease]:
    """Step 2: the targets' leases, in one order for all; waits while others of ours write them."""
    held: dict[str, Lease] = {}
    try:
        for target in sorted(targets):
            held[target] = await _take_one(ws, target)
    except BaseException:
        await asyncio.to_thread(_let_go, ws, held)
        raise
    return held


async def _take_one(ws: Workspace, target: str) -> Lease:
    for _ in range(600):
        lease = await asyncio.to_thread(ws.ledger.leases.take, f"target:{target}")
        if lease is not None:
            return lease
        await asyncio.sleep(0.1)
    raise LeaseLost(f"another process has been writing {target} for a minute; run `resume` later")


def _let_go(ws: Workspace, leases: Mapping[str, Lease]) -> None:
    for lease in leases.values():
        ws.ledger.leases.release(lease)


def _claim(ws: Workspace, work: Work) -> None:
    for part in work.parts:
        ws.ledger.effects.claim(part.effect, work.leases[part.effect.target])


async def _perform(ws: Workspace, change: Change, places: Places, work: Work) -> list[Effect]:
    """Steps 3 to 6, by the table: what the ledger says is intended and what the places are.

    Where a place is not `after` yet, it compares every file and moves on, or puts back what this
    effect had switched and says which file is somebody else's; then the other places are put back.
    """
    ended = await switch_all(places, work.parts, change.before)
    origins: dict[str, str | None] = {}
    if all(end.state == "done" for end in ended.values()):
        origins = {part.effect.target: await _named_there(part) for part in work.parts}
    return await asyncio.to_thread(_record, ws, change, work, ended=ended, origins=origins)


async def _named_there(part: Part) -> str | None:
    """What the place calls the state that this change made; a later change is not of it."""
    ours = [one.origin for one in await part.harness.history() if one.effect == part.effect.key]
    return "; ".join(sorted(ours)) or (await part.harness.read()).origin


def _record(
    ws: Workspace, change: Change, work: Work, *, ended: Outcome, origins: Mapping[str, str | None]
) -> list[Effect]:
    """Step 6: end states, release and audit in one transaction, fenced by the targets' leases."""
    found: list[Effect] = []
    with ws.ledger.db.write() as tx:
        for part in work.parts:
            effect, end = part.effect, ended[part.effect.key]
            found.append(
                ws.ledger.effects.finish(
                    tx, effect, work.leases[effect.target], state=end.state, reason=end.reason
                )
            )
        state = worst(effect.state for effect in found)
        if state == "done":
            ws.ledger.effects.put_release(tx, _release(ws, change, work.parts, origins))
            _end_epoch(ws, tx, change)
        _move(ws, tx, change, state)
    return found


def worst(states: Iterable[EffectState]) -> EffectState:
    """How a change of several places ended: "done" only where every one of them is."""
    order: tuple[EffectState, ...] = ("done", "aborted", "stuck", "intended")
    return max(states, key=order.index, default="done")


def _end_epoch(ws: Workspace, tx: Connection, change: Change) -> None:
    """An accept that is in place ends the sealed set's epoch; taking it back begins none."""
    report = ws.ledger.gate.report(change.proposal.hash)
    if change.kind == "apply" and report is not None and report[0].verdict == "accept":
        ws.ledger.sealed.rotate(tx, change.proposal.hash)


def _release(
    ws: Workspace, change: Change, parts: Sequence[Part], origins: Mapping[str, str | None]
) -> Release:
    return Release(
        id=release_id(change.kind, change.proposal.hash, change.decision.id),
        proposal=change.proposal.id, proposal_hash=change.proposal.hash,
        decision_id=change.decision.id,
        target=" + ".join(part.effect.target for part in parts), before=change.before.revision,
        after=change.after.revision, at=ws.ledger.db.clock(), undoes=change.undoes,
        targets=tuple(
            TargetRelease(
                target=part.effect.target, before=part.before.revision, after=part.after.revision,
                origin=origins.get(part.effect.target),
            )
            for part in parts
        ),
    )  # fmt: skip


def release_id(kind: EffectKind, proposal_hash: str, decision_id: str) -> ReleaseId:
    """Made from content, so that a re-run records the same release."""
    return ReleaseId(content_id("r-", kind, proposal_hash, decision_id))


def _move(ws: Workspace, tx: Connection, change: Change, state: EffectState) -> None:
    if change.kind == "undo":
        if state == "done":
            ws.ledger.proposals.set_state(tx, change.proposal, "undone")
        return
    to: dict[EffectState, ProposalState] = {
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
    if ws.ledger.effects.find(kind="undo", proposal_hash=proposal.hash) is not None:
        return "learn"
    applied = ws.ledger.effects.of(kind="apply", proposal_hash=proposal.hash)
    moved = applied and worst(effect.state for effect in applied) == "aborted"
    return "evolution" if moved else "learn"
