"""Counts of two windows to rates, changes, and whether a finding asks for action. Pure numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

from configs.taxonomy import SEVERITIES
from contracts.findings import Change, Severity
from nodes.insights.matched import (
    Matching,
    Stratum,
    Tails,
    more_needed,
    tails,
)

_WEIGHT = {"low": 1.0, "medium": 3.0, "high": 6.0, "critical": 10.0}
_CHANGE_WEIGHT: dict[Change, float] = {
    "new": 2.0, "risen": 1.5, "unknown": 1.0, "same": 1.0, "fallen": 0.5,
}  # fmt: skip
MIN_NEW_UNITS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """Failing units in the window and in the baseline, of all units there."""

    units: int
    total: int
    baseline_units: int | None
    baseline_total: int | None
    strata: tuple[Stratum, ...] = ()
    """The same by matched hour; empty: they are compared as a whole."""
    seen_before: bool = False
    """Whether an earlier analysis saw it, before this window: then it is not new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """How a count stands to its baseline."""

    change: Change
    p_holm: float | None
    why: str = ""
    """One sentence about the change: the test, or why there is none."""
    few: bool = False
    """Too few to tell: the change is unknown since no split of so few could have shown one."""


def rate_interval(k: int, n: int, confidence: float = 0.95) -> tuple[float, float, float]:
    """Low, share, high: the Clopper-Pearson interval, which holds its level at every n.

    Raises:
        ValueError: `k` is no part of `n`.
    """
    from scipy import special  # noqa: PLC0415  (heavy, and only needed here)

    if not 0 <= k <= n or n < 1:
        raise ValueError(f"no share: {k!r} of {n!r}")
    tail = (1.0 - confidence) / 2
    low = float(special.betaincinv(k, n - k + 1, tail)) if k else 0.0
    high = float(special.betaincinv(k + 1, n - k, 1.0 - tail)) if k < n else 1.0
    return min(low, k / n), k / n, max(high, k / n)


def risen_p(k0: int, e0: float, k1: int, e1: float) -> float:
    """Exact p of "failures became more frequent": k0 in exposure e0 before, k1 in e1 after.

    For events that are no parts of a whole. Given k0 + k1, and no change, k1 is
    Binomial(k0 + k1, e1 / (e0 + e1)); the upper tail.

    Raises:
        ValueError: a negative count, or an exposure that is not above zero.
    """
    from scipy import special  # noqa: PLC0415

    if k0 < 0 or k1 < 0 or e0 <= 0.0 or e1 <= 0.0:
        raise ValueError(f"counts or exposures out of range: {(k0, e0, k1, e1)!r}")
    return float(special.betainc(k1, k0 + 1, e1 / (e0 + e1))) if k1 else 1.0


def compare(counts: Sequence[Counted], alpha: float, how: Matching | None = None) -> list[Compared]:
    """The change of each finding; Holm over all findings compared at once.

    `p_holm` is that of "risen"; a fall is tested apart, also under Holm. Without a baseline every
    change is unknown, and so is one that as few failing units could not have shown: "same" is said
    only where a change would have been seen.
    """
    from nodes.gate.stats import holm  # noqa: PLC0415  (scipy)

    known = [i for i, c in enumerate(counts) if c.baseline_units is not None and c.baseline_total]
    laws: dict[int, Tails] = {i: tails(_strata(counts[i])) for i in known}
    up = dict(zip(known, holm([law.more for law in laws.values()]), strict=True))
    down = dict(zip(known, holm([law.less for law in laws.values()]), strict=True))
    level = alpha / max(1, len(known))
    out = []
    for i, count in enumerate(counts):
        if i not in up:
            out.append(Compared(change="unknown", p_holm=None, why="no baseline to compare with"))
            continue
        change = _change(count, up[i], down[i], alpha, too_few=laws[i].least > level)
        why = _why(count, change, (up[i], down[i]), how, of=len(known))
        few = change == "unknown"
        if few:
            why = f"{_few_words(more_needed(_strata(count), level))}; {why}"
        out.append(Compared(change=change, p_holm=up[i], why=why, few=few))
    return out


