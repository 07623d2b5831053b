import asyncio
import json
from dataclasses import replace

import pytest

from configs.playbooks import load_playbooks
from contracts.json_types import Json
from contracts.traces import Trace, TraceId, TraceQuery
from nodes.insights.analyze import analyze
from nodes.insights.detect.all import detect_trace
from nodes.insights.detect.unconfirmed_write import KIND, rule_of, says_yes
from nodes.insights.detect.writes import changing_verb, stem
from tests.chat_worlds import Row, agent, call, person, rules, seen, talk
from tests.trace_worlds import MemorySource, root, span, tool, trace_of

POLICY = "Before any action that changes the database, obtain the customer's confirmation (yes)."
ASKED = "I would cancel order 7. Do you want me to proceed?"
CANCEL = call("cancel_order", {"order": "7"}, {"order": "7", "state": "cancelled"})


def unconfirmed(*rows: Row, policy: str = POLICY) -> list[str]:
    """Signatures of hits in a talk under a policy."""
    return [str(s.signature) for s in seen(talk(rules(policy), *rows), KIND)]


def test_a_write_before_any_yes_is_found_at_the_call_that_asked_for_it() -> None:
    trace = talk(rules(POLICY), person("Please get rid of order 7."), *CANCEL, agent("Done."))
    (symptom,) = seen(trace, KIND)
    where = next(one for one in trace.spans if one.id == symptom.span_id)
    assert (where.kind, symptom.signature) == ("llm", "unconfirmed_write:cancel_order")
    assert "get rid of order 7" in symptom.evidence.quote
    shown = next(one for one in trace.spans if one.id == symptom.shown_at)
    assert shown.tool_name == "cancel_order"
    assert symptom.counts


@pytest.mark.parametrize(
    "reply",
    [
        "Yes, please.", "ok", "Sure, go ahead", "I confirm", "Please proceed.", "Do it!", "oui",
        "Yeah \N{EM DASH} let\N{RIGHT SINGLE QUOTATION MARK}s get this done", "Sounds good",
        "That works for me", "\N{THUMBS UP SIGN}", "Cancel it, please", "Just that one, please",
        "I'll go with the first option", "s\u00ed", "ja, genau",
    ],
)  # fmt: skip
def test_a_yes_in_other_words_is_a_yes(reply: str) -> None:
    assert unconfirmed(person("order 7"), agent(ASKED), person(reply), *CANCEL) == []


@pytest.mark.parametrize(
    "reply",
    [
        "No, leave it.", "Which one is that?", "My number is 7.", "Don't proceed yet.",
        "That is not correct.", "I am not sure, what does it cost?", "Wait, cancel the other one",
    ],
)  # fmt: skip
def test_what_is_no_yes_is_none(reply: str) -> None:
    rows = [person("order 7"), agent(ASKED), person(reply), *CANCEL]
    assert unconfirmed(*rows) == ["unconfirmed_write:cancel_order"]


def test_a_wish_is_a_yes_only_as_an_answer_to_the_question() -> None:
    wish = person("I want to cancel all my orders, please.")
    which = agent("You have orders 7 and 8. Which would you like to cancel?")
    assert unconfirmed(person("hi"), which, wish, *CANCEL) == ["unconfirmed_write:cancel_order"]
    assert unconfirmed(person("hi"), agent(ASKED), wish, *CANCEL) == []


def test_a_yes_lasts_until_the_person_speaks_again() -> None:
    more = call("refund_order", {"order": "7"}, {"order": "7"})
    rows = [person("order 7"), agent(ASKED), person("yes"), *CANCEL, *more]
    assert unconfirmed(*rows) == []
    again = [*rows, agent("Done."), person("And add two bags to order 8."),
             *call("add_bags", {"order": "8"}, {"order": "8"})]  # fmt: skip
    assert unconfirmed(*again) == ["unconfirmed_write:add_bags"]


def test_a_retry_after_a_failure_needs_no_second_yes() -> None:
    failed = call("pay_order", {"card": "a"}, "Error: the card was declined")
    paid = call("pay_order", {"card": "b"}, {"order": "7"})
    rows = [person("order 7"), agent("Shall I pay?"), person("yes"), *failed,
            agent("The card was declined. Which other card?"), person("The one ending in 22."),
            *paid]  # fmt: skip
    assert unconfirmed(*rows) == []
    worked = call("pay_order", {"card": "a"}, {"order": "7"})
    assert unconfirmed(*rows[:3], *worked, *rows[5:]) == ["unconfirmed_write:pay_order"]


@pytest.mark.parametrize(
    "policy",
    [
        "You are a helpful agent.",
        "Confirm the customer's identity before you answer.",
        "Customers get a confirmation by mail once an order was changed.",
        "An order can be cancelled before it ships.",
    ],
)
def test_without_such_a_rule_nothing_is_asked_for(policy: str) -> None:
    assert unconfirmed(person("get rid of order 7"), *CANCEL, policy=policy) == []


