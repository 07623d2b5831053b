"""Whole traces of a window, newest first, in bounded memory, and from where a read can go on.

A reader lists the traces that have a span in the window, newest first; groups of them are then
read whole, some ahead. What was listed may be listed again by an older span of it: ids are kept
until the list has passed the trace's first span. So the place of a read is a time and the few
traces that reach across it, and it does not depend on a cursor of the server.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

from connectors.traces.collect import Collector
from connectors.traces.langfuse.paging import iso
from connectors.traces.raw import Raw, RawSpan, as_id, as_int
from contracts.errors import SourceError
from contracts.json_types import Json, sha256_hex
from contracts.traces import Trace

MS: Final = 1_000_000
GROUP_ROWS = 2000  # rows that one group of traces should have
GROUPS_AHEAD = 3
BATCH_BYTES = 32 << 20  # of recorded text in one batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The window as a reader asks for it; None is unbounded."""

    low_ns: int | None
    high_ns: int | None
    environments: tuple[str, ...] = ()


class Reader(Protocol):
    """One generation of the API."""

    name: str
    why: str
    listed: int
    """Pages of the list that came."""
    slack_ns: int
    """How far a listed time may lie beside the start of the trace's first span."""

    def starts(self, bounds: Bounds) -> AsyncIterator[tuple[str, int]]:
        """(trace id as recorded, start of one of its spans), newest first; ids may come again."""
        ...

    async def read(self, trace_ids: Sequence[str]) -> Mapping[str, list[Raw]]:
        """All records of these traces; what cannot be read is listed in the collector."""
        ...


