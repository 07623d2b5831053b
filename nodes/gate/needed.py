"""What an inconclusive gate still needs: more cases, more repeats, prices, or a budget."""

import math
from statistics import NormalDist

from nodes.gate.claims import target_level
from nodes.gate.cost import cases_for_cost
from nodes.gate.figures import target_passes
from nodes.gate.sizes import (
    MOST_CASES,
    POWER,
    STANDARD_FAMILIES,
    enough_cases,
    enough_repeats,
    needed_cases,
    planned_runs,
)
from nodes.gate.standing import Standing
from nodes.gate.tally import places_of


def needed_for(standing: Standing, reason: str) -> str | None:
    """What it would take, for a person who reads an inconclusive verdict; None: nothing known."""
    if reason in {"not fixed", "not reproduced"}:
        return _needed_blocks(standing)
    if reason == "cost not shown":
        return _needed_for_cost(standing)
    if reason in {"harm not excluded", "known cases only"}:
        return _needed_sealed(standing, reason)
    return {
        "missing blocks": "observed runs in place of the missing blocks",
        "generalisation not shown": _needed_of_issue(standing),
        "budget": _needed_budget(standing),
        "not smaller": "an edit after which the files have fewer tokens, counted",
    }.get(reason)


def _needed_for_cost(standing: Standing) -> str:
    plan, look = standing.tally.plan, standing.last
    more = None if look is None else cases_for_cost(standing.cost, look.n, plan.cost_margin)
    return f"about {more} sealed cases at this cost ratio" if more else "known prices, or less"


def _needed_of_issue(standing: Standing) -> str:
    mine, fewest = standing.unharmed.spread.cases, enough_cases(1, standing.tally.plan.alpha)
    return f"{fewest} sealed cases of this issue at least, won without a loss ({mine} in the plan)"


def _needed_budget(standing: Standing) -> str:
    runs = planned_runs(standing.tally.plan)
    return f"a larger budget: {runs} runs are planned, and guards that signal take more"


def _needed_sealed(standing: Standing, reason: str) -> str:
    """Sealed cases that show the asked margin, if cases differ as often as they did here."""
    plan, look = standing.tally.plan, standing.last
    b, c, n = (look.b, look.c, look.n) if look else (0, 0, 0)
    cases = needed_cases(plan, (b + c + 1) / (n + 2) if n else plan.discordance)
    count = f"more than {MOST_CASES}" if cases is None else f"about {max(cases, n + 1)}"
    fewest = f", {STANDARD_FAMILIES} at least" if reason == "known cases only" else ""
    return (
        f"{count} sealed cases{fewest} for margin {plan.margin_asked:.2f}"
        f" ({len(plan.sealed)} in the plan)"
    )


def _needed_blocks(standing: Standing) -> str:
    """Blocks that would show the target effect seen, by the normal guess for a sign test."""
    blocks = standing.tally.observed(places_of(standing.tally.plan, "target"))
    gains = [
        (block.candidate.result == "pass") - (block.baseline.result == "pass")
        for block in blocks
        if block.baseline is not None
    ]
    wins, losses = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    before, _, n = target_passes(standing.tally)
    if wins <= losses:
        again = "cases that fail today" if before == n else "another edit, or cases that fail today"
        return f"{again}: nothing seen says that this one helps"
    targets, level = standing.tally.plan.targets, target_level(standing.tally.plan)
    change, share = (wins - losses) / n, (wins + losses + 1) / (n + 2)
    z = NormalDist().inv_cdf(1.0 - level) + NormalDist().inv_cdf(POWER)
    needed = max(n + 1, z * z * (share - change * change) / (change * change))
    repeats = max(math.ceil(needed / len(targets)), enough_repeats(len(targets), level))
    return f"about {repeats} repeats of {len(targets)} target cases ({targets[0].repeats} planned)"
