"""Edits whose verdict is known beforehand: does the gate still tell good, none and harmful apart?

The folder `gate.planted` holds one folder an edit. Its files are laid over the harness as it is;
`expect.txt` names the verdicts that are right. A folder `base` is laid over the harness first, for
both arms: that is where a fault can be planted that the good edit mends.

A planted edit is the operator's own text, committed by a person in the repository. What a model
drafted never runs here: a candidate that is one of a proposal's is refused.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeGuard, get_args

from connectors.harness.paths import Include
from connectors.harness.tree import read_tree
from contracts.errors import ConfigError
from contracts.gate import Case, GateReport, Verdict
from contracts.harness import HarnessSnapshot, Revision
from contracts.json_types import Json
from contracts.protocols import Probe
from memory.workspace import Workspace
from nodes.casebook import Casebook, read_casebook
from nodes.evolution.change import added_text
from nodes.gate.design import PlanRefused
from nodes.gate.leaks import leaked
from nodes.gate.trial import Say, Sides, Sorts, Trial, design_trial, run_trial, silent, trial_key
from nodes.ports import open_harness

EXPECT: Final = "expect.txt"
BASE: Final = "base"
_LONGEST_EXPECT = 64 * 1024
_EVERYTHING = ("**", "**/.*", "**/.*/**")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What `expect.txt` says."""

    verdicts: tuple[tuple[Verdict, str | None], ...]
    """Any of them is right; with a reason, only with that."""
    targets: tuple[str, ...]
    """Ids of the cases that the edit is about; none: all that are tagged target, else training."""

    def met(self, verdict: Verdict, reason: str) -> bool:
        """Whether a gate that said so was right."""
        return any(verdict == right and why in (None, reason) for right, why in self.verdicts)

    def in_words(self) -> str:
        """The allowed verdicts."""
        return " or ".join(v if why is None else f"{v}: {why}" for v, why in self.verdicts)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedEdit:
    """One planted edit, ready to run."""

    name: str
    expected: Expected
    trial: Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedResult:
    """What the gate said of one planted edit. Counts of sealed cases stay out of it."""

    name: str
    expected: str
    verdict: Verdict
    reason: str
    ok: bool
    runs: int
    planned_runs: int
    spent_usd: float | None


async def planted(ws: Workspace, probe: Probe, say: Say = silent) -> tuple[PlantedResult, ...]:
    """Run every planted edit through the whole gate, in the order of their names.

    Each is run at the level of a first use, and spends none: nothing is told of a proposal's edit.
    An edit that was under way when a run was killed goes on where it stopped.

    Raises:
        ConfigError: no folder is configured, or one cannot be used; nothing was run then.
        ProbeError: the agent cannot be started.
    """
    now = await open_harness(ws).read()
    edits = await asyncio.to_thread(_edits, ws, now)
    results = []
    for edit in edits:
        report = await run_trial(ws, probe, edit.trial, say)
        results.append(await asyncio.to_thread(_keep, ws, edit, report))
    return tuple(results)


def _keep(ws: Workspace, edit: PlantedEdit, report: GateReport) -> PlantedResult:
    found = PlantedResult(
        name=edit.name, expected=edit.expected.in_words(), verdict=report.verdict,
        reason=report.reason, ok=edit.expected.met(report.verdict, report.reason),
        runs=report.runs, planned_runs=report.planned_runs, spent_usd=report.spent_usd,
    )  # fmt: skip
    body: dict[str, Json] = {
        "expected": found.expected, "verdict": found.verdict, "reason": found.reason,
        "candidate": edit.trial.sides.ids[1], "runs": found.runs,
        "planned_runs": found.planned_runs,
    }  # fmt: skip
    with ws.ledger.db.write() as tx:
        ws.ledger.gate_checks.put(tx, "planted", ok=found.ok, body=body, subject=edit.name)
    return found


def _edits(ws: Workspace, now: HarnessSnapshot) -> list[PlantedEdit]:
    """All planted edits, each checked and planned before the first one runs."""
    where = ws.settings.gate.planted
    if where is None:
        raise ConfigError("gate.planted: not set; name the folder that holds the planted edits")
    folder = (ws.root / where).resolve()
    if not folder.is_relative_to(ws.root.resolve()) or not folder.is_dir():
        raise ConfigError(f"gate.planted: {where!r} is no folder inside the project's")
    names = sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    if not set(names) - {BASE}:
        raise ConfigError(f"gate.planted: {where!r} holds no edit; make a folder for each")
    base = _laid_over(ws, now, folder / BASE) if BASE in names else now
    book = read_casebook(ws)
    return [_edit(ws, folder / name, now, base, book) for name in names if name != BASE]


