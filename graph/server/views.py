"""What the HTTP API answers with: its documents, and how records become them."""

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, Field

from connectors.review.story import Story
from connectors.review.story_markdown import story_markdown
from contracts.codec import to_json
from contracts.findings import Change, Finding, Remedy, Severity
from contracts.json_types import Json
from contracts.proposals import (
    CardKind,
    Decision,
    DecisionType,
    Proposal,
    ProposalState,
    Release,
    Risk,
    Via,
)
from graph.server.alternative_views import AlternativeSummary
from memory.inbox import Beside
from memory.incidents import Incident
from memory.knowledge import FindingState, StoredFinding
from memory.proposals import StoredCard, StoredProposal
from memory.trail import Remark
from nodes.decide import WAITING


class ProblemView(BaseModel):
    """An answer that is not what was asked for; some carry more keys."""

    detail: str


REFUSALS: dict[int | str, dict[str, object]] = {
    status: {"model": ProblemView, "description": why}
    for status, why in {
        400: "The request is not well formed.",
        401: "No valid token.",
        403: "Your roles, or who you are, do not allow it.",
        404: "There is none, or it is of another project.",
        413: "The body is too large.",
        415: "The body is not JSON.",
        422: "A value is not what is asked for.",
        429: "Too many requests; `Retry-After` says when to come back.",
        503: "The identity provider does not answer.",
    }.items()
}


class Seats(BaseModel):
    """How many people said yes to a card, and how many must."""

    have: int
    needed: int


class DecisionView(BaseModel):
    """What a named person (or the system, on expiry) said to one exact text."""

    id: str
    proposal: str
    revision: int
    proposal_hash: str
    card: CardKind
    seat: int
    type: DecisionType
    by: str
    via: Via
    at: str
    reason: str | None
    note: str | None


class Waits(BaseModel):
    """The card that waits for a person now."""

    card: CardKind
    expires_at: str
    seats: Seats


class ProposalSummary(BaseModel):
    """A proposal in a list: its newest revision."""

    id: str
    project: str
    revision: int
    hash: str
    state: ProposalState
    finding: str
    title: str
    risk: Risk
    lines_added: int
    lines_removed: int
    author: str
    thread: str
    created_at: str
    waits: Waits | None
    deferred_until: str | None


class ProposalPage(BaseModel):
    """Proposals, newest first."""

    proposals: list[ProposalSummary]
    next: str | None = Field(description="`cursor` of the next page; null: this was the last.")


class RemarkView(BaseModel):
    """What a person said that decides nothing."""

    id: str
    proposal: str
    revision: int
    kind: Literal["ask", "defer"]
    by: str
    via: Via
    text: str | None
    until: str | None
    at: str


class RemarkAnswer(BaseModel):
    """A remark, and whether this call made it."""

    remark: RemarkView
    first: bool


class RevisionView(BaseModel):
    """One revision of a proposal."""

    revision: int
    hash: str
    state: ProposalState
    author: str
    created_at: str


class IncidentView(BaseModel):
    """One run: for an alert, a schedule or a person's request."""

    thread: str
    project: str
    kind: str
    state: str
    at: str
    fired: int
    recovered_at: str | None
    due_at: str | None
    tries: int
    problem: str | None


class ReleaseView(BaseModel):
    """An applied proposal, or an undo of one."""

    id: str
    project: str
    proposal: str
    proposal_hash: str
    decision: str
    target: str
    before: str
    after: str
    at: str
    undoes: str | None
    undone_by: str | None


class ProposalDetail(ProposalSummary):
    """A proposal with all that a person decides by."""

    risk_reasons: list[str]
    why: str
    card: dict[str, object] | None = Field(description="The stored card; null: none was made yet.")
    allowed: list[DecisionType]
    texts: dict[str, str] = Field(description="The proposed texts by path, as an edit sends them.")
    alternatives: list[AlternativeSummary] = Field(description="Drafts that can be picked instead.")
    revisions: list[RevisionView]
    decisions: list[DecisionView]
    remarks: list[RemarkView]
    runs: list[IncidentView]
    release: ReleaseView | None


class DecisionAnswer(BaseModel):
    """A decision that was entered, or the first answer to the same call."""

    decision: DecisionView
    first: bool = Field(description="This decision is the caller's own; another's is a 409.")
    state: ProposalState = Field(description="Of the newest revision, now.")
    revision: int = Field(description="The newest revision: after an edit the one that it made.")
    seats: Seats


class Decided(ProblemView):
    """409: there is nothing left to decide."""

    decision: DecisionView | None = None
    state: ProposalState | None = None
    changed: list[str] | None = None


class Changed(ProblemView):
    """412: the text is not the one that was shown."""

    proposal: str | None = None
    revision: int | None = None
    hash: str | None = None
    changed: list[str] | None = None
    diff: str | None = None


