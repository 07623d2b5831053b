"""Run the gate in slices of at most a minute, each block stored as it ends, until it is decided."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from langgraph.runtime import Runtime
from sqlalchemy import Connection
from typing_extensions import TypedDict

from contracts.codec import from_json
from contracts.context import RunContext
from contracts.errors import GateError, TracemendError
from contracts.gate import (
    Block,
    Case,
    CaseId,
    Conditions,
    GatePlan,
    GateReport,
    Graded,
    Verdict,
)
from contracts.harness import HarnessSnapshot
from contracts.json_types import Json, JsonObject
from contracts.proposals import Proposal, ProposalState
from contracts.protocols import Probe
from memory.cases import fingerprint, load_cases
from memory.gate_ledger import Opening
from memory.workspace import Workspace, open_workspace
from nodes.decide import seats_needed, settled
from nodes.gate.design import level_of, planned_runs
from nodes.gate.schedule import BlockToRun, Finished, Work, next_step
from nodes.gate.score import grade
from nodes.gate.verdict import report_hash
from nodes.insights.detect.all import detect_trace
from nodes.ports import open_probe

SLICE_SECONDS = 60.0
"""After this a slice ends and the graph stores a checkpoint; a stop is noticed within a minute."""


class GateReads(TypedDict):
    """What the gate reads."""

    proposal: str


class GateWrites(TypedDict):
    """What the gate writes: runs so far, for people who look at the thread."""

    gate_runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """One gate, ready to run: everything in it was fixed before its first run."""

    proposal: Proposal
    plan: GatePlan
    opening: Opening
    arms: Mapping[Literal["B", "C"], HarnessSnapshot]
    cases: Mapping[CaseId, Case]
    concurrency: int


async def gate(state: GateReads, runtime: Runtime[RunContext]) -> GateWrites:
    """Run one slice. Reads `proposal`, writes blocks, then the report, to the ledger.

    Raises:
        GateError: a case of the plan is not there any more, or was changed.
        ProbeError: the agent cannot be started.
    """
    ws = await open_workspace(runtime)
    opened = await asyncio.to_thread(_open, ws, state["proposal"])
    if isinstance(opened, int):
        return {"gate_runs": opened}
    ends = time.monotonic() + SLICE_SECONDS
    async with open_probe(ws) as probe:
        runner = _Runner(ws=ws, gate=opened, probe=probe, say=runtime.stream_writer)
        await runner.slice(ends)
    return {"gate_runs": await asyncio.to_thread(_runs, ws, opened.proposal.hash)}


def _runs(ws: Workspace, proposal_hash: str) -> int:
    return sum(1 if block.baseline is None else 2 for block in ws.ledger.gate.blocks(proposal_hash))


def _open(ws: Workspace, proposal_id: str) -> Opened | int:
    """The gate of an approved revision, opened once; its runs when it is decided already."""
    proposal = ws.ledger.proposals.latest(proposal_id).proposal
    if ws.ledger.gate.report(proposal.hash) is not None:
        return _runs(ws, proposal.hash)
    needed = seats_needed(proposal.risk, ws.settings.review.second_person)
    said = ws.ledger.proposals.decisions(proposal.id, proposal.revision, "approve")
    yes = settled(said, needed)
    if yes is None or yes.type != "approve" or yes.proposal_hash != proposal.hash:
        raise TracemendError(f"{proposal.id} r{proposal.revision}: nobody approved it to be run")
    plan = from_json(GatePlan, proposal.plan)
    opening = ws.ledger.gate.opening(proposal.hash) or _write_opening(ws, proposal, plan)
    spec = ws.settings.probe
    return Opened(
        proposal=proposal, plan=plan, opening=opening, cases=_cases(ws, proposal, plan),
        arms={
            "B": ws.ledger.artifacts.snapshot(proposal.base_revision),
            "C": ws.ledger.artifacts.snapshot(proposal.candidate_revision),
        },
        concurrency=spec.concurrency if spec is not None else 1,
    )  # fmt: skip


def _write_opening(ws: Workspace, proposal: Proposal, plan: GatePlan) -> Opening:
    """Ledger use, its level, start: written before the first run, never changed."""
    use = ws.ledger.gate.uses() + 1
    issue_use = ws.ledger.gate.issue_uses(proposal.finding_id) + 1
    opening = Opening(
        proposal_hash=proposal.hash, finding=proposal.finding_id, use=use, issue_use=issue_use,
        alpha=level_of(uses=plan.uses, use=min(use, plan.uses)),
        use_taken=bool(plan.sealed) and use != plan.use,
    )  # fmt: skip
    with ws.ledger.db.write() as tx:
        ws.ledger.gate.open(tx, opening)
        ws.ledger.proposals.set_state(tx, proposal, "gating")
    return opening


def _cases(ws: Workspace, proposal: Proposal, plan: GatePlan) -> dict[CaseId, Case]:
    """The planned cases, exactly as they were when the plan was approved.

    Raises:
        GateError: one is missing or changed.
    """
    there = {case.id: case for case in load_cases(ws.root, ws.settings.cases)}
    there |= {case.id: case for case in ws.ledger.knowledge.all_cases(proposal.finding_id)}
    chosen: dict[CaseId, Case] = {}
    for planned in (*plan.targets, *plan.sealed, *plan.critical):
        case = there.get(planned.case)
        if case is None or fingerprint(case) != planned.fingerprint:
            what = "is not there any more" if case is None else "was changed"
            raise GateError(
                f"a case of the approved plan {what} (fingerprint {planned.fingerprint[:12]}); "
                "put it back and run `tracemend resume`"
            )
        chosen[planned.case] = case
    return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class _Runner:
    """Runs blocks of one gate and stores them."""

    ws: Workspace
    gate: Opened
    probe: Probe
    say: Callable[[JsonObject], None]

    async def slice(self, ends: float) -> None:
        """Run until the verdict or until `ends` (monotonic seconds)."""
        proposal = self.gate.proposal
        while True:
            blocks = await asyncio.to_thread(self.ws.ledger.gate.blocks, proposal.hash)
            step = await asyncio.to_thread(self._next, blocks)
            if isinstance(step, Finished):
                await asyncio.to_thread(_conclude, self.ws, proposal, step.report)
                return
            if time.monotonic() >= ends:
                return
            await self._run_all(step.blocks, len(blocks), ends)

    def _next(self, blocks: Sequence[Block]) -> Work | Finished:
        spent = _spent(blocks)
        return next_step(
            self.gate.plan, blocks,
            spent_seconds=sum(_seconds(block) for block in blocks) / self.gate.concurrency,
            spent_usd=spent,
            conditions=Conditions(
                opening_alpha=self.gate.opening.alpha, use_taken=self.gate.opening.use_taken
            ),
        )  # fmt: skip

    async def _run_all(self, todo: Sequence[BlockToRun], done: int, ends: float) -> None:
        """Run blocks side by side, as many as the probe allows; none starts after `ends`."""
        free = asyncio.Semaphore(self.gate.concurrency)
        finished = 0

        async def one(block: BlockToRun) -> None:
            nonlocal finished
            async with free:
                if time.monotonic() >= ends:
                    return
                await self._run(block)
                finished += 1
                self.say(
                    {
                        "step": "gate", "done": 2 * (done + finished),
                        "of": planned_runs(self.gate.plan),
                    }
                )  # fmt: skip

        try:
            async with asyncio.TaskGroup() as group:
                for block in todo:
                    group.create_task(one(block))
        except ExceptionGroup as several:
            raise _first(several) from several

    async def _run(self, block: BlockToRun) -> None:
        """Run each arm of a block, one right after the other, and store the block whole."""
        runs: dict[Literal["B", "C"], Graded] = {}
        for arm in block.arms:
            runs[arm] = await self._graded(block, arm)
        stored = Block(
            phase=block.phase, case=block.case, index=block.index, attempt=block.attempt,
            first=block.first, baseline=runs.get("B"), candidate=runs["C"],
        )  # fmt: skip
        await asyncio.to_thread(self.ws.ledger.gate.put_block, self.gate.proposal.hash, stored)

    async def _graded(self, block: BlockToRun, arm: Literal["B", "C"]) -> Graded:
        case = self.gate.cases[block.case]
        seen = await self.probe.run(
            case.input, self.gate.arms[arm], seed=block.seed,
            deadline_s=self.gate.plan.deadline_s,
        )  # fmt: skip
        symptoms = detect_trace(seen.trace) if seen.trace is not None else ()
        return grade(case, seen, symptoms)


def _first(group: ExceptionGroup[Exception]) -> Exception:
    """The first failure of tasks that ran side by side; the others were cancelled for it."""
    first = group.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first


def _seconds(block: Block) -> float:
    return block.candidate.seconds + (block.baseline.seconds if block.baseline else 0.0)


def _spent(blocks: Sequence[Block]) -> float | None:
    costs = [run.cost_usd for b in blocks for run in (b.baseline, b.candidate) if run is not None]
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None


def _conclude(ws: Workspace, proposal: Proposal, report: GateReport) -> None:
    states: dict[Verdict, ProposalState] = {
        "reject": "gate_rejected", "inconclusive": "inconclusive", "invalid": "invalid",
    }  # fmt: skip

    def write(tx: Connection) -> dict[str, Json]:
        ws.ledger.gate.put_report(tx, proposal.hash, report, report_hash(report))
        if report.verdict in states:
            ws.ledger.proposals.set_state(tx, proposal, states[report.verdict])
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
