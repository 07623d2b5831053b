"""The files that paths, folders and globs name, and their bytes, decompressed."""

import codecs
import glob
import gzip
import os
from collections.abc import Iterator, Sequence
from io import BufferedIOBase
from pathlib import Path
from typing import Self, cast

from contracts.errors import UsageError

BLOCK_BYTES = 1 << 20


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


def text_lines(path: Path) -> Iterator[str]:
    """Lines of the decompressed text with their ends, as `csv` wants them."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
    rest = ""
    with open_plain(path) as stream:
        while block := stream.read1(BLOCK_BYTES):
            *lines, rest = (rest + decoder.decode(block)).split("\n")
            yield from (line + "\n" for line in lines)
    rest += decoder.decode(b"", final=True)
    if rest:
        yield rest


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
