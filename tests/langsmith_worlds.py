"""LangSmith in a few words: a fake server with our own traces, and a source that reads it."""

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import SecretStr

from connectors.traces.buckets import Limit
from connectors.traces.langsmith.source import LangSmithSource
from contracts.traces import ReadReport, Trace, TraceBatch, TraceQuery
from tests.emit.langsmith import v2_items
from tests.fakes.langsmith import FakeLangSmith
from tests.fakes.serving import Mishaps, serve
from tests.trace_worlds import START, root, tool, trace_id, trace_of

GENERATIONS = ("v2", "v1")
NO_LIMITS: dict[str, Limit] = {}
BEGIN = datetime.fromtimestamp(START / 1e9, UTC)
MINUTE = timedelta(minutes=1)
COUNT = 6
HOUR = TraceQuery(start=BEGIN - MINUTE, end=BEGIN + 60 * MINUTE)


def fake_of(traces: Iterable[Trace], generation: str = "v2", **settings: Any) -> FakeLangSmith:
    """A server of one generation with these traces."""
    old: dict[str, Any] = {"v2": False, "version": "0.12.7", "flags": None}
    settings = {**(old if generation == "v1" else {}), **settings}
    return FakeLangSmith(runs=v2_items(traces), **settings)


def ids(traces: list[Trace]) -> list[str]:
    """Ids in order."""
    return [str(trace.id) for trace in traces]


def everything(count: int = COUNT) -> list[str]:
    """Ids of what `minutes` makes."""
    return [trace_id(number) for number in range(count)]


def minutes(count: int, *, seconds: float = 30) -> list[Trace]:
    """Traces of an agent and a tool, a minute apart."""
    traces = []
    for number in range(count):
        spans = [
            root(f"request {number}", trace=number, seconds=seconds),
            tool(1, "pay", {"n": number}, "paid", trace=number),
        ]
        trace = trace_of(*spans)
        later = timedelta(minutes=number)
        moved = [
            replace(s, started_at=s.started_at + later, ended_at=s.ended_at and s.ended_at + later)
            for s in trace.spans
        ]
        traces.append(replace(trace, spans=tuple(moved), environment="prod"))
    return traces


@dataclass(slots=True)
class Served:
    """A fake that is being served."""

    fake: FakeLangSmith
    url: str
    mishaps: Mishaps


def serving(fake: FakeLangSmith, stack: ExitStack) -> Served:
    app = fake.app()
    fake.base_url = stack.enter_context(serve(app))
    return Served(fake, fake.base_url, app)


def source_at(url: str, **settings: Any) -> LangSmithSource:
    key = SecretStr(settings.pop("key", "lsv2_pt_fake"))
    settings = {"project": "refunds", "limits": NO_LIMITS, **settings}
    return LangSmithSource(api_url=url, api_key=key, **settings)


def source_of(fake: FakeLangSmith, stack: ExitStack, **settings: Any) -> LangSmithSource:
    return source_at(serving(fake, stack).url, **settings)


async def read(
    source: LangSmithSource, query: TraceQuery | None = None
) -> tuple[list[Trace], ReadReport]:
    """All traces of a window and the last report."""
    batches = await batches_of(source, query)
    return [t for batch in batches for t in batch.traces], batches[-1].read


async def batches_of(source: LangSmithSource, query: TraceQuery | None = None) -> list[TraceBatch]:
    return [batch async for batch in source.window(query or TraceQuery())]
