"""The change of a finding: exact in matched hours, silent on seasons, honest on small numbers."""

import itertools
import random
from collections.abc import Sequence
from math import comb, prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.insights import matched
from nodes.insights.compare import Counted, compare, reasons, why_not_actionable
from nodes.insights.facts import fisher_p
from nodes.insights.matched import (
    Stratum,
    matching,
    more_needed,
    more_often_p,
    tails,
)

DAY, WEEK = 24, 168


def counted(units: int, total: int, before: int | None, before_total: int | None) -> Counted:
    return Counted(units=units, total=total, baseline_units=before, baseline_total=before_total)


def binomial(k: int, n: int, rate: float) -> float:
    return comb(n, k) * rate**k * (1.0 - rate) ** (n - k)


def rejected(totals: Sequence[tuple[int, int]], rates: Sequence[float], alpha: float) -> float:
    """Probability of p <= alpha when the window fails as the baseline does, by enumeration."""
    sizes = [size for pair in totals for size in pair]
    each = [rate for rate in rates for _ in range(2)]
    mass = 0.0
    for failing in itertools.product(*(range(size + 1) for size in sizes)):
        strata = [
            Stratum(failing[2 * i], now, failing[2 * i + 1], before)
            for i, (now, before) in enumerate(totals)
        ]
        if more_often_p(strata) <= alpha:
            mass += prod(binomial(k, n, r) for k, n, r in zip(failing, sizes, each, strict=True))
    return mass


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 5)), min_size=1, max_size=2),
    st.lists(st.sampled_from([0.02, 0.2, 0.5, 0.9]), min_size=2, max_size=2),
    st.sampled_from([0.05, 0.2]),
)
def test_without_change_the_test_errs_no_more_often_than_its_level(
    totals: list[tuple[int, int]], rates: list[float], alpha: float
) -> None:
    assert rejected(totals, rates[: len(totals)], alpha) <= alpha + 1e-12


def test_a_season_that_shifts_the_traffic_is_no_change() -> None:
    # By night one in two fails, by day one in fifty, in both windows; the window is mostly night.
    night, day = Stratum(50, 100, 5, 10), Stratum(1, 50, 19, 950)
    whole = Stratum(51, 150, 24, 960)
    assert more_often_p([whole]) < 1e-9
    assert more_often_p([night, day]) > 0.3


def test_a_real_change_shows_in_every_season() -> None:
    night, day = Stratum(80, 100, 50, 100), Stratum(20, 500, 10, 500)
    assert more_often_p([night, day]) < 1e-4
    assert tails([night, day]).less > 0.99


def test_null_windows_with_seasons_alarm_no_more_often_than_the_level() -> None:
    chance = random.Random(11)  # noqa: S311  (a simulation)
    rates = [0.02 + 0.3 * (hour < 6) for hour in range(24)]

    def failing(total: int, rate: float) -> int:
        return sum(chance.random() < rate for _ in range(total))

    alarms = 0
    for _ in range(400):
        signatures = []
        for _ in range(3):
            strata = tuple(
                Stratum(failing(now, rate), now, failing(before, rate), before)
                for rate, now, before in zip(rates, [20] * 6 + [2] * 18, [15] * 24, strict=True)
            )
            whole = [sum(column) for column in zip(*strata, strict=True)]
            signatures.append(
                Counted(
                    units=whole[0], total=whole[1], baseline_units=whole[2],
                    baseline_total=whole[3], strata=strata,
                )
            )  # fmt: skip
        changes = [one.change for one in compare(signatures, 0.05)]
        alarms += "risen" in changes or "new" in changes
    assert alarms <= 30  # P(Binomial(400, .05) > 30) = .008; the exact test errs less than that


def test_of_one_stratum_it_is_fishers_test() -> None:
    assert more_often_p([Stratum(3, 4, 1, 4)]) == pytest.approx(17 / 70)
    assert more_often_p([Stratum(5, 30, 2, 70)]) == pytest.approx(fisher_p(5, 30, 2, 70))
    assert more_often_p([Stratum(0, 4, 1, 4)]) == 1.0


def test_hours_of_one_window_alone_say_nothing() -> None:
    one = Stratum(3, 10, 1, 40)
    assert more_often_p([one, Stratum(7, 9, 0, 0), Stratum(0, 0, 3, 5)]) == more_often_p([one])
    assert more_often_p([]) == 1.0
    with pytest.raises(ValueError, match="out of range"):
        more_often_p([Stratum(3, 2, 0, 1)])


