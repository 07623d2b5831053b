"""Logs of steps in tests: documents to traces by one format module, and files of every kind."""

import gzip
import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from connectors.traces import chat_logs
from connectors.traces.raw import Raw, RawNote, RawSpan
from connectors.traces.tree import build_trace
from contracts.json_types import Json
from contracts.traces import Trace

CAP = 1 << 18


class Format(Protocol):
    """A format module."""

    NAME: str

    def takes(self, value: Mapping[str, Json], /) -> bool: ...

    def spans(self, value: Mapping[str, Json], /) -> Iterator[Raw]: ...


def built(records: Iterable[Raw]) -> list[Trace]:
    """The traces of the records, in the order in which they came."""
    by_trace: dict[str, list[RawSpan | RawNote]] = {}
    for raw in records:
        assert raw is not None
        by_trace.setdefault(raw.trace_id, []).append(raw)
    return [build_trace(held, CAP).trace for held in by_trace.values()]


def one(records: Iterable[Raw]) -> Trace:
    """The only trace of the records."""
    (trace,) = built(records)
    return trace


def steps(trace: Trace) -> list[str]:
    """Kind and name of every span, in order."""
    return [f"{span.kind} {span.tool_name or span.name}" for span in trace.spans]


def values(path: Path) -> Iterator[Json]:
    """The JSON documents of a file: lines, a document, or the members of an archive."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    if path.suffix == ".eval":
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for name in archive.namelist():
                if name.endswith(".json"):
                    yield json.loads(archive.read(name))
    elif ".jsonl" in path.name:
        yield from (json.loads(line) for line in data.splitlines() if line.strip())
    else:
        yield json.loads(data)


def traces_in(path: Path, formats: Sequence[Format]) -> list[Trace]:
    """Every trace of a file, one for each object that exactly one of the formats takes."""
    traces: list[Trace] = []
    for value in values(path):
        traces += _traces(value, formats)
    return traces


def _traces(value: Json, formats: Sequence[Format]) -> Iterator[Trace]:
    if isinstance(value, dict):
        taking = [one for one in formats if one.takes(value)]
        assert len(taking) <= 1, [one.NAME for one in taking]
        for format_ in taking:
            yield from built(format_.spans(value))
    elif isinstance(value, list):
        if chat_logs.takes_list(value):
            yield from built(chat_logs.list_spans(value))
        else:
            for item in value:
                yield from _traces(item, formats)


def texts(trace: Trace) -> str:
    """Every text that the spans of a trace hold; scores stand beside them."""
    held: list[str] = [str(trace.resource), str(trace.tags), trace.name or ""]
    for span in trace.spans:
        held += [span.name, str(dict(span.attributes))]
        held += [payload.text for payload in (span.input, span.output) if payload is not None]
        held += [span.error.message, span.error.stack or ""] if span.error is not None else []
        for message in (*span.messages_in, *span.messages_out):
            held += [message.content, str(message.tool_calls)]
    return "\n".join(held)
