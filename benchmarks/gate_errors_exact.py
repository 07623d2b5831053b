"""Exact sizes of the tests that the gate decides by: enumerated, not simulated.

Size: how often a test at a level holds although its claim is just not true. All of it goes through
the shipped functions of `nodes/gate/stats.py` and `nodes/gate/exact.py`.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, combinations_with_replacement
from math import lgamma

import numpy as np
from numpy.typing import NDArray
from scipy import signal, special

from benchmarks.gate_errors_worlds import PROJECTS, plan_of
from nodes.gate.exact import noninferior_p, success_probability
from nodes.gate.stats import harm_p, stratified_exact_p

Floats = NDArray[np.float64]

RATES: tuple[float, ...] = tuple(round(0.01 * i, 2) for i in range(1, 100))
DISCORDANCES = 41
"""Points of the grid between the margin and 1 on which the worst share is looked for."""


def fixed_size(cases: int, repeats: int, level: float) -> tuple[float, float]:
    """L1 with both arms passing equally often: (largest size over all rates, given the totals).

    Args:
        cases: target cases, all with the same rate.
        repeats: runs of a case in each arm.
        level: L1 holds at p <= level.

    Returns:
        The largest size over rates .01 to .99, and the largest conditional one: given how many of
        the 2r runs of each case pass. No mixture of rates, equal or not, exceeds the latter.
    """
    logs: list[float] = []
    passes: list[int] = []
    sizes: list[float] = []
    for totals in combinations_with_replacement(range(2 * repeats + 1), cases):
        sizes.append(_given(totals, repeats, level))
        logs.append(_ways(totals, repeats))
        passes.append(sum(totals))
    size, log, count = np.array(sizes), np.array(logs), np.array(passes, dtype=np.float64)
    runs = 2 * repeats * cases
    return (
        max(
            float((np.exp(log + count * np.log(q) + (runs - count) * np.log1p(-q)) * size).sum())
            for q in RATES
        ),
        float(size.max()),
    )


def _given(totals: Sequence[int], repeats: int, level: float) -> float:
    """P(L1 holds) given the total passes of each case: the law is the one that p is read off."""
    lowest = sum(max(0, t - repeats) for t in totals)
    highest = sum(min(repeats, t) for t in totals)
    low, high = lowest, highest + 1  # p falls as the sum grows: find where it reaches the level
    while low < high:
        middle = (low + high) // 2
        if _p_of_sum(totals, repeats, middle) <= level:
            high = middle
        else:
            low = middle + 1
    return 0.0 if low > highest else _p_of_sum(totals, repeats, low)


def _p_of_sum(totals: Sequence[int], repeats: int, wanted: int) -> float:
    """The p when the candidate has `wanted` of all passes, spread as the totals allow."""
    spread, left = [], wanted - sum(max(0, t - repeats) for t in totals)
    for total in totals:
        floor = max(0, total - repeats)
        more = min(left, min(repeats, total) - floor)
        spread.append(floor + more)
        left -= more
    return stratified_exact_p([(k, t - k, repeats) for k, t in zip(spread, totals, strict=True)])


def _ways(totals: Sequence[int], repeats: int) -> float:
    """Log of how many outcomes have these totals, in any order of the cases."""
    runs = 2 * repeats
    log = lgamma(len(totals) + 1)
    for total in set(totals):
        log -= lgamma(totals.count(total) + 1)
    return log + sum(lgamma(runs + 1) - lgamma(t + 1) - lgamma(runs - t + 1) for t in totals)


def unharmed_size(cases: int, margin: float, level: float) -> float:
    """L2 in one look, truth just at minus the margin: the largest over the discordance."""
    return max(
        success_probability(cases, margin, (psi - margin) / 2.0, (psi + margin) / 2.0, level)
        for psi in _discordances(margin)
    )


def _discordances(margin: float) -> Iterator[float]:
    """Denser where few cases differ, as in projects, and to the end."""
    for step in range(DISCORDANCES):
        yield margin + (1.0 - margin) * (step / (DISCORDANCES - 1)) ** 2


def two_look_size(looks: Sequence[tuple[int, float]], margin: float) -> float:
    """L2 over the looks of a plan (cases, level) at a true change of minus the margin.

    The stop for futility is not counted on: it can only lower this.
    """
    return max(
        _shown_at_some(looks, margin, (psi - margin) / 2.0, (psi + margin) / 2.0)
        for psi in _discordances(margin)
    )


def _shown_at_some(
    looks: Sequence[tuple[int, float]], margin: float, won: float, lost: float
) -> float:
    """P(p <= level at some look): mass that was not shown yet goes on, the rest is counted."""
    mass: Floats = np.ones((1, 1))
    seen, shown = 0, 0.0
    for cases, level in looks:
        mass = signal.convolve(mass, _trinomial(cases - seen, won, lost))
        passing = _passing(cases, margin, level, mass)
        shown += float(mass[passing].sum())
        mass = np.where(passing, 0.0, mass)
        seen = cases
    return shown


def _trinomial(n: int, won: float, lost: float) -> Floats:
    """P(wins, losses) of n cases, by wins along the first axis and losses along the second."""
    b, c = np.meshgrid(np.arange(n + 1.0), np.arange(n + 1.0), indexing="ij")
    tied = n - b - c
    inside = tied >= 0
    ties = np.where(inside, tied, 0.0)
    ways = special.gammaln(n + 1.0) - special.gammaln(b + 1) - special.gammaln(c + 1)
    logs = ways - special.gammaln(ties + 1) + special.xlogy(b, won) + special.xlogy(c, lost)
    logs += special.xlogy(ties, max(0.0, 1.0 - won - lost))
    return np.where(inside, np.exp(logs), 0.0)


def _passing(n: int, margin: float, level: float, mass: Floats) -> NDArray[np.bool_]:
    """Which outcomes show L2, of those that can be told from impossible ones."""
    passing = np.zeros(mass.shape, dtype=np.bool_)
    for b, c in np.argwhere(mass > _FAINT):
        passing[b, c] = noninferior_p(int(b), int(c), n, margin) <= level
    return passing


_FAINT = 1e-9


def harm_size(cases: int, level: float) -> float:
    """The sign test for harm when wins and losses are alike: the largest over the discordance."""
    reach = [_harm_given(m, level) for m in range(cases + 1)]
    grid = np.linspace(0.0, 1.0, 201)
    m = np.arange(cases + 1.0)
    ways = special.gammaln(cases + 1.0) - special.gammaln(m + 1) - special.gammaln(cases - m + 1)
    best = 0.0
    for psi in grid:
        mass = np.exp(ways + special.xlogy(m, psi) + special.xlog1py(cases - m, -psi))
        best = max(best, float((mass * reach).sum()))
    return best


def _harm_given(discordant: int, level: float) -> float:
    fewest = next((c for c in range(discordant + 1) if harm_p(discordant - c, c) <= level), None)
    if fewest is None:
        return 0.0
    return float(special.bdtrc(fewest - 1, discordant, 0.5)) if fewest else 1.0


Row = tuple[str, float, float]
"""What is tested, its level, its size."""

MOST_ENUMERATED = 140
"""Sealed cases up to which two looks are enumerated; beyond it takes an hour."""
DESIGNS = ((3, 8), (4, 5), (5, 5), (8, 5), (10, 5), (11, 3), (5, 3))


def exact_rows(say: Callable[[str], None] = lambda _: None) -> list[Row]:
    """Every exact size that the benchmark prints."""
    rows: list[Row] = []
    for row in chain(_fixed_rows(), _unharmed_rows(), _harm_rows()):
        rows.append(row)
        say(f"{row[0]} at {row[1]:g}: {row[2]:.4f}")
    return rows


def _fixed_rows() -> Iterator[Row]:
    for cases, repeats in DESIGNS:
        for level in (0.05, 0.01):
            equal, given = fixed_size(cases, repeats, level)
            yield f"L1, {cases} cases x {repeats}, equal rates", level, equal
            yield f"L1, {cases} cases x {repeats}, whatever the rates", level, given


def _unharmed_rows() -> Iterator[Row]:
    for n in (20, 30, 60, 100, 140, 200):
        for margin in (0.05, 0.10, 0.15):
            for level in (0.05, 0.01, 0.008, 0.002):
                name = f"L2, {n} cases, margin {margin:.2f}"
                yield name, level, unharmed_size(n, margin, level)
    for project in PROJECTS:
        if not project.starter and project.sealed <= MOST_ENUMERATED:
            plan, _ = plan_of(project, 0, 0.0)
            name = f"L2 over both looks {[cases for cases, _ in plan.looks]}, margin {plan.margin}"
            yield name, plan.alpha, two_look_size(plan.looks, plan.margin)


def _harm_rows() -> Iterator[Row]:
    for n in (8, 20, 60, 140, 480):
        for level in (0.05, 0.04, 0.01):
            yield f"harm, {n} cases", level, harm_size(n, level)
