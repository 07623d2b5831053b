"""Files of every shape: lines, documents, CSV, Parquet, archives, compressed or not."""

import asyncio
import csv
import gzip
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
import zstandard

from connectors.traces.chunks import ChunkReader, TraceFile, detect
from connectors.traces.files import FilesSource
from connectors.traces.formats import detect_text
from connectors.traces.salvage import head_value
from contracts.errors import UsageError
from contracts.traces import TraceQuery
from tests.trace_worlds import drain, line, read_all, root, span, tool

TRACES = [[root(f"request {n}", trace=n), tool(1, "pay", {"n": n}, trace=n)] for n in range(3)]
LINES = b"".join(line(spans) for spans in TRACES)
DOCUMENT = json.dumps(
    {"resourceSpans": [json.loads(line(spans))["resourceSpans"][0] for spans in TRACES]}, indent=1
).encode()


def zipped(data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", "{}")
        archive.writestr("readme.txt", "no JSON")
        archive.writestr("spans.json", data)
    return out.getvalue()


PACKED: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("plain", lambda data: data),
    ("gzip", gzip.compress),
    ("zstd", lambda data: zstandard.ZstdCompressor().compress(data)),
    ("bom", lambda data: b"\xef\xbb\xbf" + data),
    ("crlf", lambda data: data.replace(b"\n", b"\r\n")),
]


@pytest.mark.parametrize("packed", [p for _, p in PACKED], ids=[n for n, _ in PACKED])
@pytest.mark.parametrize("data", [LINES, DOCUMENT], ids=["lines", "document"])
def test_however_it_is_packed_the_same_traces_come_out(
    packed: Callable[[bytes], bytes], data: bytes, tmp_path: Path
) -> None:
    (tmp_path / "x").write_bytes(packed(data))
    traces, report = read_all(tmp_path)
    assert (len(traces), report.spans, report.status) == (3, 6, "complete")
    assert (report.format, report.why) == ("otlp-json", "1 file of OpenTelemetry export requests")


def test_members_of_an_archive_are_documents(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(zipped(DOCUMENT))
    traces, report = read_all(tmp_path / "x.zip")
    assert (len(traces), report.status) == (3, "complete")


def test_a_torn_archive_is_said_and_not_read(tmp_path: Path) -> None:
    whole = zipped(DOCUMENT)
    (tmp_path / "x.zip").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UsageError, match=r"x\.zip: no known format: File is not a zip file"):
        read_all(tmp_path / "x.zip")


def test_a_member_damaged_in_the_middle_makes_the_read_partial(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for n, spans in enumerate(TRACES):
            archive.writestr(f"{n}.json", line(spans))
    data = out.getvalue()
    at = data.index(b'"request 1"')
    (tmp_path / "x.zip").write_bytes(data[:at] + b'"REQUEST 1"' + data[at + 11 :])
    traces, report = read_all(tmp_path / "x.zip")
    assert [t.root.input.text for t in traces if t.root.input] == ["request 0"]
    assert report.status == "partial"
    assert "Bad CRC-32" in report.skipped[0].why


@pytest.mark.parametrize("rows", [1, 300])
def test_a_csv_that_is_no_export_is_left_alone(rows: int, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    with path.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["trace_id", "note", "amount"])
        writer.writerows([["a", "b", "3"]] * rows)
    assert detect(path) == "no known format: no spans in this csv file"


def test_a_parquet_file_that_is_torn_is_said(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(b"PAR1" + b"\0" * 200)
    found = detect(path)
    assert isinstance(found, str)
    assert found.startswith("no known format: Parquet magic bytes not found in footer")


def test_parquet_without_its_package_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    monkeypatch.setattr("connectors.traces.rows._has_arrow", lambda: False)
    with pytest.raises(UsageError, match=r"pip install 'tracemend\[parquet\]'"):
        read_all(tmp_path)


def test_a_head_is_cut_at_its_last_whole_value() -> None:
    assert head_value(b'{"a": [1, {"b": "x } y"}, {"c": "never clo') == {
        "a": [1, {"b": "x } y"}, {}]
    }
    assert head_value(b'{"trace": {"id": "t", "input": "' + b"x" * 9999) == {"trace": {}}
    assert head_value(b"no JSON") is None
    assert head_value(b"]") is None


def test_lines_are_known_by_any_of_the_first_ones() -> None:
    found = detect_text(b'{"torn": \n' + LINES, complete=True)
    assert found is not None
    assert (found[0].name, found[1]) == ("otlp-json", "lines")
    assert detect_text(b'{"settings": true}\n{"more": 1}\n', complete=True) is None


def test_a_big_first_value_does_not_hide_the_format(tmp_path: Path) -> None:
    path = tmp_path / "big.json"
    spans = [span(0, "AGENT", "a", parent=None, input__value="x" * 400_000)]
    document = {"note": "y" * 300_000, **json.loads(line(spans))}
    path.write_bytes(json.dumps(document, indent=1).encode())
    found = detect(path)
    assert isinstance(found, TraceFile)
    assert (found.format.name, found.shape) == ("otlp-json", "document")


def test_only_the_asked_format_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINES)
    traces, report = asyncio_drain(FilesSource([tmp_path], format="otlp-json"))
    assert traces == 3
    assert report.endswith("(asked for by --format)")
    with pytest.raises(UsageError, match="it holds otlp-json, not openinference-json"):
        asyncio_drain(FilesSource([tmp_path], format="openinference-json"))
    with pytest.raises(UsageError, match="--format 'otlp': no such format; known: "):
        asyncio_drain(FilesSource([tmp_path], format="otlp"))


def asyncio_drain(source: FilesSource) -> tuple[int, str]:
    traces, report = asyncio.run(drain(source, TraceQuery()))
    return len(traces), report.why


def test_rows_are_numbered_as_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(LINES)
    found = detect(path)
    assert isinstance(found, TraceFile)
    assert [chunk.line for chunk in ChunkReader(found)] == [1, 2, 3]
    assert all(orjson.loads(chunk.data) for chunk in ChunkReader(found))
