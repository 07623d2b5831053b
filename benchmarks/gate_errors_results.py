"""What was simulated, kept as JSON lines so that a run can be stopped, resumed and drawn again."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scipy import special

from benchmarks.gate_errors_worlds import EDITS, FLAKINESS, PROJECTS, Edit, Outcome, Project
from contracts.json_types import Json, JsonObject
from nodes.insights.compare import rate_interval

Key = tuple[str, float, str]
"""(project, flakiness, edit)."""
PROJECT: Mapping[str, Project] = {project.name: project for project in PROJECTS}
EDIT: Mapping[str, Edit] = {edit.name: edit for edit in EDITS}
USUAL_RULES = ("none worse", "mean higher", "paired t")
SURE = 1e-4
"""How unlikely a count must be, at the nominal level, to fail the run; over all its cells."""


@dataclass(slots=True)
class Cell:
    """All gates of one project, flakiness and edit."""

    gates: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    guard_runs: int = 0
    planned: int = 0
    usual: list[int] = field(default_factory=lambda: [0, 0, 0])

    def add(self, batch: Mapping[str, Json]) -> None:
        """Count a line of the results."""
        self.gates += _int(batch["gates"])
        self.runs += _int(batch["runs"])
        self.guard_runs += _int(batch["guard_runs"])
        self.planned += _int(batch["planned"])
        for counted, name in ((self.verdicts, "verdicts"), (self.reasons, "reasons")):
            said = batch[name]
            if isinstance(said, Mapping):
                counted.update({word: _int(count) for word, count in said.items()})
        usual = batch["usual"]
        if isinstance(usual, Sequence):
            self.usual = [old + _int(new) for old, new in zip(self.usual, usual, strict=True)]

    @property
    def accepted(self) -> int:
        """Gates that accepted (starter: "known cases only")."""
        return self.verdicts["accept"]

    def share(self, verdict: str) -> float:
        """Of the gates, 0..1."""
        return self.verdicts[verdict] / self.gates

    @property
    def spent(self) -> float:
        """Runs as a share of the fixed plan, guard runs included."""
        return self.runs / self.planned

    def interval(self) -> tuple[float, float, float]:
        """Low, share, high of the accepted."""
        return rate_interval(self.accepted, self.gates)


def _int(value: Json) -> int:
    if not isinstance(value, int):
        raise TypeError(f"a count is a whole number, got {value!r}")
    return value


def as_batch(key: Key, first: int, outcomes: Iterable[Outcome]) -> JsonObject:
    """A line of the results: the gates `first`, `first + 1` … of a cell."""
    found = list(outcomes)
    return {
        "project": key[0],
        "flakiness": key[1],
        "edit": key[2],
        "first": first,
        "gates": len(found),
        "verdicts": dict(Counter(one.verdict for one in found)),
        "reasons": dict(Counter(one.reason.split(" (")[0] for one in found)),
        "runs": sum(one.runs for one in found),
        "guard_runs": sum(one.guard_runs for one in found),
        "planned": sum(one.planned for one in found),
        "usual": [sum(one.usual[i] for one in found) for i in range(3)],
    }


@dataclass(slots=True)
class Results:
    """A file of batches. A line that a kill cut short is left out."""

    file: Path | None
    cells: dict[Key, Cell] = field(default_factory=lambda: defaultdict(Cell))
    there: set[tuple[Key, int]] = field(default_factory=set)

    def read(self) -> "Results":
        """Count what the file holds."""
        if self.file is None or not self.file.exists():
            return self
        for line in self.file.read_text("utf-8").splitlines():
            try:
                batch = json.loads(line)
            except ValueError:
                continue
            self._count(batch)
        return self

    def put(self, batch: JsonObject) -> None:
        """Keep a line."""
        if self._count(batch) and self.file is not None:
            with self.file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(batch, sort_keys=True) + "\n")

    def _count(self, batch: Mapping[str, Json]) -> bool:
        key = (str(batch["project"]), float(str(batch["flakiness"])), str(batch["edit"]))
        place = (key, _int(batch["first"]))
        if place in self.there:
            return False
        self.there.add(place)
        self.cells[key].add(batch)
        return True

    def ordered(self) -> list[tuple[Key, Cell]]:
        """The cells that have gates, in the order of the tables."""
        keys = [(p.name, f, e.name) for p in PROJECTS for f in FLAKINESS for e in EDITS]
        return [(key, self.cells[key]) for key in keys if key in self.cells]


def nominal(project: Project, edit: Edit) -> float | None:
    """The level at which an accept of this edit would be a false one; None: it would be true.

    An edit that fixes nothing must fail L1. One that harms by the margin or more must fail L2,
    which a starter does not ask for: "known cases only" says nothing of other cases.
    """
    level = 0.05 / project.uses
    if not edit.fixes:
        return level
    harm = project.margin if edit.harm is None else edit.harm
    return level if harm >= project.margin and not project.starter else None


def excesses(results: Results) -> list[str]:
    """Cells that accept falsely more often than their level allows: exact binomial, Bonferroni."""
    asked = [
        (key, cell, level)
        for key, cell in results.ordered()
        if (level := nominal(PROJECT[key[0]], EDIT[key[2]])) is not None
    ]
    found = []
    for key, cell, level in asked:
        chance = (
            float(special.bdtrc(cell.accepted - 1, cell.gates, level)) if cell.accepted else 1.0
        )
        if chance <= SURE / len(asked):
            found.append(
                f"{key[0]}, flaky {key[1]:g}, {key[2]}: accepted {cell.accepted} of {cell.gates}, "
                f"level {level:g} (p {chance:.1e})"
            )
    return found
