"""What finding failures costs, beside parsing the same bytes, and how memory and tokens grow.

    python -m benchmarks.insights [speed] [memory] [jobs] [tokens] [--spans N ...] [--traces N ...]

`speed`: CPU seconds of one process for reading, detecting, grouping, and for comparing and
diagnosing, against `orjson.loads` of the same lines in the same run (bound: detecting and grouping
at most 8 times). Parsing is timed twice: with all values held, as `benchmarks.read` does, and with
each given up at once, which spares the memory's cost and is several times faster; the last column
is against that. `memory`: the peak of a process of its own for each number of spans. `jobs`: wall
clock of `tracemend analyze` in one process and in several. `tokens`: what an analysis with a
scripted analyst gives to models, by the number of traces.
Traces are made by `insights_made`. Figures with date and command stand in `docs/quality.md`.
"""

import argparse
import asyncio
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from benchmarks.insights_made import write_made
from connectors.traces.files import FilesSource
from contracts.traces import TraceQuery
from nodes.insights.analyze import analyze
from nodes.insights.detect.all import detect
from nodes.insights.detect.faults import Scans
from nodes.insights.tally import Tally

SPANS = (10_000, 100_000, 1_000_000)
TRACES = (100, 1_000, 10_000)
PARTS = ("speed", "memory", "jobs", "tokens")
MAX_SYMPTOMS = 50_000
MAX_HELD_BYTES = 500_000_000
BOUND = 8.0
"""Detecting and grouping, in times of parsing (DESIGN.md section 10)."""


@dataclass(slots=True)
class Costs:
    """CPU seconds of each stage, and what they were spent on."""

    spans: int = 0
    traces: int = 0
    size_bytes: int = 0
    parse_s: float = 0.0
    """With all values held; where they are too many, as for `freed_s`."""
    freed_s: float = 0.0
    """With each value given up at once."""
    read_s: float = 0.0
    detect_s: float = 0.0
    group_s: float = 0.0
    conclude_s: float = 0.0
    """Comparing, contrasting, diagnosing, ranking."""
    findings: int = 0

    def line(self) -> str:
        """A row of the table: rates, and ratios to parsing."""
        whole = self.read_s + self.detect_s + self.group_s + self.conclude_s
        stages = (self.read_s, self.detect_s, self.group_s, self.conclude_s)
        ratios = "".join(f"{stage / self.parse_s:9.2f}" for stage in stages)
        found = (self.detect_s + self.group_s) / self.parse_s
        return (
            f"{self.spans:9} {self.traces:8} {self.size_bytes / self.spans:7.0f} "
            f"{self.spans / whole:8.0f}{ratios}{found:9.2f} {'ok  ' if found <= BOUND else 'OVER'}"
            f"{(self.detect_s + self.group_s) / self.freed_s:9.2f}"
        )


HEAD = (
    f"{'spans':>9} {'traces':>8} {'B/span':>7} {'spans/s':>8}"
    + "".join(f"{name:>9}" for name in ("read", "detect", "group", "conclude", "det+grp"))
    + f"{'freed':>14}   (ratios to parsing)"
)


def parse_s(path: Path, *, hold: bool) -> float:
    """CPU seconds of parsing every line, one after another."""
    held: list[object] = []
    begun = time.process_time()
    with path.open("rb") as file:
        for line in file:
            value = orjson.loads(line)
            if hold:
                held.append(value)
    return time.process_time() - begun


async def staged(path: Path, costs: Costs) -> Costs:
    """Read, detect and group once, each timed."""
    tally, scans = Tally(max_symptoms=MAX_SYMPTOMS), Scans()
    mark = time.process_time()
    async for batch in FilesSource([path]).window(TraceQuery()):
        read = time.process_time()
        seen = [detect(trace, scans) for trace in batch.traces]
        detected = time.process_time()
        for one in seen:
            tally.add(one)
        costs.traces += len(seen)
        costs.spans += sum(len(trace.spans) for trace in batch.traces)
        costs.read_s += read - mark
        costs.detect_s += detected - read
        mark = time.process_time()
        costs.group_s += mark - detected
    return costs


def with_conclusion(path: Path, costs: Costs) -> Costs:
    """The same with the time of a whole analysis less the stages before."""
    begun = time.process_time()
    found = asyncio.run(analyze(FilesSource([path]), TraceQuery(), project="bench"))
    whole = time.process_time() - begun
    costs.conclude_s = max(0.0, whole - costs.read_s - costs.detect_s - costs.group_s)
    costs.findings = len(found.findings)
    return costs


def speed(sizes: Sequence[int], scratch: Path) -> None:
    """The table of ratios."""
    print(HEAD)
    for count in sizes:
        path = scratch / "made.jsonl"
        write_made(path, count)
        size, freed = path.stat().st_size, parse_s(path, hold=False)
        held = parse_s(path, hold=True) if size <= MAX_HELD_BYTES else freed
        costs = Costs(size_bytes=size, parse_s=held, freed_s=freed)
        costs = with_conclusion(path, asyncio.run(staged(path, costs)))
        print(costs.line(), flush=True)
        path.unlink()


def peak_mb(path: str) -> tuple[float, int]:
    """Peak memory of this process after an analysis; runs in a process of its own."""
    found = asyncio.run(analyze(FilesSource([path]), TraceQuery(), project="bench"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, len(found.findings)


def memory(sizes: Sequence[int], scratch: Path) -> None:
    """Peak memory of an analysis by the number of spans."""
    context = multiprocessing.get_context("spawn")
    for count in sizes:
        path = scratch / "made.jsonl"
        write_made(path, count)
        with context.Pool(1) as pool:
            peak, findings = pool.apply(peak_mb, (str(path),))
        print(f"peak memory at {count:>9} spans: {peak:.0f} MB ({findings} findings)", flush=True)
        path.unlink()


def jobs(sizes: Sequence[int], scratch: Path) -> None:
    """Wall clock in one process and in several; the results must be equal."""
    from nodes.insights.parallel import usable_cores  # noqa: PLC0415

    for count in sizes:
        path = scratch / "made.jsonl"
        write_made(path, count)
        took = {}
        found = {}
        for number in dict.fromkeys((1, usable_cores())):
            begun = time.monotonic()
            found[number] = asyncio.run(
                analyze(FilesSource([path]), TraceQuery(), project="bench", jobs=number)
            )
            took[number] = time.monotonic() - begun
        same = len({repr(one) for one in found.values()}) == 1
        walls = ", ".join(f"{n} processes {s:.1f} s" for n, s in took.items())
        print(f"{count:>9} spans: {walls}; {'equal' if same else 'UNEQUAL'} results", flush=True)
        path.unlink()


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.insights")
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--spans", type=int, nargs="*", default=SPANS)
    parser.add_argument("--traces", type=int, nargs="*", default=TRACES)
    given = parser.parse_args()
    parts = given.parts or PARTS
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if "speed" in parts:
            speed(given.spans, folder)
        if "memory" in parts:
            memory(given.spans, folder)
        if "jobs" in parts:
            jobs(given.spans, folder)
        if "tokens" in parts:
            from benchmarks.insights_tokens import tokens  # noqa: PLC0415  (needs the test worlds)

            tokens(given.traces, folder)


if __name__ == "__main__":
    main()
