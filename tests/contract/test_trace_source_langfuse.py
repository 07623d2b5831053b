"""Langfuse, by either generation of its API, keeps every promise of a trace source."""

import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr

from connectors.traces.langfuse.source import LangfuseSource
from contracts.protocols import TraceSource
from contracts.traces import Trace, TraceQuery
from tests.contract import test_trace_source as suite
from tests.fakes.langfuse import PUBLIC, SECRET, FakeLangfuse
from tests.fakes.serving import serve
from tests.trace_worlds import SECOND, root, tool, trace_id, trace_of

World = Callable[[Path], TraceSource]
Promise = Callable[[World, Path], Awaitable[None]]

NO_OK = "test_spans_are_vendor_free"  # Langfuse has levels: a step that went well is not marked
PROMISES = [
    promise
    for name, promise in vars(suite).items()
    if name.startswith("test_")
    and "world" in inspect.signature(promise).parameters
    and name != NO_OK
]


def recorded(number: int) -> Trace:
    """A trace like those of the other worlds; the last one is our own."""
    spans = [
        root(f"request {number}", trace=number),
        tool(1, "pay", {"n": number}, trace=number, error=("KeyError", "x")),
    ]
    for span in spans:
        for key in ("startTimeUnixNano", "endTimeUnixNano"):
            span[key] = str(int(str(span[key])) + number * 60 * SECOND)
    where = "tracemend-gate" if number == suite.COUNT else "prod"
    return replace(trace_of(*spans), environment=where)


@pytest.fixture(params=["v2", "v1"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with ExitStack() as stack:

        def build(_: Path) -> TraceSource:
            fake = FakeLangfuse(map(recorded, range(suite.COUNT + 1)), generation=request.param)
            return LangfuseSource(
                base_url=stack.enter_context(serve(fake.app)),
                public_key=SecretStr(PUBLIC),
                secret_key=SecretStr(SECRET),
                batch_traces=2,
                general_a_minute=100_000,
                deprecated_a_minute=100_000,
                pending_waits_s=(),
            )

        yield build


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
async def test_langfuse_keeps_the_promises_of_a_source(
    promise: Promise, world: World, tmp_path: Path
) -> None:
    await promise(world, tmp_path)


async def test_spans_of_langfuse_are_vendor_free(world: World, tmp_path: Path) -> None:
    traces = await suite.everything(world(tmp_path), TraceQuery())
    trace = next(t for t in traces if t.id == trace_id(3))
    agent, pay = trace.spans
    assert (agent.kind, agent.status, pay.kind, pay.status) == ("agent", "unset", "tool", "error")
    assert pay.error is not None
    assert pay.error.type == "KeyError"
    assert (pay.parent_id, pay.tool_name) == (agent.id, "pay")
    assert pay.input is not None
    assert pay.input.value == {"n": 3}
    assert agent.ended_at is not None
    assert agent.ended_at - agent.started_at == timedelta(minutes=1)
    assert trace.environment == "prod"
