"""Files to pieces of JSON: which files there are, what format they hold, piece by piece."""

import gzip
import re
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedIOBase, BufferedReader
from pathlib import Path
from typing import Literal

from connectors.traces.formats import Format, detect_text
from connectors.traces.plain import open_plain
from connectors.traces.rows import RowShape, detect_rows, row_pieces

HEADS = (4 << 10, 64 << 10, 1 << 20, 64 << 20)
"""Bytes of a file that are looked at to know its format: more where the first do not say it."""
BLOCK_BYTES = 1 << 20
OVERLAP_BYTES = 256  # of two blocks: an id with its key is shorter
MAX_CHUNK_BYTES = 512 << 20  # a longer line or document is skipped, so that memory stays bounded

Shape = Literal["lines", "document"] | RowShape
_OTHER_SIGNAL = re.compile(rb'"resource_?(?:Logs|Metrics|logs|metrics)"\s*:')
_ID_VALUE = re.compile(rb'\s*:\s*"([^"\\]{1,128})"')


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFile:
    """A file of a known format."""

    path: Path
    shape: Shape
    format: Format
    whole_trace: bytes | None = None
    """The id as recorded, where the file is one document that holds one trace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One line, one row, or one whole document."""

    data: bytes
    line: int


@dataclass(slots=True)
class ChunkReader:
    """Yields the pieces of one file; afterwards `broken` says why it ended early, if it did."""

    file: TraceFile
    broken: str | None = None
    line: int = 0

    def __iter__(self) -> Iterator[Chunk]:
        match self.file.shape:
            case "document":
                return self._document()
            case "lines":
                return self._lines()
            case _:
                return self._rows(self.file.shape)

    def _rows(self, shape: RowShape) -> Iterator[Chunk]:
        try:
            for number, data in row_pieces(self.file.path, shape):
                self.line = number
                if len(data) > MAX_CHUNK_BYTES:
                    self.broken = f"larger than {MAX_CHUNK_BYTES >> 20} MB in one piece"
                    return
                yield Chunk(data=data, line=self.line)
        except (EOFError, OSError, ValueError) as error:
            self.broken = f"cannot be read on ({' '.join(str(error).split())[:120]})"

    def _document(self) -> Iterator[Chunk]:
        blocks: list[bytes] = []
        size = 0
        for block in self.blocks():
            blocks.append(block)
            size += len(block)
            if size > MAX_CHUNK_BYTES:
                self.broken = f"larger than {MAX_CHUNK_BYTES >> 20} MB in one piece"
                return
        if size:
            self.line = 1
            yield Chunk(data=blocks[0] if len(blocks) == 1 else b"".join(blocks), line=1)

    def _lines(self) -> Iterator[Chunk]:
        rest: list[bytes] = []
        size = 0
        for block in self.blocks():
            first, *others = block.split(b"\n")
            if size <= MAX_CHUNK_BYTES:
                rest.append(first)
            size += len(first)
            for part in others:
                self.line += 1
                if size <= MAX_CHUNK_BYTES:
                    yield Chunk(data=b"".join(rest), line=self.line)
                rest, size = [part], len(part)
            if size > MAX_CHUNK_BYTES:
                self.broken = f"line {self.line + 1} is larger than {MAX_CHUNK_BYTES >> 20} MB"
                rest.clear()  # the size stays, so that the rest of the line is passed over
        if size and size <= MAX_CHUNK_BYTES:
            self.line += 1
            yield Chunk(data=b"".join(rest), line=self.line)

    def blocks(self) -> Iterator[bytes]:
        """The decompressed bytes; `broken` says afterwards why they ended early."""
        try:
            with open_plain(self.file.path) as stream:
                if isinstance(stream, BufferedReader) and self.file.shape == "document":
                    yield stream.read(MAX_CHUNK_BYTES + 1)  # not compressed: at once, uncopied
                while block := stream.read1(BLOCK_BYTES):
                    yield block
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            self.broken = f"compressed data breaks off ({error})"
        except OSError as error:
            self.broken = error.strerror or str(error)


