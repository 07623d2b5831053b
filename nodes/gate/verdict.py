"""The decision rule: from a plan and its stored blocks to one verdict with its reason."""

import math
from collections.abc import Sequence

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
from nodes.gate.design import plan_hash, planned_runs
from nodes.gate.standing import Standing, stand
from nodes.gate.stats import proven_margin, tango_lower, tango_upper
from nodes.gate.tally import Tally, places_of
from nodes.gate.wording import claims_of, needed_for, notes_of, target_passes


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
    b, c, n = (look.b, look.c, look.n) if look else (0, 0, 0)
    cost = standing.cost
    return GateReport(
        verdict=verdict,
        reason=reason,
        claims=claims,
        plan_hash=plan_hash(plan),
        runs=sum(1 if block.baseline is None else 2 for block in blocks),
        planned_runs=planned_runs(plan),
        target_passes=target_passes(standing.tally),
        sealed=(b, c, n),
        sealed_passes=look.passes if look else (0, 0),
        sealed_interval=(tango_lower(b, c, n, 0.025), tango_upper(b, c, n, 0.025)) if n else None,
        proven_margin=proven_margin(b, c, n, look.level) if look else 1.0,
        cost_ratio=None if cost.ratio is None or cost.upper is None else (cost.ratio, cost.upper),
        spent_usd=_spent(blocks),
        worse=_worse(standing.tally),
        needed=needed_for(standing, reason) if verdict == "inconclusive" else None,
        notes=notes_of(standing),
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
    held = all(each in {"held", "not_asked"} for each in state.values())
    robust = standing.fixed.survives and standing.unharmed.robust
    if held and robust and standing.tally.plan.profile != "starter":
        return "accept", "every claim held"
    return "inconclusive", _reason(standing, state, stopped)


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
    starter = standing.tally.plan.profile == "starter"
    if not starter and state["L2"] != "held":
        return "harm not excluded"
    if state["K"] != "held":
        return "cost not shown"
    return None if starter or standing.unharmed.robust else "missing blocks"


def _last_reason(standing: Standing, stopped: str | None) -> str:
    """Everything else holds: the critical cases, or the profile."""
    if standing.critical_open:
        return stopped or "unfinished"
    if standing.critical_lost:
        return "missing blocks"
    starter = standing.tally.plan.profile == "starter"
    return "known cases only" if starter else "generalisation not shown"


def _worse(counted: Tally) -> tuple[str, ...]:
    """Target cases by id, sealed ones by fingerprint: what passes less often than before."""
    change: dict[str, int] = {}
    for phase in ("target", "sealed"):
        for place in places_of(counted.plan, "target" if phase == "target" else "sealed"):
            block = counted.block(place)
            if block is not None and block.baseline is not None:
                name = place.case.case if phase == "target" else place.case.fingerprint
                gain = (block.candidate.result == "pass") - (block.baseline.result == "pass")
                change[name] = change.get(name, 0) + gain
    return tuple(name for name, gain in change.items() if gain < 0)


def _spent(blocks: Sequence[Block]) -> float | None:
    """Cost of all runs; None as soon as one is unknown."""
    costs = [run.cost_usd for block in blocks for run in (block.baseline, block.candidate) if run]
    known = [cost for cost in costs if cost is not None]
    return math.fsum(known) if len(known) == len(costs) else None
