"""Several processes find what one finds, and end with whoever started them."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.insights_made import write_made
from connectors.traces.files import FilesSource
from connectors.traces.reading import Reading
from contracts.errors import SourceError, UsageError
from contracts.traces import SourceInfo, Trace, TraceBatch, TraceId, TraceQuery
from nodes.insights.analyze import Analysis, analyze
from nodes.insights.parallel import MAX_JOBS, MIN_BYTES, Shared, jobs_for, tally_shares
from nodes.insights.tally import Config
from tests.trace_worlds import REPO, line, root, tool, trace_id

pytestmark = pytest.mark.servers

PATIENCE_S = 60


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few hundred runs, two torn lines among them, and a second file with a baseline."""
    folder = tmp_path_factory.mktemp("made")
    write_made(folder / "now.jsonl", 5_000)
    write_made(folder / "before.jsonl", 800, seed=8)
    whole = (folder / "now.jsonl").read_bytes().splitlines(keepends=True)
    whole.insert(100, b'{"resourceSpans": [{"torn\n')
    whole.insert(9, b"no json\n")
    (folder / "now.jsonl").write_bytes(b"".join(whole))
    return folder


def found(folder: Path, jobs: int) -> Analysis:
    baseline = (FilesSource([folder / "before.jsonl"]), TraceQuery())
    return asyncio.run(
        analyze(
            FilesSource([folder / "now.jsonl"]), TraceQuery(), project="p", baseline=baseline,
            jobs=jobs,
        )
    )  # fmt: skip


def test_any_number_of_processes_finds_the_same(made: Path) -> None:
    alone = found(made, 1)
    assert len(alone.findings) >= 3
    assert alone.read.status == "partial"
    for jobs in (2, 3):
        together = found(made, jobs)
        assert together == alone
        assert repr(together) == repr(alone), "the order of everything, too"


def test_files_that_cannot_be_shared_are_read_by_one(tmp_path: Path) -> None:
    odd = line([root(trace=0), tool(1, "pay", {}, trace=0, error=("KeyError", "x"))])
    path = tmp_path / "odd.jsonl"
    path.write_bytes(odd.replace(trace_id(0).encode(), b"\\u0030" + trace_id(0)[1:].encode(), 1))
    sides = [
        asyncio.run(analyze(FilesSource([path]), TraceQuery(), project="p", jobs=jobs))
        for jobs in (1, 2)
    ]
    assert sides[0] == sides[1]
    assert len(sides[0].findings) == 1


@dataclass
class Broken:
    """A source whose shares fail in one way."""

    how: str
    name: str = "broken"

    def share(self, index: int, of: int) -> "Broken":
        del of
        return self if index else Broken("late")

    def size_bytes(self) -> int:
        return 0

    @property
    def account(self) -> Reading:
        return Reading(source=self.name, files=[], skipped=[])

    async def check(self) -> SourceInfo:
        return SourceInfo(source=self.name, reachable=True, reader="none")

    async def window(self, query: TraceQuery) -> AsyncIterator[TraceBatch]:
        del query
        match self.how:
            case "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "usage":
                raise UsageError("nothing here")
            case "source":
                raise SourceError("gone", backend="b", operation="window", retryable=True)
            case "bug":
                raise ZeroDivisionError("a bug")
            case _:
                await asyncio.sleep(PATIENCE_S)
        yield  # type: ignore[misc]  # a generator that never gets here

    async def trace(self, trace_id: TraceId) -> Trace:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("how", "error", "said"),
    [
        ("killed", SourceError, "a process that read it was ended \\(exit -9\\)"),
        ("usage", UsageError, "^nothing here$"),
        ("source", SourceError, "^gone$"),
        ("bug", RuntimeError, "ZeroDivisionError: a bug"),
    ],
)
async def test_what_a_process_raises_is_raised_and_the_others_are_ended(
    how: str, error: type[Exception], said: str
) -> None:
    begun = time.monotonic()
    with pytest.raises(error, match=said) as raised:
        await tally_shares(Broken(how), TraceQuery(), Config(), 2)
    assert time.monotonic() - begun < PATIENCE_S - 1, "the share that sleeps was not waited for"
    if how == "source":
        assert isinstance(raised.value, SourceError)
        assert raised.value.retryable
    assert children(os.getpid()) == []


async def test_a_cancelled_analysis_leaves_no_process_behind() -> None:
    work = asyncio.ensure_future(tally_shares(Broken("late"), TraceQuery(), Config(), 2))
    await asyncio.to_thread(appear, os.getpid())
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert children(os.getpid()) == []


def children(pid: int) -> list[int]:
    """Reading processes of a process (not the helper that multiprocessing keeps for itself)."""
    try:
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [int(child) for child in listed if b"spawn_main" in command(int(child))]


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def started(path: Path, *more: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "graph.cli.main", "analyze", "--traces", str(path), *more],
        cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def test_the_command_prints_the_same_bytes(made: Path) -> None:
    said = []
    for jobs in ("1", "2"):
        process = started(made / "now.jsonl", "--json", "--jobs", jobs)
        out, problems = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 6, problems  # torn lines: read in part
        said.append(out)
    assert said[0] == said[1]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_reading_processes_end_with_the_command(how: signal.Signals, tmp_path: Path) -> None:
    path = tmp_path / "big.jsonl"
    write_made(path, 40_000)
    process = started(path, "--jobs", "2")
    try:
        workers = appear(process.pid)
        if how is signal.SIGINT:
            os.killpg(process.pid, how)  # as a terminal does
        else:
            process.kill()
        _, problems = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == (130 if how is signal.SIGINT else -how)
        if how is signal.SIGINT:
            assert "Traceback" not in problems
        until = time.monotonic() + PATIENCE_S
        while any(b"spawn_main" in command(pid) for pid in workers):
            assert time.monotonic() < until, "a reading process outlived the command"
            time.sleep(0.05)
    finally:
        process.kill()


def appear(pid: int) -> list[int]:
    """The two reading processes of a process, once they are there."""
    until = time.monotonic() + PATIENCE_S
    while len(workers := children(pid)) < 2:
        assert time.monotonic() < until
        time.sleep(0.02)
    return workers


class Sized(FilesSource):
    """Files of a stated size."""

    def __init__(self, size: int) -> None:
        super().__init__(["x"])
        self._size = size

    def size_bytes(self) -> int:
        return self._size


def test_only_large_input_is_spread_unless_it_is_asked_for() -> None:
    assert isinstance(Sized(0), Shared)
    assert jobs_for(Sized(MIN_BYTES), None, 8) == 1
    assert jobs_for(Sized(MIN_BYTES + 1), None, 8) == 8
    assert jobs_for(Sized(MIN_BYTES + 1), None, 1) == 1
    assert jobs_for(Sized(0), 3, 1) == 3
    assert jobs_for(Sized(0), 10**6, 1) == MAX_JOBS
