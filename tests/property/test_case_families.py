"""Families: near duplicates are one case, whatever the order they come in."""

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from contracts.gate import Case, CaseId
from memory.families import NEAR, assign_families, family_key

WORDS = st.lists(
    st.sampled_from(["refund", "parcel", "order", "A-1", "late", "please", "where", "7"]),
    min_size=1, max_size=9,
)  # fmt: skip


def _cases(texts: list[str], family: str = "") -> list[Case]:
    return [
        Case(
            id=CaseId(f"c{i}"), input={"message": text}, assertions=({"not_empty": True},),
            tags=frozenset({"sealed"}), family=family, origin="file:x",
        )
        for i, text in enumerate(texts)
    ]  # fmt: skip


def _families(texts: list[str]) -> list[str]:
    return [case.family for case in assign_families(_cases(texts))]


@given(st.lists(WORDS, max_size=12), st.randoms(use_true_random=False))
def test_the_order_of_cases_changes_no_family(words: list[list[str]], rng: random.Random) -> None:
    cases = _cases([" ".join(each) for each in words])
    shuffled = cases.copy()
    rng.shuffle(shuffled)
    expected = {case.id: case.family for case in assign_families(cases)}
    assert {case.id: case.family for case in assign_families(shuffled)} == expected


@given(st.lists(WORDS, min_size=2, max_size=8))
def test_two_cases_that_are_that_alike_share_their_family(words: list[list[str]]) -> None:
    texts = [" ".join(each) for each in words]
    families = _families(texts)
    for i, one in enumerate(texts):
        for j, other in enumerate(texts[:i]):
            if _alike(one, other) >= NEAR:
                assert families[i] == families[j]


@given(st.lists(WORDS, max_size=10))
def test_only_a_chain_of_cases_that_are_that_alike_shares_its_family(
    words: list[list[str]],
) -> None:
    """The same families as comparing every pair with every other would draw."""
    texts = [" ".join(each) for each in words]
    group = list(range(len(texts)))
    for i, one in enumerate(texts):
        for j, other in enumerate(texts[:i]):
            if _alike(one, other) >= NEAR:
                kept, gone = group[j], group[i]
                group = [kept if mark == gone else mark for mark in group]
    families = _families(texts)
    assert len(set(zip(group, families, strict=True))) == len(set(group)) == len(set(families))


def test_texts_without_blanks_differ_in_more_than_their_numbers() -> None:
    refund, address = "注文1042を返金してください", "注文1042の住所を変更してください"
    families = _families([refund, refund.replace("1042", "77"), address])
    assert families[0] == families[1] != families[2]


def test_a_long_text_without_blanks_is_read_at_once() -> None:
    """Not in a time that grows with its square: that would take the rest of the day."""
    assert len(_families(["x" * 400_000, "y" * 400_000])) == 2


def _alike(one: str, other: str) -> float:
    sets = []
    for text in (one, other):
        key = family_key({"message": text})
        sets.append({key[i : i + 5] for i in range(max(1, len(key) - 4))})
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


def test_requests_that_differ_in_a_number_are_one_family_and_others_are_not() -> None:
    families = _families(
        ["Refund order A-1042", "refund  order B-7", "Where is my parcel?", "Cancel my order 5"]
    )
    assert families[0] == families[1]
    assert len(set(families)) == 3


def test_a_family_that_the_operator_named_stays_and_takes_in_its_near_duplicates() -> None:
    named = [replace(case, family=name) for case, name in zip(
        _cases(["Refund order A-1042", "Refund order A-1043"]), ("x", "y"), strict=True
    )]  # fmt: skip
    found = assign_families([*named, replace(_cases(["Refund order A-9"])[0], id=CaseId("z"))])
    assert [case.family for case in found] == ["x", "y", "x"]
