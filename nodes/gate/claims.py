"""Where each claim of the gate stands, given what was observed so far."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from contracts.gate import Block, ClaimState, GatePlan
from nodes.gate.stats import (
    cost_ratio_upper,
    harm_p,
    noninferior_p,
    stratified_exact_p,
    tango_z,
)
from nodes.gate.tally import Place, Tally, round_of

HARM_LEVEL = 0.05
COST_LEVEL = 0.05
FEWEST_FOR_COST = 30  # below it no bound on the cost ratio is worth the name
_FUTILE_Z = 0.5
_UNPRICED = "no price is known for some run, and unknown is not zero"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """L1: does the candidate pass more often on the target cases themselves?"""

    state: Literal["open", "held", "not_held"]
    p: float
    """Where L1 stopped early, the p of the worst (held) or best (not held) outcome that was left;
    else of what was observed."""
    survives: bool
    """Still held with every missing block scored against the candidate."""
    rounds: int
    stopped: str
    """Why no further round runs; empty while open, and when every round ran."""
    reproduced: bool
    """The baseline failed some target run."""


def fixed(tally: Tally) -> Fixed:
    """Read L1 after the last complete round.

    Stops: (a) the worst outcome of what is left would still hold, (b) the best would not, (c) from
    half of the rounds on the candidate does not lead. With the total of a case given, a lost
    block never lowers p and a won one never raises it (the law moves by at most one), so the
    worst and the best outcome are those; (a) and (b) decide as the whole plan would.
    """
    plan = tally.plan
    level = target_level(plan)
    total = max(case.repeats for case in plan.targets)
    rounds = 0
    while rounds < total and not tally.open(round_of(plan, "target", rounds)):
        rounds += 1
    counts = [_passes(tally, rounds, case_index) for case_index in range(len(plan.targets))]
    reproduced = sum(c.k_b for c in counts) < sum(c.seen for c in counts) or not rounds
    p = stratified_exact_p([(c.k_c, c.k_b, c.seen) for c in counts if c.seen])
    worst = stratified_exact_p([(c.k_c, c.r - c.seen + c.k_b, c.r) for c in counts])
    ahead = [(c.k_c + c.left, c.k_b, c.seen + c.left) for c in counts if c.seen + c.left]
    best = stratified_exact_p(ahead)
    state: Literal["open", "held", "not_held"] = "open"
    stopped = ""
    if rounds == total:
        state = "held" if p <= level else "not_held"
    elif worst <= level:
        state, p, stopped = "held", worst, "held whatever the remaining runs say"
    elif best > level:
        state, p, stopped = "not_held", best, "not to be held any more"
    elif 2 * rounds >= total and sum(c.k_c for c in counts) <= sum(c.k_b for c in counts):
        state, stopped = "not_held", "no lead after half of the rounds"
    return Fixed(
        state=state,
        p=p,
        survives=worst <= level,
        rounds=rounds,
        stopped=stopped,
        reproduced=reproduced,
    )


def target_level(plan: GatePlan) -> float:
    """Level of L1."""
    return plan.alpha if plan.target_alpha is None else plan.target_alpha


@dataclass(frozen=True, slots=True, kw_only=True)
class _Passes:
    k_b: int
    k_c: int
    seen: int
    left: int
    r: int


def _passes(tally: Tally, rounds: int, case_index: int) -> _Passes:
    """One target case over the complete rounds; `left` are blocks of rounds still to come."""
    case = tally.plan.targets[case_index]
    places = [Place(phase="target", case=case, index=i) for i in range(min(rounds, case.repeats))]
    blocks = [block for block in map(tally.block, places) if block is not None]
    return _Passes(
        k_b=sum(_baseline_passes(block) for block in blocks),
        k_c=sum(block.candidate.result == "pass" for block in blocks),
        seen=len(blocks),
        left=case.repeats - len(places),
        r=case.repeats,
    )


def _baseline_passes(block: Block) -> bool:
    return block.baseline is not None and block.baseline.result == "pass"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """K: cost per passing run, candidate over baseline."""

    state: ClaimState
    ratio: float | None
    upper: float | None
    lower: float | None
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One reading of the sealed cases, at its share of the level."""

    cases: int
    level: float
    share: float
    b: int
    c: int
    n: int
    """Cases observed."""
    passes: tuple[int, int]
    """(baseline, candidate)."""
    p: float
    p_missing: float
    """The same with every missing block scored against the candidate."""
    harm: float
    cost: Cost

    @property
    def harmful(self) -> bool:
        """The sign test shows that the candidate loses more than it wins."""
        return self.harm <= HARM_LEVEL * self.share

    @property
    def too_dear(self) -> bool:
        """Even the lower bound of the cost ratio is above what is allowed."""
        return self.cost.state == "not_held" and self.cost.lower is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unharmed:
    """L2, harm and K over the looks so far. A claim shown at a look stays shown."""

    looks: tuple[Look, ...]
    waiting: int | None
    """Sealed cases, in the order of the plan, that the next look needs; None: no look is left."""
    stopped: str
    """Why no further look is read; empty while open, and after the last one."""
    shown: Look | None
    """Where L2 was first shown."""
    robust: bool
    """L2 was also shown with every missing block scored against the candidate."""
    cost: Look | None
    """Where K was first shown."""


