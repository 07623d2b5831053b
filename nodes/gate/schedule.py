"""What to run next: read off the plan and the stored blocks alone, so a killed gate resumes."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from contracts.gate import NO_CONDITIONS, Block, CaseId, Conditions, GatePlan, GateReport, Phase
from nodes.gate.standing import Standing, stand
from nodes.gate.tally import Place, Tally, round_of, runs_alone
from nodes.gate.verdict import report_on

CHUNK = 16  # sealed blocks handed out at once: small enough to see budgets in time
BUDGET = "budget"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockToRun:
    """One block to run: both arms on one case close in time, `first` first."""

    phase: Phase
    case: CaseId
    index: int
    attempt: int
    first: Literal["B", "C"]
    seed: int
    """For the agent and its surroundings; equal in both arms."""
    alone: bool = False
    """The candidate alone runs: a critical case, and a guard before its test."""

    @property
    def arms(self) -> tuple[Literal["B", "C"], ...]:
        """The arms to run, in order."""
        if self.alone:
            return ("C",)
        return ("B", "C") if self.first == "B" else ("C", "B")


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Blocks that may run at the same time: no decision falls between them."""

    phase: Phase
    blocks: tuple[BlockToRun, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The gate is over."""

    report: GateReport


def next_step(
    plan: GatePlan,
    blocks: Sequence[Block],
    *,
    spent_seconds: float,
    spent_usd: float | None,
    conditions: Conditions = NO_CONDITIONS,
) -> Work | Finished:
    """The next blocks, or the report.

    Target rounds come first, then the sealed looks once L1 holds, then the critical cases and the
    guards once everything else does, and last the rounds over the listed cases. A block with a
    missing run is repeated before its round or look is read.

    Args:
        plan: as approved.
        blocks: all that are stored for this gate, in any order.
        spent_seconds: running time of this gate so far, over all its processes.
        spent_usd: what it cost so far; None is unknown, and then only runs and time are bounded.
        conditions: what else the verdict hangs on.

    Raises:
        ValueError: the plan contradicts itself.
    """
    standing = stand(plan, blocks, conditions)
    waiting = _waiting(standing)
    if not waiting:
        return Finished(report=report_on(standing, blocks))
    runs = sum(1 if block.baseline is None else 2 for block in blocks)
    ahead = sum(1 if runs_alone(place) else 2 for place in waiting)
    over = runs + ahead > plan.max_runs or spent_seconds >= plan.max_seconds
    if over or (spent_usd is not None and spent_usd >= plan.max_usd):
        return Finished(report=report_on(standing, blocks, stopped=BUDGET))
    chunk = waiting if waiting[0].phase == "target" else waiting[:CHUNK]
    return Work(
        phase=waiting[0].phase,
        blocks=tuple(_to_run(standing.tally, place) for place in chunk),
    )


def _waiting(standing: Standing) -> tuple[Place, ...]:
    """All places that must run before the next decision; none: the verdict is there."""
    counted, plan = standing.tally, standing.tally.plan
    if standing.invalid is not None or standing.sealed_harm is not None:
        return ()
    if standing.fixed.state == "open":
        return counted.open(round_of(plan, "target", standing.fixed.rounds))
    if not standing.sealed_ready:
        return ()
    if standing.unharmed.waiting is not None:
        return standing.unharmed.waiting
    return _last_waiting(standing) if standing.guards_ready else ()


def _last_waiting(standing: Standing) -> tuple[Place, ...]:
    """Critical cases, guards, then what is said of the listed cases alone."""
    if standing.critical.waiting or standing.critical.failed:
        return standing.critical.waiting
    if standing.guards.waiting or standing.guards.confirmed:
        return standing.guards.waiting
    return standing.listed.waiting


def _to_run(counted: Tally, place: Place) -> BlockToRun:
    attempt = counted.next_attempt(place) or 0
    case, index = place.case.case, place.index
    # These phases may run a case again that ran before: with another seed, so that it is fresh.
    phase = f"{place.phase}|" if place.phase in {"guard", "critical"} else ""
    text = f"{phase}{counted.plan.seed}|{case}|{index}|{attempt}"
    drawn = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    alone = runs_alone(place)
    return BlockToRun(
        phase=place.phase,
        case=case,
        index=index,
        attempt=attempt,
        first="B" if drawn[4] & 1 or alone else "C",
        seed=int.from_bytes(drawn[:4], "big") >> 1,
        alone=alone,
    )
