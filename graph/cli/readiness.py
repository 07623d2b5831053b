"""The eight readiness properties of a project, as `doctor` prints them."""

import asyncio
import heapq
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime

from contracts.errors import TracemendError
from contracts.harness import HarnessSnapshot
from contracts.protocols import TraceSource
from contracts.traces import Trace, TraceQuery
from memory.workspace import Workspace
from nodes.ports import open_harness, open_source
from nodes.readiness.history import cases, rejected, reviewed, rollback
from nodes.readiness.properties import Property
from nodes.readiness.recorded import Sample, context, errors, prompts, workflow

NEWEST = 200
"""Traces that are looked at: enough for shares to a few percent, few enough to hold."""
READ_S = 30.0
"""What reading for them may take; then the newest of what was read are looked at."""


async def readiness(ws: Workspace, newest: datetime | None = None) -> list[Property]:
    """All eight, always in the same order.

    Args:
        ws: the project.
        newest: start of its newest trace, where a source said so; reading begins one window before.
    """
    sample = await _sample(ws, newest)
    harness = await _harness(ws)
    folders = ws.settings.harness.folders
    root = (ws.root / folders[0].root).resolve() if folders else ws.root
    return [
        workflow(sample), errors(sample), prompts(sample, root), reviewed(ws),
        rejected(ws, harness), rollback(ws, harness), context(sample), cases(ws),
    ]  # fmt: skip


async def _sample(ws: Workspace, newest: datetime | None) -> Sample:
    try:
        source = open_source(ws)
        start = newest - ws.settings.analysis.window if newest else None
        return await newest_traces(source, TraceQuery(start=start))
    except TracemendError:
        return Sample(traces=(), said="none")


async def newest_traces(
    source: TraceSource, query: TraceQuery, *, keep: int = NEWEST, within_s: float = READ_S
) -> Sample:
    """The newest whole traces of a window, as far as they can be read in time.

    Raises:
        TracemendError: the source cannot be read at all.
    """
    kept: list[tuple[datetime, int, Trace]] = []
    read, stopped = 0, ""
    try:
        async with asyncio.timeout(within_s), aclosing(_traces(source, query)) as traces:
            async for trace in traces:
                read += 1
                heapq.heappush(kept, (trace.started_at, -read, trace))
                if len(kept) > keep:
                    heapq.heappop(kept)
    except TimeoutError:
        stopped = f", reading stopped after {within_s:g} s"
    except TracemendError:
        if not kept:
            raise
        stopped = ", reading broke off"
    how = f"the newest of {read}" if read > len(kept) else str(read) if stopped else f"all {read}"
    newest = tuple(trace for _, _, trace in sorted(kept, key=lambda entry: entry[:2]))
    return Sample(traces=newest, said=f"traces are whole ({how} read{stopped})")


async def _traces(source: TraceSource, query: TraceQuery) -> AsyncGenerator[Trace, None]:
    async for batch in source.window(query):
        for trace in batch.traces:
            yield trace


async def _harness(ws: Workspace) -> HarnessSnapshot | None:
    try:
        return await open_harness(ws).read()
    except TracemendError:
        return None
