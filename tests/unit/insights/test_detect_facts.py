"""Changes that were not applied, actions that nobody took, figures and sums that do not hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.json_types import Json
from nodes.insights.detect import (
    change_not_applied,
    claimed_action,
    unsupported_numbers,
    wrong_arithmetic,
)
from nodes.insights.detect.figures import Known, figures
from nodes.insights.detect.wrong_arithmetic import wrong_equations
from tests.chat_worlds import Row, agent, call, person, rules, seen, talk

OLD: dict[str, Json] = {"order_id": "7", "cabin": "basic_economy", "bags": 1, "insured": False}


def lost(asked: dict[str, Json], answer: Json, *, tool: str = "update_order") -> list[str]:
    """Signatures of changes that an answer does not have."""
    rows = [person("hi"), *call("get_order", {"order_id": "7"}, OLD),
            *call(tool, {"order_id": "7", **asked}, answer), agent("Done.")]  # fmt: skip
    return [str(s.signature) for s in seen(talk(*rows), change_not_applied.KIND)]


@pytest.mark.parametrize(
    ("asked", "code"),
    [({"cabin": "economy"}, "cabin"), ({"bags": 3}, "bags"), ({"insured": True}, "insured")],
)
def test_an_answer_that_still_has_the_old_value_is_found(asked: dict[str, Json], code: str) -> None:
    assert lost(asked, OLD) == [f"change_not_applied:update_order:{code}"]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ({"cabin": "Basic Economy"}, OLD),
        ({"cabin": "economy"}, {**OLD, "cabin": "Economy"}),
        ({"cabin": "economy"}, {**OLD, "order_id": "8"}),
        ({"cabin": "economy"}, {"order_id": "7"}),
        ({"cabin": "economy"}, {**OLD, "cabin": "business"}),
        ({"status": "closed"}, {**OLD, "status": "ok"}),
        ({"bags": 1.0}, OLD),
        ({"cabin": "economy"}, "Error: no such order"),
    ],
)
def test_another_way_of_writing_or_another_thing_is_no_lost_change(
    asked: dict[str, Json], answer: Json
) -> None:
    assert lost(asked, answer) == []


def test_a_reader_changes_nothing() -> None:
    assert lost({"cabin": "economy"}, OLD, tool="search_order") == []


def test_a_lost_change_is_a_hint_at_the_tool() -> None:
    rows = [person("hi"), *call("get_order", {"order_id": "7"}, OLD),
            *call("update_order", {"order_id": "7", "cabin": "economy"}, OLD)]  # fmt: skip
    trace = talk(*rows)
    (symptom,) = seen(trace, change_not_applied.KIND)
    where = next(one for one in trace.spans if one.id == symptom.span_id)
    assert where.tool_name == "update_order"
    assert not symptom.counts


LOOK = call("get_order", {"order_id": "7"}, OLD)


def claimed(said: str, *before: Row) -> list[str]:
    """Signatures of claims that nothing backs."""
    trace = talk(person("Please help me with order 7."), *(before or LOOK), agent(said))
    return [str(s.signature) for s in seen(trace, claimed_action.KIND)]


@pytest.mark.parametrize(
    "said",
    [
        "Your order has been cancelled.",
        "Good news! I've successfully cancelled order 7.",
        "The order is now successfully canceled. Anything else?",
    ],
)
def test_a_claim_without_any_tool_for_it_is_found(said: str) -> None:
    assert claimed(said) == ["claimed_action:agent:cancel"]


@pytest.mark.parametrize(
    "said",
    [
        "Your order has not been cancelled.",
        "Has your order been cancelled?",
        "Once it has been cancelled, you get a refund.",
        "I can cancel the order for you.",
        "The flight has been cancelled by the airline.",
        "If your order has been cancelled, tell me.",
        "Your order has already been cancelled.",
        "You have cancelled order 7.",
        "I've looked at order 7, it has been delivered.",
    ],
)
def test_questions_conditions_and_others_deeds_are_no_claims(said: str) -> None:
    assert claimed(said) == []


def test_a_tool_of_the_same_family_backs_a_claim() -> None:
    done = call("delete_order", {"order_id": "7"}, {"order_id": "7"})
    assert claimed("Your order has been cancelled, and $5 have been refunded.", *done) == []
    failed = call("delete_order", {"order_id": "7"}, "Error: order 7 is locked")
    assert claimed("Your order has been cancelled.", *failed) == ["claimed_action:agent:cancel"]
    other = call("send_mail", {"to": "a"}, {"ok": True})
    assert claimed("Your order has been cancelled.", *other) == ["claimed_action:agent:cancel"]


@pytest.mark.parametrize("tool", ["tool", "run_python", "execute", "mcp_proxy"])
def test_a_tool_that_may_do_anything_backs_every_claim(tool: str) -> None:
    assert claimed("Your order has been cancelled.", *call(tool, {"x": 1}, "ok")) == []


def test_a_run_whose_tools_are_not_recorded_is_left_alone() -> None:
    said = agent("Your order has been cancelled.")
    assert seen(talk(person("Cancel order 7"), said), claimed_action.KIND) == []


def test_what_a_tool_answered_may_be_told() -> None:
    read = call("get_order", {"order_id": "7"}, {**OLD, "state": "cancelled by the shop"})
    assert claimed("I see that your order has been cancelled.", *read) == []


def test_what_the_person_said_may_be_said_again() -> None:
    rows = [person("My order has been cancelled, why?"), *LOOK,
            agent("I see that your order has been cancelled.")]  # fmt: skip
    assert seen(talk(*rows), claimed_action.KIND) == []


def strange(said: str, *before: Row) -> list[str]:
    """Quotes of figures that nothing accounts for."""
    trace = talk(rules("Prices are in dollars."), person("What is 120 off 500?"), *before,
                 agent(said))  # fmt: skip
    return [s.evidence.quote for s in seen(trace, unsupported_numbers.KIND)]


def test_a_figure_from_nowhere_is_a_hint_with_its_words() -> None:
    (quote,) = strange("Seattle has 737,015 people and the fee is $41.")
    assert quote.startswith("737,015, $41: Seattle has")


PRICES = call("get_prices", {"of": "x"}, {"a": 152.5, "b": 40, "seats": 3, "id": "HAT20231",
                            "birds": "59 million", "pi": "3.14159265358979323846"})  # fmt: skip


@pytest.mark.parametrize(
    "said",
    [
        "It is 380.", "That makes $192.50.", "The difference is $112.50.", "Three are $457.50.",
        "About 153 each.", "In 2021, on 2021-05-04 at 10:30, see order #9931.", "Step 300: none",
        "Visa ending in 4711.", "`x = 7777`", "See https://a.example/7777 for 7777.",
        "100% sure, 1000 times", "A 26.23% share", "3.8125 times as much", "152.5 / 7 = 21.786",
        "Item HAT7777 is gone", "1. a\n2. b", "a 152.5, b 40: total 192.5", "0.2 of them",
        "59,000,000 birds", "Pi is 3.1416",
    ],
)  # fmt: skip
def test_what_was_said_or_follows_in_one_step_is_accounted_for(said: str) -> None:
    assert strange(said, *PRICES) == []


def test_the_words_with_which_a_run_begins_are_its_task() -> None:
    trace = talk(rules("x"), agent("Plan: split 7,411 items."), person("ok"), agent("7,411 it is."))
    assert seen(trace, unsupported_numbers.KIND) == []


def test_a_figure_is_reported_where_it_came_up_first() -> None:
    rows = [person("hi"), agent("It weighs 7,411 kg."), person("really?"), agent("7,411 kg.")]
    trace = talk(*rows)
    (symptom,) = seen(trace, unsupported_numbers.KIND)
    assert symptom.span_id == next(s.id for s in trace.spans if s.kind == "llm")
    assert not symptom.counts


@given(st.floats(0.01, 1e9), st.floats(0.01, 1e9))
def test_a_number_that_was_said_is_always_accounted_for(one: float, two: float) -> None:
    known = Known()
    known.add(f"a {one:.2f} b {two:.2f}")
    assert known.accounts_for(float(f"{one:.2f}"))
    assert known.accounts_for(float(f"{two:.2f}"))


def test_an_answer_of_many_figures_is_bounded() -> None:
    said = " ".join(f"{number}.{number % 97:02}" for number in range(1_000, 21_000))
    assert len(strange(said)) == 1


@given(st.text(max_size=300))
def test_figures_never_fail_and_keep_their_place(text: str) -> None:
    for figure in figures(text):
        assert text[figure.start :].startswith(figure.text)


@pytest.mark.parametrize(
    "said",
    ["$300 - $99 = -$201", "so 12 * 12 = 142 in all", "2 + 3 + 4 = 10", "1,000 - 1 = 998",
     "10 / 4 = 5.5", "2 + 3 \u00d7 4 = 20"],
)  # fmt: skip
def test_an_equation_that_does_not_come_out_is_found(said: str) -> None:
    trace = talk(person("hi"), agent(f"We get {said}."))
    (symptom,) = seen(trace, wrong_arithmetic.KIND)
    assert not symptom.counts


@pytest.mark.parametrize(
    "said",
    [
        "$300 - $99 = $201", "12 * 12 = 144", "10 / 3 = 3.33", "10 / 4 = 3", "2 + 3 \u00d7 4 = 14",
        "x + 3 = 10", "f(2) + 3 = 10", "2^3 + 1 = 10", "1 + 2 = 3 + 4", "about 2 + 3 = 6",
        "`2 + 2 = 5`", "```\n2 + 2 = 5\n```", "5 + 10% = 6", "1.5 - 0.25 = 1.25", "2024-05-01 = 7",
        "7 / 0 = 3", "(2 + 3) * 4 = 20", "3 * 4 = 12 * 1", "1 + 1 = 2.0",
    ],
)  # fmt: skip
def test_an_equation_that_comes_out_or_cannot_be_read_is_left_alone(said: str) -> None:
    assert list(wrong_equations(f"We get {said}")) == []


@pytest.mark.parametrize("text", ["1 + " * 20_000, "9" * 50_000, "1 " * 30_000, "$" * 30_000])
def test_hostile_texts_take_linear_time(text: str) -> None:
    list(wrong_equations(text))
    list(figures(text))
    list(claimed_action.claims(text))
