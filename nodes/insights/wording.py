"""A contrast in one sentence: `only since prompt refund v14 (18 of 18 failing, 3 of 240 ...)`."""

from collections.abc import Sequence

from contracts.findings import Factor
from nodes.insights.features import Pair

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MOSTLY = 0.8
ALSO_NAMED = 3  # features that go together with the first


def sentence(
    pairs: Sequence[Pair],
    failing: tuple[int, int],
    passing: tuple[int, int],
    *,
    since: bool,
    sampled: bool,
    clean: bool,
) -> str:
    """What failing units have more often than passing ones, with the counts of both.

    Args:
        pairs: features that the same units have; the first is named.
        failing: (units that have it, units that could have it).
        passing: the same of the units that were compared with.
        since: whether it came at a moment, and nearly every unit has it from then on.
        sampled: whether the failing units are a sample of all that there are.
        clean: whether nothing failed in the units compared with.
    """
    factor = pairs[0][0]
    where = _of_time(pairs[0]) or _named(pairs[0], since=since)
    also = [f"{_word(other)}" for other in pairs[1 : ALSO_NAMED + 1] if other[0] != factor]
    together = f", always together with {' and '.join(also)}" if also else ""
    drawn = "sampled failing" if sampled else "failing"
    others = "passing" if clean else "other"
    return (
        f"{_how(failing, factor)} {where} ({failing[0]} of {failing[1]} {drawn}, "
        f"{passing[0]} of {passing[1]} {others} units){together}"
    )


def _how(failing: tuple[int, int], factor: Factor) -> str:
    have, could = failing
    if have == could == 2:
        return "both"
    if have == could:
        return "all" if factor == "load" else "only"
    return "mostly" if have >= MOSTLY * could else "more often"


def _of_time(pair: Pair) -> str:
    factor, value = pair
    if factor == "hour":
        start = int(value[:2])
        return f"between {value} and {(start + 1) % 24:02d}:00 UTC"
    if factor == "weekday":
        return f"on {value}s"
    return f"at {'peak' if value == 'peak' else 'low'} load" if factor == "load" else ""


def _named(pair: Pair, *, since: bool) -> str:
    factor, value = pair
    if factor == "step":
        return f"where step {value} runs"
    if factor == "arguments":
        return f"with arguments {value}"
    if factor == "environment":
        return f"in environment {value}"
    if factor in ("release", "version", "prompt", "model") and since:
        return f"since {_word(pair)}"
    return f"with {_word(pair)}"


def _word(pair: Pair) -> str:
    factor, value = pair
    return _of_time(pair) or f"{factor} {value}"
