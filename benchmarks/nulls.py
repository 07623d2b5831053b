"""Null windows: weeks of one process in which nothing changes. How often is there an alarm?

    python -m benchmarks.nulls [--windows N] [--pool N] [--first SEED] [--only NAME ...]

Runs of the project's own agents are drawn as in `planted_world`, failures at rates that stay what
they are. Week after week is counted and compared with the week before, as `analyze` does. An alarm
is a finding whose change is `new` or `risen`; a week counts once. Nominal: `alpha` of the weeks, by
Holm over the findings of a week. A failure so rare that the week before had none of it is new to
whoever has these two weeks only (`tracemend analyze --baseline`); a project remembers its findings
and is told once. Both are counted. Figures with date and command stand in `docs/quality.md`.
"""

import argparse
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from benchmarks.planted_cases import busy_days
from benchmarks.planted_world import (
    MONDAY,
    WEEK,
    Condition,
    Fault,
    Plan,
    Pools,
    day_and_night,
    lay_out,
    numbers,
)
from contracts.findings import Finding, Signature
from contracts.traces import Trace
from nodes.insights.analyze import ALPHA, CHRONIC_FLOOR, MAX_EXEMPLARS
from nodes.insights.compare import rate_interval
from nodes.insights.detect.all import Detected, detect
from nodes.insights.detect.faults import Scans
from nodes.insights.findings import Terms, found
from nodes.insights.grouping import grouped
from nodes.insights.tally import Tally

