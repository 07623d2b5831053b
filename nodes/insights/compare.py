"""Counts of two windows to rates, changes, and whether a finding asks for action. Pure numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

from configs.taxonomy import SEVERITIES
from contracts.findings import Change, Severity
from nodes.gate.stats import holm

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """How a count stands to its baseline."""

    change: Change
    p_holm: float | None


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

    Given k0 + k1, and no change, k1 is Binomial(k0 + k1, e1 / (e0 + e1)); the upper tail.

    Raises:
        ValueError: a negative count, or an exposure that is not above zero.
    """
    from scipy import special  # noqa: PLC0415

    if k0 < 0 or k1 < 0 or e0 <= 0.0 or e1 <= 0.0:
        raise ValueError(f"counts or exposures out of range: {(k0, e0, k1, e1)!r}")
    return float(special.betainc(k1, k0 + 1, e1 / (e0 + e1))) if k1 else 1.0


def compare(counts: Sequence[Counted], alpha: float) -> list[Compared]:
    """The change of each finding; Holm over all findings compared at once.

    `p_holm` is that of "risen"; a fall is tested apart, also under Holm. Without a baseline every
    change is unknown.
    """
    from nodes.gate.stats import recurrence_p  # noqa: PLC0415

    known = [i for i, c in enumerate(counts) if c.baseline_units is not None and c.baseline_total]
    sides = [
        (c.baseline_units or 0, float(c.baseline_total or 0), c.units, float(c.total))
        for c in (counts[i] for i in known)
    ]
    up = dict(zip(known, holm([risen_p(*side) for side in sides]), strict=True))
    down = dict(zip(known, holm([recurrence_p(*side) for side in sides]), strict=True))
    out = []
    for i, count in enumerate(counts):
        if i not in up:
            out.append(Compared(change="unknown", p_holm=None))
            continue
        change: Change = "same"
        if not count.baseline_units and (count.units >= MIN_NEW_UNITS or up[i] <= alpha):
            change = "new"
        elif up[i] <= alpha:
            change = "risen"
        elif down[i] <= alpha:
            change = "fallen"
        out.append(Compared(change=change, p_holm=up[i]))
    return out


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
        "unknown": "no baseline to compare with",
        "fallen": "rarer than in the baseline",
    }.get(compared.change, "at its usual rate")
    if lasting:
        return f"{usual}, and of {severity} severity"
    return f"{usual}, and not chronic: at least {low:.3f} of units, floor {chronic_floor:.3f}"


def score(severity: Severity, rate: float, change: Change) -> float:
    """Severity x prevalence x change."""
    return _WEIGHT[severity] * rate * _CHANGE_WEIGHT[change]
