"""Parts of a story from records of the ledger; every text is cleaned and cut here."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from connectors.review.card import ReviewCard, TrailEntry
from connectors.review.clean import one_line
from connectors.review.story import (
    AlertPart,
    AlternativePart,
    CostPart,
    DecisionPart,
    DiagnosisPart,
    FindingPart,
    LessonPart,
    RevisionPart,
    WatchPart,
)
from contracts.findings import Finding
from contracts.json_types import Json, JsonObject, content_id
from contracts.proposals import Decision, Release
from memory.attribution import watched
from memory.knowledge import StoredFinding
from memory.proposals import StoredProposal
from memory.trail import Remark
from memory.workspace import Workspace

_TITLES = ("title", "rule", "name", "summary", "message")
"""Where senders say what fired, best first; hooks put one line under `title`."""


def alert_part(ws: Workspace, thread: str) -> AlertPart:
    """What started a run, from its request; of a run that the ledger does not have, so much."""
    incident = ws.ledger.incidents.find(thread)
    if incident is None:
        return AlertPart(
            kind="unknown", source=None, what=None, at=None, window=None, fired=0,
            recovered_at=None, thread=one_line(thread),
        )  # fmt: skip
    alert = _object(incident.request.get("alert"))
    source = alert.get("source")
    return AlertPart(
        kind=incident.kind, source=one_line(source, 60) if isinstance(source, str) else None,
        what=_what(_object(alert.get("body"))), at=incident.at, window=_window(alert.get("window")),
        fired=incident.fired, recovered_at=incident.recovered_at, thread=one_line(thread),
    )  # fmt: skip


def finding_part(stored: StoredFinding, card: ReviewCard) -> FindingPart:
    """The finding: as the card counted it, and as the latest analysis did."""
    finding = stored.finding
    return FindingPart(
        id=finding.id, signature=one_line(finding.signature), title=one_line(finding.title, 200),
        state=stored.state, severity=finding.severity, counted=card.counts, units=finding.units,
        units_total=finding.units_total, rate=finding.rate, change=finding.change,
        exemplars=tuple(one_line(f"{trace}/{span}") for trace, span in finding.exemplars[:5]),
    )  # fmt: skip


def diagnosis_part(finding: Finding) -> DiagnosisPart:
    """The hypothesis of its cause."""
    found = finding.diagnosis
    return DiagnosisPart(
        cause=one_line(found.cause), summary=one_line(found.summary, 500), remedy=finding.remedy,
        confidence=found.confidence, agreement=found.agreement, by=one_line(found.by, 80),
        falsifier=one_line(found.falsifier, 300),
    )  # fmt: skip


def revision_part(stored: StoredProposal) -> RevisionPart:
    """One revision with its author's reasons, and the drafts that stood beside it."""
    one, draft = stored.proposal, stored.proposal.draft
    return RevisionPart(
        revision=one.revision, hash=one.hash, state=stored.state, author=one_line(draft.author, 80),
        model_written=draft.model_written, at=_utc(one.created_at), why=one_line(draft.why, 500),
        falsifier=one_line(draft.falsifier, 300), lines_added=one.lines_added,
        lines_removed=one.lines_removed,
        evidence=tuple(one_line(where, 100) for where in draft.evidence),
        notes=tuple(one_line(note, 300) for note in draft.notes),
        alternatives=tuple(
            AlternativePart(
                label=one_line(other.label, 10), author=one_line(other.draft.author, 80),
                why=one_line(other.draft.why, 300),
            )
            for other in one.alternatives
        ),
    )  # fmt: skip


def decision_part(decision: Decision) -> DecisionPart:
    """One decision; the caller's key stays inside."""
    return DecisionPart(
        revision=decision.revision, card=decision.card, seat=decision.seat, type=decision.type,
        by=one_line(decision.by, 60), via=decision.via, at=_utc(decision.at),
        reason=one_line(decision.reason, 100) if decision.reason else None,
        note=one_line(decision.note, 500) if decision.note else None,
    )  # fmt: skip


def remark_entries(remarks: Sequence[Remark]) -> tuple[TrailEntry, ...]:
    """What people asked the author, and until when they put it off."""
    return tuple(
        TrailEntry(
            at=datetime.fromisoformat(one.at), who=one_line(one.by, 60),
            what=f"asked: {one_line(one.text or '', 300)}"
            if one.kind == "ask"
            else f"deferred to {one.until}",
        )
        for one in remarks
    )  # fmt: skip


def watch_parts(ws: Workspace, release: Release | None) -> tuple[WatchPart, ...]:
    """What was seen after the release, each time it was looked at."""
    if release is None:
        return ()
    return tuple(
        WatchPart(
            at=one.at, watched=one_line(str(one.body.get("watched"))),
            unit=one_line(str(one.body.get("unit"))), before=_side(one.body.get("before")),
            after=_side(one.body.get("after")), note=one_line(str(one.body.get("note")), 300),
        )
        for one in watched(ws.ledger.db, release.id)
    )  # fmt: skip


def lesson_parts(ws: Workspace, stored: StoredProposal, signature: str) -> tuple[LessonPart, ...]:
    """The lessons of this very revision; a lesson's id is made of its hash and outcome."""
    return tuple(
        LessonPart(id=one.id, outcome=one_line(one.outcome), at=_utc(one.at))
        for one in ws.ledger.knowledge.lessons(signature)
        if one.id == content_id("l-", stored.proposal.hash, one.outcome)
    )


def cost_part(ws: Workspace, thread: str, proposal_hash: str) -> CostPart:
    """Tokens and money of the run: its models, and the agent's runs in the gate."""
    spent = ws.ledger.spends.of_thread(thread)
    found = ws.ledger.gate.report(proposal_hash)
    gate_usd = found[0].spent_usd if found is not None else 0.0
    models_usd = spent.cost_usd if spent.calls else 0.0
    known = gate_usd is not None and models_usd is not None
    return CostPart(
        model_calls=spent.calls, tokens=spent.tokens, models_usd=models_usd,
        gate_runs=found[0].runs if found is not None else None,
        gate_usd=gate_usd if found is not None else None,
        total_usd=(gate_usd or 0.0) + (models_usd or 0.0) if known else None,
    )  # fmt: skip


def _what(body: JsonObject) -> str | None:
    said = (body.get(key) for key in _TITLES)
    found = next((one for one in said if isinstance(one, str) and one.strip()), None)
    return one_line(found, 200) if found is not None else None


def _window(window: Json) -> tuple[str, str] | None:
    ends = _object(window)
    start, end = ends.get("start"), ends.get("end")
    if not isinstance(start, str) or not isinstance(end, str):
        return None
    return one_line(start, 40), one_line(end, 40)


def _side(side: Json) -> tuple[int, int]:
    found = _object(side)
    failures, runs = found.get("failures"), found.get("runs")
    return (failures if isinstance(failures, int) else 0, runs if isinstance(runs, int) else 0)


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, Mapping) else {}


def _utc(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")
