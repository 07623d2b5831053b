"""Run cases with the harness as it is now, for the operator's own CI; each run is kept at once."""

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from connectors.review.clean import one_line
from contracts.errors import TracemendError
from contracts.gate import Case, CaseId, Graded
from contracts.harness import HarnessSnapshot
from contracts.json_types import JsonObject
from contracts.protocols import Probe
from memory.cases import fingerprint
from memory.workspace import Workspace
from nodes.gate.run_one import first_of, run_one
from nodes.ports import open_harness, open_probe

REPAIRS: Final = 2
"""How often a run that could not be observed is repeated; one that failed never is."""

CaseStanding = Literal["passed", "failed", "missing", "not_run", "skipped"]
"""passed: every run asked for was observed and passed. failed: some run failed. missing: none
failed, and some could not be observed. not_run: none failed, and some were never started.
skipped: quarantined by the settings. Only "passed" is a pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """One case and its runs, in the order in which they ended."""

    case: Case
    runs: tuple[Graded, ...]
    asked: int
    """Runs that were asked for; 0: quarantined."""
    why_skipped: str | None = None

    @property
    def standing(self) -> CaseStanding:
        """What became of it."""
        if self.why_skipped is not None:
            return "skipped"
        results = {run.result for run in self.runs}
        if "fail" in results:
            return "failed"
        if "missing" in results:
            return "missing"
        return "passed" if len(self.runs) >= self.asked else "not_run"

    @property
    def sealed(self) -> bool:
        """Nothing of it may be shown but its fingerprint."""
        return "sealed" in self.case.tags

    @property
    def name(self) -> str:
        """Its id; of a sealed one the beginning of its fingerprint."""
        return f"sealed {fingerprint(self.case)[:12]}" if self.sealed else self.case.id

    @property
    def reasons(self) -> tuple[str, ...]:
        """What did not hold, or why runs are missing, each once."""
        said = dict.fromkeys(why for run in self.runs for why in run.failed)
        return tuple(one_line(why, 200) for why in said)

    @property
    def seconds(self) -> float:
        """Of all its runs."""
        return sum(run.seconds for run in self.runs)


@dataclass(slots=True, kw_only=True)
class CasesRun:
    """A run over many cases; readable at any moment, also after it was stopped."""

    revision: str
    started_at: datetime
    asked: int
    """Runs of one case."""
    cases: tuple[Case, ...]
    skipped: Mapping[CaseId, str]
    runs: dict[CaseId, list[Graded]] = field(default_factory=dict)
    costs: list[float | None] = field(default_factory=list)
    """USD of every run, repeated ones too; None: unknown."""
    stopped: str | None = None
    """Why not every run was started; None: all were."""
    interrupted: bool = False
    """A person stopped it."""

    @property
    def results(self) -> tuple[CaseResult, ...]:
        """One for each case, in the order given."""
        return tuple(
            CaseResult(
                case=case, runs=tuple(self.runs.get(case.id, ())),
                asked=0 if case.id in self.skipped else self.asked,
                why_skipped=self.skipped.get(case.id),
            )
            for case in self.cases
        )  # fmt: skip

    def count(self, standing: CaseStanding) -> int:
        """How many cases stand so."""
        return sum(result.standing == standing for result in self.results)

    @property
    def spent_usd(self) -> float | None:
        """Over all runs; None: of some run it is unknown."""
        known = [cost for cost in self.costs if cost is not None]
        return sum(known) if len(known) == len(self.costs) else None


def exit_code(run: CasesRun, fail_under: float | None) -> int:
    """0 all passed, 5 too many failed, 6 some could not be observed.

    Without `fail_under` one failed case is too many; with it, a share of passed cases below it.
    Skipped cases count neither way. A case that was not observed never counts as passed.
    """
    counted = [one.standing for one in run.results if one.standing != "skipped"]
    passed, failed = counted.count("passed"), counted.count("failed")
    too_many = failed > 0 if fail_under is None else passed < fail_under * len(counted) - 1e-9
    if failed and too_many:
        return 5
    return 6 if passed + failed < len(counted) else 0


async def open_run(
    ws: Workspace, cases: Sequence[Case], *, repeat: int
) -> tuple[CasesRun, HarnessSnapshot]:
    """The run, not started yet, and the harness as it is now.

    Raises:
        ConnectorError: the harness cannot be read.
    """
    harness = await open_harness(ws).read()
    today = ws.ledger.db.clock().date()
    skipped = {
        CaseId(one.case): f"quarantined until {one.until} ({one.owner})"
        for one in ws.settings.gate.quarantine
        if today <= one.until
    }
    return CasesRun(
        revision=harness.revision, started_at=ws.ledger.db.clock(), asked=repeat,
        cases=tuple(cases), skipped=skipped,
    ), harness  # fmt: skip


async def run_cases(
    ws: Workspace,
    run: CasesRun,
    harness: HarnessSnapshot,
    *,
    session: str,
    say: Callable[[JsonObject], None],
) -> None:
    """Run what was asked for into `run`, as many at once as the probe allows.

    Every case runs once before any runs again. A run that could not be observed is repeated, twice
    at most; one that failed never is. No run starts once `gate.max_seconds` or
    `gate.max_usd` is spent. A probe that cannot start stops the run and is its reason.

    Args:
        ws: the project.
        run: as `open_run` made it.
        harness: what the agent gets.
        session: differs between calls, so that their runs are kept apart.
        say: takes progress.

    Raises:
        ConfigError: no probe is configured.
    """
    todo = [
        (case, index)
        for index in range(run.asked)
        for case in run.cases
        if case.id not in run.skipped
    ]
    runner = _Runner(
        ws=ws, run=run, harness=harness, session=session, say=say, of=len(todo),
        ends=time.monotonic() + ws.settings.gate.max_seconds,
        free=asyncio.Semaphore(ws.settings.probe.concurrency if ws.settings.probe else 1),
        probe=open_probe(ws),
    )  # fmt: skip
    try:
        async with runner.probe, asyncio.TaskGroup() as group:
            for case, index in todo:
                group.create_task(runner.one(case, index))
    except ExceptionGroup as several:
        first = first_of(several)
        if not isinstance(first, TracemendError | OSError):
            raise first from several
        run.stopped = one_line(str(first), 300)
    except (TracemendError, OSError) as error:
        run.stopped = one_line(str(error), 300)


@dataclass(slots=True, kw_only=True)
class _Runner:
    ws: Workspace
    run: CasesRun
    harness: HarnessSnapshot
    session: str
    say: Callable[[JsonObject], None]
    of: int
    ends: float
    """Monotonic seconds after which no run starts."""
    free: asyncio.Semaphore
    probe: Probe
    done: int = 0

    async def one(self, case: Case, index: int) -> None:
        """One run of one case, unless the budget is spent."""
        async with self.free:
            graded = await self._observed(case, index)
        if graded is not None:
            self.run.runs.setdefault(case.id, []).append(graded)
            self.done += 1
            self.say({"step": "cases", "done": self.done, "of": self.of})

    async def _observed(self, case: Case, index: int) -> Graded | None:
        """The run, a missing one repeated as the gate does; None: the budget was spent before."""
        graded = None
        for attempt in range(1 + REPAIRS):
            if self._over():
                return graded
            graded = await run_one(
                self.ws, self.probe, case, self.harness,
                seed=_seed(self.session, case, index), deadline_s=self._deadline(),
            )  # fmt: skip
            await asyncio.to_thread(self._keep, case, f"{index}.{attempt}", graded)
            self.run.costs.append(graded.cost_usd)
            if graded.result != "missing":
                break
        return graded

    def _over(self) -> bool:
        gate = self.ws.settings.gate
        if time.monotonic() >= self.ends:
            self.run.stopped = f"the time is spent (gate.max_seconds: {gate.max_seconds:g})"
        elif sum(cost or 0.0 for cost in self.run.costs) >= gate.max_usd > 0:
            self.run.stopped = f"the money is spent (gate.max_usd: {gate.max_usd:g})"
        return self.run.stopped is not None

    def _deadline(self) -> float:
        return self.ws.settings.probe.timeout_s if self.ws.settings.probe else 30.0

    def _keep(self, case: Case, index: str, graded: Graded) -> None:
        mark = fingerprint(case)
        with self.ws.ledger.db.write() as tx:
            self.ws.ledger.case_runs.add(
                tx, "cases", mark, self.harness.revision, graded,
                key=f"{self.session}|{mark}|{index}",
            )  # fmt: skip


def _seed(session: str, case: Case, index: int) -> int:
    drawn = hashlib.sha256(f"{session}|{fingerprint(case)}|{index}".encode()).digest()
    return int.from_bytes(drawn[:4], "big") >> 1