def _edit(
    ws: Workspace, folder: Path, now: HarnessSnapshot, base: HarnessSnapshot, book: Casebook
) -> PlantedEdit:
    drafted = _drafted(ws)
    expected = read_expected(folder / EXPECT)
    sides = Sides(base=base, candidate=_laid_over(ws, base, folder))
    if sides.base == sides.candidate:
        raise ConfigError(f"gate.planted: {folder.name!r}: no change; a byte must differ")
    for side in (sides.base, sides.candidate):
        if side.revision in drafted and side != now:
            raise ConfigError(
                f"gate.planted: {folder.name!r} makes the very text of a proposal; what was "
                "drafted only runs in its own gate, after a yes"
            )
    gone = leaked(book.tagged("sealed"), added_text(now, sides.candidate))
    sorts = Sorts(
        targets=_targets(book, expected, folder.name),
        sealed=tuple(case for case in book.tagged("sealed") if case not in gone),
        critical=book.tagged("critical"), guards=book.tagged("guard"),
    )  # fmt: skip
    key = trial_key(ws, "planted", folder.name, sides)
    try:
        trial = design_trial(ws, key, sides, sorts)
    except PlanRefused as refused:
        raise ConfigError(f"gate.planted: {folder.name!r}: {refused.reason}") from refused
    return PlantedEdit(name=folder.name, expected=expected, trial=trial)


def _drafted(ws: Workspace) -> frozenset[Revision]:
    """Candidates of proposals that were never applied."""
    return frozenset(
        stored.proposal.candidate_revision
        for latest in ws.ledger.proposals.all_latest()
        for stored in ws.ledger.proposals.revisions(latest.proposal.id)
        if ws.ledger.effects.release_of(stored.proposal.hash) is None
    )


def _laid_over(ws: Workspace, base: HarnessSnapshot, folder: Path) -> HarnessSnapshot:
    """The harness with the folder's files in place of its own, or added to them.

    Raises:
        ConfigError: a file is no part of the harness by its patterns.
        PolicyRefused: one is a link, no plain file, or too large.
    """
    files = dict(read_tree(folder, Include(_EVERYTHING)).files)
    files.pop(EXPECT, None)
    include = Include(ws.settings.harness.include)
    for path in files:
        if not include.matches(path):
            raise ConfigError(
                f"gate.planted: {folder.name}/{path} is no file of the harness (harness.include)"
            )
    return HarnessSnapshot(files={**base.files, **files})


def _targets(book: Casebook, expected: Expected, name: str) -> Sequence[Case]:
    if not expected.targets:
        return book.tagged("target") or book.tagged("training")
    there: Mapping[str, Case] = {case.id: case for case in book.cases if "sealed" not in case.tags}
    missing = [target for target in expected.targets if target not in there]
    if missing:
        raise ConfigError(
            f"gate.planted: {name}/{EXPECT}: {missing[0]!r} is no case, or a sealed one"
        )
    return [there[target] for target in expected.targets]


def read_expected(file: Path) -> Expected:
    """Read an `expect.txt`.

    A line a verdict, such as `accept` or `inconclusive: known cases only`, of which any is right;
    one line may be `targets: id, id`. Lines that begin with # are for people.

    Raises:
        ConfigError: it is not there, or a line says something else.
    """
    shown = f"gate.planted: {file.parent.name}/{file.name}"
    try:
        with file.open(encoding="utf-8") as stream:
            text = stream.read(_LONGEST_EXPECT)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{shown}: cannot be read; name the right verdict in it") from error
    verdicts: list[tuple[Verdict, str | None]] = []
    targets: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        word, colon, rest = (part.strip() for part in line.partition(":"))
        if not line.strip() or word.startswith("#"):
            continue
        if word == "targets" and colon:
            targets = tuple(one.strip() for one in rest.split(",") if one.strip())
        elif _is_verdict(word):
            verdicts.append((word, rest or None))
        else:
            raise ConfigError(
                f"{shown}:{number}: got {word!r}, needs one of {', '.join(_VERDICTS)}"
            )
    if not verdicts:
        raise ConfigError(f"{shown}: names no verdict; write one of {_WORDS}")
    return Expected(verdicts=tuple(verdicts), targets=targets)


_VERDICTS: Final[tuple[str, ...]] = get_args(Verdict)
_WORDS: Final = ", ".join(_VERDICTS)


def _is_verdict(word: str) -> TypeGuard[Verdict]:
    return word in _VERDICTS
