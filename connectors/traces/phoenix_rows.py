"""Spans and annotations as Phoenix returns them, to recorded spans and scores.

Source: Phoenix REST API, `GET /v1/projects/{p}/spans` and `.../{span,trace}_annotations`;
version tried: 20.26.1. Phoenix keeps no resource attributes, cuts times to microseconds, parses
`metadata` and the other attributes that hold JSON text, and returns them flattened.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from connectors.traces.normalise import EPOCH
from connectors.traces.otlp import status_of
from connectors.traces.raw import RawSpan, as_float, as_id, as_objects, as_text
from connectors.traces.waits import read_date
from contracts.json_types import Json
from contracts.traces import Score, SpanId

_FOLDED: Final = ("metadata", "tool.parameters", "llm.prompt_template.variables")
"""Attributes that were recorded as JSON text, and come back one key for each of theirs."""
_ROW_BYTES = 512  # of a row besides its texts, about
MAX_NAME = 128


def span_of(row: Mapping[str, Json]) -> RawSpan | None:
    """The span of a row; None without a usable id."""
    context = row.get("context")
    ids = context if isinstance(context, dict) else {}
    trace_id, span_id = as_id(ids.get("trace_id"), 16), as_id(ids.get("span_id"), 8)
    if trace_id is None or span_id is None:
        return None
    recorded = row.get("attributes")
    attributes = _folded(recorded) if isinstance(recorded, dict) else {}
    kind = as_text(row.get("span_kind"))
    if kind and kind != "UNKNOWN":  # otherwise the other conventions may tell
        attributes["openinference.span.kind"] = kind
    return RawSpan(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=as_id(row.get("parent_id"), 8),
        name=as_text(row.get("name")),
        start_ns=_ns(row.get("start_time")),
        end_ns=_ns(row.get("end_time")),
        status=status_of(row.get("status_code")),
        status_message=as_text(row.get("status_message")),
        attributes=attributes,
        events=[_event(event) for event in as_objects(row.get("events"))],
    )


def size_of(row: Mapping[str, Json]) -> int:
    """About how many bytes the row holds."""
    attributes = row.get("attributes")
    values = attributes.values() if isinstance(attributes, dict) else ()
    return _ROW_BYTES + sum(len(value) for value in values if isinstance(value, str))


def score_of(row: Mapping[str, Json]) -> tuple[str, Score] | None:
    """An annotation and the trace or span id it belongs to, as recorded."""
    span_id = as_text(row.get("span_id"))
    about = span_id or as_text(row.get("trace_id"))
    name = as_text(row.get("name"))
    if not about or not name:
        return None
    found = row.get("result")
    result = found if isinstance(found, dict) else {}
    number, label = as_float(result.get("score")), as_text(result.get("label")) or None
    said = as_text(result.get("explanation")) or (label if number is not None else None)
    key = as_id(span_id, 8) if span_id else None
    score = Score(
        name=name[:MAX_NAME],
        value=number if number is not None else label,
        source=_judge(as_text(row.get("annotator_kind")), as_text(row.get("source"))),
        comment=said,
        span_id=SpanId(key) if key else None,
        at=_date(row.get("updated_at")) or _date(row.get("created_at")),
    )
    return about, score


def _judge(kind: str, source: str) -> str:
    """A person who judges in Phoenix itself annotates; one whose word came by API is a user."""
    if kind in ("LLM", "CODE"):
        return "eval"
    if kind == "HUMAN":
        return "annotation" if source == "APP" else "user"
    return (kind or source or "api").lower()[:32]


def _folded(attributes: Mapping[str, Json]) -> dict[str, Json]:
    """The attributes with those that held JSON as one text again, keys with dots kept whole."""
    out: dict[str, Json] = {}
    folds: dict[str, dict[str, Json]] = {}
    for key, value in attributes.items():
        base = next((name for name in _FOLDED if key.startswith(name + ".")), None)
        if base is None:
            if value is not None:
                out[key] = value
        else:
            folds.setdefault(base, {})[key[len(base) + 1 :]] = value
    for base, value in folds.items():
        out.setdefault(base, json.dumps(value))
    return out


def _event(event: Mapping[str, Json]) -> tuple[str, Mapping[str, Json]]:
    attributes = event.get("attributes")
    return as_text(event.get("name")), attributes if isinstance(attributes, dict) else {}


def _date(value: Json) -> datetime | None:
    return read_date(value) if isinstance(value, str) else None


def _ns(value: Json) -> int | None:
    """An ISO time as Unix nanoseconds; Phoenix knows microseconds."""
    when = _date(value)
    if when is None:
        return None
    past = when - EPOCH
    ns = ((past.days * 86_400 + past.seconds) * 1_000_000 + past.microseconds) * 1000
    return ns if ns > 0 else None
