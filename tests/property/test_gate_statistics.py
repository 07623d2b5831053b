"""What holds for every input of the gate's statistics and rules."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.gate import Block, GatePlan
from nodes.gate.exact import success_bound, success_probability
from nodes.gate.schedule import next_step
from nodes.gate.stats import (
    e_process,
    harm_p,
    holm,
    noninferior_p,
    stratified_exact_p,
    tango_lower,
    tango_upper,
)
from nodes.gate.verdict import report
from tests.gate_worlds import block, designed, fixing, one_look, sealed_blocks

REPEATS = st.integers(1, 6)


@st.composite
def counts(draw: st.DrawFn) -> tuple[int, int, int]:
    """(b, c, n)"""
    n = draw(st.integers(1, 40))
    b = draw(st.integers(0, n))
    return b, draw(st.integers(0, n - b)), n


@st.composite
def passes(draw: st.DrawFn) -> tuple[int, int, int]:
    """(k_C, k_B, r)"""
    r = draw(REPEATS)
    return draw(st.integers(0, r)), draw(st.integers(0, r)), r


MARGINS = st.sampled_from([0.02, 0.05, 0.10, 0.15, 0.30, 0.5, 0.9])


@given(counts(), st.sampled_from([0.01, 0.025, 0.05, 0.2]))
def test_swapping_arms_turns_the_interval_over(bcn: tuple[int, int, int], alpha: float) -> None:
    b, c, n = bcn
    assert tango_lower(b, c, n, alpha) == -tango_upper(c, b, n, alpha)
    assert -1.0 <= tango_lower(b, c, n, alpha) <= (b - c) / n <= tango_upper(b, c, n, alpha) <= 1.0


@given(counts())
def test_harm_and_gain_are_one_test_with_the_arms_swapped(bcn: tuple[int, int, int]) -> None:
    b, c, _ = bcn
    losses = [(1, 0, 1)] * c + [(0, 1, 1)] * b
    assert harm_p(b, c) == pytest.approx(stratified_exact_p(losses))


@given(st.lists(passes(), max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_cases_changes_nothing(
    cases: list[tuple[int, int, int]], rng: random.Random
) -> None:
    shuffled = cases.copy()
    rng.shuffle(shuffled)
    assert stratified_exact_p(shuffled) == pytest.approx(stratified_exact_p(cases), abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(counts(), MARGINS)
def test_more_wins_never_raise_and_more_losses_never_lower_p(
    bcn: tuple[int, int, int], margin: float
) -> None:
    b, c, n = bcn
    if c:
        assert noninferior_p(b + 1, c - 1, n, margin) <= noninferior_p(b, c, n, margin)


@settings(max_examples=60, deadline=None)
@given(st.lists(passes(), min_size=1, max_size=4), st.data())
def test_the_last_blocks_of_l1_lie_between_all_lost_and_all_won(
    cases: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    lost, won, any_way = [], [], []
    for k_c, k_b, r in cases:
        left = data.draw(st.integers(0, 3))
        more_c, more_b = data.draw(st.integers(0, left)), data.draw(st.integers(0, left))
        lost.append((k_c, k_b + left, r + left))
        won.append((k_c + left, k_b, r + left))
        any_way.append((k_c + more_c, k_b + more_b, r + left))
    p = stratified_exact_p(any_way)
    assert stratified_exact_p(won) <= p + 1e-12
    assert p <= stratified_exact_p(lost) + 1e-12


@pytest.mark.parametrize(("n", "margin"), [(20, 0.05), (20, 0.15), (33, 0.10), (60, 0.10)])
@pytest.mark.parametrize("alpha", [0.05, 0.04, 0.01])
def test_the_exact_test_never_errs_more_often_than_its_level(
    n: int, margin: float, alpha: float
) -> None:
    """At the boundary, for shares of discordant cases on another grid than the test's own."""
    passing = [
        (b, c) for b in range(n + 1) for c in range(n + 1 - b)
        if b - c > -n * 0.6 and noninferior_p(b, c, n, margin) <= alpha
    ]  # fmt: skip
    for psi in np.linspace(margin, 1.0, 37):
        won, lost = (psi - margin) / 2, (psi + margin) / 2
        error = math.fsum(_chance(b, c, n, won, lost) for b, c in passing)
        assert error <= alpha


