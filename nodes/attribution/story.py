"""The story of a release, or of a proposal that was not applied, from the ledger alone."""

from collections.abc import Sequence
from dataclasses import dataclass

from connectors.review.card import ReviewCard
from connectors.review.card_files import FileView, file_view
from connectors.review.clean import one_line
from connectors.review.diff import DiffStats, total, unified
from connectors.review.gate_view import cost_facts, report_facts, report_table
from connectors.review.story import GatePart, ReleasePart, Story, StoryKind, TargetPart
from contracts.codec import from_json
from contracts.errors import UsageError
from contracts.gate import GatePlan
from contracts.proposals import Decision, Release
from memory.attribution import audit_place
from memory.inbox import decisions_on
from memory.proposals import StoredProposal
from memory.workspace import Workspace
from nodes.attribution.history import said_yes
from nodes.attribution.outcome import outcome
from nodes.attribution.parts import (
    alert_part,
    cost_part,
    decision_part,
    diagnosis_part,
    finding_part,
    lesson_parts,
    remark_entries,
    revision_part,
    watch_parts,
)
from nodes.showing import card_for


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subject:
    """What the story is of."""

    id: str
    kind: StoryKind
    stored: StoredProposal
    """The revision that was applied; of a proposal that was not, its newest."""
    release: Release | None
    undo: Release | None
    """What took the release back."""


def story_of(ws: Workspace, which: str) -> Story:
    """The story of a release (`r-…`) or a proposal (`p-…`).

    Raises:
        UsageError: this project has none of that id.
    """
    subject = _subject(ws, which)
    stored, proposal = subject.stored, subject.stored.proposal
    finding = ws.ledger.knowledge.finding(proposal.finding_id)
    decisions = decisions_on(ws.ledger.db, proposal.id)
    card = _card(ws, stored)
    files, lines = _files(ws, subject)
    return Story(
        project=ws.project, id=subject.id, kind=subject.kind,
        headline=_headline(subject, one_line(finding.finding.title, 120)),
        outcome=outcome(ws, stored, subject.release, subject.undo, decisions),
        proposal=proposal.id, revision=proposal.revision, proposal_hash=proposal.hash,
        state=stored.state, alert=alert_part(ws, proposal.thread),
        finding=finding_part(finding, card), diagnosis=diagnosis_part(finding.finding),
        evidence=card.evidence,
        revisions=tuple(map(revision_part, ws.ledger.proposals.revisions(proposal.id))),
        warnings=card.warnings, checks=card.checks, risk=proposal.risk,
        risk_reasons=card.risk_reasons, decisions=tuple(map(decision_part, decisions)),
        remarks=remark_entries(ws.ledger.trail.of(proposal.id)),
        gate=_gate(ws, stored, decisions), files=files, lines_added=lines.added,
        lines_removed=lines.removed, release=_release(ws, subject.release),
        undo=_release(ws, subject.undo), targets=_targets(ws, subject),
        watched=watch_parts(ws, subject.release),
        lessons=lesson_parts(ws, stored, finding.finding.signature),
        cost=cost_part(ws, proposal.thread, proposal.hash),
    )  # fmt: skip


def _subject(ws: Workspace, which: str) -> _Subject:
    if which.startswith("p-"):
        newest = ws.ledger.proposals.latest(which)
        release = ws.ledger.effects.release_of(newest.proposal.hash)
        undo = ws.ledger.effects.undo_of(release.id) if release is not None else None
        kind: StoryKind = "proposal" if release is None else "release"
        return _Subject(id=which, kind=kind, stored=newest, release=release, undo=undo)
    if not which.startswith("r-"):
        raise UsageError(
            f"{one_line(which)!r}: needs a release (r-…) or a proposal (p-…); `tracemend status` "
            "lists both"
        )
    asked = ws.ledger.effects.release(which)
    stored = ws.ledger.proposals.by_hash(asked.proposal_hash)
    if stored is None:
        raise UsageError(f"{which}: the ledger has no proposal of it")
    if asked.undoes is not None:
        return _Subject(id=asked.id, kind="undo", stored=stored, release=asked, undo=None)
    undo = ws.ledger.effects.undo_of(asked.id)
    return _Subject(id=asked.id, kind="release", stored=stored, release=asked, undo=undo)


