"""What failing units have that passing ones lack: sure, counted, joined, and in one sentence."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.findings import Contrast
from nodes.insights.contrast import Load, Units, contrasts, load_of
from nodes.insights.features import Pair, Traits

QUIET = Load(minutes={}, width=1, low=0, high=0)
HOUR = 60
MONDAY = 4 * 24 * HOUR  # 1970-01-05


def traits(*pairs: Pair, minute: int | None = None) -> Traits:
    return Traits(pairs=tuple(sorted(pairs)), minute=minute)


def found(
    failing: Sequence[Traits],
    passing: Sequence[Traits],
    *,
    load: Load = QUIET,
    place: str = "pay",
    sampled: bool = False,
    clean: bool = True,
) -> tuple[Contrast, ...]:
    return contrasts(
        failing, Units(passing, load), (1 << len(passing)) - 1, load=load, place=place,
        alpha=0.05, sampled=sampled, clean=clean,
    )  # fmt: skip


NEW: tuple[Pair, ...] = (("prompt", "refund v14"), ("release", "1.4"))
OLD: tuple[Pair, ...] = (("prompt", "refund v13"), ("release", "1.3"))


def test_what_only_failing_units_have_is_told_with_both_counts() -> None:
    passing = [traits(("model", "small")) for _ in range(237)]
    passing += [traits(("model", "large")) for _ in range(3)]
    (one,) = found([traits(("model", "large"))] * 18, passing)
    assert one.sentence == "only with model large (18 of 18 failing, 3 of 240 passing units)"
    assert (one.factor, one.value) == ("model", "large")
    assert (one.failing, one.passing) == ((18, 18), (3, 240))
    assert one.p_holm < 1e-10


def test_what_came_at_a_moment_is_told_as_since() -> None:
    passing = [traits(*OLD, minute=n) for n in range(200)]
    passing += [traits(*NEW, minute=200 + n) for n in range(5)]
    failing = [traits(*NEW, minute=201 + n) for n in range(18)]
    (one,) = found(failing, passing)
    assert one.sentence == (
        "only since prompt refund v14 (18 of 18 failing, 5 of 205 passing units), "
        "always together with release 1.4"
    )


def test_a_version_that_only_some_have_is_with_and_not_since() -> None:
    passing = [traits(OLD[0], minute=n) for n in range(200)]
    passing += [traits(NEW[0], minute=n) for n in (0, 10, 20)]
    (one,) = found([traits(NEW[0], minute=5 + n) for n in range(18)], passing)
    assert one.sentence.startswith("only with prompt refund v14 (18 of 18")


def test_two_units_at_peak_load_are_both_at_peak_load() -> None:
    counts = dict.fromkeys(range(120), 3) | {1_000: 40, 1_001: 40}
    load = load_of(counts, 0)
    passing = [traits(minute=n) for n in range(120) for _ in range(3)]
    passing += [traits(minute=1_000)] * 2
    told = found([traits(minute=1_000), traits(minute=1_001)], passing, load=load)
    assert told[0].factor == "load"
    assert told[0].sentence.startswith("both at peak load (2 of 2 failing, 2 of 362 passing units)")


def test_nothing_is_told_that_is_not_sure() -> None:
    passing = [traits(("tag", "beta"))] * 30 + [traits()] * 30
    assert found([traits(("tag", "beta"))] * 3, passing) == ()
    assert found([traits(("tag", "beta"))], [traits()] * 500) == ()
    assert found([traits(("tag", "beta"))] * 9, []) == ()


def test_more_comparisons_need_surer_differences() -> None:
    chance = random.Random(1)  # noqa: S311  (a simulation)

    def beta(others: int) -> list[Contrast]:
        def noise() -> list[Pair]:
            return [("step", f"s{i}") for i in range(others) if chance.random() < 0.3]

        failing = [traits(("tag", "beta"), *noise()) for _ in range(4)]
        passing = [traits(("tag", "beta"), *noise()) for _ in range(5)]
        passing += [traits(*noise()) for _ in range(45)]
        return [one for one in found(failing, passing) if one.value == "beta"]

    assert beta(0)
    assert not beta(200)


def test_an_hour_that_a_new_prompt_explains_is_not_told() -> None:
    passing = [traits(OLD[0], minute=n * HOUR) for n in range(100)]
    passing += [traits(NEW[0], minute=100 * HOUR + n) for n in range(3)]
    failing = [traits(NEW[0], minute=100 * HOUR + n) for n in range(20)]
    assert [one.factor for one in found(failing, passing)] == ["prompt"]


def test_two_causes_that_do_not_explain_each_other_are_both_told() -> None:
    passing = [traits(("model", m), ("tag", t)) for m in "ab" for t in "xy"] * 30
    failing = [traits(("model", "b"), ("tag", "y"))] * 20
    assert {one.factor for one in found(failing, passing)} == {"model", "tag"}


def test_the_findings_own_tool_and_step_are_no_contrast() -> None:
    failing = [traits(("tool", "pay"), ("step", "pay"))] * 20
    passing = [traits(("tool", "look"), ("step", "look"))] * 40
    assert found(failing, passing, place="pay") == ()
    assert found(failing, passing, place="queue")[0].value == "pay"


def test_arguments_are_compared_among_units_that_called_the_tool() -> None:
    call: Pair = ("tool", "pay")
    bad: Pair = ("arguments", "pay.order like 9")
    good: Pair = ("arguments", "pay.order like A-9")
    passing = [traits(call, good)] * 30 + [traits(("tool", "look"))] * 300
    (one,) = found([traits(call, bad)] * 8, passing)
    assert one.passing == (0, 30)
    assert one.sentence == (
        "only with arguments pay.order like 9 (8 of 8 failing, 0 of 30 passing units)"
    )


def test_what_was_not_recorded_is_unknown_and_not_lacking() -> None:
    failing = [traits(("release", "1.4"))] * 10
    assert found(failing, [traits()] * 200) == ()
    (one,) = found(failing, [traits()] * 200 + [traits(("release", "1.3"))] * 40)
    assert one.passing == (0, 40)


def test_hours_and_weekdays_are_said_as_people_say_them() -> None:
    passing = [traits(minute=MONDAY + n * HOUR) for n in range(24 * 14)]
    failing = [traits(minute=MONDAY + 14 * HOUR + n) for n in range(9)]
    told = {one.factor: one.sentence for one in found(failing, passing)}
    assert told["hour"].startswith("only between 14:00 and 15:00 UTC (9 of 9 failing, 14 of 336")
    assert told["weekday"].startswith("only on Mondays (9 of 9 failing, 48 of 336")


def test_samples_and_other_units_are_called_so() -> None:
    failing, passing = [traits(("tag", "beta"))] * 20, [traits()] * 90
    (one,) = found(failing, passing, sampled=True, clean=False)
    assert one.sentence == "only with tag beta (20 of 20 sampled failing, 0 of 90 other units)"


def test_a_steady_load_has_no_peak() -> None:
    load = load_of(dict.fromkeys(range(60), 5), 0)
    assert {load.of(n) for n in range(60)} == {None}


def test_little_traffic_is_counted_by_the_hour() -> None:
    assert load_of({n * 7: 1 for n in range(600)}, 0).width == 60


FACTORS = st.sampled_from(["release", "tag", "model", "step"])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(FACTORS, st.sampled_from("ab")), max_size=4),
    st.integers(2, 30), st.integers(1, 60),
)  # fmt: skip
def test_units_that_are_all_alike_have_no_contrast(
    pairs: list[Pair], failing: int, passing: int
) -> None:
    one = traits(*set(pairs), minute=MONDAY)
    assert found([one] * failing, [one] * passing) == ()


@pytest.mark.parametrize("seed", range(3))
def test_features_that_have_nothing_to_do_with_failing_are_rarely_told(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  (a simulation)

    def drawn() -> Traits:
        pairs: list[Pair] = [("tag", f"t{i}") for i in range(12) if chance.random() < 0.4]
        return traits(*pairs, ("release", chance.choice("abc")), minute=chance.randrange(20_000))

    told = sum(
        bool(found([drawn() for _ in range(15)], [drawn() for _ in range(80)])) for _ in range(100)
    )
    assert told <= 9  # P(Binomial(100, .05) > 9) < .03; Fisher's test errs less than its level
