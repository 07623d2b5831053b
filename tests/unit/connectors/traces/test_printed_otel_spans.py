"""Spans that the SDKs of OpenTelemetry print are read as they stand."""

from pathlib import Path

import orjson
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from opentelemetry.trace import Status, StatusCode

from connectors.traces.ai_sdk import spans, takes
from connectors.traces.raw import RawSpan
from contracts.json_types import Json

TRACE = "8f60802815d6e97da2dbc4708a8e5c7b"
SPAN = "bf098ec12458e605"
PARENT = "673a889f59126f8b"
READABLE: dict[str, Json] = {
    "name": "ai.toolCall",
    "spanContext": {"traceId": TRACE, "spanId": SPAN, "traceFlags": 1},
    "parentSpanContext": {"traceId": TRACE, "spanId": PARENT},
    "attributes": {"ai.toolCall.name": "find", "n": 3},
    "status": {"code": 2, "message": "gone"},
    "startTime": [1770131997, 66000000],
    "endTime": [1770131998, 5],
    "events": [{"name": "exception", "time": [1770131998, 1],
                "attributes": {"exception.type": "Gone"}}],
}  # fmt: skip
PRINTED: dict[str, Json] = {
    "traceId": TRACE, "parentId": PARENT, "name": "ai.toolCall", "id": SPAN, "kind": 0,
    "timestamp": 1770131997066000, "duration": 933999.005,
    "attributes": {"ai.toolCall.name": "find", "n": 3}, "status": {"code": 2, "message": "gone"},
    "events": [{"name": "exception", "attributes": {"exception.type": "Gone"}}], "links": [],
}  # fmt: skip


def only(value: dict[str, Json]) -> RawSpan:
    [span] = spans(value)
    assert isinstance(span, RawSpan)
    return span


@pytest.mark.parametrize("recorded", [READABLE, PRINTED], ids=["dumped", "printed"])
def test_a_span_of_the_javascript_sdk_is_read_whole(recorded: dict[str, Json]) -> None:
    assert takes(recorded)
    span = only(recorded)
    assert (span.trace_id, span.span_id, span.parent_id) == (TRACE, SPAN, PARENT)
    assert (span.name, span.status, span.status_message) == ("ai.toolCall", "error", "gone")
    assert span.start_ns == 1_770_131_997_066_000_000
    assert span.end_ns is not None
    assert abs(span.end_ns - 1_770_131_998_000_000_005) <= 1000  # the console prints microseconds
    assert span.attributes == {"ai.toolCall.name": "find", "n": 3}
    assert span.events == [("exception", {"exception.type": "Gone"})]


def test_a_span_that_the_python_sdk_prints_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "spans.json"
    with path.open("w") as out:
        provider = TracerProvider()
        exporter = ConsoleSpanExporter(out=out, formatter=lambda s: s.to_json(indent=None) + "\n")
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        tracer = provider.get_tracer("shop")
        with tracer.start_as_current_span("run") as run, tracer.start_as_current_span("find") as f:
            f.set_attribute("gen_ai.tool.name", "find")
            f.set_status(Status(StatusCode.ERROR, "gone"))
        provider.shutdown()
    find, root = (orjson.loads(line) for line in path.read_bytes().splitlines())
    assert takes(find)
    span, top = only(find), only(root)
    context = run.get_span_context()
    assert (span.trace_id, span.parent_id) == (f"{context.trace_id:032x}", top.span_id)
    assert top.parent_id is None
    assert (span.status, span.status_message) == ("error", "gone")
    assert span.attributes == {"gen_ai.tool.name": "find"}
    assert span.start_ns is not None
    assert span.end_ns is not None
    assert span.end_ns >= span.start_ns


def test_lists_by_operation_and_a_wrapper_are_read_in_order() -> None:
    other = {**READABLE, "spanContext": {"traceId": TRACE, "spanId": PARENT}}
    grouped: dict[str, Json] = {"ai.toolCall": [READABLE], "ai.generateText": [other]}
    wrapped: dict[str, Json] = {"captured": "today", "spans": [READABLE, other]}
    for value in (grouped, wrapped):
        assert takes(value)
        assert [s.span_id for s in spans(value) if isinstance(s, RawSpan)] == [SPAN, PARENT]


def test_a_span_without_an_id_is_counted_and_one_without_an_end_is_open() -> None:
    nameless = {**READABLE, "spanContext": {"traceId": TRACE, "spanId": "0" * 16}}
    assert list(spans(nameless)) == [None]
    assert only({k: v for k, v in READABLE.items() if k != "endTime"}).end_ns is None
    assert only({**READABLE, "ended": False}).end_ns is None


@pytest.mark.parametrize(
    "value",
    [{}, {"resourceSpans": []}, {"trace_id": "a", "span_id": "b", "name": "x"},
     {"spans": [{"span_id": "b"}]}, {"name": "x", "context": {}}, {"messages": [{"role": "user"}]},
     {"trace": {}, "observations": []}],
)  # fmt: skip
def test_objects_of_other_formats_are_not_taken(value: dict[str, Json]) -> None:
    assert not takes(value)
