"""What every source of traces promises, whatever its format; `WORLDS` lists them."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from connectors.traces.files import FilesSource
from contracts.errors import SourceError
from contracts.protocols import TraceSource
from contracts.traces import Trace, TraceId, TraceQuery
from tests.trace_worlds import START, line, root, span_id, tool, trace_id

COUNT = 5


def otlp(folder: Path) -> TraceSource:
    """Five traces of two spans, a minute apart, and one of our own; a span with a failed tool."""
    lines = []
    for n in range(COUNT + 1):
        resource = {"deployment__environment__name": "tracemend-gate" if n == COUNT else "prod"}
        shift = n * 60
        spans = [
            root(f"request {n}", trace=n),
            tool(1, "pay", {"n": n}, trace=n, error=("KeyError", "x")),
        ]
        for span in spans:
            for key in ("startTimeUnixNano", "endTimeUnixNano"):
                span[key] = str(int(str(span[key])) + shift * 1_000_000_000)
        lines.append(line(spans, **resource))
    (folder / "traces.jsonl").write_bytes(b"".join(lines))
    return FilesSource([folder], batch_traces=2)


def openinference(folder: Path) -> TraceSource:
    """The same as nested trees, one file a trace."""
    begin = datetime.fromtimestamp(START / 1e9, UTC)
    for n in range(COUNT + 1):
        at = begin + timedelta(minutes=n)
        child = {
            "timestamp": (at + timedelta(seconds=1)).isoformat(), "trace_id": trace_id(n),
            "span_id": span_id(1), "parent_span_id": span_id(0), "span_name": "pay",
            "duration": "PT0.5S", "status_code": "Error", "status_message": "KeyError: x",
            "span_attributes": {"openinference.span.kind": "TOOL", "tool.name": "pay",
                                "input.value": json.dumps({"n": n})},
            "events": [], "child_spans": [],
        }  # fmt: skip
        top = {
            "timestamp": at.isoformat(), "trace_id": trace_id(n), "span_id": span_id(0),
            "parent_span_id": None, "span_name": "agent", "duration": "PT1M", "status_code": "Ok",
            "resource_attributes": {
                "deployment.environment": "tracemend-gate" if n == COUNT else "prod"
            },
            "span_attributes": {"openinference.span.kind": "AGENT", "input.value": f"request {n}",
                                "output.value": "done"},
            "child_spans": [child],
        }  # fmt: skip
        document = {"trace_id": trace_id(n), "spans": [top]}
        (folder / f"{n}.json").write_text(json.dumps(document, indent=2 if n % 2 else None))
    return FilesSource([folder], batch_traces=2)


World = Callable[[Path], TraceSource]
WORLDS = pytest.mark.parametrize("world", [otlp, openinference])


async def everything(source: TraceSource, query: TraceQuery) -> list[Trace]:
    return [trace async for batch in source.window(query) for trace in batch.traces]


@WORLDS
async def test_a_window_yields_whole_traces_and_leaves_our_own_out(
    world: World, tmp_path: Path
) -> None:
    source = world(tmp_path)
    batches = [batch async for batch in source.window(TraceQuery())]
    traces = [trace for batch in batches for trace in batch.traces]
    assert sorted(t.id for t in traces) == [trace_id(n) for n in range(COUNT)]
    assert all(len(batch.traces) <= 2 for batch in batches)
    assert all([s.name for s in t.spans] == ["agent", "pay"] for t in traces)
    read = batches[-1].read
    assert (read.traces, read.spans, read.excluded_own) == (COUNT, 2 * COUNT, 1)
    assert read.status == "complete"


@WORLDS
async def test_spans_are_vendor_free(world: World, tmp_path: Path) -> None:
    traces = await everything(world(tmp_path), TraceQuery())
    trace = next(t for t in traces if t.id == trace_id(3))
    agent, pay = trace.spans
    assert (agent.kind, agent.status, pay.kind, pay.status) == ("agent", "ok", "tool", "error")
    assert pay.error is not None
    assert pay.error.type == "KeyError"
    assert pay.parent_id == agent.id
    assert pay.input is not None
    assert pay.input.value == {"n": 3}
    assert agent.started_at.utcoffset() == timedelta(0)
    assert agent.ended_at is not None
    assert agent.ended_at - agent.started_at == timedelta(minutes=1)
    assert trace.environment == "prod"


@WORLDS
async def test_the_window_is_half_open_and_by_first_span(world: World, tmp_path: Path) -> None:
    begin = datetime.fromtimestamp(START / 1e9, UTC)
    query = TraceQuery(start=begin + timedelta(minutes=1), end=begin + timedelta(minutes=3))
    traces = await everything(world(tmp_path), query)
    assert sorted(t.id for t in traces) == [trace_id(1), trace_id(2)]


@WORLDS
async def test_an_environment_is_a_filter(world: World, tmp_path: Path) -> None:
    source = world(tmp_path)
    assert len(await everything(source, TraceQuery(environment="prod"))) == COUNT
    assert await everything(source, TraceQuery(environment="test")) == []


@WORLDS
async def test_one_trace_is_read_whole_or_refused(world: World, tmp_path: Path) -> None:
    source = world(tmp_path)
    assert len((await source.trace(TraceId(trace_id(2)))).spans) == 2
    with pytest.raises(SourceError, match="no trace 'ffff'"):
        await source.trace(TraceId("ffff"))


@WORLDS
async def test_a_check_says_who_reads_and_never_raises(world: World, tmp_path: Path) -> None:
    assert (await world(tmp_path).check()).reachable
    gone = await FilesSource([tmp_path / "gone"]).check()
    assert (gone.reachable, "no such file" in gone.detail) == (False, True)
