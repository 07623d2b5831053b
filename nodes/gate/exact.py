"""The exact test that a mean change is not below -margin, and how often it can succeed."""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]

GAMMA = 0.0005  # error spent on the interval of the nuisance share (Berger and Boos 1994)
STEPS = 201
_TAIL = 32.0  # outcomes outside the bands below have a probability under exp(-32) = 1e-14


def tango_z(b: int, c: int, n: int, x: float) -> float:
    """Tango's score statistic for a change of `x` in n pairs, b won and c lost; may be infinite."""
    if n < 1 or b < 0 or c < 0 or b + c > n:
        raise ValueError(f"wins and losses out of range: b={b!r} c={c!r} n={n!r}")
    if not -1.0 <= x <= 1.0:
        raise ValueError(f"a change is between -1 and 1, got {x!r}")
    return float(_z_of(np.array([float(b)]), np.array([float(c)]), n, x)[0])


def _z_of(b: Floats, c: Floats, n: int, x: float) -> Floats:
    spread = x * (1.0 - x)
    linear = -b - c + (2 * n - b + c) * x
    radicand = np.maximum(linear * linear + 8.0 * n * c * spread, 0.0)
    q = (np.sqrt(radicand) - linear) / (4.0 * n)
    variance = n * (2.0 * q + spread)
    above = b - c - n * x
    flat = variance <= 1e-12
    z = above / np.sqrt(np.where(flat, 1.0, variance))
    edge = np.where(np.abs(above) <= 1e-12, 0.0, np.copysign(np.inf, above))
    return np.where(flat, edge, z)


@lru_cache(maxsize=16384)
def noninferior_p(b: int, c: int, n: int, margin: float) -> float:
    """Exact p of "the mean change is at most -margin" for n cases, b won and c lost.

    The largest tail over the share of discordant cases within its Clopper-Pearson interval, plus
    what that interval may miss. P(p <= a) <= a for every n, margin and share.
    """
    _check_margin(margin)
    if n == 0 and b == 0 and c == 0:
        return 1.0
    floor = tango_z(b, c, n, -margin) - 1e-9
    lows, highs = _nuisance(n, margin, b + c)
    q = np.linspace(lows, highs, STEPS)
    return min(1.0, GAMMA + float(_tails(n, margin, floor, q).max()))


def _check_margin(margin: float) -> None:
    if not 0.0 < margin < 1.0:
        raise ValueError(f"a margin is between 0 and 1, got {margin!r}")


@lru_cache(maxsize=4096)
def _nuisance(n: int, margin: float, m: int) -> tuple[float, float]:
    """Lowest and highest probability of a win at the boundary, from m discordant of n."""
    low = 0.0 if m == 0 else float(special.betaincinv(m, n - m + 1, GAMMA / 2))
    high = 1.0 if m == n else float(special.betaincinv(m + 1, n - m, 1.0 - GAMMA / 2))
    return (max(low, margin) - margin) / 2.0, (max(high, margin) - margin) / 2.0


def _tails(n: int, margin: float, floor: float, q: Floats) -> Floats:
    """P(z >= floor) at the boundary, for each probability `q` of a win."""
    psi = 2.0 * q + margin
    rows = _band(n, float(psi.min()), float(psi.max()))
    wins_needed = _fewest_wins(n, margin, floor, rows)
    mass = _binomial(rows, n, psi)
    point, row = np.nonzero(mass > 1e-17)  # most of the table is empty, and the rest is slow
    reach = _reach(rows[row], wins_needed[row], (q / psi)[point])
    tails = np.bincount(point, weights=mass[point, row] * reach, minlength=len(q))
    return tails.astype(np.float64)


def _band(n: int, psi_low: float, psi_high: float) -> Floats:
    """Counts of discordant cases that matter, by Bernstein's bound."""
    low = n * psi_low - _spread(n, psi_low)
    high = n * psi_high + _spread(n, psi_high)
    if psi_low <= 0.5 <= psi_high:  # the variance peaks inside: take the widest
        low, high = n * psi_low - _spread(n, 0.5), n * psi_high + _spread(n, 0.5)
    return np.arange(max(0, math.floor(low)), min(n, math.ceil(high)) + 1, dtype=np.float64)


def _spread(n: int, psi: float) -> float:
    return math.sqrt(2.0 * n * psi * (1.0 - psi) * _TAIL) + 2.0 * _TAIL / 3.0


def _fewest_wins(n: int, margin: float, floor: float, rows: Floats) -> Floats:
    """For each count of discordant cases the fewest wins that reach `floor`; count + 1: none."""
    wins = np.arange(rows[-1] + 2.0)
    discordant = rows[:, None]
    inside = wins[None, :] <= discordant
    losses = np.where(inside, discordant - wins[None, :], 0.0)
    z = np.where(inside, _z_of(np.broadcast_to(wins, inside.shape), losses, n, -margin), np.inf)
    reached: Floats = np.argmax(z >= floor, axis=1).astype(np.float64)
    return np.where(reached > rows, rows + 1.0, reached)


