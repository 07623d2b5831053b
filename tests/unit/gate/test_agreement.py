"""A judge grades only while it agrees with people by more than chance, and steadily."""

import pytest

from nodes.gate.agreement import Agreement, agreement, majority, too_little, votes


def pairs(yes_yes: int, yes_no: int, no_yes: int, no_no: int) -> list[tuple[bool, bool | None]]:
    return [
        *[(True, True)] * yes_yes, *[(True, False)] * yes_no,
        *[(False, True)] * no_yes, *[(False, False)] * no_no,
    ]  # fmt: skip


def test_kappa_is_that_of_a_published_table() -> None:
    # Two raters, 45 / 15 / 25 / 15: observed .60, by chance .54, kappa .1304.
    found = agreement(pairs(45, 15, 25, 15))
    assert found.kappa == pytest.approx(0.130435, abs=1e-6)
    assert found.lower == pytest.approx(0.130435 - 1.959964 * 0.106496, abs=1e-4)
    assert (found.labels, found.agree) == (100, 60)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (agreement(pairs(20, 2, 2, 20)), "44 labelled answers graded, at least 50"),
        (agreement(pairs(45, 15, 25, 15)), "kappa 0.13 with people, at least 0.60"),
        (agreement(pairs(60, 0, 0, 0)), "cannot be told from chance"),
        (agreement(pairs(40, 3, 2, 6)), "may be as low as"),
        (agreement([(True, None)] * 80), "0 labelled answers graded"),
    ],
)
def test_a_judge_that_is_not_sure_to_agree_may_not_grade(found: Agreement, why: str) -> None:
    said = too_little(found)
    assert said is not None
    assert why in said


def test_a_judge_that_agrees_may_grade() -> None:
    assert too_little(agreement(pairs(30, 3, 3, 30))) is None


def test_an_unsteady_judge_is_asked_three_times() -> None:
    assert votes(19, 19) == 1  # too few to say
    assert votes(40, 2) == 1
    assert votes(40, 3) == 3


def test_a_majority_needs_more_than_half_of_all_that_were_asked() -> None:
    assert majority([True, True, False]) is True
    assert majority([False, None, False]) is False
    assert majority([True, None, None]) is None
    assert majority([True, False, None]) is None
