"""Run the gate in slices of at most a minute, each block stored as it ends, until it is decided."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from langgraph.runtime import Runtime
from sqlalchemy import Connection
from typing_extensions import TypedDict

from contracts.context import RunContext
from contracts.gate import NO_CONDITIONS, Block, Conditions, GatePlan, GateReport, Verdict
from contracts.json_types import Json, JsonObject
from contracts.proposals import Proposal, ProposalState
from contracts.protocols import Probe
from memory.workspace import Workspace, open_workspace
from nodes.gate.blocks import Bench
from nodes.gate.conditions import altered_report, check_conditions, retire_leaked
from nodes.gate.opening import Altered, Opened, open_gate
from nodes.gate.run_one import first_of
from nodes.gate.schedule import BlockToRun, Finished, Work, next_step
from nodes.gate.sizes import planned_runs
from nodes.gate.standing import stand
from nodes.gate.verdict import report_hash
from nodes.gate.wording import claims_of
from nodes.ports import open_probe

SLICE_SECONDS = 60.0
"""After this a slice ends and the graph stores a checkpoint; a stop is noticed within a minute."""


class GateReads(TypedDict):
    """What the gate reads."""

    proposal: str


class GateWrites(TypedDict):
    """What the gate writes: runs so far, for people who look at the thread."""

    gate_runs: int


async def gate(state: GateReads, runtime: Runtime[RunContext]) -> GateWrites:
    """Run one slice. Reads `proposal`, writes blocks, then the report, to the ledger.

    Raises:
        TracemendError: nobody approved it to be run.
        ConfigError: a case file cannot be read, or no probe is configured.
        ProbeError: the agent cannot be started.
    """
    ws = await open_workspace(runtime)
    opened = await asyncio.to_thread(open_gate, ws, state["proposal"])
    if isinstance(opened, Altered):
        proposal = opened.proposal
        await asyncio.to_thread(_conclude, ws, proposal, altered_report(proposal.plan))
    elif opened is not None:
        runner = _Runner(ws=ws, gate=opened, say=runtime.stream_writer)
        await runner.slice(time.monotonic() + SLICE_SECONDS)
    return {"gate_runs": await asyncio.to_thread(_runs, ws, state["proposal"])}


def _runs(ws: Workspace, proposal_id: str) -> int:
    proposal = ws.ledger.proposals.latest(proposal_id).proposal
    return _count(ws.ledger.gate.blocks(proposal.hash))


def _count(blocks: Sequence[Block]) -> int:
    """Single runs of an arm."""
    return sum(1 if block.baseline is None else 2 for block in blocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What stored blocks took, by the monotonic clock of each run."""

    runs: int
    seconds: float
    usd: float | None
    """Of the runs whose cost is known: at least so much. None: of none it is."""

    def over(self, plan: GatePlan) -> bool:
        """Whether the time or the money of the plan is spent."""
        dear = self.usd is not None and self.usd >= plan.max_usd
        return dear or self.seconds >= plan.max_seconds


