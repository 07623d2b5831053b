"""The figures that the statistics must give, as printed in the design of the gate."""

import time
from collections.abc import Callable, Sequence

import pytest

from nodes.gate.stats import (
    cost_ratio_upper,
    e_process,
    guard_p,
    harm_p,
    holm,
    look_plan,
    noninferior_p,
    proven_margin,
    recurrence_p,
    required_cases,
    smallest_provable_margin,
    stratified_exact_p,
    tango_lower,
    tango_upper,
)

SIX = 5.1e-7  # the figures are printed with six digits


@pytest.mark.parametrize(
    ("cases", "p"),
    [
        ([(3, 0, 3)], 0.050000),
        ([(5, 0, 5)], 0.003968),
        ([(3, 0, 3)] * 2, 0.002500),
        ([(4, 1, 5)] * 3, 0.002073),
        ([(1, 0, 1)] * 4, 0.062500),
        ([(1, 0, 1)] * 5, 0.031250),
        ([(3, 2, 5)] * 6, 0.108426),
        ([(1, 0, 1)] * 7 + [(0, 1, 1)], 0.035156),
        ([(8, 8, 8), (0, 0, 8)], 1.0),
        ([(0, 3, 3)], 1.0),
        ([], 1.0),
        ([(7, 1, 8), (6, 2, 8), (8, 8, 8)], 0.000679),
        ([(3, 1, 4), (2, 0, 2)], 0.050000),
    ],
)
def test_stratified_exact_p(cases: Sequence[tuple[int, int, int]], p: float) -> None:
    assert stratified_exact_p(cases) == pytest.approx(p, abs=SIX)


@pytest.mark.parametrize(
    ("losses", "at_05", "at_01"),
    [(0, 5, 7), (1, 7, 10), (2, 9, 12), (3, 10, 14), (4, 12, 15), (5, 13, 17), (6, 15, 19)],
)
def test_fewest_wins_for_so_many_losses(losses: int, at_05: int, at_01: int) -> None:
    def fewest(level: float) -> int:
        return next(
            wins for wins in range(40)
            if stratified_exact_p([(1, 0, 1)] * wins + [(0, 1, 1)] * losses) <= level
        )  # fmt: skip

    assert (fewest(0.05), fewest(0.01)) == (at_05, at_01)


@pytest.mark.parametrize(
    ("b", "c", "n", "alpha", "bound"),
    [
        (3, 1, 14, 0.025, -0.166975),
        (1, 7, 21, 0.025, -0.517232),
        (16, 8, 86, 0.025, -0.019659),
        (9, 3, 32, 0.025, -0.027090),
        (0, 1, 44, 0.05, -0.095662),
        (25, 2, 102, 0.025, 0.139183),
        (0, 0, 60, 0.042, -0.047404),
        (2, 3, 60, 0.042, -0.095915),
        (12, 5, 140, 0.042, -0.000963),
        (2, 3, 60, 0.01, -0.133441),
        (3, 7, 140, 0.01, -0.094186),
        (20, 24, 480, 0.01, -0.042320),
        (0, 30, 30, 0.05, -1.0),
        (30, 0, 30, 0.05, 0.834551),
    ],
)
def test_tango_lower(b: int, c: int, n: int, alpha: float, bound: float) -> None:
    assert tango_lower(b, c, n, alpha) == pytest.approx(bound, abs=SIX)


@pytest.mark.parametrize(
    ("b", "c", "n", "alpha", "bound"),
    [
        (3, 1, 14, 0.025, 0.432664),
        (1, 7, 21, 0.025, -0.026003),
        (16, 8, 86, 0.025, 0.206911),
        (2, 3, 60, 0.05, 0.054066),
    ],
)
def test_tango_upper(b: int, c: int, n: int, alpha: float, bound: float) -> None:
    assert tango_upper(b, c, n, alpha) == pytest.approx(bound, abs=SIX)


@pytest.mark.parametrize(
    ("b", "c", "n", "margin", "p"),
    [
        (0, 0, 59, 0.05, 0.048995),
        (0, 0, 58, 0.05, 0.051547),
        (0, 0, 44, 0.10, 0.012348),
        (0, 0, 46, 0.10, 0.008355),
        (0, 1, 60, 0.10, 0.014277),
        (1, 2, 60, 0.10, 0.022497),
        (2, 3, 60, 0.15, 0.004583),
        (3, 7, 140, 0.10, 0.005662),
        (5, 4, 140, 0.10, 0.000566),
        (12, 20, 480, 0.05, 0.005235),
        (0, 0, 8, 0.20, 0.168272),
        (60, 0, 60, 0.10, 0.000500),
        (0, 8, 8, 0.30, 1.0),
        (0, 0, 0, 0.10, 1.0),
    ],
)
def test_noninferior_p(b: int, c: int, n: int, margin: float, p: float) -> None:
    assert noninferior_p(b, c, n, margin) == pytest.approx(p, abs=SIX)