def _chance(b: int, c: int, n: int, won: float, lost: float) -> float:
    ways = math.comb(n, b) * math.comb(n - b, c)
    return float(ways * won**b * lost**c * max(0.0, 1.0 - won - lost) ** (n - b - c))


def test_power_is_the_sum_over_all_outcomes() -> None:
    n, margin, alpha = 24, 0.2, 0.05
    whole = math.fsum(
        _chance(b, c, n, 0.06, 0.04)
        for b in range(n + 1) for c in range(n + 1 - b)
        if noninferior_p(b, c, n, margin) <= alpha
    )  # fmt: skip
    assert success_probability(n, margin, 0.06, 0.04, alpha) == pytest.approx(whole, abs=2e-9)


@settings(max_examples=25, deadline=None)
@given(st.integers(5, 60), MARGINS, st.sampled_from([0.02, 0.1, 0.3]))
def test_no_power_exceeds_its_bound(n: int, margin: float, psi: float) -> None:
    power = success_probability(n, margin, psi / 2, psi / 2, 0.05)
    assert power <= success_bound(n, margin, psi / 2, psi / 2, 0.05) + 1e-9


@given(st.lists(st.floats(-1, 1), max_size=30), st.floats(0, 0.9))
def test_evidence_stays_positive_and_follows_the_order_of_cases(
    differences: list[float], margin: float
) -> None:
    whole = e_process(differences, margin)
    assert all(e > 0 for e in whole)
    assert whole[:5] == pytest.approx(e_process(differences[:5], margin))


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_raises_every_p_and_keeps_their_order(pvalues: list[float]) -> None:
    adjusted = holm(pvalues)
    assert all(p <= a <= 1.0 for p, a in zip(pvalues, adjusted, strict=True))
    for i, p in enumerate(pvalues):
        assert all(adjusted[i] <= adjusted[j] for j, q in enumerate(pvalues) if p < q)


PLAN = one_look(designed(5, 60), margin=0.10)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 3), st.integers(0, 9), st.integers(1, 9))
def test_a_tie_added_never_turns_reject_into_accept(won: int, lost: int, ties: int) -> None:
    def verdict(plan: GatePlan) -> str:
        return report(plan, [*fixing(plan), *sealed_blocks(plan, won=won, lost=lost)]).verdict

    bigger = one_look(designed(5, 60 + ties), margin=0.10)
    if verdict(PLAN) == "reject":
        assert verdict(bigger) != "accept"


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 4), st.integers(0, 7), st.integers(0, 3), st.randoms(use_true_random=False))
def test_the_order_of_stored_blocks_changes_nothing(
    won: int, lost: int, missing: int, rng: random.Random
) -> None:
    blocks = [*fixing(PLAN), *sealed_blocks(PLAN, won=won, lost=lost, missing=missing)]
    shuffled = blocks.copy()
    rng.shuffle(shuffled)
    assert report(PLAN, shuffled) == report(PLAN, blocks)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 64), st.integers(0, 40), st.integers(0, 9))
def test_a_killed_gate_asks_again_for_exactly_what_is_not_stored(
    seed: int, killed_at: int, kept: int
) -> None:
    plan = designed(3, 40, seed=seed)
    stored: list[Block] = []
    for _ in range(killed_at):
        step = next_step(plan, stored, spent_seconds=0.0, spent_usd=None)
        if not hasattr(step, "blocks"):
            return
        if kept < len(step.blocks):
            again = [block(todo, "fail", "pass") for todo in step.blocks[:kept]]
            rest = next_step(plan, [*stored, *again], spent_seconds=0.0, spent_usd=None)
            assert hasattr(rest, "blocks")
            assert rest.blocks[: len(step.blocks) - kept] == step.blocks[kept:]
        stored += [block(todo, "fail", "pass") for todo in step.blocks]


@given(st.sampled_from(["target", "sealed"]), st.integers(0, 24))
def test_a_run_beyond_the_plan_makes_the_gate_invalid(phase: str, which: int) -> None:
    blocks = [*fixing(PLAN), *sealed_blocks(PLAN)]
    mine = [b for b in blocks if b.phase == phase][which]
    for foreign in (replace(mine, attempt=1), replace(mine, index=99)):
        found = report(PLAN, [*blocks, foreign])
        assert (found.verdict, found.reason.split(":")[0]) == ("invalid", "plan mismatch")
