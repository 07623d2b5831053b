"""What a reviewer is shown, as one frozen value without any rendering.

Terminal, Markdown, web and the interrupt all show this object. Every text in it that comes from a
trace, a model or the harness is cleaned and redacted here, so that no skin can forget it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from connectors.review.card_alternatives import AlternativeView, alternative_view
from connectors.review.card_facts import (
    answers_of,
    counts_of,
    expires_words,
    question_of,
    rollback_of,
    size_words,
    standing,
    why_of,
)
from connectors.review.card_files import FileView, file_view, hidden_in
from connectors.review.clean import is_hidden, one_line
from connectors.review.diff import FileDiff, total
from connectors.review.gate_view import (
    Fact,
    GateTable,
    cost_facts,
    plan_facts,
    plan_table,
    report_facts,
    report_table,
)
from contracts.findings import Finding
from contracts.gate import GatePlan, GateReport
from contracts.proposals import Alternative, CardKind, Check, Proposal, Release, Risk


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceLine:
    """A quote from one span. `failed` is False for the one that shows how it goes well."""

    trace_id: str
    span_id: str
    quote: str
    failed: bool = True
    link: str | None = None
    """Only to a configured trace host; never from trace text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailEntry:
    """Who did what to the proposal, and when."""

    at: datetime
    who: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewCard:
    """The view model of a card, in the order in which every skin shows it."""

    schema: Literal[1] = 1
    kind: CardKind
    proposal_id: str
    revision: int
    proposal_hash: str
    """What an answer binds to."""
    base_revision: str
    candidate_revision: str
    finding_id: str
    headline: str
    question: str
    why: tuple[Fact, ...]
    counts: tuple[Fact, ...]
    evidence: tuple[EvidenceLine, ...]
    files: tuple[FileView, ...]
    lines_added: int
    lines_removed: int
    warnings: tuple[str, ...]
    checks: tuple[Check, ...]
    gate_table: GateTable | None
    gate_facts: tuple[Fact, ...]
    cost: tuple[Fact, ...]
    risk: Risk
    risk_reasons: tuple[str, ...]
    rollback: tuple[Fact, ...]
    trail: tuple[TrailEntry, ...]
    answers: tuple[Fact, ...]
    expires_at: datetime | None
    built_at: datetime
    alternatives: tuple[AlternativeView, ...] = ()
    """Other drafts for the same finding, which a person may pick instead."""


def build_card(
    *,
    kind: CardKind,
    proposal: Proposal,
    finding: Finding,
    diffs: Sequence[FileDiff],
    plan: GatePlan | None,
    report: GateReport | None,
    sealed_shown: bool = False,
    trail: Sequence[TrailEntry],
    expires_at: datetime | None,
    now: datetime,
    release: Release | None = None,
    evidence: Sequence[EvidenceLine],
    unit: Literal["session", "trace"] = "trace",
    people: int | None = None,
    warnings: Sequence[str] = (),
    alternatives: Sequence[tuple[Alternative, Sequence[FileDiff]]] = (),
) -> ReviewCard:
    """The card of one proposal revision.

    Args:
        kind: "approve" shows the gate's plan, "override" its report, "undo" what undoing changes.
        proposal: the revision that an answer binds to.
        finding: what the edit is for.
        diffs: what a yes would change; for an undo, from the released files back.
        plan: the approved part of the gate plan.
        report: what the gate found, once it ran.
        sealed_shown: whether sealed cases were opened for this card.
        trail: what happened so far, oldest first.
        expires_at: when the card counts as rejected.
        now: when the card is made.
        release: what is to be undone.
        evidence: quotes of failing spans, and of one that did not fail.
        unit: what the finding counts.
        warnings: what a person must know first, such as traces that were read in part.
        people: how many must approve; None: two where the risk is high, else one.
        alternatives: the proposal's other drafts with their short diffs; on a card "approve" only.
    """
    lines = total(diffs)
    ahead = None if kind == "undo" else plan
    others = alternatives if kind == "approve" else ()
    all_diffs = [*diffs, *(diff for _, theirs in others for diff in theirs)]
    return ReviewCard(
        kind=kind,
        proposal_id=proposal.id,
        revision=proposal.revision,
        proposal_hash=proposal.hash,
        base_revision=proposal.base_revision,
        candidate_revision=proposal.candidate_revision,
        finding_id=finding.id,
        headline=" · ".join(
            [
                f"{proposal.id} r{proposal.revision}",
                size_words(diffs, lines),
                f"risk {proposal.risk}",
                standing(kind, release),
                *([] if expires_at is None else [expires_words(expires_at - now)]),
            ]
        ),
        question=question_of(kind, release),
        why=why_of(proposal.draft, finding, unit),
        counts=counts_of(finding, unit),
        evidence=tuple(map(_safe_evidence, evidence)),
        files=tuple(map(file_view, diffs)),
        lines_added=lines.added,
        lines_removed=lines.removed,
        warnings=(*(one_line(warning, 300) for warning in warnings), *hidden_in(all_diffs)),
        checks=tuple(map(_safe_check, proposal.checks)),
        gate_table=(
            report_table(plan, report) if report else plan_table(ahead) if ahead else None
        ),
        gate_facts=(
            report_facts(report, sealed_shown=sealed_shown, plan=plan) if report
            else plan_facts(ahead, sealed_shown=sealed_shown) if ahead else ()
        ),
        cost=cost_facts(report) if report else (),
        risk=proposal.risk,
        risk_reasons=tuple(one_line(reason, 300) for reason in proposal.risk_reasons),
        rollback=rollback_of(kind, proposal, release),
        trail=tuple(
            TrailEntry(at=t.at, who=one_line(t.who), what=one_line(t.what, 300)) for t in trail
        ),
        answers=answers_of(kind, proposal, release, people),
        expires_at=expires_at,
        built_at=now,
        alternatives=tuple(alternative_view(proposal, one, short) for one, short in others),
    )  # fmt: skip


def _safe_check(check: Check) -> Check:
    return Check(rule=check.rule, ok=check.ok, detail=one_line(check.detail, 500))


def _safe_evidence(line: EvidenceLine) -> EvidenceLine:
    link = line.link if line.link and not any(is_hidden(c) or c == " " for c in line.link) else None
    return EvidenceLine(
        trace_id=one_line(line.trace_id), span_id=one_line(line.span_id),
        quote=one_line(line.quote, 240), failed=line.failed, link=link,
    )  # fmt: skip
