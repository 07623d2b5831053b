"""How many runs a plan is, at which level it decides, and what so many runs can show."""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from contracts.codec import to_json
from contracts.gate import GatePlan, PlannedCase
from contracts.json_types import canonical_json, sha256_hex
from nodes.gate.stats import (
    e_highest,
    provable,
    required_cases,
    smallest_provable_margin,
    stratified_exact_p,
)

FAMILY_LEVEL = 0.05  # shared by all uses of one sealed set (docs/gate.md, section 7)
POWER = 0.8
STANDARD_FAMILIES = 30  # sealed families below which only the known cases are tested
MOST_CASES = 300  # sample sizes above it are given as "more than", to answer in seconds
_SAMPLES = 2000  # of a simulated power, which is then right to about .02


def level_of(*, uses: int, use: int) -> float:
    """Level of the use-th confirmation, from 1, where `uses` are allowed.

    A person who can tell a reject from an inconclusive may write the next edit, so every further
    use doubles the histories that could have led to it, and halves the level.
    """
    if uses < 1 or use < 1:
        raise ValueError(f"uses count from 1: use={use!r} uses={uses!r}")
    return FAMILY_LEVEL / uses / float(2 ** (use - 1))


def plan_hash(plan: GatePlan) -> str:
    """SHA-256 of the plan's canonical JSON."""
    return sha256_hex(canonical_json(to_json(plan)))


def planned_runs(plan: GatePlan) -> int:
    """Single runs of an arm if no stop comes early, nothing is missing and no guard is tested."""
    pairs = sum(case.repeats for case in (*plan.targets, *plan.sealed))
    return 2 * pairs + sum(case.repeats for case in plan.critical) + len(plan.guards)


def best_reachable_p(repeats: Sequence[int]) -> float:
    """Smallest p that L1 can give: the candidate passes every run, the baseline none."""
    return stratified_exact_p([(r, 0, r) for r in repeats])


def enough_repeats(cases: int, level: float) -> int:
    """Fewest repeats of so many cases at which a clean sweep reaches the level."""
    return next(r for r in range(1, 1000) if best_reachable_p([r] * cases) <= level)


def enough_cases(repeats: int, level: float) -> int:
    """Fewest cases with so many repeats at which a clean sweep reaches the level."""
    return math.ceil(math.log(level) / math.log(best_reachable_p([repeats])) - 1e-9)


def l2_repeats(plan: GatePlan) -> int:
    """Blocks of a sealed case that L2 reads: above 1 the e-process decides."""
    if plan.listed_rounds:
        return 1
    return max((case.repeats for case in plan.sealed), default=1)


def guarded_cases(plan: GatePlan) -> tuple[PlannedCase, ...]:
    """The cases that must go on passing, in the order of the plan."""
    cases = (*plan.targets, *plan.sealed, *plan.guards)
    return tuple(case for case in cases if case.protected)


def can_prove(plan: GatePlan) -> bool:
    """Whether the sealed cases show the plan's margin at power .80 if nothing changes."""
    return _provable(plan, plan.margin)


def smallest_margin(plan: GatePlan) -> float:
    """The asked margin where the sealed cases can prove it, else the smallest that they can.

    Of .01, .02 … .50; the asked one as well where they can prove none of these.
    """
    asked = plan.margin_asked
    if not plan.sealed or _provable(plan, asked):
        return asked
    n = len(plan.sealed)
    if l2_repeats(plan) == 1:
        smallest = smallest_provable_margin(n, plan.discordance, plan.alpha, POWER)
        return smallest if smallest < 1.0 else asked
    low, high = 0, 51  # hundredths; on the same simulated sets a wider margin is never harder
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _provable(plan, middle / 100) else (middle, high)
    return high / 100 if high <= 50 else asked  # up to .50


def needed_cases(plan: GatePlan, discordance: float) -> int | None:
    """Sealed cases, run once an arm, that show the asked margin; None: more than `MOST_CASES`."""
    return required_cases(plan.margin_asked, discordance, plan.alpha, POWER, limit=MOST_CASES)


def _provable(plan: GatePlan, margin: float) -> bool:
    n, r = len(plan.sealed), l2_repeats(plan)
    if r == 1:
        return provable(n, margin, plan.discordance, plan.alpha, POWER)
    return _power_of_repeats(n, r, margin, plan.discordance, plan.alpha) >= POWER


@lru_cache(maxsize=256)
def _power_of_repeats(n: int, r: int, margin: float, discordance: float, alpha: float) -> float:
    """Share of simulated sealed sets, r blocks a case, on which the e-process shows the margin."""
    if not n or e_highest(np.zeros((1, n)), margin)[0] < 1.0 / alpha:
        return 0.0  # as the exact test is planned: a set without any change must do
    rng = np.random.default_rng(n * 1000 + r)
    half = discordance / 2.0
    counts = rng.multinomial(r, [half, half, 1.0 - discordance], size=(_SAMPLES, n))
    changes = (counts[..., 0] - counts[..., 1]) / r
    return float((e_highest(changes, margin) >= 1.0 / alpha).mean())
