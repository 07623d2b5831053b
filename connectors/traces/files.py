"""Traces in files: a file, a folder or a glob, plain or compressed, of any known format.

Memory is bounded by settings, not by the number of traces. A first pass reads trace ids only and
remembers where each trace was seen last (about 150 bytes a trace). The second pass parses piece by
piece (a line, or a whole document) and gives a trace away as soon as its last piece was read. Spans
that wait for the rest of their trace hold at most `max_waiting_bytes` of recorded text; over it,
the traces whose end is farthest are dropped and read again in a further pass.
"""

import asyncio
from collections.abc import AsyncIterator, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from connectors.traces.chunks import Chunk, ChunkReader, TraceFile, detect, find_files, trace_ids
from connectors.traces.raw import RawSpan, clean_id
from connectors.traces.reading import Reading, spans_of
from connectors.traces.tree import Built, build_trace
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
_UNREADABLE = ("no known format", "no spans in it", "empty", "not a regular file")


@dataclass(slots=True)
class _Waiting:
    """Spans of a trace whose last piece was not read yet."""

    spans: list[RawSpan] = field(default_factory=list)
    size: int = 0


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
    ) -> None:
        self.name = name
        self._patterns = tuple(patterns)
        self._cap = payload_cap_bytes
        self._batch = batch_traces
        self._max_waiting = max_waiting_bytes

    async def check(self) -> SourceInfo:
        """Whether some file can be read, and in which format."""
        where = f"{self.name}:{', '.join(map(str, self._patterns))}"
        try:
            read = await asyncio.to_thread(self._open)
        except UsageError as error:
            return SourceInfo(source=where, reachable=False, reader="none", detail=str(error))
        detail = f"{len(read.files)} files to read, {len(read.skipped)} skipped"
        return SourceInfo(source=where, reachable=True, reader="files", detail=detail)

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
                f"no trace {trace_id!r} in {', '.join(map(str, self._patterns))}",
                backend=self.name,
                operation="trace",
            )
        return found

    def _open(self) -> Reading:
        """Find the files and their formats.

        Raises:
            UsageError: there is none that can be read.
        """
        paths = find_files(self._patterns)
        where = ", ".join(map(str, self._patterns))
        read = Reading(source=f"{self.name}:{where}", files=[], skipped=[])
        reasons = []
        for path in paths:
            found = detect(path)
            if isinstance(found, TraceFile):
                read.files.append(found)
            else:
                reasons.append(found)
                read.skip(path, found)
                read.partial |= not found.startswith(_UNREADABLE)
        if not read.files:
            if len(paths) == 1:
                raise UsageError(f"{paths[0]}: {reasons[0]}")
            raise UsageError(f"{where}: none of {len(paths)} files can be read ({reasons[0]})")
        return read

    def _batches(self, query: TraceQuery) -> Generator[TraceBatch, None, None]:
        read = self._open()
        ready: list[Trace] = []
        size = 0
        for built in self._traces(read, None):
            trace = built.trace
            if not _in_window(trace, query):
                continue
            if trace.own:
                read.count("excluded_own")
                continue
            read.count("traces")
            read.count("spans", built.spans)
            read.count("orphans", trace.orphans)
            read.count("duplicates", built.duplicates)
            read.count("truncated", built.truncated)
            ready.append(trace)
            size += built.text_bytes
            if len(ready) >= self._batch or size >= self._max_waiting // 2:
                yield TraceBatch(traces=tuple(ready), read=read.report())
                ready, size = [], 0
        yield TraceBatch(traces=tuple(ready), read=read.report())

    def _find(self, trace_id: TraceId) -> Trace | None:
        read = self._open()
        for built in self._traces(read, {str(trace_id)}):
            return built.trace
        return None

    def _traces(self, read: Reading, wanted: set[str] | None) -> Iterator[Built]:
        """Every trace, or the wanted ones, each once; as many passes as memory asks for."""
        last = _last_seen(read.files)
        first_pass = True
        while True:
            note = read if first_pass else Reading(source="", files=[], skipped=[])
            dropped: set[str] = set()
            yield from self._pass(read.files, note, wanted, last, dropped)
            if not dropped:
                return
            wanted, first_pass = dropped, False

    def _pass(
        self,
        files: Iterable[TraceFile],
        note: Reading,
        wanted: set[str] | None,
        last: dict[str, int],
        dropped: set[str],
    ) -> Iterator[Built]:
        waiting: dict[str, _Waiting] = {}
        total = 0
        for number, (file, chunk) in enumerate(_chunks(files, note)):
            if wanted is not None and not _mentions(file, chunk, wanted):
                continue
            for raw in spans_of(file, chunk, note):
                if (wanted is None or raw.trace_id in wanted) and raw.trace_id not in dropped:
                    held = waiting.setdefault(raw.trace_id, _Waiting())
                    held.spans.append(raw)
            shares = _share(chunk, file, waiting, last, number)
            for key, size in shares.items():
                waiting[key].size += size
                total += size
            for key in [key for key in shares if last.get(key, number) == number]:
                held = waiting.pop(key)
                total -= held.size
                yield build_trace(held.spans, self._cap)
            while total > self._max_waiting and len(waiting) > 1:
                far = max(waiting, key=lambda k: (last.get(k, 1 << 62), k))
                total -= waiting.pop(far).size
                dropped.add(far)
        for held in waiting.values():
            yield build_trace(held.spans, self._cap)


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


def _in_window(trace: Trace, query: TraceQuery) -> bool:
    start = trace.started_at
    if query.start is not None and start < query.start:
        return False
    if query.end is not None and start >= query.end:
        return False
    return query.environment is None or trace.own or trace.environment == query.environment


def _chunks(files: Iterable[TraceFile], note: Reading) -> Iterator[tuple[TraceFile, Chunk]]:
    for file in files:
        reader = ChunkReader(file)
        for chunk in reader:
            yield file, chunk
        if reader.broken is not None:
            note.partial = True
            note.skip(file.path, f"line {reader.line + 1}: {reader.broken}")


def _last_seen(files: Iterable[TraceFile]) -> dict[str, int]:
    """The number of the last piece that mentions each trace.

    A document that holds one trace is not read for this: its head named the trace already.
    """
    last: dict[str, int] = {}
    number = 0
    for file in files:
        if file.whole_trace is not None:
            last[_as_key(file.whole_trace)] = number
            number += 1
            continue
        for chunk in ChunkReader(file):
            for recorded in trace_ids(chunk.data):
                last[_as_key(recorded)] = number
            number += 1
    return last


def _as_key(recorded: bytes) -> str:
    return clean_id(recorded.decode("utf-8", "replace"), 16) or ""


def _mentions(file: TraceFile, chunk: Chunk, wanted: set[str]) -> bool:
    if file.whole_trace is not None:
        return True
    return any(_as_key(recorded) in wanted for recorded in trace_ids(chunk.data))


def _share(
    chunk: Chunk,
    file: TraceFile,
    waiting: dict[str, _Waiting],
    last: dict[str, int],
    number: int,
) -> dict[str, int]:
    """Bytes of this piece for each waiting trace in it, and those that only a link mentions."""
    if file.whole_trace is not None:
        keys = {_as_key(file.whole_trace)} & waiting.keys()
    else:
        keys = {_as_key(recorded) for recorded in trace_ids(chunk.data)} & waiting.keys()
    size = len(chunk.data) // max(1, len(keys))
    return dict.fromkeys(sorted(keys), size)
