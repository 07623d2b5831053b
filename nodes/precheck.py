"""Run the agent as it is, before the card: do the target cases fail, and how often do runs differ?

The baseline alone runs, which no model drafted. What is seen plans the gate; no verdict counts it.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection

from connectors.review.clean import one_line
from contracts.errors import TracemendError
from contracts.gate import Case, CaseId, GatePlan, Graded, PlannedCase
from contracts.harness import HarnessSnapshot
from contracts.json_types import JsonObject
from contracts.protocols import Probe
from memory.case_runs import Passes
from memory.workspace import Workspace
from nodes.gate.run_one import first_of, run_one
from nodes.ports import open_probe

RUNS = 2
"""Of each case: the fewest that tell whether two runs of one case differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """One baseline run that is not kept yet."""

    case: Case
    planned: PlannedCase
    key: str
    seed: int


async def precheck(
    ws: Workspace,
    plan: GatePlan,
    cases: Mapping[CaseId, Case],
    say: Callable[[JsonObject], None],
) -> str | None:
    """Run what is not kept yet; why not all of it was run, None when all was.

    Never raises for the agent, its probe or its judge: a plan without a precheck is a plan.
    """
    if not ws.settings.gate.precheck:
        return None
    due = await asyncio.to_thread(_due, ws, plan, cases)
    if not due:
        return None
    if ws.settings.probe is None:
        return "no probe is configured"
    base = await asyncio.to_thread(ws.ledger.artifacts.snapshot, plan.base)
    runner = _Runner(
        ws=ws, plan=plan, base=base, say=say, of=len(due), began=time.monotonic(),
        free=asyncio.Semaphore(ws.settings.probe.concurrency),
    )  # fmt: skip
    return await _run_all(runner, due)


async def _run_all(runner: "_Runner", due: Sequence["Due"]) -> str | None:
    seconds = runner.ws.settings.gate.precheck_seconds
    try:
        async with asyncio.timeout(seconds):
            await runner.all(due)
    except TimeoutError:
        within = f"in {seconds:g} s (gate.precheck_seconds)"
    except (TracemendError, OSError) as error:
        return f"the agent could not be started: {one_line(str(error), 200)}"
    else:
        within = f"for ${runner.plan.max_usd:g} (gate.max_usd)"
    short = runner.done < len(due)
    return f"{runner.done} of {len(due)} baseline runs were done {within}" if short else None


def _due(ws: Workspace, plan: GatePlan, cases: Mapping[CaseId, Case]) -> Sequence[Due]:
    """Targets first. A case with as many runs of exactly this baseline needs none.

    Of the sealed ones those come first that an earlier precheck, with another seed, ran already.
    """
    seen = ws.ledger.case_runs.counts(plan.base)

    def runs(one: PlannedCase) -> int:
        return seen.get(one.fingerprint, _NONE).runs

    sealed = sorted(plan.sealed, key=lambda one: runs(one) == 0)
    wanted = [
        _run(plan, cases[one.case], one, index)
        for one in (*plan.targets, *sealed[: ws.settings.gate.precheck_sealed])
        if runs(one) < RUNS
        for index in range(RUNS)
    ]
    kept = ws.ledger.case_runs.known("precheck", plan.base, [run.key for run in wanted])
    return [run for run in wanted if run.key not in kept]


_NONE = Passes(passes=0, runs=0)


def _run(plan: GatePlan, case: Case, planned: PlannedCase, index: int) -> Due:
    key = f"{plan.base}|{planned.fingerprint}|{index}"
    drawn = hashlib.sha256(f"{plan.seed}|precheck|{key}".encode()).digest()
    seed = int.from_bytes(drawn[:4], "big") >> 1
    return Due(case=case, planned=planned, key=key, seed=seed)


@dataclass(slots=True, kw_only=True)
class _Runner:
    """Runs side by side, each kept as it ends, so that a killed plan does not run it again."""

    ws: Workspace
    plan: GatePlan
    base: HarnessSnapshot
    say: Callable[[JsonObject], None]
    of: int
    began: float
    free: asyncio.Semaphore
    done: int = 0
    usd: float = 0.0
    """Of the runs whose cost is known."""
    probe: Probe = field(init=False)

    async def all(self, due: Sequence[Due]) -> None:
        """Every run, or the first failure to run at all."""
        try:
            async with open_probe(self.ws) as self.probe, asyncio.TaskGroup() as group:
                for run in due:
                    group.create_task(self._one(run))
        except ExceptionGroup as several:
            raise first_of(several) from several

    async def _one(self, run: Due) -> None:
        async with self.free:
            if self.usd >= self.plan.max_usd > 0:
                return
            graded = await run_one(
                self.ws, self.probe, run.case, self.base, seed=run.seed,
                deadline_s=self.plan.deadline_s,
            )  # fmt: skip
            await asyncio.to_thread(self._keep, run, graded)
        self.done += 1
        self.usd += graded.cost_usd or 0.0
        self.say(
            {
                "step": "precheck", "done": self.done, "of": self.of,
                "elapsed_s": round(time.monotonic() - self.began, 1),
            }
        )  # fmt: skip

    def _keep(self, run: Due, graded: Graded) -> None:
        def write(tx: Connection) -> None:
            self.ws.ledger.case_runs.add(
                tx, "precheck", run.planned.fingerprint, self.plan.base, graded, key=run.key
            )

        with self.ws.ledger.db.write() as tx:
            write(tx)


def precheck_notes(
    plan: GatePlan, seen: Mapping[str, Passes], problem: str | None
) -> tuple[str, ...]:
    """What the card says of it: how many targets fail as the finding says, what was not run."""
    notes = [] if problem is None else [f"Precheck: {problem}."]
    targets = _seen(plan.targets, seen)
    if targets:
        failing = sum(one.passes < one.runs for one in targets)
        count = len(plan.targets)
        said = f"reproduced {failing or 'none'} of {count} target case{'s' * (count != 1)}"
        if len(targets) < count:
            said += f"; {count - len(targets)} could not be observed"
        runs = sum(one.runs for one in targets)
        notes.append(f"Precheck: {said} ({runs} run{'s' * (runs != 1)} without the edit).")
    return tuple(notes)


def _seen(planned: Collection[PlannedCase], seen: Mapping[str, Passes]) -> list[Passes]:
    found = (seen.get(one.fingerprint, _NONE) for one in planned)
    return [one for one in found if one.runs]
