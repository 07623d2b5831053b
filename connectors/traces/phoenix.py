"""Traces of a Phoenix server, over its REST API.

Source: Phoenix REST API, version tried: 20.26.1; what is asked for stands in `phoenix_pages`.
`.../spans/otlpv1` carries less than `.../spans`: nested values come back empty there.

Ids come first and spans after, a few traces at a time: so every trace is whole, memory does not
grow with the window, and the place to go on from is the start of the last trace given away.
Phoenix keeps no resource attributes: an environment, a release or a run id that was recorded only
there is not known of its traces.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from pydantic import SecretStr

from connectors.traces.calls import Budget, CallError, Calls, Limit, TooMuch
from connectors.traces.collect import Collector
from connectors.traces.cursors import read_cursor, write_cursor
from connectors.traces.normalise import when
from connectors.traces.phoenix_pages import Listed, Pages
from connectors.traces.phoenix_rows import size_of, span_of
from connectors.traces.raw import RawNote, RawSpan, as_text, clean_id
from connectors.traces.waits import read_date
from contracts.errors import SourceError
from contracts.json_types import Json
from contracts.traces import SourceInfo, Trace, TraceBatch, TraceId, TraceQuery

READER: Final = "phoenix-rest"
FIRST_CHUNK: Final = 16  # traces whose spans are asked for together, at first
MAX_CHUNK: Final = 50  # ids of 32 characters in one address: 2 kB, which every proxy takes
MAX_LOST: Final = 3  # traces in a row that cannot be read, after which the server counts as broken
_DOWN: Final = frozenset({502, 503, 504})  # says nothing of one trace
MAX_WAITING_BYTES: Final = 64 << 20
YOUNG: Final = timedelta(minutes=2)
"""A trace without its root whose last step is no older may still run: Phoenix learns of a step when
it ends, and of the root last."""
_HINT: Final = "set PHOENIX_API_KEY to a key of this server"


class PhoenixSource:
    """Recorded traces of one Phoenix project; implements `contracts.protocols.TraceSource`."""

    def __init__(
        self,
        *,
        base_url: str,
        project: str = "default",
        api_key: SecretStr | None = None,
        budget_s: float = 600,
        payload_cap_bytes: int = 256 << 10,
        batch_traces: int = 100,
        max_waiting_bytes: int = MAX_WAITING_BYTES,
        environment: str | None = None,
        name: str = "phoenix",
        limits: Mapping[str, Limit] | None = None,
        timeout_s: float = 60,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.name = name
        self._project = project
        self._base_url = base_url.rstrip("/")
        self._where = f"{name}:{project}"
        self._cap = payload_cap_bytes
        self._chunk = min(batch_traces, MAX_CHUNK)
        self._max_waiting = max_waiting_bytes
        self._environment = environment
        self._key = api_key.get_secret_value() if api_key is not None else ""
        self._budget_s = budget_s
        self._limits = limits or {}
        self._timeout_s = timeout_s
        self._sleep = sleep

    async def check(self) -> SourceInfo:
        """Whether the project can be read, and its newest trace. Never raises for the outside."""
        calls = self._calls(min(self._budget_s, 30))
        try:
            newest = await Pages(calls, self.name, self._project).newest()
        except CallError as error:
            return SourceInfo(
                source=self._where, reachable=False, reader="none", detail=str(error),
                clock_offset_s=calls.clock_offset_s,
            )  # fmt: skip
        finally:
            await calls.aclose()
        return SourceInfo(
            source=self._where,
            reachable=True,
            reader=READER,
            detail="" if newest else "no traces in this project",
            newest=read_date(newest.start) if newest else None,
            limits="none stated",
            clock_offset_s=calls.clock_offset_s,
        )

    async def window(self, query: TraceQuery) -> AsyncIterator[TraceBatch]:
        """Whole traces that start in the window, earliest first.

        Raises:
            UsageError: the cursor is of another read.
            SourceError: the backend failed before anything was read.
        """
        calls = self._calls(self._budget_s)
        try:
            async for batch in self._read(calls, query).batches():
                yield batch
        finally:
            await calls.aclose()

    async def trace(self, trace_id: TraceId) -> Trace:
        """One whole trace, our own included.

        Raises:
            SourceError: there is no such trace, or the backend failed.
        """
        calls = self._calls(self._budget_s)
        try:
            found = await self._read(calls, TraceQuery()).one(str(trace_id))
        finally:
            await calls.aclose()
        if found is None:
            raise SourceError(
                f"no trace {trace_id!r} in {self._where}", backend=self.name, operation="trace"
            )
        return found

    def _read(self, calls: Calls, query: TraceQuery) -> "_Read":
        collector = Collector(
            source=self._where, reader=READER, query=query, cap=self._cap,
            environment=self._environment,
        )  # fmt: skip
        pages = Pages(calls, self.name, self._project)
        identity: Json = [self._base_url, self._project, _iso(query.start), _iso(query.end)]
        return _Read(
            calls, pages, collector, query, identity,
            chunk=self._chunk, max_waiting=self._max_waiting,
        )  # fmt: skip

    def _calls(self, budget_s: float) -> Calls:
        return Calls(
            backend=self.name,
            base_url=self._base_url,
            headers={"authorization": f"Bearer {self._key}"} if self._key else {},
            key=self._key,
            budget=Budget(budget_s),
            limits=self._limits,
            timeout_s=self._timeout_s,
            hint=_HINT,
            sleep=self._sleep,
        )


class _Read:
    """One read of a window: which traces, then their spans, a chunk at a time."""

    def __init__(
        self, calls: Calls, pages: Pages, collector: Collector, query: TraceQuery, identity: Json,
        *, chunk: int, max_waiting: int,
    ) -> None:  # fmt: skip
        self._calls = calls
        self._pages = pages
        self._collector = collector
        self._query = query
        self._identity = identity
        self._where = collector.source
        self._max_chunk = chunk
        self._chunk = min(chunk, FIRST_CHUNK)
        self._max_waiting = max_waiting
        self._from = ""
        """Start of the last trace that was dealt with, as the server wrote it."""
        self._given: set[str] = set()
        """Ids with that start which were dealt with."""
        self._seen: dict[str, list[RawSpan]] = {}
        """Spans of the chunk at hand; the collector holds the same."""
        self._lost = 0
        self._before_loss: tuple[str, set[str]] = ("", set())
        self._no_scores = False

    async def batches(self) -> AsyncIterator[TraceBatch]:
        """Whole traces, and at last the final report.

        Raises:
            CallError: the backend failed before anything was read.
        """
        place = read_cursor(self._identity, self._query.cursor) or {}
        given = place.get("given")
        self._from = as_text(place.get("from"))
        self._given = {as_text(one) for one in given} if isinstance(given, list) else set()
        begin, end = self._from or _iso(self._query.start), _iso(self._query.end)
        any_read = False
        try:
            async for page in self._pages.traces(begin, end):
                todo = [one for one in page if not self._known(one)]
                while todo:
                    done, traces = await self._next(todo)
                    for one in todo[:done]:
                        self._deal_with(one)
                    todo = todo[done:]
                    any_read |= self._lost == 0
                    if traces:
                        yield self._batch(traces)
        except CallError as error:
            if not any_read:
                raise
            why = f"what starts after {self._from} was not read: {error}"
            self._collector.skip(self._where, why, partial=True)
        yield self._batch(())

    async def one(self, trace_id: str) -> Trace | None:
        """The trace, whatever the window."""
        await self._fill([trace_id])
        await self._add_scores()
        return self._collector.build(_key(trace_id))

    async def _next(self, todo: Sequence[Listed]) -> tuple[int, tuple[Trace, ...]]:
        """The next few traces, and how many of the list are dealt with by that."""
        while True:
            ids = [one.id for one in todo[: self._chunk]]
            lost: TooMuch | None = None
            try:
                fits = await self._fill(ids)
            except TooMuch as error:
                fits, lost = False, error
            if fits:
                break
            self._collector.drop(_key(one) for one in ids)
            if lost is not None and len(ids) == 1:
                self._give_up(ids[0], lost)
                return 1, ()
            self._chunk = max(1, len(ids) // 2)
        self._lost = 0
        if self._collector.size_bytes < self._max_waiting // 4:
            self._chunk = min(self._max_chunk, self._chunk * 2)
        self._open_young()
        await self._add_scores()
        return len(ids), self._collector.take(_key(one) for one in ids)

    async def _fill(self, trace_ids: Sequence[str]) -> bool:
        """Hold all spans of these; False: they are too many to be held together."""
        self._seen = {}
        async for rows in self._pages.spans(trace_ids):
            for row in rows:
                span = span_of(row)
                self._collector.add([span], size_bytes=size_of(row))
                if span is not None:
                    self._seen.setdefault(span.trace_id, []).append(span)
            if self._collector.size_bytes > self._max_waiting and len(trace_ids) > 1:
                return False
        return True

    def _give_up(self, trace_id: str, error: TooMuch) -> None:
        """Go on without a trace that the server cannot deliver, unless it is the server.

        Then the place to go on from is before the first of those that were lost in a row.
        """
        if self._lost == 0:
            self._before_loss = (self._from, set(self._given))
        self._lost += 1
        if self._lost >= MAX_LOST or error.status in _DOWN:
            self._from, self._given = self._before_loss
            raise error
        why = f"trace {_key(trace_id)} was not read: {error}"
        self._collector.skip(self._where, why, partial=True)

    def _open_young(self) -> None:
        """Mark traces whose root may still come."""
        now = datetime.now(UTC) + timedelta(seconds=self._calls.clock_offset_s or 0.0)
        for spans in self._seen.values():
            last = max((span.end_ns or span.start_ns or 0 for span in spans), default=0)
            if all(span.parent_id for span in spans) and now - when(last) < YOUNG:
                known = {span.span_id for span in spans}
                for span in spans:
                    span.open = span.parent_id not in known

    async def _add_scores(self) -> None:
        """Hold the annotations of what is held; where they cannot be read, say so once."""
        traces = {span.span_id: key for key, spans in self._seen.items() for span in spans}
        if self._no_scores or not traces:
            return
        try:
            found = await self._pages.scores(list(self._seen), list(traces))
        except CallError as error:
            self._no_scores = True
            self._collector.skip(self._where, f"annotations were not read: {error}", partial=False)
            return
        for about, score in found:
            key = _key(about) if score.span_id is None else traces.get(score.span_id, "")
            if key in self._seen:
                self._collector.add([RawNote(trace_id=key, scores=(score,))])

    def _known(self, one: Listed) -> bool:
        return one.start == self._from and one.id in self._given

    def _deal_with(self, one: Listed) -> None:
        if one.start != self._from:
            self._from, self._given = one.start, set()
        self._given.add(one.id)

    def _batch(self, traces: tuple[Trace, ...]) -> TraceBatch:
        place: dict[str, Json] = {"from": self._from, "given": sorted(self._given)}
        cursor = write_cursor(self._identity, place)
        return self._collector.batch(traces, requests=self._calls.requests, cursor=cursor)


def _iso(moment: datetime | None) -> str | None:
    return moment.astimezone(UTC).isoformat() if moment is not None else None


def _key(recorded: str) -> str:
    """The id as the spans carry it after normalising."""
    return clean_id(recorded, 16) or recorded
