"""What Langfuse records of a trace beside its observations: the trace object and its scores.

Source: Langfuse 4.16 public API (scores v3, v2 and v1, traces), `scores/` and `traces/` of its blob
storage export.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from connectors.traces.langfuse.fields import camel, flag, is_unset, parsed, strings, text, time_ns
from connectors.traces.raw import RawNote, RawSpan, as_float, as_id, as_objects
from contracts.json_types import Json
from contracts.traces import Score, SpanId

MAX_COMMENT_CHARS = 8192
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FEEDBACK = re.compile(
    r"(?:user|customer|human|client|visitor)[ _.-]?(?:feedback|rating|vote|score|satisfaction)|"
    r"thumbs?|feedback|csat|nps",
    re.IGNORECASE,
)
_TEXT_TYPES: Final = ("CATEGORICAL", "TEXT", "CORRECTION")
_TRACE_FIELDS: Final = (
    ("name", "langfuse.trace.name"),
    ("userId", "langfuse.user.id"),
    ("sessionId", "langfuse.session.id"),
    ("environment", "langfuse.environment"),
    ("release", "langfuse.release"),
    ("version", "langfuse.version"),
)

_AS_SPAN: Final = {
    f"langfuse.trace.{field}": f"langfuse.observation.{field}" for field in ("input", "output")
}


def is_score(value: Mapping[str, Json]) -> bool:
    """Whether the object is one score."""
    row = camel(value)
    return (
        isinstance(row.get("name"), str)
        and "source" in row
        and ("dataType" in row or "stringValue" in row)
        and any(key in row for key in ("traceId", "sessionId", "subject", "projectId"))
    )


def is_trace_row(value: Mapping[str, Json]) -> bool:
    """Whether the object is one trace without spans in it: of a list, or of a blob export."""
    row = camel(value)
    return (
        isinstance(row.get("id"), str)
        and "timestamp" in row
        and "traceId" not in row
        and "dataType" not in row
        and any(key in row for key in ("sessionId", "userId", "bookmarked", "release"))
    )


def score_trace_id(recorded: Mapping[str, Json]) -> str | None:
    """The id of the trace that a score judges, as recorded; None for one of a session or a run."""
    row = camel(recorded)
    subject = row.get("subject")
    if isinstance(subject, dict):
        kind = text(subject.get("kind")).lower()
        found = subject.get("id") if kind == "trace" else subject.get("traceId")
        return text(found) or None
    return text(row.get("traceId")) or None


def score_session_id(recorded: Mapping[str, Json]) -> str | None:
    """The session that a score judges as a whole."""
    row = camel(recorded)
    subject = row.get("subject")
    if isinstance(subject, dict):
        return text(subject.get("id")) or None if subject.get("kind") == "session" else None
    return (text(row.get("sessionId")) or None) if not score_trace_id(row) else None


def score_of(recorded: Mapping[str, Json]) -> Score | None:
    """The judgement in one score; None for one without a name."""
    row = camel(recorded)
    name = text(row.get("name"))
    if not name:
        return None
    subject = row.get("subject")
    observed = row.get("observationId")
    if isinstance(subject, dict) and text(subject.get("kind")).lower() == "observation":
        observed = subject.get("id")
    source = text(row.get("source")).lower() or "unknown"
    if source == "api" and _FEEDBACK.search(name):
        source = "user"
    at = time_ns(row.get("timestamp"))
    span = as_id(observed, 8)
    return Score(
        name=name[:256],
        value=_value(row),
        source=source[:64],
        comment=text(row.get("comment"))[:MAX_COMMENT_CHARS] or None,
        span_id=SpanId(span) if span else None,
        at=None if at is None else _EPOCH + timedelta(microseconds=at // 1000),
    )


def score_note(recorded: Mapping[str, Json]) -> RawNote | None:
    """A score as a note of the trace that it judges; None where it names none."""
    trace_id = as_id(score_trace_id(recorded), 16)
    score = score_of(recorded)
    return (
        None if trace_id is None or score is None else RawNote(trace_id=trace_id, scores=(score,))
    )


def _value(row: Mapping[str, Json]) -> float | bool | str | None:
    """By the data type: v3 gives the value itself, older ones a number and a text beside it."""
    kind = text(row.get("dataType")).upper()
    value = row.get("value")
    words = text(row.get("stringValue")) or text(row.get("longStringValue"))
    if kind in _TEXT_TYPES:
        said = words or (value if isinstance(value, str) else "")
        return said[:MAX_COMMENT_CHARS] or (as_float(value) if kind == "CATEGORICAL" else None)
    if kind == "BOOLEAN":
        known = flag(value)
        return flag(words) if known is None else known
    number = as_float(value)
    return number if number is not None else (words or None)


def trace_note(
    recorded: Mapping[str, Json], scores: Iterable[Mapping[str, Json]] = ()
) -> RawNote | None:
    """A trace object as a note: its own fields, its input and output, its scores."""
    row = camel(recorded)
    trace_id = as_id(row.get("id"), 16)
    if trace_id is None:
        return None
    a: dict[str, Json] = {
        key: value for field, key in _TRACE_FIELDS if (value := text(row.get(field)))
    }
    tags = strings(row.get("tags"))
    if tags:
        a["langfuse.trace.tags"] = tags
    for field in ("input", "output"):
        recorded_io = _unquoted(row.get(field))
        if not is_unset(recorded_io):
            a[f"langfuse.trace.{field}"] = recorded_io
    judged = [*as_objects(row.get("scores")), *as_objects(row.get("corrections")), *scores]
    found = {score: None for one in judged if (score := score_of(one)) is not None}
    return RawNote(trace_id=trace_id, attributes=a, scores=tuple(found))


def stand_in(recorded: Mapping[str, Json]) -> RawSpan | None:
    """The span of a trace that was recorded without any: it has an input and an output of its own.

    Its id is the one under which Langfuse 4 keeps such a trace as a row.
    """
    row = camel(recorded)
    trace_id, own_id = as_id(row.get("id"), 16), text(row.get("id"))
    note = trace_note(row)
    if trace_id is None or note is None:
        return None
    start = time_ns(row.get("timestamp"))
    latency = as_float(row.get("latency"))
    end = start + int(latency * 1e9) if start is not None and latency and latency > 0 else start
    return RawSpan(
        trace_id=trace_id,
        span_id=as_id(f"t-{own_id}", 8) or f"t-{trace_id}",
        parent_id=None,
        name=text(row.get("name")),
        start_ns=start,
        end_ns=end,
        attributes={
            "langfuse.observation.type": "SPAN",
            **{_AS_SPAN.get(key, key): value for key, value in note.attributes.items()},
        },
        updated_ns=time_ns(row.get("updatedAt")),
    )


def _unquoted(value: Json) -> Json:
    """Exports write a trace's text as JSON: `"hello"` with its quotes."""
    if isinstance(value, str) and value[:1] == '"' and value[-1:] == '"':
        inner = parsed(f"[{value}]")
        if isinstance(inner, list) and len(inner) == 1 and isinstance(inner[0], str):
            return inner[0]
    return value
