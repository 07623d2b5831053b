"""Which cases pass stably, and how often two runs of one case differ: from stored baseline runs."""

from collections.abc import Collection, Mapping
from typing import Final, Literal

from memory.case_runs import Passes

ENOUGH_RUNS: Final = 10
DEFAULT_DISCORDANCE: Final = 0.10  # where no case has two stored baseline runs
_WEIGHT = 5  # cases that the default counts as: a handful of runs says little about a share

Stability = Literal["stable_pass", "stable_fail", "flaky", "unknown"]


def stability(seen: Passes) -> Stability:
    """Of ten runs or more: at least nine tenths pass, at most one tenth, or between."""
    if seen.runs < ENOUGH_RUNS:
        return "unknown"
    if 10 * seen.passes >= 9 * seen.runs:
        return "stable_pass"
    return "stable_fail" if 10 * seen.passes <= seen.runs else "flaky"


def protected(counts: Mapping[str, Passes]) -> frozenset[str]:
    """Fingerprints of the cases that pass stably."""
    return frozenset(name for name, seen in counts.items() if stability(seen) == "stable_pass")


def discordance(counts: Mapping[str, Passes], among: Collection[str]) -> float | None:
    """Share of cases that differ between two runs of one arm, for planning only; 0..1.

    The mean of 2k(R - k)/(R(R - 1)) over the cases `among` with R >= 2 runs, drawn towards the
    default by as much as five cases weigh. None: no case has two runs.
    """
    shares = [
        2.0 * seen.passes * (seen.runs - seen.passes) / (seen.runs * (seen.runs - 1))
        for name in sorted(among)
        if (seen := counts.get(name)) is not None and seen.runs >= 2
    ]
    if not shares:
        return None
    return (sum(shares) + _WEIGHT * DEFAULT_DISCORDANCE) / (len(shares) + _WEIGHT)
