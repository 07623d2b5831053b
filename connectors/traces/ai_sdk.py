"""Spans as the OpenTelemetry SDKs themselves print or dump them, one JSON object a span.

Source: `ReadableSpan` of opentelemetry-js 1 and 2 as JSON, its `ConsoleSpanExporter`, and the
`ConsoleSpanExporter` of opentelemetry-python; captures of the Vercel AI SDK 6 are of the first
kind, as a list, grouped by operation, or under `spans`.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from connectors.traces.otlp import attributes_of
from connectors.traces.raw import (
    Raw,
    RawSpan,
    RawStatus,
    as_float,
    as_id,
    as_int,
    as_ns,
    as_objects,
    as_text,
)
from contracts.json_types import Json

NAME: Final = "otel-js-spans"
MAX_DEPTH: Final = 4  # lists and objects around the spans

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_STATUS: Final[Mapping[str, RawStatus]] = {"1": "ok", "2": "error", "OK": "ok", "ERROR": "error"}
_CAPTURE: Final = frozenset({"captureDate", "results", "attributeSummary"})


def takes(value: Mapping[str, Json]) -> bool:
    """Whether the object is such a span, or holds lists of them."""
    if _is_span(value):
        return True
    if value.keys() >= _CAPTURE:  # the index beside the captured files
        return True
    spans = value.get("spans")
    if isinstance(spans, list):
        return any(_is_span(item) for item in as_objects(spans[:8]))
    groups = [item for item in value.values() if isinstance(item, list) and item]
    return bool(groups) and len(groups) == len(value) and all(_is_group(item) for item in groups)


def spans(value: Mapping[str, Json]) -> Iterator[Raw]:
    """The spans of the object, in recorded order; None for one without a usable id."""
    stack: list[tuple[Json, int]] = [(value, 0)]
    while stack:
        here, depth = stack.pop()
        if isinstance(here, dict) and _is_span(here):
            yield _span(here)
        elif depth < MAX_DEPTH and isinstance(here, dict):
            stack.extend((item, depth + 1) for item in reversed(here.values()))
        elif depth < MAX_DEPTH and isinstance(here, list):
            stack.extend((item, depth + 1) for item in reversed(here) if isinstance(item, dict))


def _is_group(items: list[Json]) -> bool:
    first = items[0]
    return isinstance(first, dict) and _is_span(first)


def _is_span(value: Mapping[str, Json]) -> bool:
    """One of the three shapes, by the keys that each writes for every span."""
    if "name" not in value:
        return False
    if isinstance(value.get("spanContext"), dict) or isinstance(value.get("_spanContext"), dict):
        return True
    context = value.get("context")
    if isinstance(context, dict):
        return "trace_id" in context and "span_id" in context
    return "traceId" in value and "id" in value and "timestamp" in value and "duration" in value


def _span(span: Mapping[str, Json]) -> RawSpan | None:
    context = _object(span, "spanContext", "_spanContext", "context")
    trace_id = _id(context or span, ("traceId", "trace_id"), 16)
    span_id = _id(context or span, ("spanId", "span_id", "id"), 8)
    if trace_id is None or span_id is None:
        return None
    start, end = _times(span)
    status = span.get("status")
    recorded = status if isinstance(status, dict) else {"code": status}
    code = recorded.get("code", recorded.get("status_code"))
    return RawSpan(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=_parent(span),
        name=as_text(span.get("name")),
        start_ns=start,
        end_ns=end,
        status=_STATUS.get(str(code).removeprefix("StatusCode.").upper(), "unset"),
        status_message=as_text(recorded.get("message") or recorded.get("description")),
        attributes=attributes_of(span.get("attributes")),
        events=[
            (as_text(event.get("name")), attributes_of(event.get("attributes")))
            for event in as_objects(span.get("events"))
        ],
        resource=attributes_of(_object(span, "resource", "_resource").get("attributes")),
    )


def _object(span: Mapping[str, Json], *keys: str) -> Mapping[str, Json]:
    return next((value for key in keys if isinstance(value := span.get(key), dict)), {})


def _id(holder: Mapping[str, Json], keys: tuple[str, ...], size: int) -> str | None:
    """An id, also one written with `0x` before it."""
    for key in keys:
        value = holder.get(key)
        if isinstance(value, str):
            return as_id(value.removeprefix("0x"), size)
    return None


def _parent(span: Mapping[str, Json]) -> str | None:
    context = _object(span, "parentSpanContext", "parent")
    keys = ("parentSpanId", "parentId", "parent_id", "parent_span_id")
    return _id(context, ("spanId", "span_id"), 8) or _id(span, keys, 8)


def _times(span: Mapping[str, Json]) -> tuple[int | None, int | None]:
    """(start, end) in Unix nanoseconds."""
    for keys in (("startTime", "endTime"), ("_startTime", "_endTime"), ("start_time", "end_time")):
        if keys[0] in span:
            start, end = (_time_ns(span.get(key)) for key in keys)
            still_open = span.get("ended") is False or span.get("_ended") is False
            return start, None if still_open else end
    begun, length = as_float(span.get("timestamp")), as_float(span.get("duration"))
    if begun is None:  # the console prints microseconds
        return None, None
    start = as_ns(int(begun) * 1000)
    return start, None if start is None or length is None else as_ns(start + int(length * 1000))


def _time_ns(value: Json) -> int | None:
    """[seconds, nanoseconds], RFC 3339 text, or nanoseconds; text without a zone is UTC."""
    if isinstance(value, list) and len(value) == 2:
        seconds, nanos = as_int(value[0]), as_int(value[1])
        return None if seconds is None else as_ns(seconds * 1_000_000_000 + (nanos or 0))
    if not isinstance(value, str):
        return as_ns(value)
    try:
        when = datetime.fromisoformat(value)
    except ValueError:
        return as_ns(value)
    when = when.replace(tzinfo=UTC) if when.tzinfo is None else when
    try:
        return as_ns((when - _EPOCH) // timedelta(microseconds=1) * 1000)
    except OverflowError:
        return None
