"""Cases become items of a dataset and come back; what others made becomes a case or is refused."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.datasets import DatasetItem
from contracts.gate import Case, CaseId
from contracts.json_types import Json, JsonObject
from nodes.cases.exchange import OURS, Unusable, case_of, cases_of, item_of, items_of

ADDRESS = "langfuse:regressions"

CASE = Case(
    id=CaseId("c-refund"),
    input={"message": "Refund order A-1042"},
    assertions=({"no_symptom": "tool_timeout:pay"}, {"contains": "queued"}),
    tags=frozenset({"training", "critical"}),
    family="refunds",
    origin="trace:4ff0f2c4ab98",
    issue="tool_timeout:pay:504",
)


def item(expected: Json, **metadata: Json) -> DatasetItem:
    return DatasetItem(id="i-1", input={"q": "?"}, expected=expected, metadata=metadata)


def test_a_case_comes_back_as_it_left() -> None:
    assert case_of(item_of(CASE), ADDRESS) == CASE


def test_an_item_tells_other_tools_what_is_expected_and_where_it_came_from() -> None:
    left = item_of(CASE)
    assert (left.expected, left.source_trace) == ("queued", "4ff0f2c4ab98")


@pytest.mark.parametrize(
    ("expected", "assertion"),
    [
        ("refund", {"equals": "refund"}),
        ({"label": "refund"}, {"equals": {"label": "refund"}}),
        ({"state": "queued", "n": 2}, {"equals": {"state": "queued", "n": 2}}),
        ([1, 2], {"equals": [1, 2]}),
        (True, {"equals": True}),
        (42, {"number": 42}),
        ("The refund is queued.", {"contains": "The refund is queued."}),
        ({"answer": " The refund is queued. "}, {"contains": "The refund is queued."}),
    ],
)
def test_an_expected_output_becomes_what_a_second_run_can_meet(
    expected: Json, assertion: JsonObject
) -> None:
    assert case_of(item(expected), ADDRESS).assertions == (assertion,)


@pytest.mark.parametrize(
    ("expected", "why"),
    [
        (None, "no expected output"),
        ("", "no expected output"),
        (" \n", "blank"),
        ("word " * 100, "a text of 499 characters, which no second run repeats"),
        ("two\nlines", "a text of 9 characters"),
        ({"a": "x" * 301, "b": 1}, "a structure of 315 bytes with whole texts"),
        ([1] * 2000, "a structure of"),
    ],
)
def test_what_no_second_run_could_be_held_to_is_refused_with_the_reason(
    expected: Json, why: str
) -> None:
    found = cases_of([item(expected)], ADDRESS)
    assert found.cases == ()
    ((name, reason),) = found.refused
    assert name == "i-1"
    assert why in reason


def test_an_item_without_our_key_trains_unless_told_otherwise() -> None:
    assert case_of(item("yes"), ADDRESS).tags == {"training"}
    assert case_of(item("yes"), ADDRESS, tags=frozenset({"guard"})).tags == {"guard"}
    assert case_of(item("yes"), ADDRESS).origin == f"dataset:{ADDRESS}"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"assert": []}, "no list of assertions"),
        ({"assert": [{"equal": 1}]}, "nearest known key is 'equals'"),
        ({"assert": [{"python": "os.system"}]}, "taken from files only"),
        ({"assert": [{"contains": "x"}] * 51}, "at most 50"),
        ({"assert": "contains"}, "no list"),
    ],
)
def test_assertions_that_others_wrote_are_not_trusted(said: Json, why: str) -> None:
    with pytest.raises(Unusable, match=why):
        case_of(item("yes", **{OURS: said}), ADDRESS)


def test_strange_names_and_tags_of_others_are_dropped() -> None:
    said: Json = {"id": "c-\x1b[31m", "tags": ["sealed", "root", 5], "family": "x" * 121,
                  "issue": ["a"]}  # fmt: skip
    found = case_of(item("yes", **{OURS: said}), ADDRESS)
    assert found.tags == {"sealed"}
    assert found.id.startswith("c-")
    assert "\x1b" not in found.id
    assert (found.family, found.issue) == ("", None)


def test_sealed_cases_stay_unless_somebody_says_so() -> None:
    sealed = replace(CASE, tags=frozenset({"sealed"}))
    held = items_of([CASE, sealed])
    assert ([one.id for one in held.items], held.sealed) == (["c-refund"], 1)
    assert len(items_of([sealed], sealed=True).items) == 1


def test_secrets_are_masked_before_a_case_leaves() -> None:
    secret = "sk-" + "a1B2" * 8
    risky = replace(CASE, input={"message": f"use {secret}"}, assertions=({"contains": secret},))
    left = items_of([risky, CASE])
    assert secret not in str(left.items)
    assert left.masked == 1


def test_an_item_that_was_changed_at_the_vendor_is_named() -> None:
    left = item_of(CASE)
    said = left.metadata[OURS]
    assert isinstance(said, dict)
    changed = replace(left, metadata={OURS: {**said, "assert": [{"contains": "paid"}]}})
    assert cases_of([left], ADDRESS).changed == ()
    assert cases_of([changed], ADDRESS).changed == (CASE.id,)


def test_two_items_of_one_case_are_one() -> None:
    found = cases_of([item("yes"), item("yes"), item("no")], ADDRESS)
    assert len(found.cases) == 1
    assert [why for _, why in found.refused] == [
        f"another item is the case {found.cases[0].id} too"
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON, JSON)
def test_whatever_stands_in_an_item_is_a_case_or_a_reason(
    asked: Json, expected: Json, said: Json
) -> None:
    given_item = DatasetItem(id="i", input=asked, expected=expected, metadata={OURS: said})
    found = cases_of([given_item], ADDRESS)
    assert len(found.cases) + len(found.refused) == 1
