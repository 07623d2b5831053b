"""What the end-to-end time of a trace is made of: step by step, with the gaps between them.

Walked from the end of the trace back: at each moment the time belongs to the deepest step that was
running and ended last, and what no step below accounts for belongs to the step above it. For a step
that holds others that is time in which nothing below it ran: a wait, or work that nobody recorded.
Steps that ran beside the path (and ended before it needed them) add nothing.

Known limits. A step that was never closed takes no time. A child that outlives its parent is cut at
its parent's end. Two clocks that differ move gaps about.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from contracts.traces import Span, SpanId, Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Seconds of the path that one step accounts for."""

    span: Span
    seconds: float
    wait: bool
    """Nothing below this step ran, though it holds others."""
    after: str | None = None
    """Of a wait: the step that ended before it; None: it is at the beginning."""
    before: str | None = None
    """Of a wait: the step that began after it; None: it is at the end."""


def children_of(trace: Trace) -> dict[SpanId, list[Span]]:
    """Spans by parent."""
    children: dict[SpanId, list[Span]] = {}
    for span in trace.spans:
        if span.parent_id is not None:
            children.setdefault(span.parent_id, []).append(span)
    return children


def critical_path(trace: Trace) -> list[Piece]:
    """The pieces, last first; their seconds add up to the root's. Empty without times.

    Every span is looked at once, its children sorted once.
    """
    if trace.timeless:
        return []
    children = children_of(trace)
    start, end = extent(trace)
    pieces: list[Piece] = []
    stack: list[tuple[Span, float, float]] = [(trace.root, start, end)]
    while stack:
        span, begin, until = stack.pop()
        stack.extend(_within(span, begin, until, children, pieces))
    return pieces


def extent(trace: Trace) -> tuple[float, float]:
    """Begin and end of a trace as Unix seconds: its root's, or all of it where that is open."""
    root = trace.root
    start = root.started_at.timestamp()
    if root.ended_at is not None and not root.virtual:
        return start, max(start, root.ended_at.timestamp())
    start = min(span.started_at.timestamp() for span in trace.spans)
    ends = [span.ended_at.timestamp() for span in trace.spans if span.ended_at is not None]
    return start, max([start, *ends])


def _within(
    span: Span,
    begin: float,
    until: float,
    children: Mapping[SpanId, Sequence[Span]],
    pieces: list[Piece],
) -> list[tuple[Span, float, float]]:
    """Add the span's own pieces between its children; returns the children to go into."""
    below = [
        (child.started_at.timestamp(), child.ended_at.timestamp(), child)
        for child in children.get(span.id, ())
        if child.ended_at is not None
    ]
    into: list[tuple[Span, float, float]] = []
    at, following = until, None
    # The order of children of equal times is by id: the path is the same for every order of input.
    for started, ended, child in sorted(below, key=lambda c: (-c[1], -c[0], c[2].id)):
        stop = min(ended, at)
        if started >= at or stop <= begin:
            continue
        if at > stop:
            pieces.append(_wait(span, at - stop, child.name, following))
        into.append((child, max(started, begin), stop))
        at, following = max(started, begin), child.name
        if at <= begin:
            break
    if at > begin:
        pieces.append(
            _wait(span, at - begin, None, following)
            if into
            else Piece(span=span, seconds=at - begin, wait=False)
        )
    return into


def _wait(span: Span, seconds: float, after: str | None, before: str | None) -> Piece:
    return Piece(span=span, seconds=seconds, wait=True, after=after, before=before)
