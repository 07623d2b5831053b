"""One reading of all files, piece by piece: a trace is given away when its last piece was read."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from connectors.traces.chunks import Chunk, ChunkReader, TraceFile, index_pieces, trace_ids
from connectors.traces.raw import RawNote, RawSpan
from connectors.traces.reading import Reading, spans_of
from connectors.traces.shares import CannotShare, Share
from connectors.traces.tree import Built, build_trace


@dataclass(slots=True)
class _Waiting:
    """Spans of a trace whose last piece was not read yet."""

    records: list[RawSpan | RawNote] = field(default_factory=list)
    size: int = 0


@dataclass(slots=True)
class Pass:
    """One reading of all files; afterwards `dropped` names what is left for a further one."""

    files: Sequence[TraceFile]
    note: Reading
    wanted: set[str] | None
    last: dict[str, int]
    cap: int = field(kw_only=True)
    max_waiting: int = field(kw_only=True)
    share: Share | None = field(kw_only=True)
    waiting: dict[str, _Waiting] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)
    given: set[str] = field(default_factory=set)
    """Of formats whose pieces hold whole traces: the same log may come twice."""
    held_bytes: int = 0

    def run(self) -> Iterator[Built]:
        """Every trace as soon as its last piece was read."""
        tells = self.share is None or self.share.index == 0
        ending: dict[int, list[str]] = {}
        for key, number in self.last.items():
            ending.setdefault(number, []).append(key)
        for number, (file, chunk) in enumerate(_chunks(self.files, self.note, tells=tells)):
            touched = self._take(file, chunk, number)
            done = touched if file.format.whole else ending.pop(number, ())
            for key in done:
                if key in self.waiting:
                    yield from self._give(key, whole=file.format.whole)
            self._make_room()
        for key in list(self.waiting):
            yield from self._give(key, whole=False)

    def _take(self, file: TraceFile, chunk: Chunk, number: int) -> list[str]:
        """Put the records of one piece to those of their traces; names the traces that it has."""
        whole, share, note = file.format.whole, self.share, self.note
        mentioned: set[str] = set()
        if not whole and (self.wanted is not None or share is not None):
            mentioned = trace_ids(file, chunk.data)
        if self.wanted is not None and not whole and not mentioned & self.wanted:
            return []
        if share is not None and not share.tells(mentioned, number):
            if mentioned and not file.format.links and not any(map(share.has, mentioned)):
                return []
            note = Reading(source="", files=[], skipped=[], pages=note.pages)
        ids: set[str] = set()
        for raw in spans_of(file, chunk, note):
            key = raw.trace_id
            if share is not None and not share.has(key):
                if not whole and key not in mentioned:
                    raise CannotShare(f"{file.path}: line {chunk.line}: a trace id is spelt oddly")
                continue
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


def _chunks(
    files: Iterable[TraceFile], note: Reading, *, tells: bool
) -> Iterator[tuple[TraceFile, Chunk]]:
    for file in files:
        reader = ChunkReader(file)
        for chunk in reader:
            note.at += 1
            yield file, chunk
        note.at += 1
        if reader.broken is not None and tells:
            note.partial = True
            note.skip(file.path, f"line {reader.line + 1}: {reader.broken}")


def last_seen(files: Sequence[TraceFile], share: Share | None) -> dict[str, int]:
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
                mine = ids if share is None else filter(share.has, ids)
                last.update(dict.fromkeys(mine, before + pieces - 1))
        before += pieces
    return last
