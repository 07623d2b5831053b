"""OTLP as JSON: an `ExportTraceServiceRequest`, one a line or one a file.

Source: OTLP specification, JSON protobuf encoding, and what exporters really write: camelCase or
snake_case, ids in hex or base64, 64-bit integers as text, status codes as numbers or names, the
outer key `batches` (Grafana Tempo), nulls where a field is unset.
"""

from collections.abc import Iterator, Mapping
from typing import cast

from connectors.traces.raw import (
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

OUTER_KEYS = ("resourceSpans", "resource_spans", "batches")
OTHER_SIGNALS = ("resourceLogs", "resourceMetrics", "resource_logs", "resource_metrics")
MAX_DEPTH = 16  # of an attribute value; deeper ones are left out

_STATUS: dict[Json, RawStatus] = {
    1: "ok",
    2: "error",
    "STATUS_CODE_OK": "ok",
    "STATUS_CODE_ERROR": "error",
    "1": "ok",
    "2": "error",
    "OK": "ok",
    "Ok": "ok",
    "ERROR": "error",
    "Error": "error",
}


def is_otlp(document: Mapping[str, Json]) -> bool:
    """Whether the object is a trace export request."""
    return any(key in document for key in OUTER_KEYS)


def status_of(value: Json) -> RawStatus:
    """A status code in any of its spellings."""
    return _STATUS.get(value, "unset") if isinstance(value, str | int) else "unset"


def otlp_spans(document: Mapping[str, Json]) -> Iterator[RawSpan | None]:
    """The spans of one request in recorded order; None for one without a usable id."""
    for outer in OUTER_KEYS:
        for group in as_objects(document.get(outer)):
            resource_record = group.get("resource")
            resource = attributes_of(
                resource_record.get("attributes") if isinstance(resource_record, dict) else None
            )
            for scoped in ("scopeSpans", "scope_spans", "instrumentationLibrarySpans"):
                for scope in as_objects(group.get(scoped)):
                    for span in as_objects(scope.get("spans")):
                        yield _span(span, resource)


def attributes_of(pairs: Json) -> dict[str, Json]:
    """Key-value pairs as a flat object; of one key the last value stands."""
    if not isinstance(pairs, list):
        # Some writers put a plain object here.
        return cast("dict[str, Json]", dict(pairs)) if isinstance(pairs, dict) else {}
    out: dict[str, Json] = {}
    try:
        for pair in pairs:
            key, value = pair["key"], pair["value"]
            text = value.get("stringValue")
            if key.__class__ is not str:
                return _attributes_of(pairs)
            out[key] = text if text.__class__ is str else _value(value, 0)
    except (KeyError, TypeError, AttributeError):
        return _attributes_of(pairs)
    return out


def _attributes_of(pairs: Json) -> dict[str, Json]:
    """The same for pairs of which some are none."""
    out: dict[str, Json] = {}
    for pair in as_objects(pairs):
        key = pair.get("key")
        if isinstance(key, str):
            out[key] = _value(pair.get("value"), 0)
    return out


def _value(value: Json, depth: int) -> Json:
    """The one field of an `AnyValue` that is set."""
    if not isinstance(value, dict) or depth > MAX_DEPTH:
        return None
    key, item = next(((k, v) for k, v in value.items() if v is not None), ("", None))
    out: Json = None
    match key:
        case "stringValue" | "string_value" | "bytesValue" | "bytes_value":
            out = item if isinstance(item, str) else None
        case "intValue" | "int_value":
            out = as_int(item)
        case "doubleValue" | "double_value":
            out = as_float(item)
        case "boolValue" | "bool_value":
            out = item if isinstance(item, bool) else None
        case "arrayValue" | "array_value":
            out = [_value(one, depth + 1) for one in _inner(item)]
        case "kvlistValue" | "kvlist_value":
            pairs = _inner(item)
            out = {as_text(p.get("key")): _value(p.get("value"), depth + 1) for p in pairs}
    return out


def _inner(item: Json) -> list[Mapping[str, Json]]:
    return as_objects(item.get("values") if isinstance(item, dict) else None)


def _either(span: Mapping[str, Json], camel: str, snake: str) -> Json:
    value = span.get(camel)
    return span.get(snake) if value is None else value


def _span(span: Mapping[str, Json], resource: Mapping[str, Json]) -> RawSpan | None:
    trace_id = as_id(_either(span, "traceId", "trace_id"), 16)
    span_id = as_id(_either(span, "spanId", "span_id"), 8)
    if trace_id is None or span_id is None:
        return None
    status = span.get("status")
    code, message = (
        (status.get("code"), as_text(status.get("message")))
        if isinstance(status, dict)
        else (status, "")
    )
    parent = _either(span, "parentSpanId", "parent_span_id")
    events = span.get("events")
    return RawSpan(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=as_id(parent, 8) if parent else None,
        name=as_text(span.get("name")),
        start_ns=as_ns(_either(span, "startTimeUnixNano", "start_time_unix_nano")),
        end_ns=as_ns(_either(span, "endTimeUnixNano", "end_time_unix_nano")),
        status=status_of(code),
        status_message=message,
        attributes=attributes_of(span.get("attributes")),
        events=[
            (as_text(event.get("name")), attributes_of(event.get("attributes")))
            for event in as_objects(events)
        ]
        if events
        else [],
        resource=resource,
    )


def signals_only(document: Mapping[str, Json]) -> bool:
    """Whether the object holds logs or metrics, which collectors write into the same file."""
    return any(key in document for key in OTHER_SIGNALS)