class ReleasePage(BaseModel):
    """Releases, newest first."""

    releases: list[ReleaseView]


class StoryView(BaseModel):
    """A release from its alert to its outcome."""

    story: dict[str, object] = Field(description="As `tracemend show --json` has it.")
    markdown: str = Field(description="The same as a page, to paste into a pull request.")


class UndoAnswer(BaseModel):
    """200: the undo; 202: the thread that will do it."""

    release: ReleaseView | None
    first: bool
    thread: str | None


class FindingView(BaseModel):
    """What keeps failing."""

    id: str
    project: str
    state: FindingState
    signature: str
    title: str
    units: int
    units_total: int
    rate: list[float] = Field(description="Low, middle, high; 0..1.")
    change: Change
    severity: Severity
    cause: str
    remedy: Remedy
    actionable: bool
    why_not: str | None


class FindingPage(BaseModel):
    """Findings of the caller's projects."""

    findings: list[FindingView]


class IncidentPage(BaseModel):
    """Runs, newest first."""

    incidents: list[IncidentView]


class AuditView(BaseModel):
    """Whether one project's audit log is whole."""

    project: str
    ok: bool
    entries: int
    head: str
    first_bad: int | None
    why: str | None


class AuditAnswer(BaseModel):
    """All audit logs that the caller may see."""

    ok: bool
    projects: list[AuditView]


def decision_view(decision: Decision) -> DecisionView:
    """A decision; the caller's key and what it binds to stay inside."""
    return DecisionView.model_validate(to_json(decision))


def summary(
    stored: StoredProposal, found: Beside | None, *, title: str, needed: int
) -> ProposalSummary:
    """A proposal in a list."""
    proposal = stored.proposal
    return ProposalSummary(
        id=proposal.id, project=proposal.project, revision=proposal.revision, hash=proposal.hash,
        state=stored.state, finding=proposal.finding_id, title=title, risk=proposal.risk,
        lines_added=proposal.lines_added, lines_removed=proposal.lines_removed,
        author=proposal.draft.author, thread=proposal.thread,
        created_at=proposal.created_at.isoformat(), waits=_waits(stored, found, needed),
        deferred_until=found.deferred_until if found is not None else None,
    )  # fmt: skip


def _waits(stored: StoredProposal, found: Beside | None, needed: int) -> Waits | None:
    for kind in ("override", "approve"):
        card: CardKind = kind
        if found is not None and card in found.cards and stored.state in WAITING[card]:
            seats = Seats(have=found.said.get(card, 0), needed=needed)
            return Waits(card=card, expires_at=found.cards[card].isoformat(), seats=seats)
    return None


def card_texts(card: StoredCard | None) -> dict[str, str]:
    """The proposed texts by path; a text that holds a secret is not among them."""
    if card is None:
        return {}
    requests = card.payload.get("action_requests")
    first = requests[0] if isinstance(requests, Sequence) and requests else None
    args = first.get("args") if isinstance(first, dict) else None
    given = args if isinstance(args, dict) else {}
    return {
        key.removeprefix("text:"): value
        for key, value in given.items()
        if key.startswith("text:") and isinstance(value, str)
    }


def revision_view(stored: StoredProposal) -> RevisionView:
    """One revision."""
    proposal: Proposal = stored.proposal
    return RevisionView(
        revision=proposal.revision, hash=proposal.hash, state=stored.state,
        author=proposal.draft.author, created_at=proposal.created_at.isoformat(),
    )  # fmt: skip


def remark_view(remark: Remark) -> RemarkView:
    """One remark."""
    return RemarkView.model_validate({n: getattr(remark, n) for n in Remark.__slots__})


def release_view(release: Release, project: str) -> ReleaseView:
    """One release."""
    said: dict[str, Json] = {**to_json(release), "project": project}
    return ReleaseView.model_validate({**said, "decision": release.decision_id})


def story_view(story: Story) -> StoryView:
    """A story as data and as a page."""
    return StoryView(story={**to_json(story)}, markdown=story_markdown(story))


def incident_view(incident: Incident) -> IncidentView:
    """One run; what it was asked stays inside."""
    fields = {name: getattr(incident, name) for name in IncidentView.model_fields}
    return IncidentView.model_validate(fields)


def finding_view(stored: StoredFinding, project: str, title: str) -> FindingView:
    """One finding under the title that people gave it, or its own."""
    finding: Finding = stored.finding
    return FindingView(
        id=finding.id, project=project, state=stored.state, signature=finding.signature,
        title=title, units=finding.units, units_total=finding.units_total,
        rate=list(finding.rate), change=finding.change, severity=finding.severity,
        cause=finding.diagnosis.cause, remedy=finding.remedy, actionable=finding.actionable,
        why_not=finding.why_not,
    )  # fmt: skip
