"""Where spans lie under each other, worked out once a trace: what began below a step, and when."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from datetime import datetime

from contracts.traces import Span, SpanId
from nodes.insights.detect.view import View


class Nesting:
    """Answers about descendants without walking the tree again for every question."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._order: list[Span] = _preorder(view)
        self._at = {span.id: index for index, span in enumerate(self._order)}
        self._size: dict[SpanId, int] = {}
        self._latest: dict[SpanId, datetime] = {}
        self._best: dict[SpanId, list[tuple[datetime, SpanId]]] = {}
        for span in reversed(self._order):
            self._sum_up(span)

    def _sum_up(self, span: Span) -> None:
        size, latest = 1, span.started_at
        best: list[tuple[datetime, SpanId]] = []
        for child in self._view.children.get(span.id, ()):
            size += self._size[child.id]
            latest = max(latest, self._latest[child.id])
            best.append((self._latest[child.id], child.id))
        self._size[span.id], self._latest[span.id] = size, latest
        self._best[span.id] = sorted(best, reverse=True)[:2]

    def among(self, marked: Iterable[SpanId]) -> "Marked":
        """Some spans, to be asked which of them lie under another."""
        return Marked(sorted(self._at[one] for one in marked if one in self._at), self)

    def under(self, span: Span, positions: list[int]) -> Iterator[Span]:
        """Those of the positions that lie under the span, parents first."""
        at = self._at[span.id]
        low = bisect_right(positions, at)
        high = bisect_left(positions, at + self._size[span.id])
        for index in range(low, high):
            yield self._order[positions[index]]

    def began_after(self, outer: Span, failed: Span, when: datetime) -> bool:
        """Whether something under `outer`, outside `failed`, began at this time or later."""
        below: SpanId = failed.id
        parent = failed.parent_id
        while parent is not None and parent in self._at:
            if any(latest >= when for latest, child in self._best[parent] if child != below):
                return True
            if parent == outer.id:
                return False
            if self._view.by_id[parent].started_at >= when:
                return True
            below, parent = parent, self._view.by_id[parent].parent_id
        return False


class Marked:
    """Spans of one kind by their place in the tree."""

    def __init__(self, positions: list[int], nesting: Nesting) -> None:
        self._positions = positions
        self._nesting = nesting

    def under(self, span: Span) -> Iterator[Span]:
        """Those that lie under the span, parents first."""
        return self._nesting.under(span, self._positions)


def _preorder(view: View) -> list[Span]:
    order: list[Span] = []
    stack = [s for s in reversed(view.trace.spans) if s.parent_id not in view.by_id]
    while stack:
        span = stack.pop()
        order.append(span)
        stack.extend(view.children.get(span.id, ()))
    return order
