"""Failures planted in weeks of the project's own agents: are they found, and told right?

    python -m benchmarks.planted [--seeds N] [--pool N] [--traces N] [--only NAME] [--verbose]

Weeks are made by `planted_world`, what is planted stands in `planted_cases`; every window goes
through `analyze`. A finding belongs to the cause that most of its sampled traces were planted with.
Figures with date and command stand in `docs/quality.md`.
"""

import argparse
import asyncio
import random
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import planted_pairs
from benchmarks.planted_cases import REMEDIES, SCENARIOS, Cause, Scenario
from benchmarks.planted_world import Condition, Held, Pools, lay_out, numbers
from contracts.findings import Finding
from contracts.traces import TraceId, TraceQuery
from nodes.insights.analyze import Analysis, analyze

MIN_PLANTED = 2
"""Fewer planted runs of a cause in a window need not be found: a new failure needs two units."""


@dataclass(slots=True)
class Marks:
    """How often something was right, of how many."""

    right: int = 0
    of: int = 0

    def add(self, right: int, of: int = 1) -> None:
        """Count some more."""
        self.right += right
        self.of += of

    def __str__(self) -> str:
        """As a cell of a table."""
        return f"{self.right}/{self.of}" if self.of else "-"


MEASURES = ("found", "one each", "pure", "change", "action", "contrast", "no other", "remedy",
            "no false")  # fmt: skip
"""found: causes with a finding; one each: of these with exactly one; pure: findings of one cause
only; change, action, remedy: told as planted; contrast: the planted one named; no other: findings
without a contrast that is not true; no false: findings that some planted run is behind."""


@dataclass(slots=True)
class Result:
    """One scenario over its seeds."""

    marks: dict[str, Marks] = field(default_factory=lambda: {name: Marks() for name in MEASURES})
    mistakes: list[str] = field(default_factory=list)

    def check(self, name: str, right: bool, what: str) -> None:
        """Count one answer; a wrong one is kept in words."""
        self.marks[name].add(right)
        if not right:
            self.mistakes.append(f"{name}: {what}")

    def add(self, other: "Result") -> None:
        """Take in what another one counted."""
        for name, marks in other.marks.items():
            self.marks[name].add(marks.right, marks.of)
        self.mistakes += other.mistakes


def judge(scenario: Scenario, found: Analysis, planted: Mapping[TraceId, Condition]) -> Result:
    """Compare an analysis with what was planted in its window."""
    out = Result()
    counts = Counter(planted.values())
    mine: dict[int, list[Finding]] = {}
    for finding in found.findings:
        labels = Counter(planted.get(s.trace_id) for s in found.evidence[finding.id].failing)
        label = max(labels, key=lambda name: (labels[name], str(name)))
        out.check("no false", label is not None, f"{finding.signature} {finding.change}")
        at = _cause_of(label, scenario.causes)
        if at is not None:
            mine.setdefault(at, []).append(finding)
            held = scenario.causes[at].conditions
            out.check("pure", labels.keys() <= set(held), f"{finding.signature} {dict(labels)}")
    for at, cause in enumerate(scenario.causes):
        units = sum(counts[name] for name in cause.conditions)
        findings = mine.get(at, [])
        if units >= MIN_PLANTED:
            out.check("found", bool(findings), f"{cause.conditions} in {units}")
        if findings:
            told = [(f.signature, f.units) for f in findings]
            out.check("one each", len(findings) == 1, f"{cause.conditions} {told}")
            _judge_finding(out, cause, max(findings, key=lambda f: f.units))
    return out


def _cause_of(label: Condition | None, causes: Sequence[Cause]) -> int | None:
    return next((i for i, cause in enumerate(causes) if label in cause.conditions), None)


def _judge_finding(out: Result, cause: Cause, finding: Finding) -> None:
    what = f"{finding.signature} {finding.units}/{finding.units_total}"
    baseline = f"{finding.baseline_units}/{finding.baseline_total}"
    out.check("change", finding.change in cause.changes, f"{what} {finding.change} {baseline}")
    if cause.actionable is not None:
        out.check("action", finding.actionable is cause.actionable, f"{what} {finding.why_not}")
    remedies = set().union(*(REMEDIES[name] for name in cause.conditions))
    out.check("remedy", finding.remedy in remedies, f"{what} {finding.remedy}")
    said = [(one.factor, one.value, one.sentence) for one in finding.contrasts]
    if cause.contrast is not None:
        factor, value = cause.contrast
        named = any(
            (f == factor and value in v) or (value in s and factor in s) for f, v, s in said
        )
        out.check("contrast", named, f"{what} {said}")
    true = cause.also_true | ({cause.contrast[0]} if cause.contrast else set())
    wrong = [one for one in said if one[0] not in true]
    out.check("no other", not wrong, f"{what} {wrong}")


def run(scenario: Scenario, pools: Pools, rng: random.Random) -> Result:
    """Lay out both windows, analyse, judge."""
    window = lay_out(scenario.window, pools, rng)
    before = (Held(lay_out(scenario.baseline, pools, rng).traces), TraceQuery())
    held = Held(window.traces)
    found = asyncio.run(analyze(held, TraceQuery(), project="planted", baseline=before))
    return judge(scenario, found, window.planted)


def measure(
    scenarios: Iterable[Scenario], pools: Pools, repeats: int, first_seed: int = 0
) -> dict[str, Result]:
    """Every scenario over some seeds, by name."""
    out = {}
    for scenario in scenarios:
        whole = Result()
        for number in range(repeats):
            whole.add(run(scenario, pools, numbers(first_seed + number)))
        out[scenario.name] = whole
    return out


def table(results: Mapping[str, Result]) -> list[str]:
    """The table of marks, with a line for all scenarios together."""
    lines = [f"{'scenario':15}" + "".join(f"{name:>10}" for name in MEASURES)]
    total = Result()
    for name, result in results.items():
        lines.append(f"{name:15}" + "".join(f"{result.marks[m]!s:>10}" for m in MEASURES))
        total.add(result)
    lines.append(f"{'all':15}" + "".join(f"{total.marks[m]!s:>10}" for m in MEASURES))
    return lines


def main() -> None:
    """Print the table, and what went wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planted")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--pool", type=int, default=36)
    parser.add_argument("--traces", type=int, default=600)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    chosen = [s.scaled(given.traces) for s in SCENARIOS if s.name in given.only or not given.only]
    with tempfile.TemporaryDirectory() as scratch:
        results = measure(chosen, Pools(Path(scratch), given.pool), given.seeds, given.first)
    print("\n".join([*table(results), *planted_pairs.lines()]))
    for name, result in results.items():
        wrong = Counter(result.mistakes)
        for what, count in wrong.most_common(None if given.verbose else 4):
            print(f"{name}: {count} x {what[:400]}")


if __name__ == "__main__":
    main()