@pytest.mark.parametrize(
    ("b", "c", "n", "alpha", "margin"),
    [
        (0, 0, 8, 0.05, 0.314),
        (0, 0, 8, 0.01, 0.442),
        (0, 1, 8, 0.05, 0.472),
        (0, 0, 20, 0.05, 0.140),
        (1, 1, 20, 0.05, 0.167),
        (3, 7, 140, 0.01, 0.093),
        (0, 0, 0, 0.05, 1.0),
        (0, 8, 8, 0.01, 1.0),
    ],
)
def test_proven_margin(b: int, c: int, n: int, alpha: float, margin: float) -> None:
    assert proven_margin(b, c, n, alpha) == pytest.approx(margin)


def test_e_process_step_by_step() -> None:
    expected = [1.571389, 1.668702, 0.718364, 0.862550, 0.894545]
    assert e_process([1, 0, -1, 0.5, 0], 0.10) == pytest.approx(expected, abs=SIX)
    assert e_process([], 0.10) == []


@pytest.mark.parametrize(
    ("differences", "margin", "last"),
    [
        ([0.0] * 10, 0.10, 1.759112),
        ([0.0] * 40, 0.10, 18.485731),
        ([0.0] * 41, 0.10, 20.225304),
        ([1.0] * 5, 0.20, 29.077453),
        ([-1.0] * 3, 0.05, 0.324297),
        ([0.25, -0.125, 0, 0, 1], 0.15, 2.585808),
        ([1, -1, 1], 0.0, 0.857997),
    ],
)
def test_e_process_last_value(differences: Sequence[float], margin: float, last: float) -> None:
    assert e_process(differences, margin)[-1] == pytest.approx(last, abs=SIX)


@pytest.mark.parametrize(
    ("n", "discordance", "alpha", "margin"),
    [
        (60, 0.05, 0.01, 0.14), (20, 0.05, 0.05, 0.22), (8, 0.10, 0.01, 1.0), (0, 0.10, 0.05, 1.0),
        (8, 0.10, 0.05, 0.48), (30, 0.02, 0.05, 0.15), (60, 0.10, 0.05, 0.12),
        (100, 0.20, 0.05, 0.12),
    ],
)  # fmt: skip
def test_smallest_provable_margin(n: int, discordance: float, alpha: float, margin: float) -> None:
    assert smallest_provable_margin(n, discordance, alpha, 0.8) == margin


@pytest.mark.parametrize(
    ("margin", "discordance", "alpha", "change", "cases"),
    [
        (0.10, 0.05, 0.01, 0.0, 87), (0.10, 0.10, 0.05, 0.05, 35), (0.10, 0.10, 0.01, 0.0, 126),
        (0.10, 0.02, 0.05, 0.0, 46), (0.10, 0.10, 0.05, 0.0, 78), (0.15, 0.05, 0.05, 0.0, 30),
    ],
)  # fmt: skip
def test_required_cases(
    margin: float, discordance: float, alpha: float, change: float, cases: int
) -> None:
    found = required_cases(margin, discordance, alpha, change=change)
    assert found == pytest.approx(cases, abs=2)


def test_required_cases_says_none_above_its_limit() -> None:
    assert required_cases(0.10, 0.10, 0.05, limit=70) is None


@pytest.mark.parametrize(
    ("n", "margin", "alpha", "sizes"),
    [
        (60, 0.15, 0.01, [41, 60]),
        (140, 0.10, 0.01, [70, 140]),
        (480, 0.05, 0.01, [240, 480]),
        (29, 0.15, 0.05, [29]),
        (44, 0.10, 0.01, [44]),
        (0, 0.10, 0.05, []),
    ],
)
def test_look_plan(n: int, margin: float, alpha: float, sizes: list[int]) -> None:
    looks = look_plan(n, margin, alpha)
    assert [cases for cases, _ in looks] == sizes
    assert sum(share for _, share in looks) == pytest.approx(1.0 if n else 0.0)


@pytest.mark.parametrize(
    ("delta", "at_05", "at_01", "at_002"),
    [(0.10, 29, 46, 62), (0.15, 19, 29, 41), (0.20, 14, 21, 30), (0.05, 59, 96, 131)],
)
def test_fewest_cases_when_every_case_ties(
    delta: float, at_05: int, at_01: int, at_002: int
) -> None:
    def fewest(level: float) -> int:
        return next(n for n in range(1, 200) if noninferior_p(0, 0, n, delta) <= level)

    assert [fewest(0.05), fewest(0.01), fewest(0.002)] == [at_05, at_01, at_002]