class Given:
    """Which traces were listed already, as long as they can be listed again."""

    def __init__(self, place: Mapping[str, Json] | None) -> None:
        self._starts: dict[str, int | None] = {}
        known = (place or {}).get("seen")
        if isinstance(known, dict):
            self._starts = {key: (as_int(ms) or 0) * MS for key, ms in known.items()}

    def is_new(self, trace_id: str) -> bool:
        """Whether the trace was not listed before; from now on it was."""
        key = _short(trace_id)
        if key in self._starts:
            return False
        self._starts[key] = None
        return True

    def settle(self, trace_id: str, start_ns: int) -> None:
        """The trace was given away; it began then."""
        self._starts[_short(trace_id)] = start_ns

    def place(self, boundary_ns: int) -> dict[str, Json]:
        """Everything at or after `boundary_ns` was given away; forgets what lies behind it."""
        behind = [k for k, s in self._starts.items() if s is not None and s >= boundary_ns]
        for key in behind:
            del self._starts[key]
        seen = {k: s // MS for k, s in self._starts.items() if s is not None}
        return {"to": boundary_ns, "seen": seen}


@dataclass(slots=True)
class _Group:
    ids: list[str]
    at_ns: list[int]
    task: "asyncio.Task[Mapping[str, list[Raw]]]"


class Stream:
    """One read of a window."""

    def __init__(
        self,
        reader: Reader,
        collector: Collector,
        bounds: Bounds,
        *,
        place: Mapping[str, Json] | None,
        batch_traces: int,
    ) -> None:
        self._reader = reader
        self._collector = collector
        self._bounds = bounds
        self._given = Given(place)
        self._batch = batch_traces
        self._rows_a_trace = 20.0
        self._room = asyncio.Semaphore(GROUPS_AHEAD)
        self._groups: asyncio.Queue[_Group | Exception | None] = asyncio.Queue()
        self._tasks: set[asyncio.Task[Mapping[str, list[Raw]]]] = set()
        to = as_int((place or {}).get("to"))
        widest = None if bounds.high_ns is None else bounds.high_ns + reader.slack_ns
        self._boundary = to if to is not None else widest
        self.place: dict[str, Json] | None = dict(place) if place else None
        """From where another read would go on."""

    async def batches(self) -> AsyncGenerator[tuple[Trace, ...]]:
        """Traces in batches; `place` is that of the batch given last.

        Raises:
            SourceError: nothing was read at all.
        """
        lister = asyncio.create_task(self._list())
        try:
            while (group := await self._groups.get()) is not None:
                if isinstance(group, SourceError):
                    self._broke_off(group)
                    return
                if isinstance(group, Exception):
                    raise group
                try:
                    found = await group.task
                except SourceError as error:
                    self._broke_off(error)
                    return
                finally:
                    self._room.release()
                for traces in self._built(group, found):
                    yield traces
            self.place = {"done": True}
        finally:
            for task in (lister, *self._tasks):
                task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(lister, *self._tasks, return_exceptions=True)

    async def _list(self) -> None:
        """Make groups of the listed traces and begin to read them; ends with None or an error."""
        ids: list[str] = []
        at: list[int] = []
        low = self._bounds.low_ns
        bounds = Bounds(
            low_ns=None if low is None else low - self._reader.slack_ns,
            high_ns=self._boundary,
            environments=self._bounds.environments,
        )
        end: Exception | None = None
        try:
            async for trace_id, at_ns in self._reader.starts(bounds):
                if not self._given.is_new(trace_id):
                    continue
                ids.append(trace_id)
                at.append(at_ns)
                if len(ids) >= min(self._batch, max(1, int(GROUP_ROWS / self._rows_a_trace))):
                    await self._begin(ids, at)
                    ids, at = [], []
        except Exception as error:  # noqa: BLE001  # raised where the traces are awaited
            end = error
        if ids:
            await self._begin(ids, at)
        self._groups.put_nowait(end)

    async def _begin(self, ids: list[str], at: list[int]) -> None:
        await self._room.acquire()
        task = asyncio.create_task(self._read(ids))
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        self._groups.put_nowait(_Group(ids, at, task))

    def _ended(self, task: "asyncio.Task[Mapping[str, list[Raw]]]") -> None:
        """Looked at even where nobody awaits it any more, else asyncio prints its error."""
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()

    async def _read(self, ids: list[str]) -> Mapping[str, list[Raw]]:
        found = await self._reader.read(ids)
        rows = sum(len(records) for records in found.values())
        self._rows_a_trace += (max(1.0, rows / len(ids)) - self._rows_a_trace) / 2
        return found

    def _built(self, group: _Group, found: Mapping[str, list[Raw]]) -> Iterator[tuple[Trace, ...]]:
        """The group's traces in order; `place` moves on with every part of it."""
        ready: list[Trace] = []
        size = 0
        for number, (trace_id, at_ns) in enumerate(zip(group.ids, group.at_ns, strict=True), 1):
            records = found.get(trace_id, [])
            starts = [r.start_ns for r in records if isinstance(r, RawSpan) and r.start_ns]
            self._given.settle(trace_id, min([at_ns, *starts]))
            self._collector.add(records)
            taken = self._collector.take([as_id(trace_id, 16) or trace_id])
            ready += taken
            size += sum(_weight(trace) for trace in taken)
            if number == len(group.ids) or size >= BATCH_BYTES:
                self._boundary = at_ns - at_ns % MS + MS
                self.place = self._given.place(self._boundary)
                yield tuple(ready)
                ready, size = [], 0

    def _broke_off(self, error: SourceError) -> None:
        if not self._reader.listed:
            raise error
        when = "at all" if self._boundary is None else f"that start before {iso(self._boundary)}"
        self._collector.skip("langfuse", f"traces {when} were not read: {error}", partial=True)


def _short(trace_id: str) -> str:
    """Enough of an id's hash to tell the traces of a window apart."""
    return sha256_hex(trace_id.encode("utf-8", "surrogatepass"))[:16]


def _weight(trace: Trace) -> int:
    payloads = (p for span in trace.spans for p in (span.input, span.output) if p is not None)
    return sum(len(payload.text) for payload in payloads)
