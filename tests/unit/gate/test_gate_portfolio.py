"""e-BH over the e-values of tested edits."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.gate.portfolio import portfolio
from nodes.gate.stats import e_process


def test_one_edit_survives_from_ten_on() -> None:
    assert portfolio({"a": 10.0}).survive == ("a",)
    assert portfolio({"a": 9.99}).survive == ()


def test_several_strong_edits_help_each_other() -> None:
    """Three edits: 30 alone, 15 each for two, 10 each for three."""
    assert portfolio({"a": 15.0, "b": 16.0, "c": 1.0}).survive == ("b", "a")
    assert portfolio({"a": 15.0, "b": 2.0, "c": 1.0}).survive == ()
    found = portfolio({"a": 10.0, "b": 10.0, "c": 10.0})
    assert found.survive == ("a", "b", "c")
    assert found.needed is None


def test_a_weaker_edit_comes_through_with_a_later_step() -> None:
    """The largest k counts, although its smaller ones fail: 12 < 20, and yet 11, 12 >= 10."""
    assert portfolio({"a": 12.0, "b": 11.0}).survive == ("a", "b")


def test_the_last_step_that_holds_counts_and_not_the_first() -> None:
    assert portfolio({"a": 25.0, "b": 12.0}).survive == ("a", "b")


def test_what_was_not_run_is_neither_shown_nor_counted() -> None:
    found = portfolio({"a": 10.0, "b": None, "c": None})
    assert (found.survive, found.untested) == (("a",), ("b", "c"))


def test_it_says_what_the_next_one_needed() -> None:
    found = portfolio({"a": 25.0, "b": 3.0})
    assert (found.survive, found.others, found.needed) == (("a",), ("b",), 10.0)
    assert found.in_words().startswith("1 of 2 tested edits")
    assert "No edit was tested" in portfolio({}).in_words()


@pytest.mark.parametrize("bad", [-0.1, float("nan")])
def test_what_is_no_e_value_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="at least 0"):
        portfolio({"a": bad})
    with pytest.raises(ValueError, match="between 0 and 1"):
        portfolio({"a": 1.0}, share=0.0)


@given(st.dictionaries(st.text(max_size=3), st.floats(0, 1e6) | st.none(), max_size=8))
def test_every_edit_is_told_once_and_stronger_ones_first(e_values: dict[str, float | None]) -> None:
    found = portfolio(e_values)
    told = (*found.survive, *found.others, *found.untested)
    assert sorted(told) == sorted(e_values)
    strengths = [e_values[name] or 0.0 for name in (*found.survive, *found.others)]
    assert strengths == sorted(strengths, reverse=True)
    if found.survive:
        weakest = min(e_values[name] or 0.0 for name in found.survive)
        tested = len(found.survive) + len(found.others)
        assert weakest * len(found.survive) * 0.1 >= tested * (1 - 1e-9)


def test_of_harmful_edits_on_one_sealed_set_few_are_shown() -> None:
    """Eight edits that each lose the margin on the same 60 cases: the share of false claims."""
    false = 0
    for number in range(200):
        rng = random.Random(number)  # noqa: S311  # a simulation
        hard = [rng.random() for _ in range(60)]  # the cases that the edits have in common
        e_values = {
            f"edit {i}": e_process([-float(rng.random() < 0.2 * h) for h in hard], 0.10)[-1]
            for i in range(8)
        }
        false += bool(portfolio(e_values).survive)
    assert false <= 200 * 0.10 + 3 * (200 * 0.1 * 0.9) ** 0.5
