"""Files that hold rows or members instead of text: CSV, Parquet, and zip archives of JSON.

Every row becomes one line of JSON, every member of an archive one document, so that all formats
are parsed alike. Times without a zone are UTC, as the exports of the vendors write them.
"""

import csv
import lzma
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Literal

import orjson

from connectors.traces.formats import Format, format_of
from connectors.traces.plain import text_lines
from connectors.traces.salvage import load
from contracts.json_types import Json

RowShape = Literal["csv", "parquet", "zip"]
BATCH_ROWS = 256
MAX_MEMBER_BYTES = 512 << 20  # of one member, unpacked: an archive may claim anything
_TORN_ARCHIVE = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, NotImplementedError,
    RuntimeError, OverflowError,
)  # fmt: skip
_NEED_ARROW = "Parquet needs the extra: pip install 'tracemend[parquet]'"


def detect_rows(path: Path, head: bytes) -> tuple[Format, RowShape] | str | None:
    """Format and shape of a file of rows; why it cannot be read; None when it is no such file."""
    shape: RowShape
    if head[:4] == b"PAR1":
        if not _has_arrow():
            return _NEED_ARROW
        shape = "parquet"
    elif head[:4] == b"PK\x03\x04":
        shape = "zip"
    elif _is_csv(head):
        shape = "csv"
    else:
        return None
    try:
        for _, data in islice(row_pieces(path, shape), 5):
            found = format_of(load(data).value)
            if found is not None:
                return found, shape
    except (EOFError, OSError, ValueError) as error:
        return f"no known format: {' '.join(str(error).split())[:120]}"
    return f"no known format: no spans in this {shape} file"


def row_pieces(path: Path, shape: RowShape) -> Iterator[tuple[int, bytes]]:
    """(number, JSON) of every row or member; the number is the line in the file, or its place.

    Raises:
        ValueError, OSError, EOFError: the file breaks off or is not what it says.
    """
    match shape:
        case "csv":
            return _csv_rows(path)
        case "parquet":
            return _parquet_rows(path)
        case "zip":
            return _members(path)


def _is_csv(head: bytes) -> bool:
    """A first line of column names among which the id of a trace is."""
    line = head.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0].strip()
    names = {name.strip(b'" \r') for name in line.split(b",")}
    return len(names) > 2 and bool(names & {b"trace_id", b"traceId"}) and line[:1] not in b"{["


def _csv_rows(path: Path) -> Iterator[tuple[int, bytes]]:
    csv.field_size_limit(min(sys.maxsize, 1 << 30))
    reader = csv.reader(text_lines(path))
    try:
        names = next(reader, [])
        for row in reader:
            yield reader.line_num, orjson.dumps(dict(zip(names, row, strict=False)))
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num}: {error}") from error


def _parquet_rows(path: Path) -> Iterator[tuple[int, bytes]]:
    import pyarrow as pa  # type: ignore[import-untyped]  # noqa: PLC0415  (an extra, without types)
    from pyarrow import parquet  # noqa: PLC0415

    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=BATCH_ROWS):
                for row in batch.to_pylist():
                    number += 1
                    yield number, _dumped(row)
    except (pa.ArrowException, TypeError, OverflowError) as error:  # what no JSON can hold, too
        raise ValueError(str(error)) from error


def _dumped(row: Mapping[str, object]) -> bytes:
    options = orjson.OPT_NAIVE_UTC | orjson.OPT_NON_STR_KEYS
    return orjson.dumps(row, default=_plain, option=options)


def _plain(value: object) -> Json:
    """What orjson does not know: decimals as text, pairs of a map as they are, bytes as text."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)


def _has_arrow() -> bool:
    from importlib.util import find_spec  # noqa: PLC0415

    return find_spec("pyarrow") is not None


def _members(path: Path) -> Iterator[tuple[int, bytes]]:
    """The JSON members of an archive, in their order."""
    try:
        with zipfile.ZipFile(path) as archive:
            for number, member in enumerate(archive.infolist(), 1):
                if member.filename.endswith(".json") and not member.is_dir():
                    yield number, _unpacked(archive, member)
    except _TORN_ARCHIVE as error:
        raise ValueError(str(error)) from error


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    with archive.open(member) as stream:
        data = stream.read(MAX_MEMBER_BYTES + 1)
    if len(data) > MAX_MEMBER_BYTES:
        raise ValueError(f"{member.filename[:64]!r} is larger than {MAX_MEMBER_BYTES >> 20} MB")
    return data
