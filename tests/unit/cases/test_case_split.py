"""Which cases are sealed: whole families, drawn by a seed, and none that an editor saw."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.gate import Case, CaseId
from nodes.cases.split import split_cases
from tests.gate_worlds import case


def world(families: int, members: int = 2) -> list[Case]:
    return [
        case(f"c-{family}-{member}", "training", f"f{family}")
        for family in range(families)
        for member in range(members)
    ]


def test_a_share_of_the_families_is_sealed_whole() -> None:
    split = split_cases(world(20), (), share=0.5, seed=3)
    assert (split.chosen_families, split.free, len(split.chosen)) == (10, 10, 20)
    assert all(one.tags == {"sealed"} for one in split.chosen)
    families = {one.family for one in split.chosen}
    assert len(families) == 10


@given(
    st.integers(0, 30), st.integers(1, 3), st.floats(0, 1), st.integers(0, 99),
    st.randoms(use_true_random=False), st.sets(st.integers(0, 29)),
)  # fmt: skip
def test_a_second_split_seals_nothing_and_the_order_of_cases_changes_nothing(  # noqa: PLR0917
    families: int, members: int, share: float, seed: int, rng: object, seen: set[int]
) -> None:
    cases = world(families, members)
    shown = {CaseId(f"c-{one}-0") for one in seen}
    split = split_cases(cases, shown, share=share, seed=seed)
    shuffled = cases.copy()
    rng.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis's Random
    again = split_cases(shuffled, shown, share=share, seed=seed)
    assert {one.id for one in again.chosen} == {one.id for one in split.chosen}
    assert not {one.family for one in split.chosen} & {f"f{one}" for one in seen}
    now = {one.id: one for one in split.chosen}
    after = [now.get(one.id, one) for one in cases]
    assert split_cases(after, shown, share=share, seed=seed).chosen == ()
    total = split_cases(after, shown, share=1.0, seed=seed)
    assert {one.id for one in after if "sealed" in one.tags} | {one.id for one in total.chosen} == {
        one.id for one in cases if int(one.family[1:]) not in seen
    }


def test_another_seed_draws_others_and_a_larger_share_keeps_the_first() -> None:
    cases = world(40)
    first = {one.id for one in split_cases(cases, (), share=0.3, seed=1).chosen}
    assert first != {one.id for one in split_cases(cases, (), share=0.3, seed=2).chosen}
    assert first < {one.id for one in split_cases(cases, (), share=0.6, seed=1).chosen}


def test_families_that_an_editor_saw_stay_as_they_are() -> None:
    cases = [*world(3), case("c-t", "target", "f0"), case("c-own", "training", "f1")]
    split = split_cases(cases, {CaseId("c-own")}, share=1.0, seed=0)
    assert {one.family for one in split.chosen} == {"f2"}
    assert split.shown == 2


def test_guards_and_critical_cases_are_not_sealed_by_a_split() -> None:
    cases = [
        case("c-g", "guard", "f0"), case("c-c", "critical", "f1"),
        replace(case("c-b", "training", "f2"), tags=frozenset({"training", "critical"})),
    ]  # fmt: skip
    split = split_cases(cases, (), share=1.0, seed=0)
    assert {one.id: sorted(one.tags) for one in split.chosen} == {"c-b": ["critical", "sealed"]}


def test_a_share_is_between_none_and_all() -> None:
    with pytest.raises(ValueError, match=r"share: needs to be 0\.\.1, got 1\.5"):
        split_cases([], (), share=1.5, seed=0)
