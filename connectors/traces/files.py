"""Traces in files: a file, a folder or a glob, plain or compressed, of any known format.

Memory is bounded by settings, not by the number of traces. A first pass reads trace ids only and
remembers where each trace was seen last (about 150 bytes a trace). The second pass parses piece by
piece (a line, or a whole document) and gives a trace away as soon as its last piece was read. Spans
that wait for the rest of their trace hold at most `max_waiting_bytes` of recorded text; over it,
the traces whose end is farthest are dropped and read again in a further pass.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from connectors.traces.chunks import Chunk, ChunkReader, TraceFile, detect, index_pieces, trace_ids
from connectors.traces.formats import Format, named
from connectors.traces.plain import find_files
from connectors.traces.raw import RawNote, RawSpan
from connectors.traces.reading import Reading, spans_of
from connectors.traces.tree import Built, build_trace, in_window
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

    records: list[RawSpan | RawNote] = field(default_factory=list)
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

    def _find(self, trace_id: TraceId) -> Trace | None:
        read = self._open()
        for built in self._traces(read, {str(trace_id)}):
            return built.trace
        return None

    def _traces(self, read: Reading, wanted: set[str] | None) -> Iterator[Built]:
        """Every trace, or the wanted ones, each once; as many passes as memory asks for."""
        last = _last_seen(read.files)
        note = read
        while True:
            one = _Pass(
                read.files, note, wanted, last, cap=self._cap, max_waiting=self._max_waiting
            )
            yield from one.run()
            if not one.dropped:
                return
            wanted, note = one.dropped, Reading(source="", files=[], skipped=[])


@dataclass(slots=True)
class _Pass:
    """One reading of all files; afterwards `dropped` names what is left for a further one."""

    files: Sequence[TraceFile]
    note: Reading
    wanted: set[str] | None
    last: dict[str, int]
    cap: int = field(kw_only=True)
    max_waiting: int = field(kw_only=True)
    waiting: dict[str, _Waiting] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)
    given: set[str] = field(default_factory=set)
    """Of formats whose pieces hold whole traces: the same log may come twice."""
    held_bytes: int = 0

    def run(self) -> Iterator[Built]:
        """Every trace as soon as its last piece was read."""
        ending: dict[int, list[str]] = {}
        for key, number in self.last.items():
            ending.setdefault(number, []).append(key)
        for number, (file, chunk) in enumerate(_chunks(self.files, self.note)):
            touched = self._take(file, chunk)
            done = touched if file.format.whole else ending.pop(number, ())
            for key in done:
                if key in self.waiting:
                    yield from self._give(key, whole=file.format.whole)
            self._make_room()
        for key in list(self.waiting):
            yield from self._give(key, whole=False)

    def _take(self, file: TraceFile, chunk: Chunk) -> list[str]:
        """Put the records of one piece to those of their traces; names the traces that it has."""
        whole = file.format.whole
        if self.wanted is not None and not whole and not trace_ids(file, chunk.data) & self.wanted:
            return []
        ids: set[str] = set()
        for raw in spans_of(file, chunk, self.note):
            key = raw.trace_id
            if (self.wanted is None or key in self.wanted) and key not in self.dropped:
                self.waiting.setdefault(key, _Waiting()).records.append(raw)
                ids.add(key)
        touched = sorted(ids)
        for key in touched:
            self.waiting[key].size += len(chunk.data) // len(touched)
            self.held_bytes += len(chunk.data) // len(touched)
        return touched

    def _give(self, key: str, *, whole: bool) -> Iterator[Built]:
        held = self.waiting.pop(key)
        self.held_bytes -= held.size
        if whole and key in self.given:
            again = sum(isinstance(record, RawSpan) for record in held.records)
            self.note.count("spans", again)
            self.note.count("duplicates", again)
            return
        if whole:
            self.given.add(key)
        if any(isinstance(record, RawSpan) for record in held.records):
            yield build_trace(held.records, self.cap)
        else:
            self.note.mark({"scores_without_spans": 1})

    def _make_room(self) -> None:
        """Drop the traces whose end is farthest; a further pass reads them."""
        while self.held_bytes > self.max_waiting and len(self.waiting) > 1:
            known = (k for k in self.waiting if k in self.last)  # others no further pass would find
            far = max(known, key=lambda k: (self.last[k], k), default=None)
            if far is None:
                return
            self.held_bytes -= self.waiting.pop(far).size
            self.dropped.add(far)


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


def _chunks(files: Iterable[TraceFile], note: Reading) -> Iterator[tuple[TraceFile, Chunk]]:
    for file in files:
        reader = ChunkReader(file)
        for chunk in reader:
            yield file, chunk
        if reader.broken is not None:
            note.partial = True
            note.skip(file.path, f"line {reader.line + 1}: {reader.broken}")


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


def _last_seen(files: Sequence[TraceFile]) -> dict[str, int]:
    """The number of a piece, from zero, behind which nothing more comes of each trace.

    A document that holds one trace is not read for this: its head named the trace already; nor are
    formats whose pieces hold whole traces, but for the number of their pieces.
    """
    last: dict[str, int] = {}
    before = 0
    if all(file.format.whole for file in files):
        return last
    for file in files:
        pieces = 0
        if file.whole_trace is not None:
            last.update(dict.fromkeys(trace_ids(file, b""), before))
            pieces = 1
        elif file.format.whole:
            pieces = sum(1 for _ in ChunkReader(file))
        else:
            for pieces, ids in index_pieces(file):
                last.update(dict.fromkeys(ids, before + pieces - 1))
        before += pieces
    return last