def _strata(count: Counted) -> tuple[Stratum, ...]:
    if count.strata:
        return count.strata
    whole = Stratum(count.units, count.total, count.baseline_units or 0, count.baseline_total or 0)
    return (whole,)


def _change(count: Counted, up: float, down: float, alpha: float, *, too_few: bool) -> Change:
    if not count.baseline_units and not count.seen_before:
        comparable = sum(s.units for s in _strata(count) if s.baseline_total)
        if comparable >= MIN_NEW_UNITS or up <= alpha:
            return "new"
    if up <= alpha:
        return "risen"
    if down <= alpha:
        return "fallen"
    return "unknown" if too_few else "same"


def _few_words(more: int | None) -> str:
    if more is None:
        return "too few to tell"
    unit = "unit" if more == 1 else "units"
    return f"too few to tell: it would take {more} more failing {unit}"


def _why(
    count: Counted, change: Change, p: tuple[float, float], how: Matching | None, *, of: int
) -> str:
    """The comparison in one sentence."""
    words = {
        "new": "not in the baseline", "risen": "more often than in the baseline",
        "fallen": "less often than in the baseline", "same": "as often as in the baseline",
        "unknown": "no change shown against the baseline",
    }  # fmt: skip
    before = f"{count.baseline_units} of {count.baseline_total}"
    side, number = ("less", p[1]) if change == "fallen" else ("more", p[0])
    test = f"exact test of {side}: p {number:.2g}" + (
        f" by Holm over {of} findings" if of > 1 else ""
    )
    seen = ", though seen before this window" if count.seen_before else ""
    return (
        f"{words[change]}{seen}: {count.units} of {count.total} against {before}; {test}"
        f"{_matched_words(how)}"
    )


def _matched_words(how: Matching | None) -> str:
    if how is None:
        return ""
    if how.match == "none":
        return f", all hours together: {how.why}" if how.why else ", all hours together"
    strata = f"{how.strata} hours" if how.strata != 1 else "one hour"
    left = f", {how.left_out} units at other hours left out" if how.left_out else ""
    return f", matched by {how.match} ({strata}{left})"


def why_not_actionable(
    count: Counted, compared: Compared, severity: Severity, chronic_floor: float
) -> str | None:
    """None where the finding asks for action: new, risen, or chronic; else why it does not."""
    if compared.change == "new" and count.units >= MIN_NEW_UNITS:
        return None
    if compared.change == "risen":
        return None
    low = rate_interval(count.units, count.total)[0]
    lasting = low >= chronic_floor
    if lasting and SEVERITIES.index(severity) >= SEVERITIES.index("medium"):
        return None
    if compared.change == "new":
        return f"seen in {count.units} unit only"
    usual = {
        "unknown": "too few to tell a change" if compared.few else "no baseline to compare with",
        "fallen": "rarer than in the baseline",
    }.get(compared.change, "at its usual rate")
    if lasting:
        return f"{usual}, and of {severity} severity"
    return f"{usual}, and not chronic: at least {low:.3f} of units, floor {chronic_floor:.3f}"


def score(severity: Severity, rate: float, change: Change) -> float:
    """Severity x prevalence x change."""
    return _WEIGHT[severity] * rate * _CHANGE_WEIGHT[change]


def reasons(count: Counted, compared: Compared, severity: Severity, unit: str) -> tuple[str, ...]:
    """Why a finding is ranked where it is, and how sure its change is: one sentence each."""
    low, middle, high = rate_interval(count.units, count.total)
    change = compared.change
    number = score(severity, middle, change)
    return (
        f"{count.units} of {count.total} {unit}s: {middle:.1%}, between {low:.1%} and {high:.1%} "
        "(95 % Clopper-Pearson)",
        compared.why,
        f"rank {number:.3g}: {_WEIGHT[severity]:g} ({severity}) x {middle:.3f} (share) x "
        f"{_CHANGE_WEIGHT[change]:g} ({change})",
    )
