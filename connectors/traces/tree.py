"""Recorded spans of one trace, in any order, to one ordered tree."""

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from connectors.traces.messages import Texts
from connectors.traces.normalise import EPOCH, to_span, when
from connectors.traces.raw import RawSpan, as_text
from contracts.json_types import Json, sha256_hex
from contracts.traces import Span, SpanId, Trace, TraceId

OWN_ENVIRONMENT = "tracemend-gate"
RUN_ID = "tracemend.run_id"
_ENVIRONMENT = ("langfuse.environment", "deployment.environment.name", "deployment.environment")
_SESSION = ("langfuse.session.id", "session.id", "gen_ai.conversation.id")
_USER = ("langfuse.user.id", "user.id", "enduser.id")
_RELEASE = ("langfuse.release", "service.version")


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A trace and what was counted while it was put together."""

    trace: Trace
    spans: int
    duplicates: int
    truncated: int
    text_bytes: int
    """Kept text of its payloads; what a batch weighs."""


def build_trace(raws: Iterable[RawSpan], cap: int) -> Built:
    """One trace of all its recorded spans; the same for every order in which they come.

    Of several records of one span the newest stays. Orphans hang under a virtual root; a cycle is
    cut at its earliest span, which becomes an orphan. Tokens and cost stay only at model calls
    without a model call beneath that carries them, so that no total counts a token twice.

    Args:
        raws: records of one trace id, at least one.
        cap: characters of a message and bytes of a payload that are kept.
    """
    records = list(raws)
    newest: dict[str, RawSpan] = {}
    for raw in records:
        other = newest.get(raw.span_id)
        if other is None or _age(raw) > _age(other):
            newest[raw.span_id] = raw
    parents, orphans = _parents(newest)
    texts = Texts(cap)
    trace_id = records[0].trace_id
    spans = {key: to_span(raw, texts) for key, raw in newest.items()}
    _fill_times(spans, newest)
    _leaf_usage(spans, parents)
    virtual: Span | None = None
    if orphans:
        virtual = _virtual_root(trace_id, spans, parents, orphans)
        parents.update(dict.fromkeys(orphans, virtual.id))
        parents.update({key: virtual.id for key, parent in parents.items() if parent is None})
        spans[virtual.id] = virtual
        parents[virtual.id] = None
    ordered = _ordered(spans, parents)
    attributes = [raw.attributes for raw in (newest.get(span.id) for span in ordered) if raw]
    resource = _resource(newest.values())
    trace = Trace(
        id=TraceId(trace_id),
        spans=ordered,
        session_id=_some(attributes, resource, _SESSION),
        user_id=_some(attributes, resource, _USER),
        environment=_some(attributes, resource, _ENVIRONMENT),
        release=_some(attributes, resource, _RELEASE),
        own=is_own(attributes, resource),
        orphans=len(orphans),
        resource={k: v for k, v in resource.items() if isinstance(v, str | int | float | bool)},
    )
    return Built(
        trace=trace,
        spans=len(records),
        duplicates=len(records) - len(newest),
        truncated=texts.cut,
        text_bytes=texts.bytes,
    )


def is_own(attributes: Iterable[Mapping[str, Json]], resource: Mapping[str, Json]) -> bool:
    """Whether one of our own probe runs recorded this, by environment or by run id."""
    if RUN_ID in resource or any(resource.get(key) == OWN_ENVIRONMENT for key in _ENVIRONMENT):
        return True
    return any(
        RUN_ID in a
        or any(a.get(key) == OWN_ENVIRONMENT for key in _ENVIRONMENT)
        or RUN_ID in as_text(a.get("metadata"))
        for a in attributes
    )


def _age(raw: RawSpan) -> tuple[int, int, int, str]:
    """Later ends are newer; what still ties is told apart by content, never by order."""
    known = (raw.end_ns or -1, raw.start_ns or -1, len(raw.attributes))
    text = f"{raw.status}{raw.status_message}{raw.name}{raw.parent_id}{raw.attributes}{raw.events}"
    return (*known, sha256_hex(text.encode("utf-8", "surrogatepass")))


def _parents(newest: Mapping[str, RawSpan]) -> tuple[dict[str, str | None], list[str]]:
    """The parent of each span, and the ids whose parent is missing or part of a cycle."""
    parents: dict[str, str | None] = {}
    orphans: list[str] = []
    for key, raw in newest.items():
        there = raw.parent_id in newest and raw.parent_id != key
        parents[key] = raw.parent_id if there else None
        if raw.parent_id and not there:
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
    return any(x is not None for x in (span.input_tokens, span.output_tokens, span.cost_usd))


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
    return Span(
        id=SpanId(f"virtual-{trace_id}"),
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
    children: dict[str | None, list[str]] = {}
    for key, parent in parents.items():
        children.setdefault(parent, []).append(key)
    ready = [(spans[key].started_at, key) for key in children.get(None, ())]
    heapq.heapify(ready)
    out: list[Span] = []
    while ready:
        _, key = heapq.heappop(ready)
        parent = parents[key]
        span = spans[key]
        if span.parent_id != parent:
            span = replace(span, parent_id=SpanId(parent) if parent else None)
        out.append(span)
        for child in children.get(key, ()):
            heapq.heappush(ready, (spans[child].started_at, child))
    return tuple(out)


def _some(
    attributes: Iterable[Mapping[str, Json]], resource: Mapping[str, Json], keys: tuple[str, ...]
) -> str | None:
    for key in keys:
        for source in (*attributes, resource):
            value = source.get(key)
            if isinstance(value, str) and value:
                return value[:256]
    return None


def _resource(raws: Iterable[RawSpan]) -> dict[str, Json]:
    """The union of all resources; where they differ, the value of the smallest span id stands."""
    merged: dict[str, Json] = {}
    for raw in sorted(raws, key=lambda r: r.span_id, reverse=True):
        merged.update(raw.resource)
    return merged