_TERMS = Terms(
    project="nulls", chronic_floor=CHRONIC_FLOOR, alpha=ALPHA, exemplars=MAX_EXEMPLARS,
    unit="session", known={},
)  # fmt: skip
_PEAK = frozenset(range(12, 16))


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process that does not change, and how two windows of it are drawn."""

    name: str
    traces: int
    faults: tuple[Fault, ...]
    weight: Callable[[datetime], float] = day_and_night
    weight_before: Callable[[datetime], float] = day_and_night
    """Of the baseline: traffic may change where failing does not."""


def _steady(*shares: tuple[Condition, float]) -> tuple[Fault, ...]:
    return tuple(Fault(condition=name, share=share) for name, share in shares)


PROCESSES = (
    Process(
        name="steady",
        traces=300,
        faults=_steady(("withdrawn", 0.05), ("desk_full", 0.08), ("short_years", 0.03)),
    ),
    Process(name="few", traces=30, faults=_steady(("withdrawn", 0.1), ("desk_full", 0.2))),
    Process(
        name="rare",
        traces=300,
        faults=_steady(("withdrawn", 0.004), ("desk_full", 0.008), ("index_down", 0.002)),
    ),
    Process(
        name="season",
        traces=300,
        faults=(
            Fault(condition="index_down", share=0.25, hours=_PEAK),
            Fault(condition="withdrawn", share=0.03),
        ),
    ),
    Process(
        name="season, other traffic",
        traces=300,
        faults=(
            Fault(condition="index_down", share=0.25, hours=_PEAK),
            Fault(condition="withdrawn", share=0.03),
        ),
        weight=busy_days,
    ),
)


class Seen:
    """Runs of the pools as detectors saw them, once; a drawn run differs in ids and times only."""

    def __init__(self) -> None:
        self._scans = Scans()
        self._known: dict[str, Detected] = {}

    def __call__(self, drawn: Trace, origin: Trace) -> Detected:
        """What the detectors see in a drawn run."""
        known = self._known.get(origin.id)
        if known is None:
            known = self._known[origin.id] = detect(origin, self._scans)
        moved = drawn.started_at - origin.started_at
        symptoms = tuple(
            replace(one, trace_id=drawn.id, unit=drawn.unit, at=one.at + moved)
            for one in known.symptoms
        )
        return replace(known, view=replace(known.view, trace=drawn), symptoms=symptoms)


@dataclass(slots=True)
class Alarms:
    """Alarms over many null windows."""

    windows: int = 0
    risen: int = 0
    """Weeks with a risen finding."""
    new: int = 0
    """Weeks with a finding that was not in the week before."""
    either: int = 0
    remembered: int = 0
    """Weeks with either, where findings of all earlier weeks are known."""
    fallen: int = 0
    told: Counter[str] = field(default_factory=Counter)

    def add(self, findings: Sequence[Finding], knowing: Sequence[Finding]) -> None:
        """Count one week, by an analysis without and with memory."""
        changes = Counter(finding.change for finding in findings)
        self.windows += 1
        self.risen += changes["risen"] > 0
        self.new += changes["new"] > 0
        self.either += changes["risen"] + changes["new"] > 0
        self.remembered += any(one.change in ("new", "risen") for one in knowing)
        self.fallen += changes["fallen"] > 0
        self.told.update(
            f"{f.change} {f.signature} {f.units}/{f.units_total} against "
            f"{f.baseline_units}/{f.baseline_total}"
            for f in findings
            if f.change in ("new", "risen")
        )

    def line(self, name: str) -> str:
        """A row: alarms per 1,000 windows with their 95 % interval."""
        cells = [name.ljust(22), f"{self.windows:7}"]
        for count in (self.risen, self.new, self.either, self.remembered, self.fallen):
            low, middle, high = (1000 * x for x in rate_interval(count, self.windows))
            cells.append(f"{middle:6.0f} ({low:3.0f}-{high:3.0f})")
        return "  ".join(cells)


HEAD = "  ".join(
    [
        "process".ljust(22),
        "windows",
        *(f"{x:>16}" for x in ("risen", "new", "either", "with memory", "fallen")),
    ]
)


def week(process: Process, at: int, pools: Pools, seen: Seen) -> Tally:
    """The counts of one week of the process."""
    weight = process.weight if at % 2 else process.weight_before
    plan = Plan(
        traces=process.traces, faults=process.faults, start=MONDAY + at * WEEK, weight=weight
    )
    window = lay_out(plan, pools, numbers(at), whole=False)
    tally = Tally(samples=False)
    for trace in window.traces:
        tally.add(seen(trace, window.origin[trace.id]))
    return tally


def findings_of(
    now: Tally, before: Tally, known: Mapping[Signature, Finding] | None = None
) -> tuple[Finding, ...]:
    """What an analysis of one week against another finds, with what is known already."""
    known = known or {}
    grouping = grouped(now, before, known=known.values())
    return found(grouping, now, before, replace(_TERMS, known=known))[0]


def measure(process: Process, pools: Pools, windows: int, first: int = 0) -> Alarms:
    """Alarms of a process over some weeks."""
    alarms, seen = Alarms(), Seen()
    known: dict[Signature, Finding] = {}
    before = week(process, first, pools, seen)
    for number in range(first + 1, first + windows + 1):
        now = week(process, number, pools, seen)
        knowing = findings_of(now, before, known)
        alarms.add(findings_of(now, before), knowing)
        for finding in knowing:
            known.setdefault(finding.signature, finding)
        before = now
    return alarms


def main() -> None:
    """Print the table, and the commonest alarms."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nulls")
    parser.add_argument("--windows", type=int, default=1_000)
    parser.add_argument("--pool", type=int, default=24)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[])
    given = parser.parse_args()
    print(f"alarms per 1,000 windows; nominal at most {1000 * ALPHA:.0f}\n{HEAD}")
    with tempfile.TemporaryDirectory() as scratch:
        pools = Pools(Path(scratch), given.pool)
        for process in [p for p in PROCESSES if p.name in given.only or not given.only]:
            alarms = measure(process, pools, given.windows, given.first)
            print(alarms.line(process.name), flush=True)
            for what, count in alarms.told.most_common(3):
                print(f"    {count} x {what}")


if __name__ == "__main__":
    main()
