"""Whatever JSON comes as a Langfuse object, reading it never raises."""

from hypothesis import given
from hypothesis import strategies as st

from connectors.traces.langfuse.exports import FORMS, page_links
from connectors.traces.langfuse.fields import time_ns
from connectors.traces.langfuse.rows import row_span
from connectors.traces.raw import MAX_NS, RawSpan
from connectors.traces.tree import build_trace
from contracts.json_types import Json

TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["", "null", "{", '{"a": 1', '{"input": "4"}', "[]", '["a"]', "NaN", "-1", "1e999",
         "\ud800", "2026-11-24T09:00:00Z", "2026-11-24 09:00:00.123456",
         "9999-12-31T23:59:59-23:59", "GENERATION", "TOOL", "ERROR", "true"]
    ),
)  # fmt: skip
VALUES: st.SearchStrategy[Json] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)
KEYS = [
    "id", "traceId", "trace_id", "type", "startTime", "start_time", "endTime", "level", "metadata",
    "usageDetails", "usage_details", "usage", "costDetails", "totalCost", "input", "output", "tags",
    "toolCalls", "toolCallNames", "toolDefinitions", "promptVersion", "parentObservationId",
    "isRootObservation", "subject", "dataType", "stringValue", "value", "name", "source", "data",
    "meta", "trace", "observations", "scores", "timestamp", "url", "body", "status", "latency",
]  # fmt: skip
OBJECTS = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=12)
ROWS = st.builds(
    lambda extra: {"id": "a1", "traceId": "b2", "type": "GENERATION", "startTime": "x", **extra},
    OBJECTS,
)


TRACES = st.builds(
    lambda trace, rows, inside: {
        "trace": {"id": "b2", "timestamp": "x", "userId": None, "observations": inside, **trace},
        "observations": rows,
    },
    OBJECTS, st.lists(st.one_of(ROWS, VALUES), max_size=2), st.lists(ROWS, max_size=2),
)  # fmt: skip


@given(st.one_of(OBJECTS, ROWS, TRACES))
def test_any_object_is_read_or_left_alone(value: dict[str, Json]) -> None:
    page_links(value)
    for form in FORMS:
        form.takes(value)
        spans = [raw for raw in form.spans(value) if isinstance(raw, RawSpan)]
        for trace_id in {raw.trace_id for raw in spans}:
            build_trace([raw for raw in spans if raw.trace_id == trace_id], 1000)


@given(ROWS)
def test_a_row_never_makes_up_a_negative_count_or_a_time_that_cannot_be(
    value: dict[str, Json],
) -> None:
    raw = row_span(value)
    if raw is None:
        return
    for key in ("llm.token_count.prompt", "llm.token_count.completion", "llm.cost.total"):
        known = raw.attributes.get(key, 0)
        assert not isinstance(known, int | float) or known >= 0
    assert all(ns is None or 0 < ns <= MAX_NS for ns in (raw.start_ns, raw.end_ns))


@given(VALUES)
def test_a_time_is_within_what_a_time_can_be_or_unknown(value: Json) -> None:
    ns = time_ns(value)
    assert ns is None or 0 < ns <= MAX_NS
