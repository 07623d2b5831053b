"""Make the card of a proposal revision from what the ledger knows, and find it again."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import cast

from connectors.review.card import EvidenceLine, ReviewCard, TrailEntry, build_card
from connectors.review.card_alternatives import SHORT_FOLD
from connectors.review.diff import FileDiff, unified
from connectors.review.payload import hitl_request
from contracts.codec import from_json, to_json
from contracts.errors import UsageError
from contracts.gate import GatePlan
from contracts.harness import HarnessSnapshot
from contracts.json_types import Json, JsonObject
from contracts.proposals import Alternative, CardKind, Decision, Proposal
from memory.proposals import StoredCard, StoredProposal
from memory.semantic_texts import title_of
from memory.workspace import Workspace
from nodes.decide import seats_needed
from nodes.evolution.alternatives import sides
from nodes.insights.recall import kept
from nodes.insights.tried import tries

PARTIAL = "the traces were read in part: counts and rates hold for what was read alone"

SIMILAR = 3
"""Tries for other failures that a card names."""

KINDS: tuple[CardKind, ...] = ("undo", "override", "approve")
"""From the latest a proposal can have to the first."""


def card_for(ws: Workspace, stored: StoredProposal, kind: CardKind) -> StoredCard:
    """The card of a revision: view model, interrupt payload, and until when it waits."""
    proposal = stored.proposal
    before = ws.ledger.artifacts.snapshot(proposal.base_revision)
    after = ws.ledger.artifacts.snapshot(proposal.candidate_revision)
    if kind == "undo":
        before, after = after, before
    now = ws.ledger.db.clock()
    second = ws.settings.review.second_person
    expires_at = now + timedelta(days=ws.settings.review.expires_days)
    report = ws.ledger.gate.report(proposal.hash)
    evidence = ws.ledger.knowledge.evidence(proposal.finding_id)
    view = build_card(
        kind=kind, proposal=proposal,
        finding=ws.ledger.knowledge.finding(proposal.finding_id).finding,
        diffs=_diffs(proposal, before, after),
        plan=from_json(GatePlan, proposal.plan) if proposal.plan else None,
        report=report[0] if report is not None and kind == "override" else None,
        trail=_trail(ws, proposal), expires_at=expires_at, now=now,
        release=ws.ledger.effects.release_of(proposal.hash),
        evidence=evidence_lines(evidence),
        unit="session" if evidence.get("unit") == "session" else "trace",
        warnings=(PARTIAL,) if evidence.get("read") == "partial" else (),
        people=None if kind == "undo" else seats_needed(proposal.risk, second),
        alternatives=_alternatives(ws, proposal, before) if kind == "approve" else (),
    )  # fmt: skip
    return StoredCard(
        proposal=proposal.id, revision=proposal.revision, kind=kind,
        proposal_hash=proposal.hash, view=to_json(view),
        payload=hitl_request(view, _texts(proposal, after)), expires_at=expires_at,
    )  # fmt: skip


def _diffs(proposal: Proposal, before: HarnessSnapshot, after: HarnessSnapshot) -> list[FileDiff]:
    return [unified(c.path, *sides(before, after, c.path)) for c in proposal.files]


def _alternatives(
    ws: Workspace, proposal: Proposal, before: HarnessSnapshot
) -> list[tuple[Alternative, list[FileDiff]]]:
    """The other drafts with the beginnings of their diffs."""
    found: list[tuple[Alternative, list[FileDiff]]] = []
    for one in proposal.alternatives:
        after = ws.ledger.artifacts.snapshot(one.candidate_revision)
        diffs = [
            unified(change.path, *sides(before, after, change.path), fold=SHORT_FOLD)
            for change in one.files
        ]
        found.append((one, diffs))
    return found


def _texts(proposal: Proposal, after: HarnessSnapshot) -> dict[str, str]:
    """The full proposed texts, as a reviewer edits them."""
    return {
        change.path: after.files[change.path].data.decode("utf-8-sig")
        for change in proposal.files
        if change.path in after.files
    }


def evidence_lines(kept: JsonObject) -> list[EvidenceLine]:
    """The quotes that the ledger keeps of a finding."""
    lines = kept.get("evidence")
    listed = lines if isinstance(lines, Sequence) and not isinstance(lines, str) else []
    return [from_json(EvidenceLine, cast("JsonObject", line)) for line in listed]


def _recalled(ws: Workspace, finding_id: str) -> list[TrailEntry]:
    """What was tried before for this failure and for those like it, and what became of it."""
    signature = ws.ledger.knowledge.finding(finding_id).finding.signature
    same = [
        TrailEntry(at=one.at, who="memory", what=f"tried before: {one.sentence}")
        for one in tries(ws.ledger.knowledge.lessons(signature))
    ]
    recalled = kept(ws.ledger.knowledge.evidence(finding_id))
    like = [
        TrailEntry(
            at=one.tried.at, who="memory",
            what=f"tried for {title_of(one.tried.signature)} ({', '.join(one.why)}): "
            f"{one.tried.sentence}",
        )
        for one in (recalled.tries if recalled is not None else ())
        if one.tried.signature != signature
    ]  # fmt: skip
    return [*same, *like[:SIMILAR]]


def _trail(ws: Workspace, proposal: Proposal) -> list[TrailEntry]:
    """Earlier tries, then revisions, decisions and remarks so far, oldest first."""
    entries = _recalled(ws, proposal.finding_id)
    for stored in ws.ledger.proposals.revisions(proposal.id):
        one = stored.proposal
        entries.append(
            TrailEntry(at=one.created_at, who=one.draft.author, what=f"drafted r{one.revision}")
        )
        for kind in reversed(KINDS):
            entries += [
                TrailEntry(
                    at=decision.at, who=decision.by,
                    what=_said(decision, kind),
                )
                for decision in ws.ledger.proposals.decisions(one.id, one.revision, kind)
            ]  # fmt: skip
    entries += [
        TrailEntry(
            at=datetime.fromisoformat(remark.at), who=remark.by,
            what=f"asked: {remark.text}" if remark.kind == "ask" else f"deferred to {remark.until}",
        )
        for remark in ws.ledger.trail.of(proposal.id)
    ]  # fmt: skip
    return sorted(entries, key=lambda entry: entry.at)


def _said(decision: Decision, kind: CardKind) -> str:
    said = f"{decision.type} r{decision.revision} ({kind} card, {decision.via})"
    return f"{said}: {decision.note}" if decision.type == "edit" and decision.note else said


def newest_card(ws: Workspace, proposal_id: str) -> StoredCard:
    """The card of the newest revision, of the latest kind it has.

    Raises:
        UsageError: there is no such proposal, or it has no card.
    """
    proposal = ws.ledger.proposals.latest(proposal_id).proposal
    for kind in KINDS:
        card = ws.ledger.proposals.card(proposal.id, proposal.revision, kind)
        if card is not None:
            return card
    raise UsageError(f"{proposal_id} r{proposal.revision} has no card yet")


def stored_view(ws: Workspace, proposal: Proposal, kind: CardKind) -> ReviewCard:
    """The view model of a card that was stored.

    Raises:
        UsageError: there is none.
    """
    card = ws.ledger.proposals.card(proposal.id, proposal.revision, kind)
    if card is None:
        raise UsageError(f"{proposal.id} r{proposal.revision} has no card of kind {kind!r}")
    return from_json(ReviewCard, card.view)


def evidence_json(lines: Sequence[EvidenceLine]) -> list[Json]:
    """Evidence lines as the ledger keeps them beside a finding."""
    return [to_json(line) for line in lines]
