"""The report's sentences: what each claim says, and what an inconclusive gate still needs."""

import math
from statistics import NormalDist

from contracts.gate import Claim, ClaimState, Phase
from nodes.gate.claims import cases_for_cost, target_level
from nodes.gate.design import POWER, STANDARD_FAMILIES, enough_repeats
from nodes.gate.standing import Standing
from nodes.gate.stats import required_cases
from nodes.gate.tally import Tally, places_of

_LIMIT = 300  # sample sizes above it are given as "more than", to answer in seconds
_NO_GUARD = "no case has ten stored baseline runs yet, so none is protected"
_PHASES: tuple[Phase, ...] = ("target", "sealed", "critical")


def claims_of(standing: Standing) -> tuple[Claim, ...]:
    """L1, L2, G, K, L3, each with its test and a sentence."""
    plan = standing.tally.plan
    strict: ClaimState = "unknown" if plan.profile == "strict" else "not_asked"
    return (
        _claim_l1(standing),
        _claim_l2(standing),
        _claim_guards(standing),
        _claim_cost(standing),
        Claim(
            name="L3",
            state=strict,
            p=None,
            level=None,
            detail="generalises: no sealed case is marked as of this issue",
        ),
    )


def _claim_l1(standing: Standing) -> Claim:
    fix = standing.fixed
    b, c, n = target_passes(standing.tally)
    stopped = f"; stopped after {fix.rounds} rounds: {fix.stopped}" if fix.stopped else ""
    return Claim(
        name="L1",
        state="unknown" if fix.state == "open" else fix.state,
        p=fix.p,
        level=target_level(standing.tally.plan),
        detail=f"fixes known cases: baseline {b} and candidate {c} passes of {n} each{stopped}",
    )


def _claim_l2(standing: Standing) -> Claim:
    plan, harm = standing.tally.plan, standing.unharmed
    look = harm.shown or standing.last
    if look is None:
        why = "no sealed case was run" if plan.sealed else "there is no sealed case"
        return Claim(
            name="L2",
            state="unknown" if plan.sealed else "not_held",
            p=None if plan.sealed else 1.0,
            level=plan.alpha,
            detail=f"does no harm: {why}",
        )
    state: ClaimState = "held" if harm.shown else "not_held"
    if not harm.shown and harm.waiting is not None:
        state = "unknown"
    return Claim(
        name="L2",
        state=state,
        p=look.p,
        level=look.level,
        detail=(
            f"does no harm: {look.b} better, {look.c} worse of {look.n} sealed cases,"
            f" margin {plan.margin:.2f}"
        ),
    )


def _claim_guards(standing: Standing) -> Claim:
    plan = standing.tally.plan
    state: ClaimState = "held"
    detail = f"guards: {_NO_GUARD}"
    if standing.critical_failed:
        state = "not_held"
        detail = f"{detail}; critical cases failed: {', '.join(standing.critical_failed)}"
    elif standing.critical_open or standing.critical_lost:
        state = "unknown"
        detail = f"{detail}; critical cases were not all observed"
    elif plan.critical:
        detail = (
            f"{detail}; {len(plan.critical)} critical without a failure in"
            f" {plan.critical[0].repeats} runs, which bounds its rate below about 26 %"
        )
    return Claim(name="G", state=state, p=None, level=0.05, detail=detail)


def _claim_cost(standing: Standing) -> Claim:
    ran = standing.last is not None or not standing.tally.plan.sealed
    return Claim(
        name="K",
        state=standing.cost.state if ran else "unknown",
        p=None,
        level=0.05,
        detail=f"cost: {standing.cost.detail}" if ran else "cost: no sealed case was run",
    )


def target_passes(counted: Tally) -> tuple[int, int, int]:
    """(baseline passes, candidate passes, blocks) over the target cases."""
    blocks = [b for b in map(counted.block, places_of(counted.plan, "target")) if b is not None]
    baseline = sum(b.baseline is not None and b.baseline.result == "pass" for b in blocks)
    return baseline, sum(b.candidate.result == "pass" for b in blocks), len(blocks)


def notes_of(standing: Standing) -> tuple[str, ...]:
    """What else a person should know."""
    notes = []
    if standing.unharmed.stopped:
        cases = standing.unharmed.looks[-1].cases
        notes.append(f"Sealed cases stopped after {cases}: {standing.unharmed.stopped}.")
    lost = sum(
        standing.tally.lost(place)
        for phase in _PHASES
        for place in places_of(standing.tally.plan, phase)
    )
    if lost:
        notes.append(f"{lost} blocks stayed missing after three attempts.")
    return tuple(notes)


def needed_for(standing: Standing, reason: str) -> str | None:
    """What it would take, for a person who reads an inconclusive verdict."""
    plan, look = standing.tally.plan, standing.last
    if reason in {"not fixed", "not reproduced"}:
        return _needed_blocks(standing)
    if reason == "missing blocks":
        return "observed runs in place of the missing blocks"
    if reason == "cost not shown":
        more = None if look is None else cases_for_cost(look, plan.cost_margin)
        return f"about {more} sealed cases at this cost ratio" if more else "known prices, or less"
    if reason in {"harm not excluded", "known cases only"}:
        b, c, n = (look.b, look.c, look.n) if look else (0, 0, 0)
        share = (b + c + 1) / (n + 2) if n else plan.discordance
        cases = required_cases(plan.margin_asked, share, plan.alpha, POWER, limit=_LIMIT)
        count = f"more than {_LIMIT}" if cases is None else f"about {max(cases, n + 1)}"
        fewest = f", {STANDARD_FAMILIES} at least" if reason == "known cases only" else ""
        return (
            f"{count} sealed cases{fewest} for margin {plan.margin_asked:.2f}"
            f" ({len(plan.sealed)} in the plan)"
        )
    return None


def _needed_blocks(standing: Standing) -> str:
    """Blocks that would show the target effect seen, by the normal guess for a sign test."""
    wins = losses = n = 0
    for place in places_of(standing.tally.plan, "target"):
        block = standing.tally.block(place)
        if block is not None and block.baseline is not None:
            gain = (block.candidate.result == "pass") - (block.baseline.result == "pass")
            wins, losses, n = wins + (gain > 0), losses + (gain < 0), n + 1
    if wins <= losses:
        return "another edit, or cases that fail today: nothing seen says that this one helps"
    targets, level = standing.tally.plan.targets, target_level(standing.tally.plan)
    change, share = (wins - losses) / n, (wins + losses + 1) / (n + 2)
    z = NormalDist().inv_cdf(1.0 - level) + NormalDist().inv_cdf(POWER)
    blocks = max(n + 1, z * z * (share - change * change) / (change * change))
    repeats = max(math.ceil(blocks / len(targets)), enough_repeats(len(targets), level))
    return f"about {repeats} repeats of {len(targets)} target cases ({targets[0].repeats} planned)"
