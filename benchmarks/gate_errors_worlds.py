"""Simulated projects for the gate: sizes, edits, and one whole gate with the shipped rule.

A sealed case passes or fails in truth (.70 pass), and each answer is flipped with the flakiness f.
Harm turns passing cases over, gain failing ones, each case by itself. A turned case changes its
pass rate by 1 - 2f, so as many turn as make the named change of the mean pass rate. A target case
fails in truth; a fixed one passes. Each run costs what its case costs (log-normal, sigma .5) times
what runs differ by (log-normal, sigma .3), and the candidate 5 % more: with 60 cases and no flakes
the bound on cost then holds .85 of the time. Ten baseline runs a case are drawn beforehand, as a
project would have them stored.
"""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal
from unittest.mock import patch

from scipy import special

from contracts.gate import Block, Case, CaseId, CaseTag, GatePlan, Graded, RunResult
from contracts.harness import Revision
from memory.case_runs import Passes
from memory.cases import fingerprint
from nodes.gate.design import design_plan
from nodes.gate.schedule import BlockToRun, Finished, next_step

PASSING = 0.7
"""Share of sealed cases that pass in truth without the edit."""
DEARER = 1.05
CASE_SPREAD, RUN_SPREAD = 0.5, 0.3
STORED_RUNS = 10
LEVEL_T = 0.05
"""Of the paired t bound, one of the usual rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project by its size and by what it asks for."""

    name: str
    targets: int
    sealed: int
    margin: float
    uses: int
    """1: level .05; 5: level .01."""
    discordance: float = 0.10
    """As its plan assumes."""

    @property
    def starter(self) -> bool:
        """Too few sealed cases to be accepted by itself."""
        return self.sealed < 30  # as in docs/gate.md


