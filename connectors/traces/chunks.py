"""Files to pieces of JSON: which files there are, what format they hold, line by line or whole."""

import glob
import gzip
import os
import re
import stat
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import Literal, Self, cast

from contracts.errors import UsageError

HEAD_BYTES = 128 << 10  # within which a file says what it holds
BLOCK_BYTES = 1 << 20
MAX_CHUNK_BYTES = 512 << 20  # a longer line or document is skipped, so that memory stays bounded

Shape = Literal["lines", "document"]
_OTLP_KEY = re.compile(rb'"(?:resourceSpans|resource_spans|batches)"\s*:')
_TREE_KEY = re.compile(rb'"spans"\s*:\s*\[|"span_id"\s*:')
_OTHER_SIGNAL = re.compile(rb'"resource_?(?:Logs|Metrics|logs|metrics)"\s*:')
_TRACE_ID_KEYS = (b'"traceId"', b'"trace_id"')
_ID_VALUE = re.compile(rb'\s*:\s*"([^"\\]{1,128})"')


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFile:
    """A file of a known format."""

    path: Path
    shape: Shape
    whole_trace: bytes | None = None
    """The id as recorded, where the file is one document that holds one trace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One line, or one whole document."""

    data: bytes
    line: int


@dataclass(slots=True)
class ChunkReader:
    """Yields the pieces of one file; afterwards `broken` says why it ended early, if it did."""

    file: TraceFile
    broken: str | None = None
    line: int = 0

    def __iter__(self) -> Iterator[Chunk]:
        return self._document() if self.file.shape == "document" else self._lines()

    def _document(self) -> Iterator[Chunk]:
        blocks: list[bytes] = []
        size = 0
        for block in self._blocks():
            blocks.append(block)
            size += len(block)
            if size > MAX_CHUNK_BYTES:
                self.broken = f"larger than {MAX_CHUNK_BYTES >> 20} MB in one piece"
                return
        if size:
            self.line = 1
            yield Chunk(data=b"".join(blocks), line=1)

    def _lines(self) -> Iterator[Chunk]:
        rest: list[bytes] = []
        size = 0
        for block in self._blocks():
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

    def _blocks(self) -> Iterator[bytes]:
        try:
            with open_plain(self.file.path) as stream:
                while block := stream.read1(BLOCK_BYTES):
                    yield block
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            self.broken = f"compressed data breaks off ({error})"
        except OSError as error:
            self.broken = error.strerror or str(error)


def open_plain(path: Path) -> BufferedIOBase:
    """The file's bytes, decompressed when it is gzip or zstandard by its first bytes.

    Read it by `read1`: a larger read of a torn file loses what could still be unpacked.
    """
    with path.open("rb") as raw:
        magic = raw.read(4)
    if magic[:2] == b"\x1f\x8b":
        return gzip.open(path, "rb")
    if magic == b"\x28\xb5\x2f\xfd":
        return cast("BufferedIOBase", _ZstdFile(path))  # as much of one as is used here
    return path.open("rb")


class _ZstdFile:
    """A zstandard reader with the errors of a gzip one."""

    def __init__(self, path: Path) -> None:
        import zstandard  # noqa: PLC0415  (only where such a file is met)

        self._torn = zstandard.ZstdError
        self._stream = zstandard.ZstdDecompressor().stream_reader(
            path.open("rb"), read_across_frames=True, closefd=True
        )

    def read1(self, size: int) -> bytes:
        try:
            return self._stream.read1(size)
        except self._torn as error:
            raise EOFError(str(error)) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()  # type: ignore[no-untyped-call]  # its stub leaves it untyped


def find_files(patterns: Sequence[str | Path]) -> list[Path]:
    """The files that the patterns name: files, folders (walked, hidden entries left out), globs.

    Raises:
        UsageError: a pattern names nothing.
    """
    found: dict[str, Path] = {}
    for pattern in patterns:
        path = Path(pattern)
        if path.is_dir():
            paths = _walk(path)
        elif path.exists():
            paths = [path]
        elif glob.has_magic(str(pattern)):
            paths = [Path(name) for name in sorted(glob.glob(str(pattern), recursive=True))]  # noqa: PTH207  # an absolute pattern too
            paths = [file for one in paths for file in (_walk(one) if one.is_dir() else [one])]
            if not paths:
                raise UsageError(f"{pattern}: no file matches")
        else:
            raise UsageError(f"{pattern}: no such file or folder")
        for file in paths:
            found.setdefault(os.path.realpath(file), file)
    if not found:
        raise UsageError(f"{', '.join(map(str, patterns)) or 'no path given'}: nothing to read")
    return sorted(found.values())


def _walk(folder: Path) -> list[Path]:
    files = []
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files += [Path(root) / name for name in sorted(names) if not name.startswith(".")]
    return files


def detect(path: Path) -> TraceFile | str:
    """How to read the file, or in one line why it is not read."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return "not a regular file"
        with open_plain(path) as stream:
            head = _head(stream)
    except OSError as error:
        return error.strerror or str(error) or "unreadable"
    except (EOFError, zlib.error) as error:
        return f"compressed data breaks off ({error})"
    return _format_of(path, head.removeprefix(b"\xef\xbb\xbf").lstrip())


def _format_of(path: Path, text: bytes) -> TraceFile | str:
    if not text.strip(b"\0"):
        return "empty"
    if text[:1] not in (b"{", b"["):
        return "no known format: not JSON"
    otlp = _OTLP_KEY.search(text)
    tree = None if otlp else _TREE_KEY.search(text)
    key = otlp or tree
    if key is None or not (otlp or any(name in text for name in _TRACE_ID_KEYS)):
        return "no spans in it" if _OTHER_SIGNAL.search(text) else "no known format: no spans in it"
    line_end = text.find(b"\n")
    if line_end < 0 or key.start() < line_end:
        return TraceFile(path=path, shape="lines")
    return TraceFile(path=path, shape="document", whole_trace=None if otlp else _only_id(text))


def _head(stream: BufferedIOBase) -> bytes:
    """The first bytes; of a torn compressed file, those before the tear."""
    head = b""
    while len(head) < HEAD_BYTES:
        try:
            block = stream.read1(HEAD_BYTES - len(head))
        except (EOFError, zlib.error):
            if head:
                break
            raise
        if not block:
            break
        head += block
    return head


def _only_id(text: bytes) -> bytes | None:
    """The trace id of a document `{"trace_id": ..., "spans": [...]}` that names it first."""
    spans = text.find(b'"spans"')
    here = text.find(b'"trace_id"')
    if not (text[:1] == b"{" and 0 <= here < spans and text.count(b"{", 0, spans) == 1):
        return None
    match = _ID_VALUE.match(text, here + len(b'"trace_id"'))
    return match[1] if match else None


def trace_ids(data: bytes) -> set[bytes]:
    """Every id that stands under a trace id key, links included, without parsing the text.

    A quotation mark inside a JSON string follows a backslash, so the closed key cannot be text.
    """
    found = set()
    for key in _TRACE_ID_KEYS:
        here = data.find(key)
        while here >= 0:
            match = _ID_VALUE.match(data, here + len(key))
            if match:
                found.add(match[1])
            here = data.find(key, here + len(key))
    return found
