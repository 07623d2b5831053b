"""Scores that OpenTelemetry records as events of a span: `gen_ai.evaluation.result`."""

from collections.abc import Iterator, Mapping

from connectors.traces.raw import RawSpan, as_text
from contracts.json_types import Json
from contracts.traces import Score, SpanId

EVENTS = frozenset({"gen_ai.evaluation.result", "gen_ai.evaluation"})
MAX_SCORES = 100  # of one span
MAX_COMMENT = 2_000


def evaluations(raw: RawSpan) -> Iterator[Score]:
    """The evaluations of one span; its own label, or else its number, is the value."""
    found = 0
    for name, event in raw.events:
        if name not in EVENTS or found >= MAX_SCORES:
            continue
        called = as_text(event.get("gen_ai.evaluation.name"))
        if called:
            found += 1
            yield Score(
                name=called[:256],
                value=_value(event),
                source="eval",
                comment=as_text(event.get("gen_ai.evaluation.explanation"))[:MAX_COMMENT] or None,
                span_id=SpanId(raw.span_id),
            )


def _value(event: Mapping[str, Json]) -> float | str | None:
    number = event.get("gen_ai.evaluation.score.value")
    if isinstance(number, int | float):
        return float(number)
    label = as_text(event.get("gen_ai.evaluation.score.label"))
    return label[:256] or None
