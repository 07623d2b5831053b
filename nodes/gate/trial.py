"""Run two revisions through the whole gate without a proposal: a report, and nothing is applied.

For the gate's checks of itself: the same revision twice, planted edits, an old revision as anchor.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from contracts.gate import Block, Case, CaseId, Conditions, GatePlan, GateReport
from contracts.harness import HarnessSnapshot, Revision
from contracts.json_types import JsonObject, sha256_hex
from contracts.protocols import Probe
from memory.gate_checks import CheckKind
from memory.workspace import Workspace
from nodes.gate.blocks import Bench
from nodes.gate.conditions import judge_problems
from nodes.gate.design import PlanRefused, Purpose, design_plan
from nodes.gate.node import progress, spent_on
from nodes.gate.opening import all_planned, sealed_members
from nodes.gate.run_one import first_of
from nodes.gate.schedule import BlockToRun, Finished, Work, next_step
from nodes.gate.sizes import level_of

Say = Callable[[JsonObject], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The two revisions of a trial."""

    base: HarnessSnapshot
    candidate: HarnessSnapshot

    @property
    def ids(self) -> tuple[Revision, Revision]:
        """What the plan calls them: of one revision run twice, the second is marked as that.

        A plan of equal revisions stays refused, and no proposal ever has such an id.
        """
        base, candidate = self.base.revision, self.candidate.revision
        return base, Revision(f"{base}:again") if candidate == base else candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorts:
    """The cases of a trial by what they are run as."""

    targets: Sequence[Case] = ()
    sealed: Sequence[Case] = ()
    critical: Sequence[Case] = ()
    guards: Sequence[Case] = ()

    @property
    def by_id(self) -> Mapping[CaseId, Case]:
        """All of them."""
        every = (*self.targets, *self.sealed, *self.critical, *self.guards)
        return {case.id: case for case in every}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One comparison, fixed before its first run."""

    key: str
    """Blocks are stored under it, where a gate has its proposal's hash: a killed trial goes on."""
    plan: GatePlan
    sides: Sides
    cases: Mapping[CaseId, Case]
    counted: bool = False
    """Whether it spends a use of the sealed cases that it runs."""


def trial_key(ws: Workspace, kind: CheckKind, subject: str, sides: Sides) -> str:
    """Names the next trial of its kind; the same until its check is stored, so a kill resumes."""
    done = sum(check.subject == subject for check in ws.ledger.gate_checks.listed(kind))
    text = "|".join((ws.project, kind, subject, *sides.ids, str(done)))
    return f"trial:{sha256_hex(text.encode())}"


def design_trial(
    ws: Workspace,
    key: str,
    sides: Sides,
    sorts: Sorts,
    *,
    purpose: Purpose = "fix",
    counted: bool = False,
) -> Trial:
    """Plan a trial by the project's settings, as a gate is planned.

    Args:
        ws: the project.
        key: of `trial_key`.
        sides: what is compared.
        sorts: the cases; quarantined ones are left out.
        purpose: `simplify` asks for no target case, so that L2 is read whatever L1 would say.
        counted: at the level of the next use of the sealed cases, and spending it; else at that of
            a first use.

    Raises:
        PlanRefused: there is nothing to run, or every use of the sealed cases is spent.
    """
    gate, probe = ws.settings.gate, ws.settings.probe
    base, candidate = sides.ids
    runs = ws.ledger.case_runs.counts(base)

    def on(use: int) -> GatePlan:
        return design_plan(
            base=base, candidate=candidate, targets=_kept(ws, sorts.targets),
            sealed=_kept(ws, sorts.sealed), critical=_kept(ws, sorts.critical),
            guards=_kept(ws, sorts.guards), purpose=purpose, profile=gate.profile,
            margin=gate.margin, cost_margin=gate.cost_margin, repeats=gate.repeats,
            sealed_repeats=gate.sealed_repeats, uses=gate.uses, use=use, issue_use=1,
            max_targets=gate.max_targets, max_runs=gate.max_runs, max_usd=gate.max_usd,
            max_seconds=gate.max_seconds, deadline_s=probe.timeout_s if probe else 30.0,
            seed=int(sha256_hex(key.encode())[:8], 16), discordance=None, runs=runs,
        )  # fmt: skip

    plan = on(1)
    if counted:
        use = next_use(ws, plan, key)
        if use > gate.uses:
            raise PlanRefused("level spent")
        plan = on(use) if use > 1 else plan
    return Trial(key=key, plan=plan, sides=sides, cases=sorts.by_id, counted=counted)


