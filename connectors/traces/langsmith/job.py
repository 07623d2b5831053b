"""One read of a window of a LangSmith project: slices, batches, and where it stopped."""

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from connectors.traces.calls import Calls, NotThere, TooMuch
from connectors.traces.collect import Collector
from connectors.traces.langsmith.asking import (
    Ask,
    Reader,
    Run,
    TooMany,
    Unpaged,
    any_runs,
    iso,
    read_all,
)
from connectors.traces.langsmith.payloads import MISSING, Blobs, Payloads, joined, needing
from connectors.traces.langsmith.rows import records
from connectors.traces.langsmith.slices import DAY_NS, FIRST_NS, SECOND_NS, Completing, Gathered
from connectors.traces.langsmith.values import as_time_ns
from connectors.traces.raw import Raw, RawSpan
from contracts.errors import SourceError
from contracts.traces import TraceBatch

SHORTEST_NS: Final = 60 * SECOND_NS
"""A slice that the server cannot give is not halved below this; then pages are made shorter."""
FINEST_NS: Final = SECOND_NS
"""Nor one that holds more runs than are kept at hand."""
SMALLEST_PAGE: Final = 10
BATCH_RUNS: Final = 1_000
"""Runs of one batch; a trace with more is a batch by itself."""
MAX_RUNS: Final = {"steps": 10_000, "payloads": 10_000, "all": 2_000}
"""Runs of a slice that are held, by what is listed of each."""


@dataclass(slots=True, kw_only=True)
class Place:
    """How far a read has come.

    Everything that begins before `at_ns` is given away, and of what begins then, the traces up to
    this id.
    """

    at_ns: int
    trace_id: str
    end_ns: int
    ahead: set[str] = field(default_factory=set)