PROJECTS = (
    Project(name="Mini, starter", targets=3, sealed=8, margin=0.10, uses=5),
    Project(name="Tiny, starter", targets=3, sealed=20, margin=0.10, uses=5),
    Project(
        name="Small, margin .15, level .01",
        targets=5,
        sealed=60,
        margin=0.15,
        uses=5,
        discordance=0.05,
    ),
    Project(
        name="Small, margin .10, level .05",
        targets=5,
        sealed=60,
        margin=0.10,
        uses=1,
        discordance=0.05,
    ),
    Project(name="Medium, margin .10, level .01", targets=8, sealed=140, margin=0.10, uses=5),
    Project(name="Large, margin .05, level .01", targets=10, sealed=480, margin=0.05, uses=5),
)
FLAKINESS = (0.0, 0.05, 0.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """What an edit does in truth, as changes of the mean pass rate over all cases."""

    name: str
    fixes: bool = True
    gain: float = 0.0
    harm: float | None = 0.0
    """None: exactly the margin of the plan, where "no harm" is just not true."""


EDITS = (
    Edit(name="no effect", fixes=False),
    Edit(name="fixes, harms 10", harm=0.10),
    Edit(name="fixes, harms by the margin", harm=None),
    Edit(name="fixes targets only"),
    Edit(name="fixes, +5", gain=0.05),
    Edit(name="fixes, +10", gain=0.10),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One simulated gate, and what the usual rules say of the same project."""

    verdict: Literal["accept", "reject", "inconclusive", "invalid"]
    """In starter "accept" stands for "known cases only", the best that it can reach."""
    reason: str
    runs: int
    guard_runs: int
    planned: int
    usual: tuple[bool, bool, bool]
    """One better and none worse; mean higher; paired t bound above zero."""


def simulate(
    project: Project, edit: Edit, flakiness: float, number: int, *, guards: bool = True
) -> Outcome:
    """The gate number `number` of a cell, from its plan to its verdict. The number is its seed."""
    plan, cases = plan_of(project, number, flakiness, guards=guards)
    world = World(plan, cases, edit, flakiness, f"{project.name}|{edit.name}|{number}")
    stored: list[Block] = []
    with without_advice():
        while True:
            step = next_step(plan, stored, spent_seconds=0.0, spent_usd=None)
            if isinstance(step, Finished):
                break
            stored += [world.block(todo) for todo in step.blocks]
    found = step.report
    known = project.starter and found.reason == "known cases only"
    guard_runs = sum(1 + (b.baseline is not None) for b in stored if b.phase == "guard")
    return Outcome(
        verdict="accept" if known else found.verdict,
        reason=found.reason,
        runs=found.runs,
        guard_runs=guard_runs,
        planned=found.planned_runs,
        usual=world.usual(),
    )


@contextmanager
def without_advice() -> Iterator[None]:
    """No proven margin and no "how many more cases" in reports: seconds each, and for people.

    Both are made after the verdict, from it.
    """
    with (
        patch("nodes.gate.verdict.needed_for", return_value=None),
        patch("nodes.gate.verdict.proven", return_value=1.0),
    ):
        yield


def _case(name: str, tag: CaseTag) -> Case:
    return Case(
        id=CaseId(name),
        input={"message": name},
        assertions=({"not_empty": True},),
        tags=frozenset({tag}),
        family=f"family of {name}",
        origin="file:cases/simulated.yaml",
    )


@lru_cache(maxsize=64)
def _cases(count: int, tag: CaseTag) -> tuple[Case, ...]:
    return tuple(_case(f"{tag}-{i}", tag) for i in range(count))


def plan_of(
    project: Project, number: int, flakiness: float, *, guards: bool = True
) -> tuple[GatePlan, "Truths"]:
    """The project's plan as `plan` would make it, and which sealed case passes in truth."""
    sealed = _cases(project.sealed, "sealed")
    rng = random.Random(f"project|{project.name}|{flakiness}|{number}")  # noqa: S311
    passing = {case.id: rng.random() < PASSING for case in sealed}
    runs = {
        fingerprint(case): Passes(
            passes=sum((rng.random() >= flakiness) == passing[case.id] for _ in range(STORED_RUNS)),
            runs=STORED_RUNS,
        )
        for case in sealed
    }
    plan = design_plan(
        base=Revision("base"),
        candidate=Revision("candidate"),
        targets=_cases(project.targets, "target"),
        sealed=sealed,
        margin=project.margin,
        uses=project.uses,
        use=1,
        issue_use=1,
        max_targets=project.targets,
        max_runs=1_000_000,
        max_usd=1e9,
        max_seconds=1e9,
        deadline_s=30.0,
        seed=number,
        discordance=project.discordance,
        runs=runs if guards else {},
    )
    return plan, passing


Truths = Mapping[CaseId, bool]


def harm_of(edit: Edit, margin: float) -> float:
    """How much of the mean pass rate the edit takes away."""
    return margin if edit.harm is None else edit.harm


class World:
    """What every run of one project says. A run depends on its place alone, not on when it runs."""

    def __init__(
        self, plan: GatePlan, passing: Truths, edit: Edit, flakiness: float, seed: str
    ) -> None:
        self._plan, self._passing, self._flakiness, self._seed = plan, passing, flakiness, seed
        rng, of_turned = random.Random(seed), 1.0 - 2.0 * flakiness  # noqa: S311
        harm, gain = harm_of(edit, plan.margin) / of_turned, edit.gain / of_turned
        self._fixes = edit.fixes
        self._after: dict[CaseId, bool] = {}
        self._price: dict[CaseId, float] = {}
        for case in (*plan.targets, *plan.sealed):
            self._price[case.case] = 0.01 * math.exp(rng.gauss(0.0, CASE_SPREAD))
        for name, passes in sorted(passing.items()):
            turned = rng.random() < (harm / PASSING if passes else gain / (1.0 - PASSING))
            self._after[name] = passes is not turned

    def block(self, todo: BlockToRun) -> Block:
        """The block that the gate asks for."""
        place = f"{self._seed}|{todo.phase}|{todo.case}|{todo.index}|{todo.attempt}"
        rng = random.Random(place)  # noqa: S311
        truths = {"B": False, "C": self._fixes}
        if todo.phase != "target":
            truths = {"B": self._passing[todo.case], "C": self._after[todo.case]}
        runs = {arm: self._run(rng, todo.case, arm, truths[arm]) for arm in ("B", "C")}
        return Block(
            phase=todo.phase,
            case=todo.case,
            index=todo.index,
            attempt=todo.attempt,
            first=todo.first,
            baseline=runs["B"] if "B" in todo.arms else None,
            candidate=runs["C"],
        )

    def _run(self, rng: random.Random, case: CaseId, arm: str, truth: bool) -> Graded:
        result: RunResult = "pass" if truth is (rng.random() >= self._flakiness) else "fail"
        cost = self._price[case] * math.exp(rng.gauss(0.0, RUN_SPREAD))
        return Graded(result=result, cost_usd=cost * (DEARER if arm == "C" else 1.0), seconds=1.0)

    def usual(self) -> tuple[bool, bool, bool]:
        """The usual rules on one run an arm of every target and sealed case together."""
        differences = []
        for phase, cases in (("target", self._plan.targets), ("sealed", self._plan.sealed)):
            for case in cases:
                block = self.block(
                    BlockToRun(
                        phase="target" if phase == "target" else "sealed",
                        case=case.case,
                        index=0,
                        attempt=0,
                        first="B",
                        seed=0,
                    )
                )
                differences.append(_passes(block.candidate) - _passes(block.baseline))
        return usual_rules(differences)


def _passes(run: Graded | None) -> int:
    return int(run is not None and run.result == "pass")


def usual_rules(differences: Sequence[int]) -> tuple[bool, bool, bool]:
    """What three usual rules make of one difference a case, each -1, 0 or 1.

    One better and none worse; the mean higher; the lower one-sided 95 % bound of a paired t above
    zero (with no spread at all: the mean above zero).
    """
    n, total = len(differences), sum(differences)
    mean = total / n
    squares = math.fsum((d - mean) ** 2 for d in differences)
    error = math.sqrt(squares / (n - 1) / n) if n > 1 else math.inf
    bound = mean - float(special.stdtrit(n - 1, 1.0 - LEVEL_T)) * error if n > 1 else -math.inf
    return (max(differences) > 0 and min(differences) >= 0, total > 0, bound > 0.0)
