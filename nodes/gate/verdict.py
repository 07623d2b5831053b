"""The decision rule: from a plan and its stored blocks to one verdict with its reason."""

import math
from collections.abc import Sequence
from typing import Final

from contracts.codec import to_json
from contracts.gate import (
    NO_CONDITIONS,
    Block,
    Claim,
    ClaimName,
    ClaimState,
    Conditions,
    GatePlan,
    GateReport,
    Verdict,
)
from contracts.json_types import canonical_json, sha256_hex
from nodes.gate.figures import (
    evidence,
    interval,
    latency,
    money,
    outcomes,
    proven,
    runs_of,
    sealed_blocks,
    spent_usd,
    target_passes,
    worse,
)
from nodes.gate.in_words import in_words, not_tested
from nodes.gate.needed import needed_for
from nodes.gate.sealed import NOT_GENERAL
from nodes.gate.sizes import plan_hash, planned_runs
from nodes.gate.standing import Standing, stand
from nodes.gate.wording import claims_of, notes_of

_GOOD: Final[frozenset[ClaimState]] = frozenset({"held", "not_asked"})


def report(
    plan: GatePlan,
    blocks: Sequence[Block],
    *,
    conditions: Conditions = NO_CONDITIONS,
    stopped: str | None = None,
) -> GateReport:
    """The verdict on what is stored.

    Args:
        plan: as approved.
        blocks: all that are stored, in any order.
        conditions: what else the verdict hangs on.
        stopped: why the gate ended before its plan did, such as "budget".
    """
    standing = stand(plan, blocks, conditions)
    return report_on(standing, blocks, stopped=stopped)


def report_hash(of: GateReport) -> str:
    """SHA-256 of the report's canonical JSON; what an override binds to."""
    return sha256_hex(canonical_json(to_json(of)))


def report_on(
    standing: Standing, blocks: Sequence[Block], *, stopped: str | None = None
) -> GateReport:
    """The report of a standing; `blocks` are those it was read from."""
    plan, look = standing.tally.plan, standing.last
    claims = claims_of(standing)
    verdict, reason = _verdict(standing, claims, stopped)
    cost, seen = standing.cost, standing.listed
    cost_per_pass, cost_per_run = money(standing)
    margin = proven(standing)
    return GateReport(
        verdict=verdict,
        reason=reason,
        claims=claims,
        plan_hash=plan_hash(plan),
        runs=sum(1 if block.baseline is None else 2 for block in blocks),
        planned_runs=planned_runs(plan),
        target_passes=target_passes(standing.tally),
        sealed=(look.b, look.c, look.n) if look else (0, 0, 0),
        sealed_passes=look.passes if look else (0, 0),
        sealed_interval=interval(standing),
        proven_margin=margin,
        cost_ratio=None if cost.ratio is None or cost.upper is None else (cost.ratio, cost.upper),
        spent_usd=spent_usd(blocks),
        worse=worse(standing.tally, sealed_blocks(standing)),
        needed=needed_for(standing, reason) if verdict == "inconclusive" else None,
        notes=notes_of(standing),
        cases=outcomes(standing),
        cost_per_pass=cost_per_pass,
        cost_per_run=cost_per_run,
        latency_p95=latency(standing),
        listed=(seen.evidence, seen.rounds, seen.margin) if seen.asked else None,
        e_value=evidence(look, plan.margin),
        spent_seconds=math.fsum(sorted(run.seconds for run in runs_of(blocks))),
        in_words=in_words(standing, margin),
        not_tested=not_tested(standing),
    )


def _verdict(
    standing: Standing, claims: Sequence[Claim], stopped: str | None
) -> tuple[Verdict, str]:
    """INVALID, REJECT, ACCEPT, INCONCLUSIVE: the first that applies."""
    if standing.invalid is not None:
        return "invalid", standing.invalid
    if standing.harmful is not None:
        return "reject", standing.harmful
    state = {claim.name: claim.state for claim in claims}
    # LK is about the listed cases alone: it is reported and never asked for.
    held = all(each in _GOOD for name, each in state.items() if name != "LK")
    profile = standing.tally.plan.profile
    if held and _robust(standing) and standing.smaller and profile != "starter":
        return "accept", "every claim held"
    return "inconclusive", _reason(standing, state, stopped)


def _robust(standing: Standing) -> bool:
    """Accepted even with every missing block scored against the candidate."""
    spread = standing.tally.plan.profile != "strict" or standing.unharmed.spread.sure
    return standing.fixed.survives and standing.unharmed.robust and spread


def _reason(standing: Standing, state: dict[ClaimName, ClaimState], stopped: str | None) -> str:
    """The first failing claim; where the plan was not run to its end, why."""
    fix = standing.fixed
    if fix.state == "not_held":
        return "not fixed" if fix.reproduced else "not reproduced"
    if fix.state == "held" and not fix.survives:
        return "missing blocks"
    if fix.state == "open" or standing.unharmed.waiting is not None:
        return stopped or "unfinished"
    return _sealed_reason(standing, state) or _last_reason(standing, stopped)


def _sealed_reason(standing: Standing, state: dict[ClaimName, ClaimState]) -> str | None:
    """L2, K and L3; in starter only K, for L2 is reported with what the data prove."""
    plan = standing.tally.plan
    if standing.unharmed.stopped == NOT_GENERAL:
        return "generalisation not shown"
    if plan.profile == "starter" and plan.purpose == "fix":
        return None if state["K"] == "held" else "cost not shown"
    if state["L2"] != "held":
        return "harm not excluded"
    if state["K"] != "held":
        return "cost not shown"
    if plan.profile == "strict" and state["L3"] != "held":
        return "generalisation not shown"
    return None if plan.profile == "starter" or _robust(standing) else "missing blocks"


def _last_reason(standing: Standing, stopped: str | None) -> str:
    """The critical cases, the guards, then the profile."""
    if standing.critical.waiting or standing.guards.waiting:
        return stopped or "unfinished"
    if standing.critical.lost or standing.guards.unsure:
        return "missing blocks"
    if not standing.smaller:
        return "not smaller"
    if standing.listed.waiting and stopped is None:
        return "unfinished"
    return "known cases only"