@dataclass(slots=True, kw_only=True)
class Job:
    """Reads [place.at_ns, place.end_ns)."""

    reader: Reader
    older: Reader | None
    """The first generation, where a run that the second does not find may be."""
    calls: Calls
    blobs: Blobs
    collector: Collector
    project: str
    place: Place
    now_ns: int
    batch_traces: int
    source: str
    older_may_know: bool = False
    """The second generation may know nothing of runs that the first one has."""
    _any_runs: bool = False
    _length_ns: int = 1 << 62
    _page: int = 0
    _asking: dict[str, Payloads] = field(default_factory=dict)

    async def batches(self) -> AsyncIterator[TraceBatch]:
        """Batches by start, the last one without traces; `place` moves along.

        Raises:
            SourceError: nothing could be read at all.
        """
        start_ns = self.place.at_ns
        async for batch in self._pass():
            yield batch
        if not (self._any_runs or self.collector.partial) and await self._older_knows(start_ns):
            self.use_older("v2 has no runs of this window, v1 has")
            self.place.at_ns = start_ns
            async for batch in self._pass():
                yield batch
        yield self.collector.batch((), requests=self.calls.requests)

    async def _pass(self) -> AsyncIterator[TraceBatch]:
        completing = Completing(
            reader=self.reader,
            project=self.project,
            now_ns=self.now_ns,
            lost=self._lost,
            ahead=self.place.ahead,
        )
        begun = False
        while self.place.at_ns < self.place.end_ns:
            at = self.place.at_ns
            try:
                runs, until = await self._listed(at)
                begun = True
                completing.reader = self.reader
                whole, nameless = await completing.completed(runs, at, until)
            except SourceError as error:
                if not begun and not isinstance(error, Unpaged):
                    raise
                self._stopped(at, error)
                return
            self._any_runs |= bool(runs)
            self.collector.add([None] * nameless)
            for some in self._portions(whole):
                try:
                    self.collector.add(await self.records_of(some))
                except SourceError as error:
                    self.collector.drop([one.trace_id for one in some])
                    self._stopped(some[0].begins_ns, error)
                    return
                traces = self.collector.take([one.trace_id for one in some])
                self.place.at_ns, self.place.trace_id = some[-1].begins_ns, some[-1].trace_id
                if traces:
                    yield self.collector.batch(traces, requests=self.calls.requests)
            self.place.at_ns, self.place.trace_id = until, ""

    async def _older_knows(self, start_ns: int) -> bool:
        """Whether the first generation has runs where the second has none."""
        if self.older is None or self.reader is self.older or not self.older_may_know:
            return False
        ask = Ask(start_ns=start_ns, end_ns=self.place.end_ns, what="steps")
        try:
            return await any_runs(self.older, ask)
        except SourceError:  # it was an empty window, as far as the main reader says
            return False

    def _portions(self, whole: Sequence[Gathered]) -> Iterator[list[Gathered]]:
        """What is not given away yet, in batches whose payloads can be held at once."""
        place = (self.place.at_ns, self.place.trace_id)
        some: list[Gathered] = []
        runs = 0
        for one in whole:
            if (one.begins_ns, one.trace_id) <= place:
                continue
            if some and (len(some) == self.batch_traces or runs + len(one.runs) > BATCH_RUNS):
                yield some
                some, runs = [], 0
            some.append(one)
            runs += len(one.runs)
        if some:
            yield some

    async def _listed(self, start_ns: int) -> tuple[dict[str, Run], int]:
        """(runs by id, end of the slice): as much time as can be listed and held at once."""
        self._page = self._page or self.reader.page_size
        while True:
            end_ns = min(self.place.end_ns, start_ns + self._length_ns)
            ask = Ask(start_ns=start_ns, end_ns=end_ns, what=self.reader.listed)
            long = end_ns - start_ns > SHORTEST_NS
            most = MAX_RUNS[self.reader.listed]
            bound = most if end_ns - start_ns > FINEST_NS else 1 << 40
            try:
                runs = await read_all(self.reader, ask, size=self._page, most=bound)
            except TooMany as error:
                start_ns, end_ns = await self._narrowed(start_ns, end_ns, error.lasting_ns)
                self._length_ns = end_ns - start_ns
            except (TooMuch, Unpaged):
                if long:
                    self._length_ns = max(SHORTEST_NS, (end_ns - start_ns) // 2)
                elif self._page > SMALLEST_PAGE:
                    self._page = max(SMALLEST_PAGE, self._page // 10)
                else:
                    raise
            except NotThere:
                if self.older is None or self.reader is self.older:
                    raise
                self.use_older("v2 answers that it is not there (404)")
            else:
                if len(runs) < most // 4 and self._length_ns < 1 << 60:
                    self._length_ns *= 2
                return _inside(runs, start_ns, end_ns), end_ns

    async def _narrowed(self, start_ns: int, end_ns: int, lasting_ns: int) -> tuple[int, int]:
        """A part of a slice that holds too many runs: its earliest, about as long as can be held.

        Halves are asked for a single run each, which also finds the end of a long emptiness.
        """
        wanted = max(FINEST_NS, min(lasting_ns * 4 // 5, (end_ns - start_ns) // 2))
        while end_ns - start_ns > wanted:
            middle = (start_ns + end_ns) // 2
            if await any_runs(self.reader, Ask(start_ns=start_ns, end_ns=middle, what="steps")):
                end_ns = middle
            else:
                start_ns = middle
        return start_ns, end_ns

    def use_older(self, why: str) -> None:
        """Go on with the first generation."""
        if self.older is not None:
            self.reader = self.older
            self._page = self.reader.page_size
            self.collector.reader = self.reader.name
            self.collector.why = f"{self.collector.why}; {why}"

    async def runs_of(self, trace_id: str) -> dict[str, Run]:
        """Every run of one trace, whenever it was."""
        ask = Ask(
            start_ns=FIRST_NS,
            end_ns=self.now_ns + DAY_NS,
            what=self.reader.listed,
            trace_ids=(trace_id,),
        )
        return await read_all(self.reader, ask, size=self.reader.page_size)

    async def records_of(self, some: Sequence[Gathered]) -> list[Raw]:
        """The records of whole traces, with the payloads that are needed."""
        payloads: dict[str, Run] = {}
        missing: set[str] = set()
        if self.reader.listed == "steps":
            payloads, missing = await self._payloads(some)
        found: list[Raw] = []
        for one in some:
            for key, run in one.runs.items():
                full, whole = await self.blobs.opened(joined(run, payloads.get(key)))
                for record in records(full, project=self.project):
                    if isinstance(record, RawSpan) and (not whole or key in missing):
                        record.attributes[MISSING] = True
                        self.collector.count("truncated")
                    found.append(record)
        if self.blobs.refused is not None:
            self._say_refused(self.blobs.refused)
        return found

    async def _payloads(self, some: Sequence[Gathered]) -> tuple[dict[str, Run], set[str]]:
        needed = [span for one in some for span in needing(one.spans.values())]
        ids = [span.span_id for span in needed]
        starts = [span.start_ns for span in needed if span.start_ns is not None]
        if not ids or not starts:
            return {}, set()
        bounds = min(starts), max(starts) + SECOND_NS
        found, large = await self._payloads_by(self.reader).read(ids, *bounds)
        gone = [key for key in ids if key not in found and key not in large]
        if gone and self.older is not None:  # a run may be in the first generation only
            more, too_large = await self._payloads_by(self.older).read(gone, *bounds)
            found.update(more)
            large += too_large
        return found, {*large, *(key for key in ids if key not in found)}

    def _payloads_by(self, reader: Reader) -> Payloads:
        return self._asking.setdefault(reader.name, Payloads(reader))

    def _say_refused(self, host: str) -> None:
        if self.blobs.said:
            return
        self.blobs.said = True
        why = (
            f"payloads at {host!r} were not fetched: no allowed host; name it under"
            " allowed_blob_hosts if it holds the payloads of this workspace"
        )
        self.collector.skip(self.source, why, partial=False)

    def _lost(self, trace_id: str, error: SourceError) -> None:
        self.collector.skip(f"{self.source}/{trace_id[:64]}", f"left out: {error}", partial=True)

    def _stopped(self, from_ns: int, error: SourceError) -> None:
        why = f"traces that start at {iso(from_ns)} or later are missing: {error}"
        self.collector.skip(self.source, why, partial=True)


def _inside(runs: dict[str, Run], start_ns: int, end_ns: int) -> dict[str, Run]:
    """Servers differ in whether the bounds belong to the window; ours is half open."""
    return {
        key: run
        for key, run in runs.items()
        if (at := as_time_ns(run.get("start_time"))) is None or start_ns <= at < end_ns
    }
