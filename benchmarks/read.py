"""What reading costs beside parsing the same bytes, how memory grows, how near a limit is used.

    python -m benchmarks.read [ratio] [memory] [api] [--traces PATH ...] [--repeat N] [--spans N .]

`ratio`: each format, recorded by the example agent and written in that format, against
`orjson.loads` of the same bytes in the same run; detection and redaction on lines of their own.
`memory`: the peak of a process of its own for each number of spans, generated from real tree shapes
at about 1 kB a span. `api`: a server on loopback with 50 ms latency and 1,000 requests a minute.
Figures with date and command stand in `docs/sources.md`.
"""

import argparse
import asyncio
import gzip
import multiprocessing
import random
import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import orjson

from configs.redaction import redact
from connectors.traces.files import FilesSource
from connectors.traces.otlp import attributes_of
from contracts.json_types import Json
from contracts.traces import Trace, TraceQuery
from examples.refund_agent.back_office import WEATHERS
from examples.refund_agent.record import record
from examples.refund_agent.requests import generate
from nodes.insights.analyze import analyze
from nodes.insights.detect.all import detect_trace

SPANS = (10_000, 100_000, 300_000)
SPAN_BYTES = 1_000
PARTS = ("ratio", "memory", "api")


def record_own(folder: Path, count: int = 150) -> Path:
    """A recording of the example agent."""
    harness = Path(__file__).resolve().parents[1] / "examples" / "refund_agent" / "repo"
    out = folder / "own.otlp.jsonl"
    record(generate(count, 7), harness, out, weather=WEATHERS["stormy"], seed=7)
    return out


def best_of(repeat: int, work: Callable[[], object]) -> float:
    """CPU seconds of the cheapest of several calls: other load on the machine does not count."""
    times = []
    for _ in range(repeat):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return min(times)


async def read_all(paths: Sequence[Path]) -> list[Trace]:
    """Every trace of some files."""
    source = FilesSource([*paths])
    return [trace async for batch in source.window(TraceQuery()) for trace in batch.traces]


async def read_count(paths: Sequence[Path]) -> int:
    """Spans of some files; the traces are given up at once, as an analysis does."""
    spans = 0
    async for batch in FilesSource([*paths]).window(TraceQuery()):
        spans += sum(len(trace.spans) for trace in batch.traces)
    return spans


