"""Phoenix, and several sources at once, keep every promise of a trace source."""

import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from connectors.traces.files import FilesSource
from connectors.traces.phoenix import PhoenixSource
from connectors.traces.several import SeveralSources
from contracts.protocols import TraceSource
from tests.contract import test_trace_source as suite
from tests.fakes.phoenix import FakePhoenix, push
from tests.fakes.serving import serve
from tests.trace_worlds import line, root, tool

World = Callable[[Path], TraceSource]
Promise = Callable[[World, Path], Awaitable[None]]

PROMISES = [
    promise
    for name, promise in vars(suite).items()
    if name.startswith("test_") and "world" in inspect.signature(promise).parameters
]


def exported(number: int) -> bytes:
    """A trace like those of the other worlds; what the resource says stands on the spans too,
    since Phoenix keeps no resource."""
    where = "tracemend-gate" if number == suite.COUNT else "prod"
    spans = [
        root(f"request {number}", trace=number, also={"deployment.environment.name": where}),
        tool(1, "pay", {"n": number}, trace=number, error=("KeyError", "x")),
    ]
    for span in spans:
        span["spanId"] = f"{number:08x}{str(span['spanId'])[8:]}"
        if "parentSpanId" in span:
            span["parentSpanId"] = f"{number:08x}{str(span['parentSpanId'])[8:]}"
        for key in ("startTimeUnixNano", "endTimeUnixNano"):
            span[key] = str(int(str(span[key])) + number * 60 * 1_000_000_000)
    return line(spans)


@pytest.fixture
def worlds() -> Iterator[dict[str, World]]:
    with ExitStack() as stack:

        def serving(numbers: range) -> TraceSource:
            url = stack.enter_context(serve(FakePhoenix(empty_pages=True).app()))
            push(url, map(exported, numbers))
            return PhoenixSource(base_url=url, batch_traces=2)

        def phoenix(_: Path) -> TraceSource:
            return serving(range(suite.COUNT + 1))

        def several(folder: Path) -> TraceSource:
            """The later traces in files, the earlier ones in Phoenix."""
            rest = [exported(number) for number in range(2, suite.COUNT + 1)]
            (folder / "rest.jsonl").write_bytes(b"".join(rest))
            return SeveralSources([FilesSource([folder], batch_traces=2), serving(range(2))])

        yield {"phoenix": phoenix, "several": several}


@pytest.mark.parametrize("name", ["phoenix", "several"])
@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.__name__[5:])
async def test_a_source_keeps_its_promise(
    promise: Promise, name: str, worlds: dict[str, World], tmp_path: Path
) -> None:
    await promise(worlds[name], tmp_path)


def test_the_suite_has_promises() -> None:
    assert len(PROMISES) >= 6
