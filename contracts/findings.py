"""What insights finds: symptoms, findings, diagnoses."""

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from datetime import datetime
from typing import Literal, NewType

from contracts.json_types import Json
from contracts.traces import SpanId, TraceId

FindingId = NewType("FindingId", str)
Signature = NewType("Signature", str)
"""`kind:place[:code][:~hash]`, such as `tool_timeout:payment_api:504`."""

Severity = Literal["low", "medium", "high", "critical"]
Change = Literal["new", "risen", "same", "fallen", "unknown"]
"""Against the baseline window. "unknown": there was none to compare with, or so few failed that no
change could have shown; "same" is only said where one would have been seen."""

Remedy = Literal[
    "instructions", "skill", "tool", "retrieval", "model", "infrastructure", "data", "none"
]
"""Where a fix belongs. Only "instructions" and "skill" are edited; the others become a hand-off."""

TEXT_REMEDIES: frozenset[Remedy] = frozenset({"instructions", "skill"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Where in a span the symptom shows: the field, a short redacted quote, and its offset."""

    field: str
    quote: str
    start: int
    facts: Mapping[str, Json] = dataclass_field(default_factory=dict)
    """Sizes, gaps, numbers of lines and cleaned quotes that a diagnosis may use, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """One detector's hit at one span."""

    trace_id: TraceId
    unit: str
    span_id: SpanId
    kind: str
    signature: Signature
    severity: Severity
    detector: str
    evidence: Evidence
    template: str
    """The message with numbers, ids, paths and quoted values taken out; groups within a key."""
    at: datetime
    recovered: bool = False
    """The same step worked later in the trace. Shown, but neither counted nor a failed case."""
    counted: bool = True
    """False: a hint, a fact that goes with failures but is none by itself, or what a model said.
    Shown, but neither counted nor a failed case."""
    confidence: float = 1.0
    """0..1, how often such a hit is a failure that a careful reader would mark."""
    shown_at: SpanId | None = None
    """Where it became visible, when that is another span than where it began."""
    by: str = "rules"
    """`rules`, or `model:<name>` for what a screening model said."""

    @property
    def counts(self) -> bool:
        """Whether it makes its trace a failed one."""
        return self.counted and not self.recovered


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Hypothesis of a finding's root cause."""

    cause: str
    """A name of `configs/taxonomy.yaml`, such as `tool_timeout` or `wrong_argument_format`."""
    remedies: tuple[Remedy, ...]
    """Classes that could hold the fix, best first."""
    confidence: float
    """0..1."""
    summary: str
    """One or two sentences for a person."""
    falsifier: str
    """What would prove the diagnosis wrong."""
    parameters: Mapping[str, Json]
    """Facts from evidence that a playbook may use, such as `tool`, `status`, `format_example`."""
    agreement: float | None = None
    """Share of independent model answers that agree; None where no model was asked."""
    by: str = "rules"


Factor = Literal[
    "release", "version", "prompt", "model", "hour", "weekday", "load", "tool", "arguments",
    "environment", "tag", "step",
]  # fmt: skip
"""What a contrast compares failing and passing units by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """Something that failing units have more often than passing ones."""

    factor: Factor
    value: str
    failing: tuple[int, int]
    """(units that have it, units that could have it)"""
    passing: tuple[int, int]
    p_holm: float
    """One-sided exact test, Holm over everything that was compared for this finding."""
    sentence: str
    """For a person: `only since prompt refund v14 (18 of 18 failing, 3 of 240 passing units)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """A signature that was taken into another one, and why."""

    signature: Signature
    units: int
    by: str
    """`similar` (with the similarity in `why`), or the name of the person who merged them."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Symptoms with one signature: counted, compared, diagnosed."""

    id: FindingId
    kind: str
    signature: Signature
    title: str
    units: int
    """Units with at least one symptom that was not recovered from."""
    units_total: int
    rate: tuple[float, float, float]
    """Low, middle, high: 95 % Clopper-Pearson interval and the share, all 0..1."""
    baseline_units: int | None
    baseline_total: int | None
    change: Change
    p_holm: float | None
    severity: Severity
    diagnosis: Diagnosis
    actionable: bool
    why_not: str | None
    exemplars: tuple[tuple[TraceId, SpanId], ...]
    first_seen: datetime | None
    last_seen: datetime | None
    """None: its traces carry no times."""
    score: float
    """Severity x prevalence x change; only its order means anything."""
    reasons: tuple[str, ...] = ()
    """Why it is ranked where it is, and how sure its change is: one sentence each."""
    contrasts: tuple[Contrast, ...] = ()
    """Surest first."""
    merged: tuple[Merge, ...] = ()
    symptoms_kept: int = 0
    """Symptoms counted in its units; one unit may have several."""
    templates: tuple[str, ...] = ()
    """Its message templates, the leading one first: later analyses know it again by that one."""

    @property
    def remedy(self) -> Remedy:
        """The best remedy class."""
        return self.diagnosis.remedies[0]

    @property
    def text_fixable(self) -> bool:
        """Whether some remedy class is text that Tracemend may edit."""
        return any(r in TEXT_REMEDIES for r in self.diagnosis.remedies)
