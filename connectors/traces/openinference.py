"""Span trees as one JSON object a trace: `{trace_id, spans: [root, ...]}` with `child_spans`.

The spans carry OpenInference attributes as a plain object. The same reader takes flat lists of
spans with `parent_span_id`. Recorded logs are left alone: they may hold what the agent never saw.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from connectors.traces.otlp import status_of
from connectors.traces.raw import RawSpan, as_id, as_ns, as_objects, as_text
from contracts.json_types import Json

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DURATION = re.compile(r"P(?:(\d+)D)?T?(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,9})\d*)?S)?\Z")


def is_span_tree(document: Mapping[str, Json]) -> bool:
    """Whether the object is a trace with its spans inside, or one span with its children."""
    spans = document.get("spans")
    if isinstance(spans, list):
        return not spans or any("span_id" in span for span in as_objects(spans))
    return "span_id" in document and "trace_id" in document


def tree_spans(document: Mapping[str, Json]) -> Iterator[RawSpan | None]:
    """All spans of the document, parents first; None for one without a usable id."""
    spans = document.get("spans")
    trace_id = as_id(document.get("trace_id"), 16)
    roots = as_objects(spans) if isinstance(spans, list) else [document]
    stack: list[tuple[Mapping[str, Json], str | None]] = [(root, None) for root in reversed(roots)]
    while stack:
        span, parent = stack.pop()
        raw = _span(span, trace_id, parent)
        yield raw
        here = raw.span_id if raw else None
        children = as_objects(span.get("child_spans"))
        stack.extend((child, here) for child in reversed(children))


def _span(span: Mapping[str, Json], trace_id: str | None, parent: str | None) -> RawSpan | None:
    trace_id = as_id(span.get("trace_id"), 16) or trace_id
    span_id = as_id(span.get("span_id"), 8)
    if trace_id is None or span_id is None:
        return None
    start = _first_time(span, "timestamp", "start_time", "start_time_unix_ns")
    end = _first_time(span, "end_time", "end_timestamp", "end_time_unix_ns")
    length = _duration_ns(span.get("duration"))
    if end is None and start is not None and length is not None:
        end = start + length
    status = span.get("status")
    code, message = span.get("status_code"), span.get("status_message")
    if isinstance(status, dict):
        code = status.get("status_code", status.get("code"))
        message = status.get("description", status.get("message"))
    resource = span.get("resource_attributes")
    return RawSpan(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=as_id(span.get("parent_span_id"), 8) or parent,
        name=as_text(span.get("span_name")) or as_text(span.get("name")),
        start_ns=start,
        end_ns=end,
        status=status_of(code),
        status_message=as_text(message),
        attributes=_object(span.get("span_attributes")) or _object(span.get("attributes")),
        events=[_event(event) for event in as_objects(span.get("events"))],
        resource=resource if isinstance(resource, dict) else {},
    )


def _object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _event(event: Mapping[str, Json]) -> tuple[str, Mapping[str, Json]]:
    name = event.get("Name", event.get("name", event.get("event_name")))
    return as_text(name), _object(event.get("Attributes", event.get("attributes")))


def _first_time(span: Mapping[str, Json], *keys: str) -> int | None:
    for key in keys:
        value = span.get(key)
        found = _iso_ns(value) if isinstance(value, str) else as_ns(value)
        if found is not None:
            return found
    return None


def _iso_ns(text: str) -> int | None:
    """RFC 3339 as Unix nanoseconds; a time without a zone is taken as UTC."""
    try:
        when = datetime.fromisoformat(text)
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        return as_ns((when - _EPOCH) // timedelta(microseconds=1) * 1000)
    except (ValueError, OverflowError):
        return as_ns(text)


def _duration_ns(value: Json) -> int | None:
    """An ISO 8601 duration of days and shorter."""
    match = _DURATION.match(value) if isinstance(value, str) and len(value) < 64 else None
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups()[:4])
    fraction = int((match[5] or "").ljust(9, "0"))
    whole = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return as_ns(whole * 1_000_000_000 + fraction) or 0