def _binomial(rows: Floats, n: int, psi: Floats) -> Floats:
    """P(rows discordant cases of n), one line for each share."""
    ways = special.gammaln(n + 1.0) - special.gammaln(rows + 1) - special.gammaln(n - rows + 1)
    share = psi[:, None]
    return np.asarray(np.exp(ways + special.xlogy(rows, share) + special.xlog1py(n - rows, -share)))


def _reach(rows: Floats, wins: Floats, p: Floats) -> Floats:
    """P(Binomial(rows, p) >= wins), entry by entry."""
    none, sure = wins > rows, wins <= 0.0
    inner = ~(none | sure)
    a, b = np.where(inner, wins, 1.0), np.where(inner, rows - wins + 1.0, 1.0)
    value = special.betainc(a, b, np.clip(p, 0.0, 1.0))
    return np.where(sure, 1.0, np.where(none, 0.0, value))


def success_probability(
    n: int, margin: float, wins: float, losses: float, alpha: float, *, enough: float = 1.0
) -> float:
    """P(noninferior_p <= alpha) when a case is won or lost with these probabilities.

    Exact but for outcomes of total probability 1e-9, which count as failures. Stops early once
    the sum reaches `enough`, or cannot reach it any more: then only "at least" is right.
    """
    psi = wins + losses
    rows = np.arange(n + 1, dtype=np.float64)
    mass = _binomial(rows, n, np.array([psi]))[0]
    share_won = wins / psi if psi > 0.0 else 0.0
    done, left = 0.0, float(mass.sum())
    needed: dict[int, int] = {}
    for m in (int(i) for i in np.argsort(-mass, kind="stable")):
        if left <= 1e-9 or done >= enough or done + left < enough < 1.0:
            break
        guess = needed.get(m - 1, needed.get(m + 1, m // 2))
        needed[m] = _wins_to_pass(n, margin, alpha, m, guess)
        won = _reach(np.array([float(m)]), np.array([float(needed[m])]), np.array([share_won]))
        done += float(mass[m] * won[0])
        left -= float(mass[m])
    return done


def _wins_to_pass(n: int, margin: float, alpha: float, m: int, guess: int) -> int:
    """Fewest wins of m discordant cases with p <= alpha; m + 1 if none.

    More wins never raise p at equal m (the interval depends on m alone, and the tail shrinks with
    the statistic), so walking from a guess to the border is exact.
    """
    wins = min(max(guess, 0), m + 1)
    while wins > 0 and _passes(n, margin, alpha, m, wins - 1):
        wins -= 1
    while wins <= m and not _passes(n, margin, alpha, m, wins):
        wins += 1
    return wins


@lru_cache(maxsize=65536)
def _passes(n: int, margin: float, alpha: float, m: int, wins: int) -> bool:
    """Whether noninferior_p <= alpha: any point of the grid above the level settles it."""
    floor = tango_z(wins, m - wins, n, -margin) - 1e-9
    low, high = _nuisance(n, margin, m)
    q = np.linspace(low, high, STEPS)
    if GAMMA + float(_tails(n, margin, floor, q[::25]).max()) > alpha:
        return False
    return min(1.0, GAMMA + float(_tails(n, margin, floor, q).max())) <= alpha


def success_bound(n: int, margin: float, wins: float, losses: float, alpha: float) -> float:
    """What no test of that level can exceed: the best randomised test of one boundary point.

    Grows with n (more cases can be ignored), so it tells from which n on to look.
    """
    psi = wins + losses
    rows = _band(n, psi, psi)
    top = rows[-1]
    won, lost = (a.ravel() for a in np.meshgrid(np.arange(top + 1), np.arange(top + 1)))
    inside = won + lost <= min(top, float(n))
    won, lost = won[inside], lost[inside]
    truth = _trinomial(won, lost, n, wins, losses)
    best = 1.0
    for share in (1.0, 1.25, 1.5, 2.0, 3.0):
        boundary = max(margin, psi) * share
        if boundary > 1.0:
            continue
        null = _trinomial(won, lost, n, (boundary - margin) / 2.0, (boundary + margin) / 2.0)
        order = np.argsort(null / np.maximum(truth, 1e-300), kind="stable")
        spent = np.cumsum(null[order])
        taken = int(np.searchsorted(spent, alpha, side="right")) + 1  # the border counted whole
        best = min(best, float(truth[order][:taken].sum()) + 1e-9)
    return best


def _trinomial(won: Floats, lost: Floats, n: int, p_won: float, p_lost: float) -> Floats:
    tied = n - won - lost
    ways = special.gammaln(n + 1.0) - sum(special.gammaln(k + 1.0) for k in (won, lost, tied))
    logs = special.xlogy(won, p_won) + special.xlogy(lost, p_lost)
    return np.asarray(np.exp(ways + logs + special.xlogy(tied, max(0.0, 1.0 - p_won - p_lost))))