def detect(path: Path, wanted: Format | None = None) -> TraceFile | str:
    """How to read the file, or in one line why it is not read.

    Args:
        path: the file.
        wanted: the only format that is looked for; None: every known one.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return "not a regular file"
        found = _first_known(path)
    except OSError as error:
        return error.strerror or str(error) or "unreadable"
    except (EOFError, zlib.error, ValueError) as error:
        return f"compressed data breaks off ({error})"
    if wanted is not None and isinstance(found, TraceFile) and found.format is not wanted:
        return f"it holds {found.format.name}, not {wanted.name}"
    return found


def _first_known(path: Path) -> TraceFile | str:
    found: TraceFile | str = "empty"
    for limit in HEADS:
        with open_plain(path) as stream:
            head, complete = _head(stream, limit)
        found = _format_of(path, head, complete=complete)
        if complete or not isinstance(found, str) or head.lstrip()[:1] not in (b"{", b"["):
            break
    return found


def _format_of(path: Path, head: bytes, *, complete: bool) -> TraceFile | str:
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text.strip(b"\0"):
        return "empty"
    rows = detect_rows(path, head)
    if rows is not None:
        return (
            rows if isinstance(rows, str) else TraceFile(path=path, shape=rows[1], format=rows[0])
        )
    if text[:1] not in (b"{", b"["):
        return "no known format: not JSON"
    found = detect_text(text, complete=complete)
    if found is None:
        return "no spans in it" if _OTHER_SIGNAL.search(text) else "no known format: no spans in it"
    form, shape = found
    alone = _only_id(text) if shape == "document" else None
    return TraceFile(path=path, shape=shape, format=form, whole_trace=alone)


def _head(stream: BufferedIOBase, limit: int) -> tuple[bytes, bool]:
    """The first bytes (of a torn compressed file, those before the tear); whether they are all."""
    blocks: list[bytes] = []
    size = 0
    while size < limit:
        try:
            block = stream.read1(min(BLOCK_BYTES, limit - size))
        except (EOFError, zlib.error):
            if blocks:
                break
            raise
        if not block:
            return b"".join(blocks), True
        blocks.append(block)
        size += len(block)
    return b"".join(blocks), False


def _only_id(text: bytes) -> bytes | None:
    """The trace id of a document `{"trace_id": ..., "spans": [...]}` that names it first."""
    spans = text.find(b'"spans"')
    here = text.find(b'"trace_id"')
    if not (text[:1] == b"{" and 0 <= here < spans and text.count(b"{", 0, spans) == 1):
        return None
    match = _ID_VALUE.match(text, here + len(b'"trace_id"'))
    return match[1] if match else None


def index_pieces(file: TraceFile) -> Iterator[tuple[int, set[str]]]:
    """(pieces up to here, ids of traces mentioned since the last answer), without parsing.

    Lines are looked at by the block, not one by one: a trace may be held to the end of the block in
    which it was mentioned last.
    """
    reader = ChunkReader(file)
    if file.shape != "lines":
        for number, chunk in enumerate(reader, 1):
            yield number, trace_ids(file, chunk.data)
        return
    ended, before = 0, b""
    for block in reader.blocks():
        ids = trace_ids(file, block) | trace_ids(file, before + block[:OVERLAP_BYTES])
        ended += block.count(b"\n")
        before = block[-OVERLAP_BYTES:]
        yield ended + 1, ids  # the last one may stand in the line that goes on in the next block
    yield ended + (before[-1:] not in (b"", b"\n")), set()


def trace_ids(file: TraceFile, data: bytes) -> set[str]:
    """Ids of the traces that the piece mentions, links included, without parsing it.

    A quotation mark inside a JSON string follows a backslash, so the closed key cannot be text.
    """
    if file.whole_trace is not None:
        return {file.format.key_of(file.whole_trace.decode("utf-8", "replace"))}
    key_of = file.format.key_of
    recorded = set(file.format.id_pattern.findall(data))
    return {key_of(text.decode("utf-8", "replace")) for text in recorded}
