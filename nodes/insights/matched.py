"""Counts of two windows, matched by hour and weekday, and the exact test over them. Pure numbers.

Traffic differs by hour, and so may the share that fails: two windows that hold other hours differ
without any change. Given how many units of each hour fail in both windows together, and no change,
the failing units of the window follow a hypergeometric law in each hour; the number over all hours
follows the convolution of these laws, and the test is exact whatever the hours' own rates are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

Match = Literal["hour and weekday", "hour", "none"]

HOURS: Mapping[Match, int] = {"hour and weekday": 168, "hour": 24, "none": 1}
"""Hours since 1970 (UTC) of one remainder by this make a stratum."""
ENOUGH_COVERED = 0.8
"""Share of the window's units that must lie in strata of which the baseline has enough."""
ENOUGH_UNITS = 3
"""In the baseline at one hour. The test is exact with any number; with 5, a few hundred units fell
back to all hours together, where other traffic looked like a change (benchmarks/nulls.py)."""
_TRIM = 1e-18
"""Mass left out at either end of a law of more than `_LONG` values; it is added to the p again."""
_LONG = 256
_MORE = 200  # failing units that are tried for "how many more"


class Stratum(NamedTuple):
    """Failing and all units of one hour, in the window and in the baseline."""

    units: int
    total: int
    baseline_units: int
    baseline_total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Matching:
    """How the units of two windows are compared: by which strata, and why not by finer ones."""

    match: Match
    why: str
    """Why no finer one; empty where there is none."""
    strata: int
    """In which both windows have units."""
    left_out: int
    """Units of the window in hours of which the baseline has none."""

    def stratum(self, hour: int) -> int:
        """Of a unit whose earliest hour this is."""
        return hour % HOURS[self.match]


def matching(now: Mapping[int, int], before: Mapping[int, int], timeless: int) -> Matching:
    """The finest strata of which the baseline has enough units.

    Args:
        now: units of the window by hour since 1970.
        before: units of the baseline by hour.
        timeless: units of both windows without times.
    """
    total = sum(now.values())
    if timeless > (1.0 - ENOUGH_COVERED) * (total + sum(before.values()) + timeless):
        return _matched(now, before, "none", "its traces carry no times")
    why = ""
    tried: tuple[Match, ...] = ("hour and weekday", "hour")
    for match in tried:
        held = _by(before, HOURS[match])
        covered = sum(n for h, n in now.items() if held.get(h % HOURS[match], 0) >= ENOUGH_UNITS)
        if covered >= ENOUGH_COVERED * total:
            return _matched(now, before, match, why)
        why = f"too few units at the same {match} ({covered} of {total})"
    return _matched(now, before, "none", why)


def _matched(now: Mapping[int, int], before: Mapping[int, int], match: Match, why: str) -> Matching:
    held, mine = _by(before, HOURS[match]), _by(now, HOURS[match])
    return Matching(
        match=match,
        why=why,
        strata=sum(stratum in held for stratum in mine),
        left_out=0 if match == "none" else sum(n for s, n in mine.items() if s not in held),
    )


def _by(hours: Mapping[int, int], period: int) -> dict[int, int]:
    counts: dict[int, int] = {}
    for hour, units in hours.items():
        counts[hour % period] = counts.get(hour % period, 0) + units
    return counts


class Tails(NamedTuple):
    """What the exact law of failing units in the window says of the number that was observed."""

    more: float
    """One-sided p of "more often in the window"; 1 where no stratum tells."""
    less: float
    least: float
    """The smallest `more` that as many failing units could give: all in the window."""


def tails(strata: Sequence[Stratum]) -> Tails:
    """The p-values of all strata together. Never too small: what is left out of a law is added.

    Raises:
        ValueError: more failing units than units.
    """
    law, start, observed, trimmed, least = np.ones(1), 0, 0, 0.0, 1.0
    for stratum in strata:
        _check(stratum)
        failing = stratum.units + stratum.baseline_units
        if failing == 0 or stratum.total == 0 or stratum.baseline_total == 0:
            continue
        part, first = _hypergeometric(failing, stratum.total, stratum.baseline_total)
        law = np.convolve(law, part)
        start += first
        observed += stratum.units
        least *= float(part[-1])
        if law.size > _LONG:
            law, cut, lost = _trimmed(law)
            start += cut
            trimmed += lost
    at = observed - start
    more, less = float(law[max(at, 0) :].sum()), float(law[: max(at + 1, 0)].sum())
    return Tails(min(1.0, more + trimmed), min(1.0, less + trimmed), least)


def more_often_p(strata: Sequence[Stratum]) -> float:
    """Exact one-sided p of "more often in the window", all strata together; 1 where none tells.

    Raises:
        ValueError: more failing units than units.
    """
    return tails(strata).more


def more_needed(strata: Sequence[Stratum], level: float) -> int | None:
    """How many more failing units of the window would reach the level; None: no number tried.

    They are put where the baseline is largest, and on top of the units there are.
    """
    telling = [s for s in strata if s.total and s.baseline_total]
    if not telling:
        return None
    low, high = 0, _MORE
    if _with_more(telling, high) > level:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if _with_more(telling, middle) > level:
            low = middle
        else:
            high = middle
    return high


def _with_more(strata: Sequence[Stratum], more: int) -> float:
    best = max(range(len(strata)), key=lambda i: (strata[i].baseline_total, -i))
    given = list(strata)
    one = given[best]
    given[best] = one._replace(units=one.units + more, total=one.total + more)
    return more_often_p(given)


def _check(s: Stratum) -> None:
    if not 0 <= s.units <= s.total or not 0 <= s.baseline_units <= s.baseline_total:
        raise ValueError(f"failing units out of range: {s!r}")


@lru_cache(maxsize=8192)
def _hypergeometric(failing: int, total: int, baseline_total: int) -> tuple[Floats, int]:
    """Law of the failing units that fall into the window, and the number its first value is of."""
    from scipy import special  # noqa: PLC0415  (heavy, and only needed here)

    first, last = max(0, failing - baseline_total), min(failing, total)
    k = np.arange(first, last + 1, dtype=np.float64)

    def ways(of: float, taken: Floats) -> Floats:
        left = of - taken
        return np.asarray(
            special.gammaln(of + 1) - special.gammaln(taken + 1) - special.gammaln(left + 1)
        )

    logs = ways(float(total), k) + ways(float(baseline_total), failing - k)
    law = np.exp(logs - logs.max())
    return np.asarray(law / law.sum()), first


def _trimmed(law: Floats) -> tuple[Floats, int, float]:
    """The law without its thin ends; how many values went at its start; the mass that went."""
    upto, downto = np.cumsum(law), np.cumsum(law[::-1])
    low = int(np.searchsorted(upto, _TRIM))
    high = law.size - int(np.searchsorted(downto, _TRIM))
    lost = float(law[:low].sum() + law[high:].sum())
    return law[low:high], low, lost
