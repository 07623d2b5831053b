"""The free self-test: sound rules stay on, whatever the data; broken ones are found out."""

from collections.abc import Iterator, Sequence
from itertools import product

import pytest
from scipy import special

from contracts.gate import Block
from nodes.gate.selftest import Counts, Stored, check_rule, lower_bound, stored_of
from nodes.gate.stats import stratified_exact_p
from tests.gate_worlds import block, designed, fixing

EFFECT = Stored(counts=((3, 0, 3),), alpha=0.05)
"""One case, 3 of 3 against 0 of 3: the real effect that dealing inside blocks would keep."""
DATA = (
    EFFECT,
    Stored(counts=((8, 0, 8), (8, 1, 8), (7, 0, 8)), alpha=0.05),
    Stored(counts=((5, 0, 5),) * 5, alpha=0.01),
    Stored(counts=((2, 1, 5), (5, 5, 5), (0, 0, 5), (3, 3, 5)), alpha=0.01),
    Stored(counts=((1, 0, 1),) * 9, alpha=0.05),
)


@pytest.mark.parametrize("data", DATA, ids=lambda one: str(len(one.counts)))
def test_the_shipped_rule_stays_on_whatever_the_effect_in_the_data(data: Stored) -> None:
    for seed in range(20):
        found = check_rule([data], seed=seed)
        assert found.off is None, seed
        assert found.deals >= 1_000


def test_many_gates_are_counted_together() -> None:
    found = check_rule(DATA, seed=1)
    assert (found.gates, found.deals, found.off) == (5, 5_000, None)
    assert found.alpha == pytest.approx((0.05 * 3 + 0.01 * 2) / 5)


def _swapped_inside_blocks(case: tuple[int, int, int]) -> Iterator[int]:
    """Passes of the candidate when arms are swapped block by block, for C first, then B passing."""
    c, b, r = case
    for swaps in product((False, True), repeat=r):
        yield sum((i < b) if swap else (i < c) for i, swap in enumerate(swaps))


def test_dealing_inside_blocks_would_switch_a_sound_gate_off() -> None:
    """The figure of the design: .125 at .05 for one case 3 of 3 against 0 of 3."""
    dealt = list(_swapped_inside_blocks(EFFECT.counts[0]))
    total = 3
    held = sum(stratified_exact_p([(k, total - k, 3)]) <= 0.05 for k in dealt)
    assert held / len(dealt) == 0.125
    assert lower_bound(125, 1_000) > 0.05  # that many of 1,000 deals would turn it off
    assert check_rule([EFFECT], seed=3).rate <= 0.06


def _repeats_as_cases(counts: Counts) -> float:
    """Broken: every repeat of a case is counted as a case with all its runs."""
    return stratified_exact_p([case for case in counts for _ in range(case[2])])


def _known_baseline(counts: Counts) -> float:
    """Broken: the baseline's rate is taken for known, as if it had no error of its own."""
    c, b, n = (sum(x) for x in zip(*((c, b, r) for c, b, r in counts), strict=True))
    rate = b / n
    return float(special.bdtrc(c - 1, n, rate)) if 0 < rate < 1 and c else float(not c)


@pytest.mark.parametrize("broken", [_repeats_as_cases, _known_baseline, lambda _: 0.0])
def test_a_broken_rule_is_found_out(broken: object) -> None:
    data = Stored(counts=((4, 1, 8), (6, 2, 8), (5, 5, 8)), alpha=0.05)
    found = check_rule([data], seed=5, rule=broken)  # type: ignore[arg-type]  # a parameter
    assert found.off is not None
    assert "the level is 0.05" in found.off
    assert found.lower > 0.05


def test_a_rule_that_errs_at_just_its_level_is_not_turned_off_by_chance() -> None:
    """At 3 of 3 against 0 of 3 the exact test errs at .05, its level: one bound would miss .05."""
    first = sum(check_rule([EFFECT], seed=seed).deals > 1_000 for seed in range(300))  # asked again
    assert first > 0
    assert all(check_rule([EFFECT], seed=seed).off is None for seed in range(300))


def test_without_gates_there_is_nothing_to_find() -> None:
    found = check_rule([], seed=0)
    assert (found.deals, found.rate, found.off) == (0, 0.0, None)


def test_the_target_results_of_a_gate_are_counted_by_case() -> None:
    plan = designed(3, 0, repeats=4)
    stored = stored_of(plan, fixing(plan))
    assert stored is not None
    assert stored.counts == ((4, 0, 4),) * 3
    assert stored.alpha == plan.target_alpha


def test_missing_runs_are_not_dealt() -> None:
    plan = designed(1, 0, repeats=3)
    lost: list[Block] = [block(plan.targets[0], "pass", "missing", attempt=a) for a in range(3)]
    stored = stored_of(plan, [*lost, block(plan.targets[0], "fail", "pass", index=1)])
    assert stored is not None
    assert stored.counts == ((1, 0, 1),)
    assert stored_of(plan, lost) is None


def test_blocks_that_are_not_of_the_plan_are_not_dealt() -> None:
    plan = designed(1, 0, repeats=3)
    assert stored_of(plan, [block(plan.targets[0], "fail", "pass", index=7)]) is None


@pytest.mark.parametrize(("held", "deals"), [(-1, 10), (11, 10)])
def test_a_share_of_nothing_is_refused(held: int, deals: int) -> None:
    with pytest.raises(ValueError, match="no share"):
        lower_bound(held, deals)


def test_the_bound_is_exact() -> None:
    """P(X >= 5 | 100, bound) = .05, the definition of Clopper and Pearson."""
    bound = lower_bound(5, 100)
    assert float(special.bdtrc(4, 100, bound)) == pytest.approx(0.05)
    assert lower_bound(0, 100) == 0.0
    counts: Sequence[int] = (1, 1)
    assert lower_bound(*counts) == pytest.approx(0.05)