def next_use(ws: Workspace, plan: GatePlan, key: str) -> int:
    """Which use of its sealed cases the trial of this key is, from 1."""
    return 1 + ws.ledger.sealed.uses_of(sealed_members(plan), but=key)


def _kept(ws: Workspace, cases: Sequence[Case]) -> tuple[Case, ...]:
    """Without those in quarantine today."""
    today = ws.ledger.db.clock().date()
    out = {one.case for one in ws.settings.gate.quarantine if today <= one.until}
    return tuple(case for case in cases if case.id not in out)


def silent(_: JsonObject) -> None:
    """Tell nobody of progress."""
    return


async def run_trial(ws: Workspace, probe: Probe, trial: Trial, say: Say = silent) -> GateReport:
    """Run until the verdict. Blocks that are stored already are not run again.

    Raises:
        ProbeError: the agent cannot be started.
    """
    runner = _Runner(ws=ws, probe=probe, trial=trial, say=say)
    while True:
        blocks = await asyncio.to_thread(ws.ledger.gate.blocks, trial.key)
        step = await asyncio.to_thread(runner.next, blocks)
        if isinstance(step, Finished):
            return step.report
        await runner.all(step.blocks, list(blocks))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Runner:
    ws: Workspace
    probe: Probe
    trial: Trial
    say: Say

    @property
    def _bench(self) -> Bench:
        trial = self.trial
        return Bench(
            ws=self.ws, key=trial.key, plan=trial.plan, cases=trial.cases, counted=trial.counted,
            arms={"B": trial.sides.base, "C": trial.sides.candidate},
        )  # fmt: skip

    @property
    def concurrency(self) -> int:
        """Blocks at once."""
        spec = self.ws.settings.probe
        return spec.concurrency if spec is not None else 1

    def next(self, blocks: Sequence[Block]) -> Work | Finished:
        """The next blocks, or the report."""
        spent = spent_on(blocks, self.concurrency)
        return next_step(
            self.trial.plan, blocks, spent_seconds=spent.seconds, spent_usd=spent.usd,
            conditions=self._conditions(),
        )  # fmt: skip

    def _conditions(self) -> Conditions:
        """What is known against it; the gate's own checks of itself are not, they come of it."""
        plan, trial = self.trial.plan, self.trial
        planned = [trial.cases[one.case] for one in all_planned(plan)]
        taken = trial.counted and next_use(self.ws, plan, trial.key) != plan.use
        return Conditions(
            opening_alpha=level_of(uses=plan.uses, use=plan.use), use_taken=taken,
            judge=next(iter(judge_problems(self.ws, planned)), None),
        )  # fmt: skip

    async def all(self, todo: Sequence[BlockToRun], done: list[Block]) -> None:
        """Run blocks side by side, in an order drawn by the plan's seed."""
        free = asyncio.Semaphore(self.concurrency)

        async def one(block: BlockToRun) -> None:
            async with free:
                if spent_on(done, self.concurrency).over(self.trial.plan):
                    return
                done.append(await self._bench.run(self.probe, block))
                self.say(progress(self.trial.plan, spent_on(done, self.concurrency), ()))

        try:
            async with asyncio.TaskGroup() as group:
                for block in sorted(todo, key=self._bench.drawn):
                    group.create_task(one(block))
        except ExceptionGroup as several:
            raise first_of(several) from several
