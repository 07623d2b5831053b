"""What the example agent recorded gives the same findings in every way LangSmith writes it."""

import gzip
import json
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from connectors.traces.files import FilesSource
from contracts.protocols import TraceSource
from contracts.traces import Trace, TraceQuery
from examples.refund_agent.back_office import WEATHERS
from examples.refund_agent.record import record
from examples.refund_agent.requests import generate
from nodes.insights.analyze import analyze
from tests.emit.langsmith import batch_bodies, bulk_rows, v1_run, v2_items
from tests.langsmith_worlds import GENERATIONS, fake_of, source_of
from tests.trace_worlds import REPO, read_all

RUNS = 40
Found = list[tuple[str, int]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("own") / "own.otlp.jsonl"
    harness = REPO / "examples" / "refund_agent" / "repo"
    record(generate(RUNS, 7), harness, out, weather=WEATHERS["stormy"], seed=7)
    return out


@pytest.fixture(scope="module")
def traces(recorded: Path) -> list[Trace]:
    return read_all(recorded)[0]


async def found_in(source: TraceSource) -> tuple[Found, int]:
    found = await analyze(source, TraceQuery(), project="adhoc")
    return sorted((f.signature, f.units) for f in found.findings), found.units_total


def as_bodies(traces: Iterable[Trace]) -> list[Any]:
    return list(batch_bodies(traces))


def as_halves(traces: Iterable[Trace]) -> list[Any]:
    bodies = as_bodies(traces)
    return [{"post": b["post"]} for b in bodies] + [{"patch": b["patch"]} for b in bodies]


def as_v2_pages(traces: Iterable[Trace]) -> list[Any]:
    items = v2_items(traces)
    return [{"items": items[at : at + 50], "next_cursor": "x"} for at in range(0, len(items), 50)]


def as_v1_lines(traces: Iterable[Trace]) -> list[Any]:
    return [v1_run(item) for item in v2_items(traces)]


@pytest.mark.parametrize("written", [as_bodies, as_halves, as_v2_pages, as_v1_lines])
async def test_files_give_the_findings_of_the_recording(
    written: Callable[[Iterable[Trace]], list[Any]],
    recorded: Path,
    traces: list[Trace],
    tmp_path: Path,
) -> None:
    lines = "\n".join(json.dumps(value) for value in written(traces))
    (tmp_path / "runs.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    expected = await found_in(FilesSource([recorded]))
    assert expected[0]
    assert await found_in(FilesSource([tmp_path])) == expected


async def test_a_bulk_export_gives_the_findings_of_the_recording(
    recorded: Path, traces: list[Trace], tmp_path: Path
) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = arrow.Table.from_pylist(bulk_rows(traces))
    parquet.write_table(table, tmp_path / "export.parquet")
    assert await found_in(FilesSource([tmp_path])) == await found_in(FilesSource([recorded]))


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_the_api_gives_the_findings_of_the_recording(
    generation: str, recorded: Path, traces: list[Trace]
) -> None:
    with ExitStack() as stack:
        source = source_of(fake_of(traces, generation), stack)
        assert await found_in(source) == await found_in(FilesSource([recorded]))