def _headline(subject: _Subject, title: str) -> str:
    proposal = subject.stored.proposal
    which = f"{proposal.id} r{proposal.revision}"
    release = subject.release
    if release is None:
        return f"{which}: {title}"
    if subject.kind == "undo":
        return f"{release.id} takes back {release.undoes} ({which}): {title}"
    return f"{release.id} ({which}): {title}"


def _card(ws: Workspace, stored: StoredProposal) -> ReviewCard:
    """The card that was decided on; of a revision that never had one, as it would be now."""
    proposal = stored.proposal
    card = ws.ledger.proposals.card(proposal.id, proposal.revision, "approve")
    return from_json(ReviewCard, (card or card_for(ws, stored, "approve")).view)


def _files(ws: Workspace, subject: _Subject) -> tuple[tuple[FileView, ...], DiffStats]:
    """The whole diff, of an undo from the release back; and its lines."""
    proposal = subject.stored.proposal
    before = ws.ledger.artifacts.snapshot(proposal.base_revision).files
    after = ws.ledger.artifacts.snapshot(proposal.candidate_revision).files
    if subject.kind == "undo":
        before, after = after, before
    diffs = [
        unified(
            one.path, before[one.path].data if one.path in before else None,
            after[one.path].data if one.path in after else None, fold=None,
        )
        for one in proposal.files
    ]  # fmt: skip
    return tuple(map(file_view, diffs)), total(diffs)


def _gate(ws: Workspace, stored: StoredProposal, decisions: Sequence[Decision]) -> GatePart | None:
    proposal = stored.proposal
    found = ws.ledger.gate.report(proposal.hash)
    if found is None:
        return None
    report, digest = found
    plan = from_json(GatePlan, proposal.plan) if proposal.plan else None
    override = next(
        (one for one in decisions if one.card == "override" and one.type == "approve"
         and one.binds == digest), None,
    )  # fmt: skip
    facts = (*report_facts(report, sealed_shown=False, plan=plan), *cost_facts(report))
    return GatePart(
        verdict=report.verdict, reason=one_line(report.reason, 300), report_hash=digest,
        overridden_by=one_line(override.by, 60) if override is not None else None,
        claims=tuple(report.claims), runs=report.runs, planned_runs=report.planned_runs,
        spent_usd=report.spent_usd, in_words=tuple(one_line(s, 500) for s in report.in_words),
        table=report_table(plan, report), facts=facts,
    )  # fmt: skip


def _release(ws: Workspace, release: Release | None) -> ReleasePart | None:
    if release is None:
        return None
    place = audit_place(ws.ledger.db, release.id)
    return ReleasePart(
        id=release.id, at=release.at.isoformat().replace("+00:00", "Z"),
        target=one_line(release.target, 300), before=release.before, after=release.after,
        by=tuple(dict.fromkeys(one_line(one.by, 60) for one in said_yes(ws, release))),
        undoes=release.undoes, audit_seq=place.seq if place else None,
        audit_head=place.hash if place else None,
    )  # fmt: skip


def _targets(ws: Workspace, subject: _Subject) -> tuple[TargetPart, ...]:
    """What was done to each target, the apply first; origins are from the releases."""
    proposal_hash = subject.stored.proposal.hash
    told = {
        (kind, one.target): one.origin
        for kind, release in (("apply", _applied(ws, subject)), ("undo", _undone(subject)))
        if release is not None
        for one in release.targets
    }
    return tuple(
        TargetPart(
            kind=effect.kind, target=one_line(effect.target, 300), state=effect.state,
            before=effect.before, after=effect.after,
            origin=_origin(told.get((effect.kind, effect.target))),
            reason=one_line(effect.reason, 300) if effect.reason else None,
        )
        for kind in ("apply", "undo")
        for effect in ws.ledger.effects.of(kind=kind, proposal_hash=proposal_hash)
    )  # fmt: skip


def _applied(ws: Workspace, subject: _Subject) -> Release | None:
    return ws.ledger.effects.release_of(subject.stored.proposal.hash)


def _undone(subject: _Subject) -> Release | None:
    return subject.release if subject.kind == "undo" else subject.undo


def _origin(origin: str | None) -> str | None:
    return one_line(origin, 200) if origin else None
