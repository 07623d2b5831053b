"""Cases from traces: what becomes one, what is refused, and how well cases tell runs apart.

    python -m benchmarks.case_sources [--seeds N] [--traces DIR ...]

Without `--traces`: weeks of the project's own agents with failures planted in them
(`planted_world`). For every family that has a case, all other runs of the window with an input of
that family are graded by it: clean runs should pass, and runs with the planted failure should fail.
With `--traces`: recorded runs, all findings, no truth; counts and reasons only. Figures with date
and command stand in `docs/cases.md`.
"""

import argparse
import asyncio
import random
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from benchmarks.planted_cases import SCENARIOS, Scenario
from benchmarks.planted_world import Held, Pools, lay_out, numbers
from connectors.traces.files import FilesSource
from contracts.gate import Case
from contracts.protocols import TraceSource
from contracts.traces import Trace, TraceId, TraceQuery
from memory.families import family_key
from memory.workspace import Workspace, open_project, register
from nodes.cases.mine import mine_ordinary
from nodes.cases.witness import Witness, witness_of
from nodes.gate.score import grade
from nodes.insights.analyze import Analysis, analyze
from nodes.insights.detect.faults import Scans
from nodes.insights.targets import target_cases

ORDINARY = 60
TARGETS = 5
Kind = Literal["target", "ordinary"]


@dataclass(slots=True)
class Counts:
    """What one or several windows came to."""

    findings: int = 0
    with_target: int = 0
    weak: int = 0
    ordinary: int = 0
    wanted: int = 0
    notes: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    graded: Counter[tuple[Kind, bool, str]] = field(default_factory=Counter)
    """(kind of case, whether the run failed by plan, result): runs."""

    def add(self, other: "Counts") -> None:
        """Take in another window."""
        for name in ("findings", "with_target", "weak", "ordinary", "wanted"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.notes += other.notes
        self.left_out += other.left_out
        self.graded += other.graded

    def share(self, kind: Kind, failed: bool, result: str) -> str:
        """Share of graded runs with this result, and of how many."""
        of = sum(self.graded[kind, failed, one] for one in ("pass", "fail", "missing"))
        return f"{self.graded[kind, failed, result] / of:.3f} of {of}" if of else "no run"


async def cases_of(
    source: TraceSource, found: Analysis, ws: Workspace, *, every: bool
) -> tuple[Counts, dict[Kind, tuple[Case, ...]]]:
    """Targets of the findings and a sample of ordinary traffic."""
    out = Counts()
    targets: list[Case] = []
    for finding in found.findings:
        if not (every or finding.actionable):
            continue
        seen = found.evidence[finding.id]
        got = target_cases(finding, seen.failing, seen.passing, max_targets=TARGETS, seed=1)
        chosen = [case for case in got.cases if "target" in case.tags]
        out.findings += 1
        out.with_target += bool(chosen)
        out.weak += bool(chosen and chosen[0].weak)
        targets += chosen
        if not got.cases:
            out.notes["no request was recorded in its runs"] += 1
        out.notes.update(note.partition(" (")[0] for note in got.notes)
    mined = await mine_ordinary(ws, source, TraceQuery(), ORDINARY, 1)
    out.ordinary, out.wanted = len(mined.cases), ORDINARY
    out.left_out.update(mined.left_out)
    return out, {"target": tuple(targets), "ordinary": mined.cases}


def graded(
    cases: Mapping[Kind, Sequence[Case]],
    traces: Iterable[Trace],
    planted: Mapping[TraceId, object],
) -> Counter[tuple[Kind, bool, str]]:
    """Every run of a case's family but its own, by kind of case and by what was planted."""
    by_family: dict[str, list[Witness]] = {}
    scans = Scans()
    for trace in traces:
        seen = witness_of(trace, scans)
        by_family.setdefault(seen.family, []).append(seen)
    out: Counter[tuple[Kind, bool, str]] = Counter()
    for kind, some in cases.items():
        for case in some:
            for seen in by_family.get(family_key(case.input), ()):
                run = seen.trace_id
                if run is None or f"trace:{run}" == case.origin:
                    continue
                result = grade(case, seen.observation, seen.symptoms).result
                out[kind, run in planted, result] += 1
    return out


def planted_window(scenario: Scenario, pools: Pools, rng: random.Random, home: Path) -> Counts:
    """One week of a scenario, with the week before it, in a project that knows its findings."""
    window = lay_out(scenario.window, pools, rng)
    before = (Held(lay_out(scenario.baseline, pools, rng).traces), TraceQuery())

    async def run() -> Counts:
        held = Held(window.traces)
        found = await analyze(held, TraceQuery(), project="planted", baseline=before)
        ws = project(home)
        with ws.ledger.db.write() as tx:
            for finding in found.findings:
                ws.ledger.knowledge.put_finding(tx, finding)
        out, cases = await cases_of(held, found, ws, every=False)
        ws.ledger.close()
        out.graded = graded(cases, window.traces, window.planted)
        return out

    return asyncio.run(run())


def recorded_window(path: Path, ws: Workspace) -> Counts:
    """A folder of recorded runs."""

    async def run() -> Counts:
        source = FilesSource([path])
        found = await analyze(source, TraceQuery(), project="recorded")
        return (await cases_of(source, found, ws, every=True))[0]

    return asyncio.run(run())


def project(home: Path) -> Workspace:
    """An empty project."""
    root = Path(tempfile.mkdtemp(dir=home))
    (root / "tracemend.yaml").write_text("version: 1\nproject: cases\n")
    register(root / "home", "cases", root)
    return open_project(root / "home", "cases")


def lines(name: str, counts: Counts, *, truth: bool) -> list[str]:
    """What is printed of one window or scenario."""
    out = [
        f"{name}: {counts.with_target} of {counts.findings} findings have targets"
        f" ({counts.weak} weak); {counts.ordinary} of {counts.wanted} ordinary cases"
    ]
    if truth:
        kinds: tuple[Kind, ...] = ("target", "ordinary")
        out += [
            f"  {kind}: clean runs pass {counts.share(kind, False, 'pass')},"
            f" planted failures fail {counts.share(kind, True, 'fail')}"
            for kind in kinds
        ]
    out += [f"  {count} x {why}" for why, count in counts.notes.most_common(5)]
    out += [f"  left out: {count} x {why}" for why, count in counts.left_out.most_common(5)]
    return out


def main() -> None:
    """Print what each source came to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.case_sources")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--pool", type=int, default=36)
    parser.add_argument("--weeks", type=int, default=600, help="runs a week")
    parser.add_argument("--traces", type=Path, nargs="*", default=[])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        ws = project(Path(scratch))
        for path in given.traces:
            print("\n".join(lines(path.name, recorded_window(path, ws), truth=False)))
        if not given.traces:
            whole = Counts()
            pools = Pools(Path(scratch), given.pool)
            for scenario in SCENARIOS:
                here = Counts()
                for seed in range(given.seeds):
                    scaled = scenario.scaled(given.weeks)
                    here.add(planted_window(scaled, pools, numbers(seed), Path(scratch)))
                print("\n".join(lines(scenario.name, here, truth=True)), flush=True)
                whole.add(here)
            print("\n".join(lines("all", whole, truth=True)))
        ws.ledger.close()


if __name__ == "__main__":
    main()
