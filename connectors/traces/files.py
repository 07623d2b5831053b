"""Traces in files: a file, a folder or a glob, plain or compressed, of any known format.

Memory is bounded by settings, not by the number of traces. A first pass reads trace ids only and
remembers where each trace was seen last (about 150 bytes a trace). The second pass parses piece by
piece (a line, or a whole document) and gives a trace away as soon as its last piece was read. Spans
that wait for the rest of their trace hold at most `max_waiting_bytes` of recorded text; over it,
the traces whose end is farthest are dropped and read again in a further pass.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection, Generator, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from pathlib import Path

from connectors.traces.chunks import TraceFile, detect
from connectors.traces.formats import Format, named
from connectors.traces.passes import Pass, last_seen
from connectors.traces.plain import find_files
from connectors.traces.reading import Reading
from connectors.traces.shares import Share
from connectors.traces.tree import Built, in_window
from contracts.errors import SourceError, UsageError
from contracts.traces import (
    SourceInfo,
    Trace,
    TraceBatch,
    TraceId,
    TraceQuery,
)

PAYLOAD_CAP_BYTES = 256 << 10
BATCH_TRACES = 100
MAX_WAITING_BYTES = 64 << 20
MIN_WAITING_BYTES = 8 << 20  # of one share
_UNREADABLE = ("no known format", "no spans in it", "empty", "not a regular file")


class FilesSource:
    """Recorded traces in files; implements `contracts.protocols.TraceSource`."""

    def __init__(
        self,
        patterns: Sequence[str | Path],
        *,
        payload_cap_bytes: int = PAYLOAD_CAP_BYTES,
        batch_traces: int = BATCH_TRACES,
        max_waiting_bytes: int = MAX_WAITING_BYTES,
        name: str = "files",
        format: str | None = None,
        environment: str | None = None,
        shown: str | None = None,
    ) -> None:
        """Take what is read later.

        Args:
            patterns: files, folders, globs.
            payload_cap_bytes: of a payload that are kept; the rest is marked by size and hash.
            batch_traces: traces in a batch, at most.
            max_waiting_bytes: recorded text of traces that wait for their last piece, at most.
            name: of the source, for messages.
            format: read only this one; None: the richest that is there.
            environment: only traces of this one.
            shown: what reports call the place; None: the patterns.
        """
        self.name = name
        self._alone = shown
        self._shown = shown or ", ".join(map(str, patterns))
        self._environment = environment
        self._wanted = format
        self._patterns = tuple(patterns)
        self._cap = payload_cap_bytes
        self._batch = batch_traces
        self._max_waiting = max_waiting_bytes
        self._share: Share | None = None
        self._read: Reading | None = None

    def share(self, index: int, of: int) -> "FilesSource":
        """The same files, of which only the traces of one of `of` equal shares are given.

        All shares together give what this source gives; each holds its part of the memory.
        """
        part = copy(self)
        part._share = Share(index=index, of=of)  # noqa: SLF001  (one of us)
        part._max_waiting = max(MIN_WAITING_BYTES, self._max_waiting // of)  # noqa: SLF001
        return part

    @property
    def account(self) -> Reading:
        """What the last read of a share saw, for `shares.joined`; can be sent between processes."""
        if self._read is None:
            raise ValueError("nothing was read yet")
        return replace(self._read, files=[])

    def size_bytes(self) -> int:
        """Of all files that would be read, as they lie on disk.

        Raises:
            UsageError: there is none that can be read.
        """
        return sum(file.path.stat().st_size for file in self._open().files)

    async def check(self) -> SourceInfo:
        """Whether some file can be read, and in which format."""
        where = f"{self.name}:{self._shown}"
        try:
            read = await asyncio.to_thread(self._open)
        except UsageError as error:
            return SourceInfo(source=where, reachable=False, reader="none", detail=str(error))
        detail = f"{len(read.files)} files to read, {len(read.skipped)} skipped"
        reader = ", ".join(sorted({file.format.name for file in read.files}))
        return SourceInfo(source=where, reachable=True, reader=reader, detail=detail)

    async def window(self, query: TraceQuery) -> AsyncIterator[TraceBatch]:
        """Whole traces whose first span starts in the window, in batches.

        Raises:
            UsageError: nothing there can be read at all (missing, empty, no known format).
        """
        batches = self._batches(query)
        try:
            while batch := await asyncio.to_thread(next, batches, None):
                yield batch
        finally:
            with suppress(ValueError):  # a cancelled read still runs in its thread
                batches.close()

    async def trace(self, trace_id: TraceId) -> Trace:
        """One whole trace, our own included.

        Raises:
            SourceError: there is no such trace.
        """
        found = await asyncio.to_thread(self._find, trace_id)
        if found is None:
            raise SourceError(
                f"no trace {trace_id!r} in {self._shown}",
                backend=self.name,
                operation="trace",
            )
        return found

    async def read_traces(self, trace_ids: Collection[TraceId]) -> list[Trace]:
        """Those of these traces that are there, by one reading of the files."""
        return await asyncio.to_thread(self._find_all, set(map(str, trace_ids)))

    def _open(self) -> Reading:
        """Find the files and their formats.

        Raises:
            UsageError: there is none that can be read.
        """
        wanted = named(self._wanted) if self._wanted else None
        paths = find_files(self._patterns)
        where = self._shown
        read = Reading(source=f"{self.name}:{where}", files=[], skipped=[])
        reasons = []
        for path in paths:
            found = detect(path, wanted)
            if isinstance(found, TraceFile):
                read.files.append(found)
            else:
                reasons.append(found)
                read.skip(path, found)
                read.partial |= not found.startswith(_UNREADABLE)
        if not read.files:
            said = max(reasons, key=lambda why: (why.startswith("it holds"), reasons.count(why)))
            if len(paths) == 1:
                raise UsageError(f"{self._alone or paths[0]}: {said}")
            raise UsageError(f"{where}: none of {len(paths)} files can be read ({said})")
        _keep_richest(read, wanted)
        if self._share is not None and self._share.index:
            read.forget_skipped()  # the first share tells of the files
        self._read = read
        return read

    def _batches(self, query: TraceQuery) -> Generator[TraceBatch, None, None]:
        read = self._open()
        ready: list[Trace] = []
        size = 0
        for built in self._traces(read, None):
            trace = built.trace
            if not in_window(trace, query, self._environment):
                if trace.timeless:
                    read.mark({"no_times": 1})
                continue
            if trace.own:
                read.count("excluded_own")
                continue
            if trace.pending:
                read.count("pending")
                continue
            read.count("traces")
            read.count("spans", built.spans)
            read.count("orphans", trace.orphans)
            read.count("duplicates", built.duplicates)
            read.count("truncated", built.truncated)
            read.mark(built.marks)
            ready.append(trace)
            size += built.text_bytes
            if len(ready) >= self._batch or size >= self._max_waiting // 2:
                yield TraceBatch(traces=tuple(ready), read=read.report())
                ready, size = [], 0
        read.read_through = True
        yield TraceBatch(traces=tuple(ready), read=read.report())

    def _find_all(self, wanted: set[str]) -> list[Trace]:
        return [built.trace for built in self._traces(self._open(), wanted)] if wanted else []

    def _find(self, trace_id: TraceId) -> Trace | None:
        read = self._open()
        for built in self._traces(read, {str(trace_id)}):
            return built.trace
        return None

    def _traces(self, read: Reading, wanted: set[str] | None) -> Iterator[Built]:
        """Every trace, or the wanted ones, each once; as many passes as memory asks for."""
        last = last_seen(read.files, self._share)
        note = read
        while True:
            one = Pass(
                read.files, note, wanted, last, cap=self._cap, max_waiting=self._max_waiting,
                share=self._share,
            )  # fmt: skip
            yield from one.run()
            if not one.dropped:
                return
            wanted, note = one.dropped, Reading(source="", files=[], skipped=[])


def read_spans(path: Path, *, payload_cap_bytes: int = PAYLOAD_CAP_BYTES) -> Trace | None:
    """The trace in the spans file of one probe run, our own marks and all.

    Of several traces in the file the one with the most spans is it. None: no such file, or no
    whole span in it.
    """
    found = detect(path) if path.exists() else "missing"
    if not isinstance(found, TraceFile):
        return None
    source = FilesSource([path], payload_cap_bytes=payload_cap_bytes)
    read = Reading(source="probe", files=[found], skipped=[])
    built = list(source._traces(read, None))  # noqa: SLF001  (same module)
    best = max(built, key=lambda b: (b.spans, b.trace.id), default=None)
    return best.trace if best else None


def _keep_richest(read: Reading, wanted: Format | None) -> None:
    """Leave the files of the richest formats, and those that only add to them; say what was left.

    Where a folder holds the same runs as span trees and as chat logs, counting both counts twice.
    """
    best = max(file.format.rank for file in read.files)
    kept: list[TraceFile] = []
    left: list[TraceFile] = []
    for file in read.files:
        (kept if file.format.rank in (best, 0) else left).append(file)
    read.files[:] = kept
    names = ", ".join(sorted({file.format.name for file in kept}))
    for file in left:
        read.skip(file.path, f"{file.format.name}: {names} in the same place says more of a run")
    counts = Counter(file.format for file in kept)
    said = [f"{n} {'file' if n == 1 else 'files'} of {f.what}" for f, n in counts.items()]
    read.why = "; ".join(sorted(said))
    if wanted is not None:
        read.why += " (asked for by --format)"
    elif left:
        read.why += f"; {len(left)} of poorer formats left out"
