"""Symptoms that count in runs in which nothing failed, by kind: each of them is a suspect.

    python -m benchmarks.false_alarms [--shared DIR] [--runs N] [--quotes]

Clean runs are: the project's own agents while nothing goes wrong, tau-bench airline runs that got
the reward, coding runs whose hidden tests passed, and the spans of fault-injected runs that come
before the fault. Labels are only looked at to choose the runs. A run that passed may still hold a
failure that was made up for, so `--quotes` prints each hit to be read by a person; verdicts stand
in `docs/quality.md`.
"""

import argparse
import asyncio
import gzip
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.planted_world import Condition, Pools
from benchmarks.tau import runs as tau_runs
from connectors.traces.files import FilesSource
from contracts.findings import Symptom
from contracts.traces import Trace, TraceQuery
from nodes.insights.detect.all import detect
from nodes.insights.detect.faults import Scans

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
Part = tuple[Trace, Callable[[Symptom], bool]]
"""A run, and which of its symptoms would be false alarms."""


@dataclass(slots=True)
class Suspects:
    """Symptoms that count in one corpus of clean runs."""

    traces: int = 0
    alarmed: int = 0
    """Runs with at least one."""
    kinds: Counter[str] = field(default_factory=Counter)
    """Runs by kind."""
    quotes: list[str] = field(default_factory=list)

    def add(self, trace: Trace, symptoms: Iterable[Symptom]) -> None:
        """Count one run."""
        found = list(symptoms)
        self.traces += 1
        self.alarmed += bool(found)
        self.kinds.update({one.kind for one in found})
        self.quotes += [f"{trace.id} {one.span_id} {one.signature} | {one.evidence.quote}"
                        for one in found]  # fmt: skip


def every(_symptom: Symptom) -> bool:
    """Nothing failed in the whole run."""
    return True


def own_runs(condition: Condition, count: int) -> Iterator[Part]:
    """Clean runs of one of the project's own agents."""
    with tempfile.TemporaryDirectory() as scratch:
        for trace in Pools(Path(scratch), count)[condition]:
            yield trace, every


def tau_passed(folder: Path) -> Iterator[Part]:
    """Airline runs that got the whole reward."""
    for run, document in tau_runs(folder / "gpt-4o-airline.json.gz"):
        if isinstance(document, dict) and document.get("reward") == 1:
            yield run.trace, every


def coding_passed(folder: Path) -> Iterator[Part]:
    """Coding runs whose hidden tests passed."""
    for reward in sorted(folder.glob("*/reward.txt.gz")):
        if gzip.decompress(reward.read_bytes()).strip() == b"1":
            for trace in _read(reward.with_name("trajectory.json.gz")):
                yield trace, every


def before_the_fault(folder: Path) -> Iterator[Part]:
    """Fault-injected runs, of which only what comes before the faulty step is clean."""
    for truth in sorted(folder.glob("*.ground_truth.json")):
        step = int(json.loads(truth.read_text())["critical_failure_step"])
        name = truth.name.removesuffix(".ground_truth.json")
        for trace in _read(folder / f"{name}.otel.json.gz"):
            steps = [span for span in trace.spans if span.parent_id is not None]
            early = {span.id for span in steps[: max(0, step - 1)]}
            yield trace, lambda symptom, early=early: symptom.span_id in early  # type: ignore[misc]


def _read(path: Path) -> list[Trace]:
    async def work() -> list[Trace]:
        source = FilesSource([path])
        return [t async for batch in source.window(TraceQuery()) for t in batch.traces]

    return asyncio.run(work())


def measure(parts: Iterable[Part]) -> Suspects:
    """What counts in a corpus."""
    out, scans = Suspects(), Scans()
    for trace, false in parts:
        found = detect(trace, scans).symptoms
        out.add(trace, [one for one in found if one.counts and false(one)])
    return out


def corpora(shared: Path, count: int) -> Iterator[tuple[str, Iterator[Part]]]:
    """Every corpus that is there, by name."""
    yield "own: refund agent", own_runs("refund_clean", count)
    yield "own: research desk", own_runs("clean", count)
    given: tuple[tuple[str, str, Callable[[Path], Iterator[Part]]], ...] = (
        ("tau airline, passed", "tau", tau_passed),
        ("coding runs, passed", "codetracer", coding_passed),
        ("before an injected fault", "otelfault", before_the_fault),
    )
    for name, folder, parts in given:
        if (shared / folder).exists():
            yield name, parts(shared / folder)
        else:
            print(f"{name}: no data at {shared / folder}; left out")


def main() -> None:
    """Print a line a corpus, and what counted."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.false_alarms")
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--quotes", action="store_true")
    given = parser.parse_args()
    for name, parts in corpora(given.shared, given.runs):
        found = measure(parts)
        kinds = ", ".join(f"{kind} {n}" for kind, n in found.kinds.most_common()) or "none"
        print(f"{name:26} {found.alarmed:3} of {found.traces:3} runs: {kinds}", flush=True)
        for quote in found.quotes if given.quotes else ():
            print(f"    {quote[:300]}")


if __name__ == "__main__":
    main()
