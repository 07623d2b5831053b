"""The story of a release, or of a proposal that never became one, as one frozen value.

Terminal, Markdown and JSON all show this object. As on a card, every text in it that comes from a
trace, a model, the harness or a person is cleaned and redacted before it gets here, and sealed
cases are in it by count and fingerprint alone.
"""

from dataclasses import dataclass
from typing import Literal

from connectors.review.card import EvidenceLine, TrailEntry
from connectors.review.card_files import FileView
from connectors.review.gate_view import Fact, GateTable
from contracts.findings import Change, Severity
from contracts.gate import Claim, Verdict
from contracts.harness import EffectKind, EffectState
from contracts.proposals import CardKind, Check, DecisionType, ProposalState, Risk, Via

StoryKind = Literal["release", "undo", "proposal"]
"""What was asked for: an applied edit, the taking back of one, or an edit that was not applied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertPart:
    """What started the run."""

    kind: str
    """`alert`, or `improve` where a person or a schedule asked."""
    source: str | None
    what: str | None
    """What fired, in the sender's words; None: it said none."""
    at: str | None
    """When the run was opened, RFC 3339 UTC; None: the ledger has no such run."""
    window: tuple[str, str] | None
    """The time that was looked at, where the alert named one."""
    fired: int
    """How often, over all deliveries that joined the run."""
    recovered_at: str | None
    thread: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingPart:
    """What kept failing."""

    id: str
    signature: str
    title: str
    state: str
    severity: Severity
    counted: tuple[Fact, ...]
    """Units, rate, change and exemplars as the card had them when it was decided."""
    units: int
    """From here on as the latest analysis that saw it counted it."""
    units_total: int
    rate: tuple[float, float, float]
    change: Change
    exemplars: tuple[str, ...]
    """`trace/span`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiagnosisPart:
    """Why, as a hypothesis."""

    cause: str
    summary: str
    remedy: str
    confidence: float
    agreement: float | None
    by: str
    falsifier: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlternativePart:
    """A draft that stood beside on the card."""

    label: str
    author: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionPart:
    """One revision of the proposal."""

    revision: int
    hash: str
    state: ProposalState
    author: str
    model_written: bool
    at: str
    why: str
    falsifier: str
    lines_added: int
    lines_removed: int
    evidence: tuple[str, ...]
    notes: tuple[str, ...]
    alternatives: tuple[AlternativePart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionPart:
    """What somebody said to one revision."""

    revision: int
    card: CardKind
    seat: int
    type: DecisionType
    by: str
    via: Via
    at: str
    reason: str | None
    note: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePart:
    """What the gate found."""

    verdict: Verdict
    reason: str
    report_hash: str
    overridden_by: str | None
    claims: tuple[Claim, ...]
    runs: int
    planned_runs: int
    spent_usd: float | None
    """None: unknown."""
    in_words: tuple[str, ...]
    table: GateTable
    facts: tuple[Fact, ...]
    """The report's facts and its cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetPart:
    """What was done to one target."""

    kind: EffectKind
    target: str
    state: EffectState
    before: str
    after: str
    origin: str | None
    """What the target calls the state after it; None: it calls it nothing, or it is not done."""
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasePart:
    """A release."""

    id: str
    at: str
    target: str
    before: str
    after: str
    by: tuple[str, ...]
    undoes: str | None
    audit_seq: int | None
    audit_head: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchPart:
    """What one look after the release saw."""

    at: str
    watched: str
    """`fell`, `not_fallen` or `too_few`."""
    unit: str
    before: tuple[int, int]
    """(failures, units)"""
    after: tuple[int, int]
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonPart:
    """What memory keeps of it."""

    id: str
    outcome: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CostPart:
    """What the run took; None is unknown, never zero."""

    model_calls: int
    tokens: int
    models_usd: float | None
    gate_runs: int | None
    """None: no gate reached a verdict."""
    gate_usd: float | None
    total_usd: float | None
    """None: some part of it is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """From the alert to the outcome."""

    project: str
    id: str
    """What was asked for: a release's or a proposal's id."""
    kind: StoryKind
    headline: str
    outcome: str
    """One sentence: in place, taken back, or why it was not applied."""
    proposal: str
    revision: int
    proposal_hash: str
    state: ProposalState
    alert: AlertPart
    finding: FindingPart
    diagnosis: DiagnosisPart
    evidence: tuple[EvidenceLine, ...]
    revisions: tuple[RevisionPart, ...]
    warnings: tuple[str, ...]
    checks: tuple[Check, ...]
    risk: Risk
    risk_reasons: tuple[str, ...]
    decisions: tuple[DecisionPart, ...]
    remarks: tuple[TrailEntry, ...]
    """What people asked or put off; decides nothing."""
    gate: GatePart | None
    files: tuple[FileView, ...]
    """What the release changed; of an undo, from the release back."""
    lines_added: int
    lines_removed: int
    release: ReleasePart | None
    undo: ReleasePart | None
    """What took the release back."""
    targets: tuple[TargetPart, ...]
    watched: tuple[WatchPart, ...]
    lessons: tuple[LessonPart, ...]
    cost: CostPart