def spent_on(blocks: Sequence[Block], concurrency: int) -> Spent:
    """Add up blocks that ran side by side."""
    runs = [run for b in blocks for run in (b.baseline, b.candidate) if run is not None]
    known = [run.cost_usd for run in runs if run.cost_usd is not None]
    return Spent(
        runs=len(runs), seconds=sum(run.seconds for run in runs) / concurrency,
        usd=sum(known) if known else None,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Runner:
    """Runs blocks of one gate and stores them."""

    ws: Workspace
    gate: Opened
    say: Callable[[JsonObject], None]

    @property
    def _bench(self) -> Bench:
        gate = self.gate
        return Bench(
            ws=self.ws, key=gate.proposal.hash, plan=gate.plan, cases=gate.cases, arms=gate.arms
        )

    async def slice(self, ends: float) -> None:
        """Run until the verdict or until `ends` (monotonic seconds)."""
        step = await asyncio.to_thread(self._next, self.gate.conditions)
        if isinstance(step, Work):
            async with open_probe(self.ws) as probe:
                while isinstance(step, Work) and time.monotonic() < ends:
                    await self._run_all(probe, step.blocks, ends)
                    step = await asyncio.to_thread(self._next, self.gate.conditions)
        if isinstance(step, Finished):
            await asyncio.to_thread(self._decide, step)

    def _next(self, conditions: Conditions) -> Work | Finished:
        blocks = self._blocks()
        spent = spent_on(blocks, self.gate.concurrency)
        return next_step(
            self.gate.plan, blocks, spent_seconds=spent.seconds, spent_usd=spent.usd,
            conditions=conditions,
        )  # fmt: skip

    def _blocks(self) -> Sequence[Block]:
        return self.ws.ledger.gate.blocks(self.gate.proposal.hash)

    def _decide(self, step: Finished) -> None:
        """The verdict, on everything as it is at this moment and not as the slice began."""
        gate = self.gate
        now = check_conditions(self.ws, gate.proposal, gate.plan, gate.opening).conditions
        last = step if now == gate.conditions else self._next(now)
        if isinstance(last, Finished):
            _conclude(self.ws, gate.proposal, last.report, now)

    async def _run_all(self, probe: Probe, todo: Sequence[BlockToRun], ends: float) -> None:
        """Run blocks side by side, as many as the probe allows; none starts after `ends`.

        Their order is drawn by the plan's seed, so that neither a case nor an arm is always early.
        """
        free = asyncio.Semaphore(self.gate.concurrency)
        ahead = await asyncio.to_thread(self._ahead)
        done = list(await asyncio.to_thread(self._blocks))

        async def one(block: BlockToRun) -> None:
            async with free:
                spent = spent_on(done, self.gate.concurrency)
                if time.monotonic() >= ends or spent.over(self.gate.plan):
                    return
                done.append(await self._bench.run(probe, block))
                self.say(progress(self.gate.plan, spent_on(done, self.gate.concurrency), ahead))

        try:
            async with asyncio.TaskGroup() as group:
                for block in sorted(todo, key=self._bench.drawn):
                    group.create_task(one(block))
        except ExceptionGroup as several:
            raise first_of(several) from several

    def _ahead(self) -> list[str]:
        """The claims that are still open."""
        standing = stand(self.gate.plan, self._blocks(), NO_CONDITIONS)
        return [claim.name for claim in claims_of(standing) if claim.state == "unknown"]


def progress(plan: GatePlan, spent: Spent, ahead: Sequence[str]) -> JsonObject:
    """What people who wait are shown: runs, time, money so far, claims that are still open."""
    return {
        "step": "gate", "done": spent.runs, "of": max(planned_runs(plan), spent.runs),
        "elapsed_s": round(spent.seconds, 1), "spent_usd": spent.usd, "open": list(ahead),
    }  # fmt: skip


def _conclude(
    ws: Workspace, proposal: Proposal, report: GateReport, conditions: Conditions = NO_CONDITIONS
) -> None:
    states: dict[Verdict, ProposalState] = {
        "reject": "gate_rejected", "inconclusive": "inconclusive", "invalid": "invalid",
    }  # fmt: skip

    def write(tx: Connection) -> dict[str, Json]:
        ws.ledger.gate.put_report(tx, proposal.hash, report, report_hash(report))
        if report.verdict in states:
            ws.ledger.proposals.set_state(tx, proposal, states[report.verdict])
        retire_leaked(ws, tx, conditions)
        return {"verdict": report.verdict}

    ws.ledger.steps.once(proposal.thread, f"gate:{proposal.hash}", write)


async def after_gate(
    state: GateReads, runtime: Runtime[RunContext]
) -> Literal["gate", "apply", "plan", "learn"]:
    """Where the ledger's report leads; without one the gate goes on."""
    ws = await open_workspace(runtime)
    return await asyncio.to_thread(_after, ws, state["proposal"])


def _after(ws: Workspace, proposal_id: str) -> Literal["gate", "apply", "plan", "learn"]:
    proposal = ws.ledger.proposals.latest(proposal_id).proposal
    found = ws.ledger.gate.report(proposal.hash)
    if found is None:
        return "gate"
    verdict, reason = found[0].verdict, found[0].reason
    if verdict == "accept":
        return "apply"
    if verdict == "inconclusive" or (verdict == "invalid" and reason == "use_taken"):
        return "plan"
    return "learn"
