"""Predictions for TRAIL's traces by the shipped detectors, and how good they are.

    python -m benchmarks.trail --traces DIR --out F     (no label is read)
    python -m benchmarks.trail --measure DIR            (DIR holds traces/ and annotations/)
    python -m benchmarks.trail --fit DIR                (rewrites benchmarks/trail_counts.py)

`--out` is `{trace_id: [{"location": span_id, "category": TRAIL name, "score": 0..1}]}`, at most six
a trace, best first. Recorded logs are not read: they hold what annotators wrote.
"""

import argparse
import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from benchmarks.trail_labels import annotations, subsets
from benchmarks.trail_map import claims, count, rank, written
from benchmarks.trail_measure import Measured, measure
from connectors.traces.files import FilesSource
from contracts.traces import Trace, TraceQuery
from nodes.insights.detect.all import detect
from nodes.insights.detect.faults import Scans

COUNTS_FILE = Path(__file__).with_name("trail_counts.py")


async def traces_of(folder: Path) -> AsyncIterator[Trace]:
    """Every trace below the folder, `.json` and `.json.gz`."""
    async for batch in FilesSource([folder]).window(TraceQuery()):
        for trace in batch.traces:
            yield trace


async def predictions(folder: Path) -> dict[str, list[dict[str, str | float]]]:
    """What is written to `--out`."""
    scans = Scans()
    found: dict[str, list[dict[str, str | float]]] = {}
    async for trace in traces_of(folder):
        ranked = rank(claims(detect(trace, scans)))
        found[str(trace.id)] = [
            {"location": span, "category": name, "score": round(sure, 4)}
            for (span, name), sure in sorted(ranked, key=lambda r: -r[1])
        ]
    return dict(sorted(found.items()))


async def _all(folder: Path) -> list[Trace]:
    return [trace async for trace in traces_of(folder)]


def measured(folder: Path) -> Measured:
    """Traces, annotations and subsets of a folder with `traces/` and `annotations/`.

    Raises:
        SystemExit: one of them is missing.
    """
    for name in ("traces", "annotations"):
        if not (folder / name).is_dir():
            raise SystemExit(f"{folder / name}: no such folder; give the folder that holds both")
    gold = annotations(folder / "annotations")
    traces = [t for t in asyncio.run(_all(folder / "traces")) if str(t.id) in gold]
    return Measured(traces=traces, gold=gold, subset=subsets(folder / "annotations"))


def fit(folder: Path) -> None:
    """Count on all annotated traces and write the counts that are shipped."""
    known = measured(folder)
    scans = Scans()
    found = {str(trace.id): claims(detect(trace, scans)) for trace in known.traces}
    lines = written(count(known.gold, found))
    COUNTS_FILE.write_text("\n".join(lines) + "\n", "utf-8")
    print(f"counts of {len(known.traces)} traces written to {COUNTS_FILE.name}")


def main(given: Sequence[str] | None = None) -> None:
    """Do what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trail")
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--measure", type=Path)
    parser.add_argument("--fit", type=Path)
    args = parser.parse_args(given)
    if args.fit is not None:
        fit(args.fit)
    elif args.measure is not None:
        measure(measured(args.measure))
    elif args.traces is not None and args.out is not None:
        if not args.traces.exists():
            parser.error(f"--traces {args.traces}: no such file or folder")
        found = asyncio.run(predictions(args.traces))
        args.out.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
        print(f"{len(found)} traces, {sum(map(len, found.values()))} predictions: {args.out}")
    else:
        parser.error("give --traces and --out, or --measure, or --fit")


if __name__ == "__main__":
    main()
