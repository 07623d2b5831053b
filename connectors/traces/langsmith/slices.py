"""Whole traces from runs listed slice of time by slice of time.

All runs of a slice are listed, not its roots: pages are full, and runs whose root was never sent
are seen too. A trace belongs to the slice of its first run. There may be more runs of it elsewhere:
later ones where it outlasts the slice, earlier ones where a parent is missing. Those are asked for
by trace.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from connectors.traces.calls import BadRequest, TooMuch
from connectors.traces.langsmith.asking import Ask, Reader, Run, What, read_all
from connectors.traces.langsmith.rows import to_raw
from connectors.traces.raw import RawSpan
from contracts.errors import SourceError

SECOND_NS: Final = 1_000_000_000
DAY_NS: Final = 86_400 * SECOND_NS
FIRST_NS: Final = 1_577_836_800 * SECOND_NS
"""The start of 2020: no run is older."""
SETTLE_NS: Final = 60 * SECOND_NS
"""A trace that was active so shortly before the end of a slice may have more behind it."""
TRACES_ASKED: Final = 50  # in one question by trace


@dataclass(slots=True)
class Gathered:
    """What is known of one trace."""

    trace_id: str
    runs: dict[str, Run] = field(default_factory=dict)
    spans: dict[str, RawSpan] = field(default_factory=dict)

    def add(self, run: Run, span: RawSpan) -> None:
        self.runs[span.span_id] = run
        self.spans[span.span_id] = span

    @property
    def begins_ns(self) -> int:
        """Start of its first run."""
        return min((s.start_ns for s in self.spans.values() if s.start_ns), default=0)

    @property
    def active_ns(self) -> int | None:
        """The last moment at which it is known to have done something; None: still open."""
        if any(s.open for s in self.spans.values()):
            return None
        return max((s.end_ns or s.start_ns or 0 for s in self.spans.values()), default=0)

    @property
    def rooted(self) -> bool:
        return any(s.parent_id is None for s in self.spans.values())

    @property
    def torn(self) -> bool:
        """A parent is missing."""
        return any(s.parent_id and s.parent_id not in self.spans for s in self.spans.values())


def gathered(runs: Iterable[Run], project: str) -> tuple[dict[str, Gathered], int]:
    """(traces by id, runs without a usable id)."""
    traces: dict[str, Gathered] = {}
    nameless = 0
    for run in runs:
        span = to_raw(run, project=project)
        if span is None:
            nameless += 1
        else:
            traces.setdefault(span.trace_id, Gathered(span.trace_id)).add(run, span)
    return traces, nameless


class Lost(Protocol):
    """Told of a trace that is too large to be read."""

    def __call__(self, trace_id: str, error: SourceError, /) -> None: ...


@dataclass(slots=True, kw_only=True)
class Completing:
    """Makes the traces of a slice whole."""

    reader: Reader
    project: str
    now_ns: int
    lost: Lost
    ahead: set[str]
    """Traces that were given away before the slice of their root came."""
    one_by_one: bool = False
    """The server does not know the question for several traces."""

    async def completed(
        self, runs: Mapping[str, Run], start_ns: int, end_ns: int
    ) -> tuple[list[Gathered], int]:
        """(whole traces whose first run is in the slice, runs without a usable id)."""
        traces, nameless = gathered(runs.values(), self.project)
        for key in traces.keys() & self.ahead:
            del traces[key]
        await self._leave_older_out(traces, start_ns)
        torn = [key for key, one in traces.items() if one.torn or not one.rooted]
        await self._read_again(traces, torn, start_ns - DAY_NS, self._far(end_ns))
        later = [
            key for key, one in traces.items() if key not in torn and self._may_go_on(one, end_ns)
        ]
        await self._read_again(traces, later, end_ns, self._far(end_ns))
        whole = [one for one in traces.values() if start_ns <= one.begins_ns < end_ns]
        for one in whole:
            roots = [s for s in one.spans.values() if s.parent_id is None]
            if any((s.start_ns or 0) >= end_ns for s in roots):
                self.ahead.add(one.trace_id)
        return sorted(whole, key=lambda one: (one.begins_ns, one.trace_id)), nameless

    def _may_go_on(self, one: Gathered, end_ns: int) -> bool:
        active = one.active_ns
        return end_ns < self.now_ns and (active is None or active >= end_ns - SETTLE_NS)

    def _far(self, end_ns: int) -> int:
        return max(self.now_ns, end_ns) + DAY_NS

    async def _leave_older_out(self, traces: dict[str, Gathered], start_ns: int) -> None:
        """Drop the traces whose root began before the slice. A root's id is that of its trace."""
        headless = [key for key, one in traces.items() if not one.rooted]
        most = self.reader.most_ids
        for at in range(0, len(headless), most):
            ids = tuple(headless[at : at + most])
            ask = Ask(start_ns=FIRST_NS, end_ns=self._far(start_ns), what="steps", ids=ids)
            for run in (await read_all(self.reader, ask, size=self.reader.page_size)).values():
                span = to_raw(run, project=self.project)
                if span and span.start_ns is not None and span.start_ns < start_ns:
                    traces.pop(span.trace_id, None)

    async def _read_again(
        self, traces: dict[str, Gathered], ids: Sequence[str], start_ns: int, end_ns: int
    ) -> None:
        """Add these traces' runs of another time; a trace that cannot be read is dropped."""
        stack = [tuple(ids[at : at + TRACES_ASKED]) for at in range(0, len(ids), TRACES_ASKED)]
        while stack:
            some = stack.pop()
            if self.one_by_one and len(some) > 1:
                stack += [(one,) for one in some]
                continue
            try:
                runs = await self.of_traces(some, start_ns, end_ns)
            except (TooMuch, BadRequest) as error:
                self.one_by_one |= isinstance(error, BadRequest)
                half = len(some) // 2
                if half:
                    stack += [some[half:], some[:half]]
                    continue
                traces.pop(some[0], None)
                self.lost(some[0], error)
                continue
            for run in runs.values():
                span = to_raw(run, project=self.project)
                if span is not None and span.trace_id in traces:
                    traces[span.trace_id].add(run, span)

    async def of_traces(
        self, trace_ids: tuple[str, ...], start_ns: int, end_ns: int, *, what: What | None = None
    ) -> dict[str, Run]:
        """Runs of these traces that start in that time."""
        ask = Ask(
            start_ns=max(start_ns, FIRST_NS),
            end_ns=end_ns,
            what=what or self.reader.listed,
            trace_ids=trace_ids,
        )
        return await read_all(self.reader, ask, size=self.reader.page_size)
