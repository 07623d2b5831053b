"""The gate's statistics: exact tests, bounds and sample sizes. Pure: no clock, no I/O.

Levels are compared as `p <= level` on unrounded values. ValueError: an argument out of range.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy import special

from nodes.gate.exact import (
    Floats,
    noninferior_p,
    success_bound,
    success_probability,
    tango_z,
)

__all__ = [
    "cost_ratio_upper", "e_highest", "e_process", "guard_p", "harm_p", "holm", "look_plan",
    "noninferior_p", "proven_margin", "recurrence_p", "required_cases", "smallest_provable_margin",
    "stratified_exact_p", "tango_lower", "tango_upper", "tango_z",
]  # fmt: skip

_BETS = np.array([0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.99])
_IN_A_ROW = 10  # the power is saw-toothed: one n that reaches it proves nothing about the next
FIRST_SHARE = 0.2  # of the level, spent at the first of two looks
_FEWEST_FOR_LOOKS = 30
_LATEST_FIRST_LOOK = 0.8  # of all cases


def stratified_exact_p(cases: Sequence[tuple[int, int, int]]) -> float:
    """One-sided exact p of "the candidate passes more often", from (k_C, k_B, repeats) per case.

    Conditions on each case's total, so repeats of one case never count as more cases.
    """
    law: Floats = np.ones(1)
    observed = 0
    for k_c, k_b, r in cases:
        if r < 1 or not 0 <= k_c <= r or not 0 <= k_b <= r:
            raise ValueError(f"passes out of range: k_C={k_c!r} k_B={k_b!r} r={r!r}")
        law = np.convolve(law, _hypergeometric(k_c + k_b, r))
        observed += k_c
    return 1.0 if not cases else min(1.0, float(law[observed:].sum()))


@lru_cache(maxsize=1024)
def _hypergeometric(passes: int, r: int) -> Floats:
    """Law of one arm's passes when `passes` of 2r runs pass and each arm has r."""
    ways = math.comb(2 * r, r)
    law = [math.comb(passes, k) * math.comb(2 * r - passes, r - k) / ways for k in range(r + 1)]
    return np.array(law)


def harm_p(b: int, c: int) -> float:
    """P(Binomial(b + c, 1/2) >= c): the sign test that the candidate loses more than it wins."""
    if b < 0 or c < 0:
        raise ValueError(f"wins and losses out of range: b={b!r} c={c!r}")
    return 1.0 if c == 0 else float(special.betainc(c, b + 1, 0.5))


def tango_lower(b: int, c: int, n: int, alpha: float) -> float:
    """One-sided lower bound of the mean change, for display; never decide by it.

    A two-sided 95 % interval uses alpha .025. Source: Tango 1998, Stat Med 17:891.
    """
    if not 0.0 < alpha < 0.5:
        raise ValueError(f"alpha is between 0 and .5, got {alpha!r}")
    tango_z(b, c, n, 0.0)  # refuses counts out of range
    if c == n:
        return -1.0
    target = float(special.ndtri(1.0 - alpha))
    low, high = -1.0, (b - c) / n
    for _ in range(100):
        middle = (low + high) / 2.0
        if tango_z(b, c, n, middle) > target:
            low = middle
        else:
            high = middle
    return (low + high) / 2.0


def tango_upper(b: int, c: int, n: int, alpha: float) -> float:
    """One-sided upper bound of the mean change, for display."""
    return -tango_lower(c, b, n, alpha)


def proven_margin(b: int, c: int, n: int, alpha: float) -> float:
    """Smallest of .001, .002 … .999 that the data exclude at this level; 1.0 if there is none."""
    if n == 0:
        return 1.0
    low, high = 0, 1000  # thousandths; `low` is not excluded, `high` is or stands for none
    while high - low > 1:
        middle = (low + high) // 2
        if noninferior_p(b, c, n, middle / 1000) <= alpha:
            high = middle
        else:
            low = middle
    return high / 1000


def e_process(differences: Sequence[float], margin: float) -> list[float]:
    """E_1 … E_n against "the mean of d is at most -margin", d in [-1, 1], in the caller's order.

    P(some E_i >= 1/a) <= a. The caller fixes the order before it sees a result.
    """
    d = np.array(differences, dtype=np.float64)
    return [float(e) for e in _evidence(d[None, :], margin)[0]]


def e_highest(rows: Floats, margin: float) -> Floats:
    """The largest of each row's `e_process`; rows of one length, at least 1."""
    return np.asarray(_evidence(rows, margin).max(axis=1))


def _evidence(rows: Floats, margin: float) -> Floats:
    if not 0.0 <= margin < 1.0:
        raise ValueError(f"a margin is at least 0 and below 1, got {margin!r}")
    if not bool((np.abs(rows) <= 1.0).all()):
        raise ValueError("a difference is between -1 and 1")
    factors = np.log1p(_BETS * (rows[..., None] + margin) / (1.0 - margin))
    logs = np.cumsum(factors, axis=1)
    return np.asarray(np.exp(special.logsumexp(logs, axis=2) - math.log(len(_BETS))))


