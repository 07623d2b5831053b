"""What failing units have that passing ones lack, by an exact test, in one sentence each.

Every unit stands for itself once: by one of its traces, drawn by hash, a failing unit by one that
failed. Compared are the features of `features.py`, the hour, the weekday and the load. Fisher's
exact test, one-sided, Holm over everything compared for a finding; what even the most extreme
split could not show is not compared. Features that the same units have are one comparison and are
told together; what a surer contrast explains is not told. What a failing unit has by definition
(its own tool, its own step) is left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from contracts.findings import Contrast, Factor
from nodes.gate.stats import holm
from nodes.insights.facts import fisher_p
from nodes.insights.features import Pair, Traits
from nodes.insights.matched import Stratum, more_often_p
from nodes.insights.signature import place_part
from nodes.insights.wording import WEEKDAYS, sentence

MIN_CLEAN = 20
"""Units in which nothing failed, from which failing ones are compared with those alone."""
MIN_FAILING = 2
MAX_CONTRASTS = 5
SINCE = 0.9
"""Share of later units that have a feature, from which it is said to be there since a moment."""
TOGETHER = 0.95
"""Share of common units from which two features are told in one sentence."""
BUSY = 3.0
"""Traces in an average minute, from which the load is that of the minute; else of the hour."""
_RECORDED: frozenset[Factor] = frozenset({"release", "version", "environment", "model", "prompt"})
"""Factors that a trace may not have recorded: those without any value could have had it."""
_ORDER: tuple[Factor, ...] = (
    "prompt", "release", "version", "model", "arguments", "tool", "step", "environment", "tag",
    "load", "hour", "weekday",
)  # fmt: skip
"""Of features that go together, the first names the contrast."""


@dataclass(frozen=True, slots=True)
class Load:
    """How busy it was when a unit started, in thirds of all traces."""

    minutes: Mapping[int, int]
    """Traces by bucket of time."""
    width: int
    """A bucket is so many minutes."""
    low: int
    high: int
    """Up to `low` traces in its bucket are the quietest third, above `high` the busiest."""

    def of(self, minute: int) -> str | None:
        """`peak` or `low`; None: neither, or the load never changed."""
        count = self.minutes.get(minute // self.width, 0)
        if self.low >= self.high and count <= self.high:
            return None
        if count > self.high:
            return "peak"
        return "low" if count <= self.low else None


def load_of(buckets: Mapping[int, int], width: int) -> Load:
    """The thirds of the load, from traces by bucket of `2 ** width` minutes."""
    size = 1 << width
    minutes = dict(buckets)
    if minutes and sum(minutes.values()) / len(minutes) / size < BUSY and size < 60:
        hourly: dict[int, int] = {}
        for bucket, count in minutes.items():
            hour = bucket * size // 60
            hourly[hour] = hourly.get(hour, 0) + count
        minutes, size = hourly, 60
    total, seen = sum(minutes.values()), 0
    low = high = 0
    for count in sorted(minutes.values()):
        seen += count
        if seen * 3 <= total:
            low = count
        if seen * 3 <= 2 * total:
            high = count
    return Load(minutes=minutes, width=size, low=low, high=high)


class Units:
    """Units with their features, as sets of bits: bit i is unit i."""

    def __init__(self, traits: Sequence[Traits], load: Load) -> None:
        self.count = len(traits)
        self.bits: dict[Pair, int] = {}
        self.any: dict[Factor, int] = {}
        """Units with some value of the factor."""
        self.minutes = [one.minute for one in traits]
        for i, one in enumerate(traits):
            for pair in (*one.pairs, *_of_time(one.minute, load)):
                self.bits[pair] = self.bits.get(pair, 0) | 1 << i
                self.any[pair[0]] = self.any.get(pair[0], 0) | 1 << i

    def could(self, pair: Pair) -> int:
        """Units that could have the feature."""
        factor, value = pair
        if factor == "arguments":
            return self.bits.get(("tool", _tool_of(value)), 0)
        if factor in ("hour", "weekday", "load"):
            return self.any.get("hour", 0)
        if factor in _RECORDED:
            return self.any.get(factor, 0)
        return (1 << self.count) - 1


def _of_time(minute: int | None, load: Load) -> Iterator[Pair]:
    if minute is None:
        return
    hour = minute // 60
    yield "hour", f"{hour % 24:02d}:00"
    yield "weekday", WEEKDAYS[(hour // 24 + 3) % 7]
    busy = load.of(minute)
    if busy is not None:
        yield "load", busy


def _tool_of(value: str) -> str:
    """The tool that a feature of arguments is about."""
    return value.split("(", 1)[0] if "(" in value.split(" ", 1)[0] else value.rsplit(".", 1)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared:
    """Features that the same units have, compared once."""

    pairs: tuple[Pair, ...]
    failing: int
    passing: int
    """Bits of units that have them."""
    could_fail: int
    could_pass: int
    """Bits of units that could have them."""
    p: float
    p_holm: float = 1.0


def contrasts(
    failing: Sequence[Traits],
    others: Units,
    mask: int,
    *,
    load: Load,
    place: str,
    alpha: float,
    sampled: bool,
    clean: bool,
) -> tuple[Contrast, ...]:
    """What sets failing units apart, surest first; empty where nothing does for sure.

    Args:
        failing: of failing units, one each.
        others: the units to compare with, and others.
        mask: bits of those in `others` to compare with.
        load: to tell busy times.
        place: tool or step that the finding is about; it is left out.
        alpha: level of the family of comparisons.
        sampled: whether there are more failing units than `failing`.
        clean: whether nothing failed in the units compared with; else they lack this finding alone.
    """
    if len(failing) < MIN_FAILING or not mask:
        return ()
    mine = Units(failing, load)
    compared = list(_compare(mine, others, mask, place, alpha))
    adjusted = holm([one.p for one in compared])
    sure = [replace(one, p_holm=p) for one, p in zip(compared, adjusted, strict=True) if p <= alpha]
    told = _not_explained(_told_together(sure), alpha)
    return tuple(
        _contrast(one, mine, others, mask, sampled=sampled, clean=clean)
        for one in told[:MAX_CONTRASTS]
    )


def _compare(
    mine: Units, others: Units, mask: int, place: str, alpha: float
) -> Iterator[_Compared]:
    """Every set of units that could show something, with the features that share it."""
    same: dict[tuple[int, int, int, int], list[Pair]] = {}
    for pair in sorted({*mine.bits, *others.bits}):
        if _by_definition(pair, place):
            continue
        could, could_pass = mine.could(pair), others.could(pair) & mask
        if could and could_pass:
            sets = (mine.bits.get(pair, 0) & could, others.bits.get(pair, 0) & could_pass)
            same.setdefault((*sets, could, could_pass), []).append(pair)
    for (k, passing, could, could_pass), pairs in same.items():
        n, m = could.bit_count(), could_pass.bit_count()
        held = k.bit_count() + passing.bit_count()
        most = min(held, n)
        if held == n + m or fisher_p(most, n, held - most, m) > alpha:
            continue
        yield _Compared(
            pairs=tuple(sorted(pairs, key=_rank)), failing=k, passing=passing, could_fail=could,
            could_pass=could_pass, p=fisher_p(k.bit_count(), n, passing.bit_count(), m),
        )  # fmt: skip


def _by_definition(pair: Pair, place: str) -> bool:
    """Whether failing in this way means to have it."""
    return pair[0] in ("tool", "step") and place_part(pair[1]) == place


def _rank(pair: Pair) -> tuple[int, str]:
    return _ORDER.index(pair[0]), pair[1]


def _told_together(sure: Sequence[_Compared]) -> list[_Compared]:
    """Join features that nearly the same units have; the surest stands for all. Surest first."""
    kept: list[_Compared] = []
    for one in sorted(sure, key=lambda c: (c.p_holm, _rank(c.pairs[0]))):
        for at, other in enumerate(kept):
            if _alike(one, other):
                pairs = tuple(sorted({*other.pairs, *one.pairs}, key=_rank))
                kept[at] = replace(other, pairs=pairs)
                break
        else:
            kept.append(one)
    return kept


def _alike(a: _Compared, b: _Compared) -> bool:
    """Whether nearly the same units have both."""
    both = (a.failing & b.failing).bit_count() + (a.passing & b.passing).bit_count()
    one = (a.failing | b.failing).bit_count() + (a.passing | b.passing).bit_count()
    return both >= TOGETHER * one


def _not_explained(sure: Sequence[_Compared], alpha: float) -> list[_Compared]:
    """Leave out what goes with failing only since it goes with a surer contrast.

    Such as the hour, where a new prompt went out at that hour: among the units with the prompt, and
    among those without it, the hour tells nothing.
    """
    kept: list[_Compared] = []
    for one in sure:
        if all(_given(one, surer) <= alpha for surer in kept):
            kept.append(one)
    return kept


def _given(one: _Compared, other: _Compared) -> float:
    """Exact p of the first among units with the second and among those without, together."""
    strata = []
    for has in (True, False):
        failing = one.could_fail & other.could_fail
        passing = one.could_pass & other.could_pass
        failing &= other.failing if has else ~other.failing
        passing &= other.passing if has else ~other.passing
        strata.append(
            Stratum(
                (one.failing & failing).bit_count(), failing.bit_count(),
                (one.passing & passing).bit_count(), passing.bit_count(),
            )
        )  # fmt: skip
    return more_often_p(strata)


def _contrast(
    one: _Compared, mine: Units, others: Units, mask: int, *, sampled: bool, clean: bool
) -> Contrast:
    failing = (one.failing.bit_count(), one.could_fail.bit_count())
    passing = (one.passing.bit_count(), one.could_pass.bit_count())
    factor, value = one.pairs[0]
    said = sentence(
        one.pairs, failing, passing, since=_since(one, mine, others, mask), sampled=sampled,
        clean=clean,
    )  # fmt: skip
    return Contrast(
        factor=factor, value=value, failing=failing, passing=passing, p_holm=one.p_holm,
        sentence=said,
    )  # fmt: skip


def _since(one: _Compared, mine: Units, others: Units, mask: int) -> bool:
    """Whether the feature came at some moment, and nearly all units have it from then on."""
    having = [*_minutes(mine, one.failing), *_minutes(others, one.passing)]
    everyone = [*_minutes(mine, -1), *_minutes(others, mask)]
    if not having:
        return False
    began = min(having)
    later = sum(minute >= began for minute in everyone)
    return min(everyone) < began and len(having) >= SINCE * later


def _minutes(units: Units, which: int) -> Iterator[int]:
    for i, minute in enumerate(units.minutes):
        if minute is not None and which >> i & 1:
            yield minute