def test_long_laws_are_cut_without_making_p_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    strata = [Stratum(200 + i, 1_000, 190, 1_000) for i in range(40)]
    cut = more_often_p(strata)
    monkeypatch.setattr(matched, "_LONG", 10**9)
    whole = more_often_p(strata)
    assert whole <= cut <= whole + 1e-15
    assert 0.0 < cut < 1e-3


def test_how_many_more_it_would_take_is_the_fewest() -> None:
    strata = [Stratum(1, 100, 0, 700)]
    assert tails(strata).least == pytest.approx(100 / 800)
    more = more_needed(strata, 0.01)
    assert more is not None
    assert more_often_p([Stratum(1 + more, 100 + more, 0, 700)]) <= 0.01
    assert more_often_p([Stratum(more, 100 + more - 1, 0, 700)]) > 0.01
    assert more_needed([Stratum(1, 5, 1, 1)], 1e-40) is None


def test_too_few_says_so_and_how_many_it_would_take() -> None:
    (found,) = compare([counted(1, 100, 1, 100)], 0.05)
    assert (found.change, found.few) == ("unknown", True)
    assert found.why.startswith("too few to tell: it would take ")
    why_not = why_not_actionable(counted(1, 100, 1, 100), found, "high", 0.02)
    assert why_not is not None
    assert why_not.startswith("too few to tell a change")


def test_same_is_said_only_where_a_change_would_have_been_seen() -> None:
    (found,) = compare([counted(10, 100, 10, 100)], 0.05)
    assert (found.change, found.few) == ("same", False)


def test_a_finding_that_an_earlier_analysis_saw_is_not_new_again() -> None:
    one = counted(2, 100, 0, 100)
    again = Counted(
        units=2, total=100, baseline_units=0, baseline_total=100, seen_before=True
    )  # fmt: skip
    assert compare([one], 0.05)[0].change == "new"
    assert compare([again], 0.05)[0].change == "unknown"
    often = Counted(
        units=30, total=100, baseline_units=0, baseline_total=100, seen_before=True
    )  # fmt: skip
    assert compare([often], 0.05)[0].change == "risen"


def test_two_units_at_hours_that_the_baseline_lacks_are_not_new() -> None:
    one = Counted(
        units=2, total=100, baseline_units=0, baseline_total=100,
        strata=(Stratum(2, 20, 0, 0), Stratum(0, 80, 0, 100)),
    )  # fmt: skip
    assert compare([one], 0.05)[0].change == "unknown"


def test_holm_counts_every_signature() -> None:
    alone = compare([counted(6, 100, 1, 200)], 0.05)[0]
    among = compare([counted(6, 100, 1, 200), *[counted(5, 100, 10, 200)] * 20], 0.05)[0]
    assert alone.change == "risen"
    assert among.change != "risen"
    assert alone.p_holm is not None
    assert among.p_holm == pytest.approx(21 * alone.p_holm)


def test_hours_and_weekdays_are_matched_where_the_baseline_has_enough() -> None:
    week = dict.fromkeys(range(WEEK, 2 * WEEK), 5)
    day = dict.fromkeys(range(2 * WEEK, 2 * WEEK + DAY), 9)
    how = matching(day, week, 0)
    assert (how.match, how.strata, how.left_out, how.why) == ("hour and weekday", 24, 0, "")


def test_thin_weeks_are_matched_by_hour_and_say_why() -> None:
    week = dict.fromkeys(range(WEEK, 2 * WEEK), 1)
    day = dict.fromkeys(range(2 * WEEK, 2 * WEEK + DAY), 9)
    how = matching(day, week, 0)
    assert how.match == "hour"
    assert how.why == "too few units at the same hour and weekday (0 of 216)"


def test_other_hours_or_no_times_are_compared_as_a_whole_and_say_why() -> None:
    how = matching({10: 50}, {20: 50}, 0)
    assert (how.match, how.left_out) == ("none", 0)
    assert how.why == "too few units at the same hour (0 of 50)"
    assert matching({10: 5}, {10: 5}, 40).why == "its traces carry no times"


def test_units_at_hours_the_baseline_lacks_are_counted_as_left_out() -> None:
    how = matching({10: 90, 11: 7}, {10 + WEEK: 50}, 0)
    assert (how.match, how.strata, how.left_out) == ("hour and weekday", 1, 7)


def test_the_reasons_hold_the_numbers_of_the_rank() -> None:
    one = counted(18, 240, 3, 1_700)
    (found,) = compare([one], 0.05)
    prevalence, change, rank = reasons(one, found, "high", "session")
    assert prevalence.startswith("18 of 240 sessions: 7.5%, between 4.5% and 11.6%")
    assert change.startswith("more often than in the baseline: 18 of 240 against 3 of 1700")
    assert rank == "rank 0.675: 6 (high) x 0.075 (share) x 1.5 (risen)"
