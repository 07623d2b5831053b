"""What a detector of silent failures yields: one fact at one span, with the words that show it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field

from contracts.findings import Symptom
from contracts.json_types import Json
from contracts.traces import Span, SpanId
from nodes.insights.detect.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A fact that a detector saw."""

    kind: str
    """Of `configs/taxonomy.yaml`, which says whether it is counted."""
    span: Span
    """Where the failure begins (or, for waste, where it ends)."""
    message: str
    """The evidence: quoted from the trace, or said in our words where something is absent."""
    field: str
    """Where the message stands: `output`, `input`, `error.message`, `input of <span id>` ..."""
    start: int = 0
    place: str | None = None
    """Tool, agent or node that the signature names; None: the place of the span."""
    code: str | None = None
    """What tells apart failures of one kind and place; part of the signature."""
    template: str | None = None
    """None: made of the message. Give a constant where the message quotes free text."""
    shown_at: SpanId | None = None
    """Where it became visible, when that is another span."""
    confidence: float | None = None
    """None: the taxonomy's."""
    counted: bool | None = None
    """None: the taxonomy's. False where another symptom tells of the same failure already."""
    facts: Mapping[str, Json] = dataclass_field(default_factory=dict)
    """What the diagnosis may use: `Evidence.facts`. Texts are cleaned when the symptom is made."""


Detector = Callable[[View, Sequence[Symptom]], Iterator[Hit]]
"""Pure: the trace as a view, and what the error detectors found in it (`view.failed` is filled)."""
