"""LangSmith, by either generation of its API, keeps every promise of a trace source."""

import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from contracts.protocols import TraceSource
from contracts.traces import Trace
from tests.contract import test_trace_source as suite
from tests.langsmith_worlds import GENERATIONS, fake_of, source_of
from tests.trace_worlds import SECOND, root, tool, trace_of

World = Callable[[Path], TraceSource]
Promise = Callable[[World, Path], Awaitable[None]]

PROMISES = [
    promise
    for name, promise in vars(suite).items()
    if name.startswith("test_") and "world" in inspect.signature(promise).parameters
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


@pytest.fixture(params=GENERATIONS)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with ExitStack() as stack:

        def build(_: Path) -> TraceSource:
            fake = fake_of(map(recorded, range(suite.COUNT + 1)), request.param)
            return source_of(fake, stack, batch_traces=2)

        yield build


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__)
async def test_langsmith_keeps_the_promises_of_a_source(
    promise: Promise, world: World, tmp_path: Path
) -> None:
    await promise(world, tmp_path)
