"""K: what a passing run costs, candidate over baseline."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from contracts.gate import Block, ClaimState, GatePlan
from nodes.gate.stats import cost_ratio_upper

COST_LEVEL = 0.05
FEWEST_FOR_COST = 30  # below it no bound on the cost ratio is worth the name
_UNPRICED = "no price is known for some run, and unknown is not zero"

_PLAIN_UNPRICED = "What a passing run costs is not known: some run has no price."

Row = tuple[float, int, float, int]
"""(cost_C, passes_C, cost_B, passes_B) in USD and runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """K: cost per passing run, candidate over baseline."""

    state: ClaimState
    ratio: float | None
    upper: float | None
    lower: float | None
    """Where a rise above what is allowed is shown: the lower bound."""
    detail: str
    plain: str = ""
    """Where there is no ratio: the same for somebody who is no statistician."""


def cost_claim(
    plan: GatePlan, cases: Sequence[Sequence[Block]], *, planned: int, level: float
) -> Cost:
    """K on the observed blocks of each sealed case; below thirty planned cases an estimate only."""
    known = cost_rows(cases)
    if not known:
        return _no_ratio("unknown", _UNPRICED, _PLAIN_UNPRICED)
    cost_c, passes_c, cost_b, passes_b = (sum(row[i] for row in known) for i in range(4))
    per_run = f"cost per run x {cost_c / cost_b:.2f}" if cost_b else "the baseline's cost is zero"
    if min(cost_c, passes_c, cost_b, passes_b) <= 0:
        extra = _extra(cost_c - cost_b, passes_c - passes_b)
        return _no_ratio(
            "unknown",
            f"no ratio: a total of costs or passes is zero; {per_run}{extra}",
            f"What a passing run costs cannot be compared{extra or ': no run passed'}.",
        )
    ratio = cost_c / passes_c / (cost_b / passes_b)
    limit = 1.0 + plan.cost_margin
    if planned < FEWEST_FOR_COST:
        ok = ratio <= limit and cost_c <= limit * cost_b
        detail = f"unproven below {FEWEST_FOR_COST} cases: ratio {ratio:.2f}, {per_run}"
        state: ClaimState = "held" if ok else "not_held"
        return Cost(state=state, ratio=ratio, upper=None, lower=None, detail=detail)
    upper = cost_ratio_upper(known, level)
    swapped = cost_ratio_upper([(cb, kb, cc, kc) for cc, kc, cb, kb in known], level)
    if upper is None or swapped is None:
        return _no_ratio(
            "unknown",
            f"no bound: too few passing runs; {per_run}",
            "What a passing run costs cannot be compared: too few runs passed.",
        )
    lower = 1.0 / swapped
    detail = f"ratio {ratio:.2f}, upper bound {upper:.2f}, allowed {limit:.2f}"
    state = "held" if upper <= limit else "not_held"
    shown_dear = lower if lower > limit else None
    return Cost(state=state, ratio=ratio, upper=upper, lower=shown_dear, detail=detail)


def _extra(cost_usd: float, passes: float) -> str:
    """What one more passing run costs, where there are more of them."""
    return f"; {cost_usd / passes:.4f} USD for each extra passing run" if passes > 0 else ""


def cost_per_run_claim(plan: GatePlan, cases: Sequence[Sequence[Block]]) -> Cost:
    """K where there is no sealed case: a cap on the mean cost of a target run, unproven.

    Not per passing run: the baseline hardly passes its targets, which would hide any rise.
    """
    known = cost_rows(cases)
    if not known:
        return _no_ratio("unknown", _UNPRICED, _PLAIN_UNPRICED)
    candidate, baseline = sum(row[0] for row in known), sum(row[2] for row in known)
    if baseline <= 0.0:
        free = "What a run costs cannot be compared: the baseline's runs cost nothing."
        return _no_ratio("unknown", "no ratio: the baseline's cost is zero", free)
    ratio = candidate / baseline
    return _no_ratio(
        "held" if ratio <= 1.0 + plan.cost_margin else "not_held",
        f"unproven, no sealed case: cost per target run x {ratio:.2f}",
        f"A run on a known case costs {ratio:.2f} times what it did; that is no proof.",
    )


def _no_ratio(state: ClaimState, detail: str, plain: str) -> Cost:
    return Cost(state=state, ratio=None, upper=None, lower=None, detail=detail, plain=plain)


def cost_rows(cases: Sequence[Sequence[Block]]) -> tuple[Row, ...]:
    """A row for each case that was observed; none at all where any cost is unknown."""
    rows: list[Row] = []
    for blocks in cases:
        cost_c = cost_b = 0.0
        passes_c = passes_b = 0
        for block in blocks:
            baseline, candidate = block.baseline, block.candidate
            if baseline is None or baseline.cost_usd is None or candidate.cost_usd is None:
                return ()
            cost_c, cost_b = cost_c + candidate.cost_usd, cost_b + baseline.cost_usd
            passes_c += candidate.result == "pass"
            passes_b += baseline.result == "pass"
        if blocks:
            rows.append((cost_c, passes_c, cost_b, passes_b))
    return tuple(rows)


def cases_for_cost(cost: Cost, cases: int, cost_margin: float) -> int | None:
    """About how many cases would show K if the ratio stays; None: not at this ratio."""
    ratio, upper = cost.ratio, cost.upper
    if ratio is None or upper is None or ratio >= 1.0 + cost_margin:
        return None
    room = math.log((1.0 + cost_margin) / ratio)
    return math.ceil(cases * (math.log(upper / ratio) / room) ** 2)
