"""Small worlds for tests of reading and detecting: recorded spans in a few words."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from connectors.traces.files import FilesSource
from connectors.traces.otlp import otlp_spans
from connectors.traces.tree import build_trace
from contracts.json_types import Json
from contracts.traces import (
    ReadReport,
    SourceInfo,
    Trace,
    TraceBatch,
    TraceId,
    TraceQuery,
)

REPO = Path(__file__).parents[1]
FIELD_CASES = Path(__file__).parent / "data" / "fieldcases"
START = 1_795_510_800_000_000_000
SECOND = 1_000_000_000

OtlpSpan = dict[str, Json]


def shared(*parts: str) -> Path:
    """A folder of the shared data, or a skip that says where it was looked for."""
    root = Path(os.environ.get("TRACEMEND_SHARED", str(REPO.parent / "shared")))
    path = root.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"no shared data at {path}; set TRACEMEND_SHARED")
    return path


def trace_id(number: int) -> str:
    return f"{number + 1:032x}"


def span_id(number: int) -> str:
    return f"{number + 1:016x}"


def span(
    number: int,
    kind: str,
    name: str,
    *,
    trace: int = 0,
    parent: int | None = 0,
    at: float | None = None,
    seconds: float | None = 0.5,
    error: tuple[str, str] | None = None,
    status: int | None = None,
    also: Mapping[str, Json] | None = None,
    **attributes: Json,
) -> OtlpSpan:
    """One OTLP span. `at` defaults to its number in seconds; `__` in a keyword stands for a dot."""
    attributes = {**attributes, **(also or {})}
    begin = START + int((number if at is None else at) * SECOND)
    recorded: OtlpSpan = {
        "traceId": trace_id(trace),
        "spanId": span_id(number),
        "name": name,
        "startTimeUnixNano": str(begin),
        "attributes": [
            _attribute("openinference.span.kind", kind),
            *(_attribute(k.replace("__", "."), v) for k, v in attributes.items()),
        ],
        "status": {"code": status if status is not None else (2 if error else 1)},
    }
    if seconds is not None:
        recorded["endTimeUnixNano"] = str(begin + int(seconds * SECOND))
    if parent is not None and parent != number:
        recorded["parentSpanId"] = span_id(parent)
    if error is not None:
        recorded["events"] = [
            {
                "name": "exception",
                "attributes": [
                    _attribute("exception.type", error[0]),
                    _attribute("exception.message", error[1]),
                ],
            }
        ]
    return recorded


def _attribute(key: str, value: Json) -> dict[str, Json]:
    if isinstance(value, bool):
        return {"key": key, "value": {"boolValue": value}}
    if isinstance(value, int):
        return {"key": key, "value": {"intValue": str(value)}}
    text = value if isinstance(value, str) else json.dumps(value)
    return {"key": key, "value": {"stringValue": text}}


def root(
    asked: str = "help",
    answer: str | None = "done",
    *,
    trace: int = 0,
    seconds: float | None = 60,
    error: tuple[str, str] | None = None,
    also: Mapping[str, Json] | None = None,
) -> OtlpSpan:
    """The agent's own span, number 0."""
    said = {} if answer is None else {"output__value": answer}
    return span(
        0, "AGENT", "agent", trace=trace, parent=None, seconds=seconds, error=error,
        input__value=asked, also={**said, **(also or {})},
    )  # fmt: skip


def tool(
    number: int,
    name: str,
    arguments: Json,
    answer: Json = None,
    *,
    trace: int = 0,
    error: tuple[str, str] | None = None,
    parent: int = 0,
) -> OtlpSpan:
    """A tool call with JSON arguments; `answer` None records no output."""
    extra: dict[str, Json] = {} if answer is None else {"output__value": answer}
    return span(
        number, "TOOL", name, trace=trace, error=error, parent=parent, tool__name=name,
        input__value=json.dumps(arguments), also=extra,
    )  # fmt: skip


def line(spans: Iterable[OtlpSpan], **resource: str) -> bytes:
    """One export request as a line."""
    attributes = [_attribute(key.replace("__", "."), value) for key, value in resource.items()]
    group = {"resource": {"attributes": attributes}, "scopeSpans": [{"spans": list(spans)}]}
    return json.dumps({"resourceSpans": [group]}).encode() + b"\n"


def trace_of(*spans: OtlpSpan) -> Trace:
    """The normalised trace of these spans."""
    recorded = otlp_spans({"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]})
    return build_trace([raw for raw in recorded if raw is not None], 1 << 18).trace


@dataclass
class MemorySource:
    """A source that holds traces in memory: the twin of the file reader."""

    traces: Sequence[Trace]
    batch: int = 7
    name: str = "memory"

    async def check(self) -> SourceInfo:
        return SourceInfo(source=self.name, reachable=True, reader="memory")

    async def window(self, query: TraceQuery) -> AsyncIterator[TraceBatch]:
        inside = [
            t
            for t in self.traces
            if (query.start is None or t.started_at >= query.start)
            and (query.end is None or t.started_at < query.end)
        ]
        report = ReadReport(source=self.name, format="memory", traces=len(inside))
        for start in range(0, max(1, len(inside)), self.batch):
            yield TraceBatch(traces=tuple(inside[start : start + self.batch]), read=report)

    async def trace(self, trace_id: TraceId) -> Trace:
        return next(t for t in self.traces if t.id == trace_id)


def read_all(*paths: str | Path, query: TraceQuery | None = None) -> tuple[list[Trace], ReadReport]:
    """All traces that the file reader yields, and its last report."""
    return asyncio.run(drain(FilesSource(paths), query or TraceQuery()))


async def drain(source: FilesSource, query: TraceQuery) -> tuple[list[Trace], ReadReport]:
    traces: list[Trace] = []
    report: ReadReport | None = None
    async for batch in source.window(query):
        traces += batch.traces
        report = batch.read
    assert report is not None
    return traces, report
