"""Recorded spans of one trace, in any order, to one ordered tree."""

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from connectors.traces.evaluations import evaluations
from connectors.traces.halves import mark_times, one_each
from connectors.traces.messages import Texts
from connectors.traces.normalise import EPOCH, to_span, when
from connectors.traces.raw import NO_TIMES, RawNote, RawSpan
from contracts.json_types import Json
from contracts.traces import OWN_SCORE, Score, Span, SpanId, Trace, TraceId, TraceQuery

OWN_ENVIRONMENT = "tracemend-gate"
RUN_ID = "tracemend.run_id"
AS_ROOT = "langfuse.internal.as_root"
"""A root by declaration: its parent is in another system, and is not missing."""
_ENVIRONMENT = ("langfuse.environment", "deployment.environment.name", "deployment.environment")
_OWN_KEYS = (*_ENVIRONMENT, "openinference.project.name")
_SESSION = ("langfuse.session.id", "session.id", "gen_ai.conversation.id")
_USER = ("langfuse.user.id", "user.id", "enduser.id")
_RELEASE = ("langfuse.release", "service.version")
_VERSION = ("langfuse.version",)
_NAME = ("langfuse.trace.name",)
_TRACE_KEYS = (*_ENVIRONMENT, *_SESSION, *_USER, *_RELEASE, *_VERSION, *_NAME)
_TAGS = ("langfuse.trace.tags", "tag.tags")
_TRACE_IO = (
    ("langfuse.trace.input", "langfuse.observation.input"),
    ("langfuse.trace.output", "langfuse.observation.output"),
)
MAX_TAGS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A trace and what was counted while it was put together."""

    trace: Trace
    spans: int
    duplicates: int
    truncated: int
    text_bytes: int
    """Kept text of its payloads; what a batch weighs."""
    marks: Mapping[str, int]
    """Oddities by name, none with a count of zero."""


def build_trace(recorded: Iterable[RawSpan | RawNote], cap: int) -> Built:
    """One trace of all its records; the same for every order in which they come.

    Of several records of one span the newest stays; an open half and a closed one are joined.
    Orphans hang under a virtual root; a cycle is cut at its earliest span, which becomes an orphan.
    Tokens and cost stay only at model calls without a model call beneath that carries them, so that
    no total counts a token twice.

    Args:
        recorded: records of one trace id, with at least one span.
        cap: characters of a message and bytes of a payload that are kept.
    """
    records: list[RawSpan] = []
    notes: list[RawNote] = []
    for record in recorded:
        if isinstance(record, RawSpan):
            records.append(record)
        else:
            notes.append(record)
    marks: dict[str, int] = {}
    newest = {raw.span_id: raw for raw in records}
    if len(newest) < len(records):
        newest = one_each(records, marks)
    parents, orphans = _parents(newest)
    if notes:
        _to_roots(newest, parents, notes)
    texts = Texts(cap)
    trace_id = records[0].trace_id
    spans = {key: to_span(raw, texts) for key, raw in newest.items()}
    _fill_times(spans, newest)
    mark_times(spans, newest, parents, marks)
    _leaf_usage(spans, parents)
    virtual: Span | None = None
    tops = [key for key, parent in parents.items() if parent is None]
    if len(tops) - len(orphans) > 1:
        marks["several_roots"] = 1
    pending = any(newest[key].open for key in tops)
    timeless = any(NO_TIMES in newest[key].attributes for key in tops)
    if timeless or all(raw.start_ns is None for raw in newest.values()):
        timeless = True
        marks["no_times"] = 1
    if orphans:
        virtual = _virtual_root(trace_id, spans, parents, orphans)
        parents.update(dict.fromkeys(orphans, virtual.id))
        parents.update({key: virtual.id for key, parent in parents.items() if parent is None})
        spans[virtual.id] = virtual
        parents[virtual.id] = None
    ordered = _ordered(spans, parents)
    attributes = [raw.attributes for raw in (newest.get(span.id) for span in ordered) if raw]
    attributes += [note.attributes for note in notes]
    resource = _resource(newest.values())
    said = _first_said((*attributes, resource))
    trace = Trace(
        id=TraceId(trace_id),
        spans=ordered,
        session_id=_some(said, _SESSION),
        user_id=_some(said, _USER),
        environment=_some(said, _ENVIRONMENT),
        release=_some(said, _RELEASE),
        own=is_own(attributes, resource),
        orphans=len(orphans),
        pending=pending,
        timeless=timeless,
        name=_some(said, _NAME),
        version=_some(said, _VERSION),
        tags=_tags(attributes),
        scores=_scores(notes, newest.values()),
        resource={k: v for k, v in resource.items() if isinstance(v, str | int | float | bool)},
    )
    halves = marks.get("late_halves", 0)
    return Built(
        trace=trace,
        spans=len(records) - halves,
        duplicates=len(records) - len(newest) - halves,
        truncated=texts.cut,
        text_bytes=texts.bytes,
        marks=marks,
    )


def _to_roots(
    newest: Mapping[str, RawSpan], parents: Mapping[str, str | None], notes: Iterable[RawNote]
) -> None:
    """What a trace record says of input and output stands in for a root that recorded none."""
    top = min(
        (key for key, parent in parents.items() if parent is None),
        key=lambda k: (newest[k].parent_id is not None, newest[k].start_ns or 0, k),
    )
    attributes = newest[top].attributes
    for note in notes:
        for theirs, ours in _TRACE_IO:
            value = note.attributes.get(theirs)
            if value is not None and not any(k in attributes for k in (ours, theirs)):
                attributes[ours] = value


def _tags(attributes: Iterable[Mapping[str, Json]]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for one in attributes:
        for key in _TAGS:
            value = one.get(key)
            if isinstance(value, list):
                found.update(dict.fromkeys(tag[:128] for tag in value if isinstance(tag, str)))
    return tuple(found)[:MAX_TAGS]


def _scores(notes: Iterable[RawNote], spans: Iterable[RawSpan]) -> tuple[Score, ...]:
    """Every score but our own, once, in an order that does not depend on how the records came."""
    scores = {score: None for note in notes for score in note.scores}
    scores |= {score: None for raw in spans if raw.events for score in evaluations(raw)}
    theirs = (score for score in scores if not score.name.startswith(OWN_SCORE))
    return tuple(sorted(theirs, key=lambda s: (s.name, s.span_id or "", str(s.at), repr(s))))


def is_own(attributes: Iterable[Mapping[str, Json]], resource: Mapping[str, Json]) -> bool:
    """Whether one of our own probe runs recorded this, by environment, project or run id."""
    return any(_says_own(one) for one in (resource, *attributes))


def _says_own(one: Mapping[str, Json]) -> bool:
    if RUN_ID in one or any(one.get(key) == OWN_ENVIRONMENT for key in _OWN_KEYS):
        return True
    metadata = one.get("metadata")
    return isinstance(metadata, str | dict) and RUN_ID in metadata


def in_window(trace: Trace, query: TraceQuery, environment: str | None = None) -> bool:
    """Whether the trace starts in the window and is of the environment that is asked for.

    Our own traces are of every environment: they are counted wherever they stand.
    """
    if trace.timeless and (query.start or query.end):
        return False
    start = trace.started_at
    if query.start is not None and start < query.start:
        return False
    if query.end is not None and start >= query.end:
        return False
    return trace.own or all(
        asked is None or trace.environment == asked for asked in (environment, query.environment)
    )


def _parents(newest: Mapping[str, RawSpan]) -> tuple[dict[str, str | None], list[str]]:
    """The parent of each span, and the ids whose parent is missing or part of a cycle."""
    parents: dict[str, str | None] = {}
    orphans: list[str] = []
    for key, raw in newest.items():
        there = raw.parent_id in newest and raw.parent_id != key
        parents[key] = raw.parent_id if there else None
        if raw.parent_id and not there and AS_ROOT not in raw.attributes:
            orphans.append(key)
    settled: set[str] = set()
    for key in newest:
        path: dict[str, None] = {}
        here: str | None = key
        while here is not None and here not in settled and here not in path:
            path[here] = None
            here = parents[here]
        if here is not None and here in path:
            cycle = list(path)[list(path).index(here) :]
            cut = min(cycle, key=lambda k: (newest[k].start_ns or 0, k))
            parents[cut] = None
            orphans.append(cut)
        settled.update(path)
    return parents, sorted(orphans)


def _fill_times(spans: dict[str, Span], newest: Mapping[str, RawSpan]) -> None:
    """A span without a start takes the earliest known one of its trace."""
    known = [raw.start_ns for raw in newest.values() if raw.start_ns is not None]
    earliest = when(min(known)) if known else EPOCH
    for key, raw in newest.items():
        if raw.start_ns is None:
            start = min(earliest, when(raw.end_ns)) if raw.end_ns else earliest
            spans[key] = replace(spans[key], started_at=start)


def _leaf_usage(spans: dict[str, Span], parents: Mapping[str, str | None]) -> None:
    counted: set[str] = set()  # spans above a model call that carries usage itself
    for key, span in spans.items():
        if span.kind in ("llm", "embedding") and _has_usage(span):
            above = parents[key]
            while above is not None and above not in counted:
                counted.add(above)
                above = parents[above]
    for key, span in spans.items():
        if _has_usage(span) and (span.kind not in ("llm", "embedding") or key in counted):
            spans[key] = replace(span, input_tokens=None, output_tokens=None, cost_usd=None)


def _has_usage(span: Span) -> bool:
    return (
        span.input_tokens is not None or span.output_tokens is not None or span.cost_usd is not None
    )


def _virtual_root(
    trace_id: str,
    spans: Mapping[str, Span],
    parents: Mapping[str, str | None],
    orphans: list[str],
) -> Span:
    """A span that holds the pieces of a torn tree, with the request of the only or earliest one."""
    tops = [spans[key] for key, parent in parents.items() if parent is None]
    real = [span for span in tops if span.id not in orphans]
    top = min(real or tops, key=lambda s: (s.started_at, s.id))
    alone = len(real) == 1 or len(tops) == 1
    ends = [span.ended_at for span in spans.values() if span.ended_at is not None]
    made = f"virtual-{trace_id}"
    while made in spans:  # recorded by somebody who read such a trace from us
        made += "-"
    return Span(
        id=SpanId(made),
        trace_id=TraceId(trace_id),
        parent_id=None,
        name=top.name,
        kind="other",
        status="unset",
        started_at=min(span.started_at for span in spans.values()),
        ended_at=max(ends, default=None),
        input=top.input,
        output=top.output if alone else None,
        virtual=True,
    )


def _ordered(spans: Mapping[str, Span], parents: Mapping[str, str | None]) -> tuple[Span, ...]:
    """By start time, with every parent before its children."""
    keys = sorted(spans, key=lambda key: (spans[key].started_at, key))
    seen: set[str | None] = {None}
    for key in keys:
        if parents[key] not in seen:  # a child that starts before its parent
            keys = _parents_first(spans, parents)
            break
        seen.add(key)
    out = []
    for key in keys:
        span, parent = spans[key], parents[key]
        if span.parent_id != parent:
            span = replace(span, parent_id=SpanId(parent) if parent else None)
        out.append(span)
    return tuple(out)


def _parents_first(spans: Mapping[str, Span], parents: Mapping[str, str | None]) -> list[str]:
    children: dict[str | None, list[str]] = {}
    for key, parent in parents.items():
        children.setdefault(parent, []).append(key)
    ready = [(spans[key].started_at, key) for key in children.get(None, ())]
    heapq.heapify(ready)
    out: list[str] = []
    while ready:
        _, key = heapq.heappop(ready)
        out.append(key)
        for child in children.get(key, ()):
            heapq.heappush(ready, (spans[child].started_at, child))
    return out


def _first_said(sources: Iterable[Mapping[str, Json]]) -> dict[str, str]:
    """The first text under each of the keys that say something of the whole trace."""
    found: dict[str, str] = {}
    wanted = list(_TRACE_KEYS)
    for source in sources:
        for key in wanted:
            value = source.get(key)
            if value is not None and isinstance(value, str) and value:
                found[key] = value
        if len(found) + len(wanted) > len(_TRACE_KEYS):
            wanted = [key for key in wanted if key not in found]
    return found


def _some(said: Mapping[str, str], keys: tuple[str, ...]) -> str | None:
    return next((said[key][:256] for key in keys if key in said), None)


def _resource(raws: Iterable[RawSpan]) -> dict[str, Json]:
    """The union of all resources; where they differ, the value of the smallest span id stands."""
    spans = list(raws)
    first = spans[0].resource
    if all(raw.resource is first for raw in spans):
        return dict(first)
    merged: dict[str, Json] = {}
    for raw in sorted(spans, key=lambda r: r.span_id, reverse=True):
        merged.update(raw.resource)
    return merged