def test_a_rule_about_named_verbs_covers_those_alone() -> None:
    policy = "You must get explicit confirmation from the user before refunding a payment."
    refund = call("refund_payment", {"id": "1"}, {"id": "1"})
    assert unconfirmed(person("order 7"), *CANCEL, policy=policy) == []
    assert unconfirmed(person("order 7"), *refund, policy=policy) == [
        "unconfirmed_write:refund_payment"
    ]


def test_reading_needs_no_yes() -> None:
    names = ("get_order", "search_flights", "list_changes", "calculate", "transfer_to_human")
    rows = [row for name in names for row in call(name, {"a": name}, {"b": 1})]
    assert unconfirmed(person("order 7"), *rows) == []


def test_a_run_without_a_person_is_left_alone() -> None:
    assert unconfirmed(*CANCEL) == []


def resent(*, reply: str) -> Trace:
    """The same talk as spans whose calls carry the whole history each time."""
    history: list[tuple[str, str]] = [("system", POLICY), ("user", "order 7")]

    def model(number: int, said: str, asks: str = "") -> dict[str, Json]:
        also: dict[str, Json] = {"llm__output_messages__0__message__role": "assistant",
                                 "llm__output_messages__0__message__content": said,
                                 "output__value": said}  # fmt: skip
        for place, (role, content) in enumerate(history):
            also[f"llm__input_messages__{place}__message__role"] = role
            also[f"llm__input_messages__{place}__message__content"] = content
        if asks:
            key = "llm__output_messages__0__message__tool_calls__0__tool_call__function"
            also[f"{key}__name"] = asks
            also[f"{key}__arguments"] = json.dumps({"order": "7"})
        also = {name.replace("__", "."): value for name, value in also.items()}
        return span(number, "LLM", "chat", also=also)

    first = model(1, ASKED)
    history += [("assistant", ASKED), ("user", reply)]
    second = model(2, "", asks="cancel_order")
    return trace_of(root(), first, second, tool(3, "cancel_order", {"order": "7"}, {"order": "7"}))


def test_a_history_that_is_sent_again_is_read_as_one_talk() -> None:
    assert seen(resent(reply="yes"), KIND) == []
    (symptom,) = seen(resent(reply="Which order is that?"), KIND)
    assert symptom.signature == "unconfirmed_write:cancel_order"


def test_equal_talks_give_equal_symptoms() -> None:
    trace = resent(reply="hm")
    assert detect_trace(trace) == detect_trace(trace)


@pytest.mark.parametrize(
    ("name", "verb"),
    [
        ("cancelOrder", "cancel"), ("update_reservation_flights", "updat"),
        ("orders.delete", "delet"), ("get_update_history", None), ("calculate", None),
        ("transfer_to_human_agents", None), ("transfer_funds", "transfer"), ("frobnicate", None),
        ("order_status", None), ("return_policy", None), ("book_reservation", "book"),
        ("orders.update", "updat"), ("get_order_details", None), ("refund_history", None),
        ("lookup_order", None), ("return_delivered_order_items", "return"), ("set_address", "set"),
    ],
)  # fmt: skip
def test_what_a_tool_does_is_told_by_its_verb(name: str, verb: str | None) -> None:
    assert changing_verb(name) == verb


@pytest.mark.parametrize(
    "words",
    [("modify", "modifying", "modified"), ("cancel", "cancelled", "cancelling", "canceled"),
     ("book", "booking", "books"), ("update", "updates", "updating"), ("refund", "refunded")],
)  # fmt: skip
def test_forms_of_one_verb_have_one_stem(words: tuple[str, ...]) -> None:
    assert len({stem(word) for word in words}) == 1


def test_the_rule_is_found_in_a_wrapped_list_of_rules() -> None:
    text = (
        "- Greet people.\n- Before taking consequential actions that update the database "
        "(cancel, modify,\nreturn), you have to list the details and obtain explicit user\n"
        "confirmation (yes) to proceed.\n- Be brief."
    )
    rule = rule_of(text)
    assert rule is not None
    assert rule.anything
    assert says_yes("I'd like to go with that", "Please confirm which one", "cancel")


def test_a_finding_of_it_is_for_the_instructions_and_has_a_playbook() -> None:
    rows = [rules(POLICY), person("I do not like order 7."), *CANCEL, agent("Done.")]
    traces = [
        replace(talk(*rows), id=TraceId(f"{number:032x}"), session_id=f"s{number}")
        for number in range(3)
    ]
    analysis = asyncio.run(analyze(MemorySource(traces), TraceQuery(), project="talks"))
    (finding,) = [one for one in analysis.findings if one.kind == KIND]
    assert (finding.units, finding.diagnosis.cause) == (3, "no_consent")
    assert finding.remedy == "instructions"
    books = [book for book in load_playbooks() if book.when.cause == "no_consent"]
    assert [book.id for book in books] == ["ask-before-changing"]
    assert finding.diagnosis.parameters["tool"] == "cancel_order"
