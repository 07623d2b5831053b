"""Prints of texts: whether one stands in another is told from hashes alone."""

from hypothesis import given
from hypothesis import strategies as st

from nodes.textprint import (
    KEPT,
    Print,
    covered,
    overlap,
    packed,
    print_of,
    runs_of,
    unpacked,
    words_of,
)

RULES = (
    "Look an order up before you talk about it. Never promise a delivery date. "
    "When the payment service is busy, say so and queue the refund for later."
)


def long_text(words: int, seed: int = 7) -> str:
    return " ".join(f"w{(n * 7919 + seed) % 9973}" for n in range(words))


def test_a_text_stands_in_one_that_quotes_it() -> None:
    sent = print_of(runs_of(f"You are a clerk. {RULES} Today is Monday, the customer is C-1."))
    assert overlap(runs_of(RULES), sent).contained
    assert overlap(runs_of(RULES), sent).share == 1.0


def test_a_text_does_not_stand_in_another_one() -> None:
    sent = print_of(runs_of(long_text(500)))
    assert not overlap(runs_of(RULES), sent).contained


def test_a_short_file_is_found_in_a_long_text_by_the_kept_hashes_alone() -> None:
    text = long_text(4_000)
    sent = print_of(runs_of(text))
    assert len(sent.lowest) == KEPT < sent.runs
    inside = " ".join(text.split()[1_000:1_300])
    assert overlap(runs_of(inside), sent).contained


def test_too_little_to_compare_is_unknown_and_not_absent() -> None:
    text = long_text(9_000)
    few = overlap(runs_of(" ".join(text.split()[50:56])), print_of(runs_of(text)))
    assert not few.known
    assert not few.contained


def test_three_runs_are_enough_where_nothing_was_left_out() -> None:
    sent = print_of(runs_of("Answer in one short sentence and then stop."))
    assert overlap(runs_of("Answer in one short sentence"), sent).contained


def test_filled_holes_do_not_hide_a_template() -> None:
    template = RULES.replace("an order", "{{order_id}}").replace("later", "{when}")
    sent = print_of(runs_of(RULES))
    assert overlap(runs_of(template, template=True), sent).share == 1.0
    assert overlap(runs_of(template), sent).share < 1.0


def test_case_and_line_ends_do_not_matter() -> None:
    assert runs_of(RULES.upper().replace(" ", "\r\n")) == runs_of(RULES)


def test_a_text_in_chinese_has_as_many_words_as_letters() -> None:
    assert len(words_of("退款前请先查询订单")) == 9


@given(st.text(max_size=400))
def test_a_print_survives_being_packed(text: str) -> None:
    made = print_of(runs_of(text))
    assert unpacked(packed(made)) == made


@given(st.text(max_size=60))
def test_what_is_no_print_is_none(text: str) -> None:
    found = unpacked(text)
    assert found is None or isinstance(found, Print)


def test_every_text_stands_whole_in_itself() -> None:
    for size in (5, 100, 3_000):
        text = long_text(size)
        assert covered(print_of(runs_of(text)), runs_of(text)).share == 1.0