def plain_copies(path: Path, scratch: Path) -> list[Path]:
    """The files of a folder (or a file), decompressed, so that only reading is measured."""
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    out = []
    for number, file in enumerate(files):
        data = file.read_bytes()
        copy = scratch / f"{number:05}-{file.name.removesuffix('.gz')}"
        copy.write_bytes(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        out.append(copy)
    return out


def pieces(paths: Sequence[Path]) -> list[bytes]:
    """What a parser is given: lines of `.jsonl` files, other files whole."""
    out: list[bytes] = []
    for path in paths:
        data = path.read_bytes()
        out += data.splitlines() if path.suffix == ".jsonl" else [data]
    return [piece for piece in out if piece.strip()]


def texts_of(traces: Sequence[Trace]) -> list[str]:
    """The payloads of all spans, each text once."""
    found: dict[str, None] = {}
    for trace in traces:
        for span in trace.spans:
            for payload in (span.input, span.output):
                if payload is not None:
                    found[payload.text] = None
    return list(found)


def ratio(name: str, paths: Sequence[Path], repeat: int) -> None:
    """One line of the table of ratios."""
    parts = pieces(paths)
    parse = best_of(repeat, lambda: [orjson.loads(part) for part in parts])
    read = best_of(repeat, lambda: asyncio.run(read_count(paths)))
    traces = asyncio.run(read_all(paths))
    spans = sum(len(trace.spans) for trace in traces)
    found = best_of(repeat, lambda: [detect_trace(trace) for trace in traces])
    texts = texts_of(traces)
    masked = best_of(1, lambda: [redact(text) for text in texts])
    size = sum(map(len, parts))
    print(
        f"{name:22} {len(traces):6} {spans:7} {size / max(1, spans):8.0f} {parse * 1000:9.1f} "
        f"{read / parse:7.2f} {found / parse:7.2f} {masked / parse:9.2f}"
    )


def ratios(given: Sequence[Path], repeat: int, scratch: Path) -> None:
    """The table: own recordings in every format that has a writer, then the given paths."""
    head = f"{'format':22} {'traces':>6} {'spans':>7} {'B/span':>8} {'parse ms':>9} "
    print(head + f"{'read':>7} {'detect':>7} {'redaction':>9}   (ratios to parse; read: bound 3)")
    own = record_own(scratch)
    ratio("otlp-json", [own], repeat)
    small = scratch / "small.otlp.jsonl"
    write_spans(small, 3_000, own)
    ratio("otlp-json, 1 kB spans", [small], repeat)
    for path in given:
        copies = scratch / f"given-{path.name}"
        copies.mkdir()
        ratio(path.name[:22], plain_copies(path, copies), repeat)


def shapes(own: Path) -> list[list[dict[str, Json]]]:
    """Spans of recorded traces: real trees to generate more from."""
    found: dict[str, list[dict[str, Json]]] = {}
    for line in own.read_bytes().splitlines():
        for group in orjson.loads(line)["resourceSpans"]:
            for scope in group["scopeSpans"]:
                for span in scope["spans"]:
                    found.setdefault(span["traceId"], []).append(span)
    return list(found.values())


def generated(count: int, own: Path, seed: int = 7) -> Iterator[bytes]:
    """Lines of export requests with `count` spans of about 1 kB, one trace a line."""
    rng = random.Random(seed)  # noqa: S311  (sizes, no secrets)
    trees = shapes(own)
    made = number = 0
    while made < count:
        spans = [small_span(span, f"{number:032x}") for span in trees[number % len(trees)]]
        rng.shuffle(spans)
        yield orjson.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}) + b"\n"
        made += len(spans)
        number += 1


def small_span(span: dict[str, Json], trace_id: str) -> dict[str, Json]:
    """The span with at most six of its texts, cut so that it has about 1 kB."""
    texts = {key: v for key, v in attributes_of(span.get("attributes")).items() if v}
    kept = [(key, v) for key, v in texts.items() if isinstance(v, str)][:6]
    room = max(0, SPAN_BYTES - 420) // max(1, len(kept))
    cut: list[Json] = [{"key": key, "value": {"stringValue": v[:room]}} for key, v in kept]
    return {**span, "traceId": trace_id, "attributes": cut}


def write_spans(path: Path, count: int, own: Path) -> int:
    """Write generated spans; returns the bytes a span has on average."""
    with path.open("wb") as out:
        for line in generated(count, own):
            out.write(line)
    return path.stat().st_size // count


def peak_mb(path: str, own: str, count: int) -> tuple[float, int]:
    """Peak memory of this process after writing and analysing; runs in a process of its own."""
    size = write_spans(Path(path), count, Path(own))
    asyncio.run(analyze(FilesSource([path]), TraceQuery(), project="bench"))
    Path(path).unlink()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, size


def memory(sizes: Sequence[int], scratch: Path) -> None:
    """Peak memory of an analysis by the number of spans."""
    own = record_own(scratch, 60)
    context = multiprocessing.get_context("spawn")
    for count in sizes:
        with context.Pool(1) as pool:
            peak, size = pool.apply(peak_mb, (str(scratch / "big.jsonl"), str(own), count))
        print(f"peak memory at {count:>9} spans of {size} B: {peak:.0f} MB")


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.read")
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--traces", type=Path, nargs="*", default=[])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--spans", type=int, nargs="*", default=SPANS)
    given = parser.parse_args()
    parts = given.parts or PARTS
    with tempfile.TemporaryDirectory() as scratch:
        if "ratio" in parts:
            ratios(given.traces, given.repeat, Path(scratch))
        if "memory" in parts:
            memory(given.spans, Path(scratch))
        if "api" in parts:
            from benchmarks.read_api import use_of_limit  # noqa: PLC0415  (needs the test servers)

            asyncio.run(use_of_limit())


if __name__ == "__main__":
    main()