def provable(n: int, margin: float, discordance: float, alpha: float, power: float) -> bool:
    """Whether n cases show "no harm" with this power when nothing changes, and all ties pass."""
    if n == 0 or noninferior_p(0, 0, n, margin) > alpha:
        return False
    half = discordance / 2.0
    return success_probability(n, margin, half, half, alpha, enough=power) >= power


@lru_cache(maxsize=256)
def smallest_provable_margin(n: int, discordance: float, alpha: float, power: float) -> float:
    """Smallest of .01, .02 … .50 that n cases can show with this power; 1.0 if none."""
    _check_share(discordance, 0.0)
    for percent in range(1, 51):
        if provable(n, percent / 100, discordance, alpha, power):
            return percent / 100
    return 1.0


def _check_share(discordance: float, change: float) -> None:
    if not abs(change) <= discordance <= 1.0:
        raise ValueError(f"discordance is between |change| and 1, got {discordance!r}")


@lru_cache(maxsize=256)
def required_cases(  # noqa: PLR0917  # six numbers, in the order of docs/gate.md
    margin: float,
    discordance: float,
    alpha: float,
    power: float = 0.8,
    change: float = 0.0,
    limit: int = 2000,
) -> int | None:
    """Fewest cases from which on (ten in a row) one look has this power; None above the limit."""
    _check_share(discordance, change)
    wins, losses = (discordance + change) / 2.0, (discordance - change) / 2.0
    n = _too_few(margin, wins, losses, alpha, power=power, limit=limit) + 1
    while n <= limit:
        for last in range(n + _IN_A_ROW - 1, n - 1, -1):
            if success_probability(last, margin, wins, losses, alpha, enough=power) < power:
                n = last + 1  # every row of ten that holds `last` is out
                break
        else:
            return n
    return None


def _too_few(
    margin: float, wins: float, losses: float, alpha: float, *, power: float, limit: int
) -> int:
    """Some n up to which no test of this level has the power, as near the border as it is cheap."""
    low, high = 0, limit + 1
    while high - low > 1:
        middle = (low + high) // 2
        if success_bound(middle, margin, wins, losses, alpha) < power:
            low = middle
        else:
            high = middle
    return low


def cost_ratio_upper(
    cases: Sequence[tuple[float, int, float, int]], alpha: float = 0.05
) -> float | None:
    """Upper bound of cost per passing run, candidate over baseline; None where undefined.

    From (cost_C, passes_C, cost_B, passes_B) per case: jackknife of the log ratio with Student t.
    """
    n = len(cases)
    if n < 2:
        return None
    table = np.array(cases, dtype=np.float64)
    total = table.sum(axis=0)
    without = total[None, :] - table
    # A sum that is 0 in exact arithmetic may come out as rounding: compare relative to the total.
    if bool((total <= 0.0).any()) or bool((without <= 1e-12 * total[None, :]).any()):
        return None
    whole, parts = _log_ratio(total[None, :])[0], _log_ratio(without)
    error = math.sqrt((n - 1) / n * float(((parts - parts.mean()) ** 2).sum()))
    return math.exp(float(whole) + float(special.stdtrit(n - 1, 1.0 - alpha)) * error)


def _log_ratio(rows: Floats) -> Floats:
    logs = np.log(rows)
    return np.asarray(logs[:, 0] - logs[:, 1] - logs[:, 2] + logs[:, 3])


def recurrence_p(k0: int, e0: float, k1: int, e1: float) -> float:
    """Exact p of "failures became rarer": k0 in exposure e0 before, k1 in e1 after."""
    if k0 < 0 or k1 < 0 or e0 <= 0.0 or e1 <= 0.0:
        raise ValueError(f"counts or exposures out of range: {(k0, e0, k1, e1)!r}")
    if k0 == 0:
        return 1.0
    return float(special.betainc(k0, k1 + 1, e0 / (e0 + e1)))


def holm(pvalues: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in input order."""
    m = len(pvalues)
    adjusted = [1.0] * m
    highest = 0.0
    for rank, place in enumerate(sorted(range(m), key=lambda i: pvalues[i])):
        highest = max(highest, min(1.0, (m - rank) * pvalues[place]))
        adjusted[place] = highest
    return adjusted


def guard_p(k_c: int, k_b: int, r: int) -> float:
    """One-sided Fisher exact p that the candidate passes one case less often, r runs an arm."""
    return stratified_exact_p([(r - k_c, r - k_b, r)])


def look_plan(n: int, margin: float, alpha: float) -> tuple[tuple[int, float], ...]:
    """When n sealed cases are read: (cases, share of the level) of each look; none for n = 0."""
    if n == 0:
        return ()
    fewest = _fewest_all_tie(margin, FIRST_SHARE * alpha, n)
    first = None if fewest is None else max(math.ceil(n / 2), fewest)
    if n < _FEWEST_FOR_LOOKS or first is None or first > _LATEST_FIRST_LOOK * n:
        return ((n, 1.0),)
    return ((first, FIRST_SHARE), (n, 1.0 - FIRST_SHARE))


def _fewest_all_tie(margin: float, level: float, limit: int) -> int | None:
    """Fewest cases that, all tied, show "no harm" at the level."""
    return next((k for k in range(1, limit + 1) if noninferior_p(0, 0, k, margin) <= level), None)
