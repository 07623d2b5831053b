"""How much reading and detecting cost beside parsing the same bytes, and how memory grows.

    python -m benchmarks.reading [--traces PATH] [--repeat N]

Without `--traces` it records its own with the example agent. Ratios are to `orjson.loads` over the
same lines in the same run. Memory is the peak of a process of its own for each size.
"""

import argparse
import asyncio
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import orjson

from connectors.traces.files import FilesSource
from contracts.traces import Trace, TraceQuery
from examples.refund_agent.back_office import WEATHERS
from examples.refund_agent.record import record
from examples.refund_agent.requests import generate
from nodes.insights.analyze import analyze
from nodes.insights.detect.all import detect_trace

SIZES = (1, 4, 16)
"""How often the recording is repeated, under new trace ids, for the memory figures."""


def record_own(folder: Path) -> Path:
    """A recording of the example agent: 150 runs."""
    harness = Path(__file__).resolve().parents[1] / "examples" / "refund_agent" / "repo"
    out = folder / "own.otlp.jsonl"
    record(generate(150, 7), harness, out, weather=WEATHERS["stormy"], seed=7)
    return out


def best_of(repeat: int, work: Callable[[], object]) -> float:
    """Seconds of the fastest of several calls."""
    times = []
    for _ in range(repeat):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)


async def read_all(path: Path) -> list[Trace]:
    """Every trace of a file."""
    source = FilesSource([path])
    return [trace async for batch in source.window(TraceQuery()) for trace in batch.traces]


def repeated(path: Path, times: int, out: Path) -> int:
    """The recording several times over under new trace ids; returns the number of spans."""
    spans = 0
    with out.open("w", encoding="utf-8") as written:
        for number in range(times):
            for line in path.read_text("utf-8").splitlines():
                export = orjson.loads(line)
                for resource_spans in export["resourceSpans"]:
                    for scope in resource_spans["scopeSpans"]:
                        for span in scope["spans"]:
                            span["traceId"] = f"{number:08x}{span['traceId'][8:]}"
                            spans += 1
                written.write(orjson.dumps(export).decode() + "\n")
    return spans


def peak_mb(path: str) -> float:
    """Peak memory of this process after an analysis; runs in a process of its own."""
    asyncio.run(analyze(FilesSource([path]), TraceQuery(), project="bench"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reading")
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        path = given.traces or record_own(Path(scratch))
        lines = path.read_bytes().splitlines()
        parse = best_of(given.repeat, lambda: [orjson.loads(line) for line in lines])
        read = best_of(given.repeat, lambda: asyncio.run(read_all(path)))
        traces = asyncio.run(read_all(path))
        found = best_of(given.repeat, lambda: [detect_trace(trace) for trace in traces])
        print(f"{path.name}: {len(traces)} traces, {sum(len(t.spans) for t in traces)} spans")
        print(f"parse with orjson   1.00   ({parse * 1000:.0f} ms)")
        print(f"read + normalise    {read / parse:.2f}   (bound 3)")
        print(f"detect              {found / parse:.2f}   (bound 8, grouping not included)")
        context = multiprocessing.get_context("spawn")
        for size in SIZES:
            bigger = Path(scratch) / f"x{size}.jsonl"
            spans = repeated(path, size, bigger)
            with context.Pool(1) as pool:
                peak = pool.apply(peak_mb, (str(bigger),))
            print(f"peak memory at {spans:>7} spans: {peak:.0f} MB")


if __name__ == "__main__":
    main()