def unharmed(tally: Tally) -> Unharmed:
    """Read the sealed looks whose cases are all settled, in order."""
    plan = tally.plan
    places = round_of(plan, "sealed", 0)
    looks: list[Look] = []
    shown: Look | None = None
    cost: Look | None = None
    robust = False
    stopped = ""
    waiting: int | None = None
    for cases, level in plan.looks:
        if tally.open(places[:cases]):
            waiting = cases
            break
        look = _read(tally, places[:cases], level)
        looks.append(look)
        shown = shown or (look if look.p <= level else None)
        robust = robust or max(look.p, look.p_missing) <= level
        cost = cost or (look if look.cost.state == "held" else None)
        stopped = _stop(plan, look, ready=robust and cost is not None, shown=shown is not None)
        if stopped:
            break
    return Unharmed(
        looks=tuple(looks),
        waiting=waiting,
        stopped=stopped,
        shown=shown,
        robust=robust,
        cost=cost,
    )


def _stop(plan: GatePlan, look: Look, *, ready: bool, shown: bool) -> str:
    if look.harmful:
        return "harm shown"
    if look.too_dear:
        return "cost shown to be too high"
    if ready:
        return "shown"
    last = look.cases == plan.looks[-1][0]
    if last or shown or not look.n:
        return ""
    futile = tango_z(look.b, look.c, look.n, -plan.margin) < _FUTILE_Z
    return "no prospect of excluding harm" if futile else ""


def _read(tally: Tally, places: Sequence[Place], level: float) -> Look:
    plan = tally.plan
    blocks = [block for block in map(tally.block, places) if block is not None]
    pairs = [(_baseline_passes(block), block.candidate.result == "pass") for block in blocks]
    b, c = sum(y and not x for x, y in pairs), sum(x and not y for x, y in pairs)
    n, missing = len(blocks), len(places) - len(blocks)
    share = round(level / plan.alpha, 9)
    return Look(
        cases=len(places),
        level=level,
        share=share,
        b=b,
        c=c,
        n=n,
        passes=(sum(x for x, _ in pairs), sum(y for _, y in pairs)),
        p=noninferior_p(b, c, n, plan.margin),
        p_missing=noninferior_p(b, c + missing, n + missing, plan.margin),
        harm=harm_p(b, c),
        cost=cost_claim(plan, blocks, planned=len(places), level=COST_LEVEL * share),
    )


def cost_claim(plan: GatePlan, blocks: Sequence[Block], *, planned: int, level: float) -> Cost:
    """K on the observed sealed blocks; below thirty planned cases only an unproven estimate."""
    rows = [_cost_row(block) for block in blocks]
    known = [row for row in rows if row is not None]
    if not known or len(known) < len(rows):
        return _no_cost("unknown", _UNPRICED)
    totals = [sum(row[i] for row in known) for i in range(4)]
    per_run = "" if not totals[2] else f"cost per run x {totals[0] / totals[2]:.2f}"
    if min(totals) <= 0:
        return _no_cost("unknown", f"no ratio: a total of costs or passes is zero. {per_run}")
    ratio = totals[0] / totals[1] / (totals[2] / totals[3])
    limit = 1.0 + plan.cost_margin
    if planned < FEWEST_FOR_COST:
        ok = ratio <= limit and totals[0] <= limit * totals[2]
        detail = f"unproven below {FEWEST_FOR_COST} cases: ratio {ratio:.2f}, {per_run}"
        state: ClaimState = "held" if ok else "not_held"
        return Cost(state=state, ratio=ratio, upper=None, lower=None, detail=detail)
    upper = cost_ratio_upper(known, level)
    swapped = cost_ratio_upper([(cb, kb, cc, kc) for cc, kc, cb, kb in known], level)
    if upper is None or swapped is None:
        return _no_cost("unknown", f"no bound: too few passing runs. {per_run}")
    lower = 1.0 / swapped
    detail = f"ratio {ratio:.2f}, upper bound {upper:.2f}, allowed {limit:.2f}"
    state = "held" if upper <= limit else "not_held"
    shown_dear = lower if lower > limit else None
    return Cost(state=state, ratio=ratio, upper=upper, lower=shown_dear, detail=detail)


def cost_per_run_claim(plan: GatePlan, blocks: Sequence[Block]) -> Cost:
    """K where there is no sealed case: a cap on the mean cost of a target run, unproven.

    Not per passing run: the baseline hardly passes its targets, which would hide any rise.
    """
    rows = [_cost_row(block) for block in blocks]
    known = [row for row in rows if row is not None]
    if not known or len(known) < len(rows):
        return _no_cost("unknown", _UNPRICED)
    candidate, baseline = sum(row[0] for row in known), sum(row[2] for row in known)
    if baseline <= 0.0:
        return _no_cost("unknown", "no ratio: the baseline's cost is zero")
    detail = f"unproven, no sealed case: cost per target run x {candidate / baseline:.2f}"
    return _no_cost(
        "held" if candidate <= (1.0 + plan.cost_margin) * baseline else "not_held", detail
    )


def _no_cost(state: ClaimState, detail: str) -> Cost:
    return Cost(state=state, ratio=None, upper=None, lower=None, detail=detail.strip())


def _cost_row(block: Block) -> tuple[float, int, float, int] | None:
    baseline, candidate = block.baseline, block.candidate
    if baseline is None or baseline.cost_usd is None or candidate.cost_usd is None:
        return None
    return (
        candidate.cost_usd,
        int(candidate.result == "pass"),
        baseline.cost_usd,
        int(baseline.result == "pass"),
    )


def cases_for_cost(look: Look, cost_margin: float) -> int | None:
    """About how many cases would show K if the ratio stays; None: not at this ratio."""
    ratio, upper = look.cost.ratio, look.cost.upper
    if ratio is None or upper is None or ratio >= 1.0 + cost_margin:
        return None
    room = math.log((1.0 + cost_margin) / ratio)
    return math.ceil(look.n * (math.log(upper / ratio) / room) ** 2)
