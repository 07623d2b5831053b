"""The runs behind a finding as a model is told them: opened whole where there is time for it."""

import asyncio
from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, runtime_checkable

from sqlalchemy import Connection

from contracts.errors import ConnectorError, UsageError
from contracts.findings import Finding
from contracts.json_types import Json
from contracts.protocols import TraceSource
from contracts.traces import SpanId, Trace, TraceId
from memory.workspace import Workspace
from nodes.insights.analyze import Analysis
from nodes.insights.detect.all import detect
from nodes.insights.detect.faults import Scans
from nodes.insights.signature import place_part
from nodes.insights.skeleton import Skeleton, skeleton_of, skeleton_of_sketch, whole_text

TOLD: Final = 4
"""Exemplars of a finding that are told."""
OPEN_WITHIN_S: Final = 60.0
"""For opening the exemplars of all findings of a run; condensed ones are told after that."""
RUN: Final = "run"
"""Kind of artifact under which a run that a model was told is kept at more length."""


@runtime_checkable
class _ReadsMany(Protocol):
    """A source for which many traces cost as much as one."""

    async def read_traces(self, trace_ids: Collection[TraceId]) -> Sequence[Trace]: ...


async def _one(source: TraceSource, trace_id: TraceId) -> Sequence[Trace]:
    return (await source.trace(trace_id),)


@dataclass(slots=True)
class Exemplars:
    """Opens the runs of one analysis. Nothing here fails: what cannot be read is told condensed."""

    ws: Workspace
    thread: str
    source: TraceSource
    analysis: Analysis
    wanted: tuple[TraceId, ...] = ()
    """Runs that will be opened: a source that can reads them all at once."""
    within_s: float = OPEN_WITHIN_S
    condensed: int = 0
    """Runs that could not be opened, and were told from what was kept of them."""
    _opened: dict[TraceId, Trace | None] = field(default_factory=dict)

    async def failing(self, finding: Finding) -> tuple[Skeleton, ...]:
        """The finding's runs; each is an artifact as well before a model is told it."""
        runs = []
        for trace_id, span_id in finding.exemplars[:TOLD]:
            run = await self._run(finding, trace_id, span_id)
            if run is not None:
                runs.append(run)
        return await asyncio.to_thread(self._kept, finding, runs)

    def passing(self, finding: Finding) -> tuple[Skeleton, ...]:
        """A run that went well and called what the finding is about; empty where there is none."""
        place = finding.signature.partition("~")[0].split(":")[1]
        for sketch in self.analysis.passing:
            called = (call for call in sketch.calls if call.ok)
            if any(place in (call.tool, place_part(call.tool)) for call in called):
                return (skeleton_of_sketch(sketch, None),)
        return ()

    async def _run(self, finding: Finding, trace_id: TraceId, span_id: SpanId) -> Skeleton | None:
        trace = await self._open(trace_id)
        if trace is not None:
            return await asyncio.to_thread(lambda: skeleton_of(detect(trace, Scans()), span_id))
        self.condensed += 1
        sketches = self.analysis.evidence[finding.id].failing
        found = next((one for one in sketches if one.trace_id == trace_id), None)
        return None if found is None else skeleton_of_sketch(found, span_id)

    async def _open(self, trace_id: TraceId) -> Trace | None:
        if trace_id not in self._opened:
            wanted = tuple(dict.fromkeys((trace_id, *self.wanted)))
            if isinstance(self.source, _ReadsMany):
                found = {
                    trace.id: trace for trace in await self._read(self.source.read_traces(wanted))
                }
                self._opened |= {one: found.get(one) for one in wanted}
            else:
                found_one = await self._read(_one(self.source, trace_id))
                self._opened[trace_id] = next(iter(found_one), None)
        return self._opened[trace_id]

    async def _read(self, reading: Awaitable[Sequence[Trace]]) -> Sequence[Trace]:
        """What is read within the time that is left; nothing where it fails."""
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            async with asyncio.timeout(max(0.0, self.within_s)):
                return await reading
        except (ConnectorError, UsageError, TimeoutError):
            return ()
        finally:
            self.within_s -= clock() - began

    def _kept(self, finding: Finding, runs: Sequence[Skeleton]) -> tuple[Skeleton, ...]:
        """The runs with the names of their artifacts, which are stored once a thread."""

        def write(tx: Connection) -> Mapping[str, Json]:
            put = self.ws.ledger.artifacts.put_text
            return {str(run.trace_id): put(tx, RUN, whole_text(run)) for run in runs}

        named = self.ws.ledger.steps.once(self.thread, f"insights.runs:{finding.id}", write)
        return tuple(replace(run, whole=str(named.get(run.trace_id) or "")) for run in runs)