@pytest.mark.parametrize(
    ("k_c", "k_b", "p"),
    [
        (6, 10, 0.043344), (5, 10, 0.016254), (4, 10, 0.005418), (3, 10, 0.001548),
        (4, 9, 0.028638), (5, 9, 0.070433),
    ],
)  # fmt: skip
def test_guard_p_of_ten_runs(k_c: int, k_b: int, p: float) -> None:
    assert guard_p(k_c, k_b, 10) == pytest.approx(p, abs=SIX)


@pytest.mark.parametrize(
    ("k0", "e0", "k1", "e1", "p"),
    [
        (10, 1000, 2, 1000, 0.019287), (20, 7, 5, 7, 0.002039), (5, 100, 0, 100, 0.031250),
        (30, 10, 10, 5, 0.171435), (12, 3000, 1, 1500, 0.038537), (0, 5, 0, 5, 1.0),
    ],
)  # fmt: skip
def test_recurrence_p(k0: int, e0: float, k1: int, e1: float, p: float) -> None:
    assert recurrence_p(k0, e0, k1, e1) == pytest.approx(p, abs=SIX)


@pytest.mark.parametrize(
    ("pvalues", "adjusted"),
    [
        ([0.01, 0.04, 0.03], [0.03, 0.06, 0.06]),
        ([0.02, 0.02], [0.04, 0.04]),
        ([0.6, 0.001, 0.7], [1, 0.003, 1]),
        ([], []),
    ],
)
def test_holm(pvalues: list[float], adjusted: list[float]) -> None:
    assert holm(pvalues) == pytest.approx(adjusted)


def test_cost_ratio_upper() -> None:
    cases = [
        (1.2, 1, 1.0, 1), (0.8, 1, 0.9, 1), (2.2, 0, 2.0, 1),
        (1.0, 1, 1.1, 0), (1.5, 1, 1.2, 1), (0.7, 1, 0.7, 1),
    ]  # fmt: skip
    swapped = [(cb, kb, cc, kc) for cc, kc, cb, kb in cases]
    back = cost_ratio_upper(swapped)
    assert cost_ratio_upper(cases) == pytest.approx(2.029811, abs=SIX)
    assert back is not None
    assert 1 / back == pytest.approx(0.566643, abs=SIX)
    assert cost_ratio_upper([(2, 1, 1, 1)] * 5) == pytest.approx(2.0, abs=SIX)
    rising = [(1 + 0.1 * (i % 3), 1, 1.0, 1) for i in range(30)]
    assert cost_ratio_upper(rising) == pytest.approx(1.126066, abs=SIX)


@pytest.mark.parametrize(
    "cases", [[(1, 1, 1, 0)] * 4, [(1, 1, 1, 1)], [], [(1, 1, 0.1, 1), (1, 0, 0.2, 1)]]
)
def test_an_undefined_cost_ratio_is_none(cases: list[tuple[float, int, float, int]]) -> None:
    assert cost_ratio_upper(cases) is None


def test_harm_is_shown_by_five_losses_without_a_win() -> None:
    assert harm_p(0, 5) == pytest.approx(0.03125)
    assert harm_p(0, 4) == pytest.approx(0.0625)
    assert harm_p(3, 0) == 1.0


def test_the_exact_test_is_fast_enough_for_a_card() -> None:
    noninferior_p(12, 20, 480, 0.05)
    best = min(_seconds(21 + i) for i in range(5))
    assert best < 0.05


def _seconds(losses: int) -> float:
    started = time.perf_counter()
    noninferior_p(13, losses, 480, 0.05)  # other counts than above: answers are kept
    return time.perf_counter() - started


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stratified_exact_p([(4, 0, 3)]), "passes out of range: k_C=4"),
        (lambda: stratified_exact_p([(0, 0, 0)]), "r=0"),
        (lambda: noninferior_p(1, 1, 1, 0.1), "wins and losses out of range: b=1 c=1 n=1"),
        (lambda: noninferior_p(0, 0, 9, 1.0), "a margin is between 0 and 1, got 1.0"),
        (lambda: tango_lower(0, 0, 9, 0.5), "alpha is between 0 and .5"),
        (lambda: e_process([2.0], 0.1), "a difference is between -1 and 1"),
        (lambda: recurrence_p(1, 0.0, 1, 1.0), "exposures out of range"),
        (lambda: required_cases(0.1, 0.05, 0.05, change=0.1), "discordance is between"),
    ],
)
def test_an_argument_out_of_range_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        call()
