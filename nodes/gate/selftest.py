"""The gate's free check of itself: on data without any effect, does L1 hold too often?

Of a target case that was gated, each arm's results are known. If the arm made no difference, any
half of them could have been the candidate's. So the results are dealt anew, many times, and L1 is
read off every deal: it may hold in as many as its level says. More means that the way from results
to p is wrong, and the gate turns itself off until that is mended.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import special

from contracts.gate import Block, GatePlan
from nodes.gate.stats import stratified_exact_p
from nodes.gate.tally import places_of, tally

DEALS: Final = 1_000
AGAIN: Final = 10_000
"""Deals that must say the same before the gate goes off. A rule whose true rate is just its level
would otherwise go off one time in twenty, by the bound's own error (docs/decisions/0030)."""
CONFIDENCE: Final = 0.95
SURE: Final = 0.9999
"""Confidence of the second bound; a rate of .06 at .05 is told apart nearly always by then."""

Counts = Sequence[tuple[int, int, int]]
"""One target case each: (passes of the candidate, passes of the baseline, runs an arm)."""
Rule = Callable[[Counts], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTest:
    """How often L1 held on dealt results."""

    alpha: float
    """The largest level among the gates dealt from."""
    gates: int
    deals: int
    held: int
    """Deals on which L1 held."""
    lower: float
    """One-sided Clopper-Pearson bound of the rate, below: at 95 %, of a second deal at 99.99 %."""
    off: str | None
    """Why the gate is off: one sentence for `Conditions.self_test`; None: it is sound."""

    @property
    def rate(self) -> float:
        """Share of deals on which L1 held, 0..1."""
        return self.held / self.deals if self.deals else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The target results of one gate, and the level that its L1 was read at."""

    counts: Counts
    alpha: float


def stored_of(plan: GatePlan, blocks: Sequence[Block]) -> Stored | None:
    """The observed target blocks of a gate by case; None: there is nothing to deal."""
    counted = tally(plan, blocks)
    if counted.problem is not None:
        return None
    seen: dict[str, tuple[int, int, int]] = {}
    for place in places_of(plan, "target"):
        block = counted.block(place)
        if block is None or block.baseline is None:
            continue
        c, b, r = seen.get(place.case.case, (0, 0, 0))
        won, kept = block.candidate.result == "pass", block.baseline.result == "pass"
        seen[place.case.case] = (c + won, b + kept, r + 1)
    level = plan.alpha if plan.target_alpha is None else plan.target_alpha
    return Stored(counts=tuple(seen.values()), alpha=level) if seen else None


def check_rule(
    gates: Sequence[Stored], *, seed: int, rule: Rule = stratified_exact_p, deals: int = DEALS
) -> SelfTest:
    """Deal the results of each gate `deals` times and count how often the rule says L1.

    Every result of a case goes to either arm alike, over all its runs: dealing only inside blocks
    keeps a real effect in the data, and a sound rule would look wrong. Gates are counted at levels
    of their own; the bound is compared with the mean of these levels, each gate weighing the same.

    Args:
        gates: results to deal from; none: sound, with zero deals.
        seed: of the deals.
        rule: from counts to p; the shipped one.
        deals: of each gate.
    """
    found = _count(gates, np.random.default_rng(seed), rule, deals=deals, confidence=CONFIDENCE)
    if found.off is None:
        return found
    again = np.random.default_rng([seed, 1])
    return _count(gates, again, rule, deals=max(AGAIN, deals), confidence=SURE)


def _count(
    gates: Sequence[Stored],
    rng: np.random.Generator,
    rule: Rule,
    *,
    deals: int,
    confidence: float,
) -> SelfTest:
    held = sum(_held(gate, deals, rng, rule) for gate in gates)
    dealt = deals * len(gates)
    lower = lower_bound(held, dealt, confidence)
    level = sum(gate.alpha for gate in gates) / len(gates) if gates else 0.0
    off = None
    if gates and lower > level:
        off = (
            f"dealt results without an effect held L1 in {held} of {dealt} cases, which is above "
            f"{lower:.3g} at {confidence:.2%} confidence; the level is {level:.3g}"
        )
    return SelfTest(alpha=level, gates=len(gates), deals=dealt, held=held, lower=lower, off=off)


def _held(gate: Stored, deals: int, rng: np.random.Generator, rule: Rule) -> int:
    """Deals of one gate whose p is at most its level; equal deals are asked about once."""
    columns = [_deal(c + b, r, deals, rng) for c, b, r in gate.counts]
    kinds, times = np.unique(np.stack(columns, axis=1), axis=0, return_counts=True)
    held = 0
    for row, count in zip(kinds.tolist(), times.tolist(), strict=True):
        dealt = [(k, c + b - k, r) for k, (c, b, r) in zip(row, gate.counts, strict=True)]
        held += count * (rule(dealt) <= gate.alpha)
    return held


def _deal(passes: int, repeats: int, deals: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Passes that fall to the candidate when the 2r results of a case are dealt to two arms."""
    return rng.hypergeometric(passes, 2 * repeats - passes, repeats, size=deals)


def lower_bound(held: int, deals: int, confidence: float = CONFIDENCE) -> float:
    """One-sided exact (Clopper-Pearson) lower bound of a share; 0 where none was seen.

    Raises:
        ValueError: `held` is no part of `deals`.
    """
    if not 0 <= held <= deals:
        raise ValueError(f"no share: {held!r} of {deals!r}")
    return float(special.betaincinv(held, deals - held + 1, 1.0 - confidence)) if held else 0.0
