"""The interrupt speaks LangChain's human-in-the-loop shape."""

from typing import Any

import pytest
from langchain.agents.middleware.human_in_the_loop import HITLRequest
from pydantic import TypeAdapter, ValidationError

from connectors.review.card import ReviewCard
from connectors.review.payload import ResumeAnswer, hitl_request
from contracts.codec import from_json
from contracts.proposals import CardKind
from tests.card_worlds import RETRY, card

TEXTS = {RETRY.path: RETRY.text}


def test_langchain_takes_the_payload_for_its_own() -> None:
    payload = hitl_request(card(), TEXTS)
    request: Any = TypeAdapter(HITLRequest).validate_python(payload)
    (action,) = request["action_requests"]
    assert action["args"]["text:" + RETRY.path] == RETRY.text
    assert action["description"].startswith("# p-4k7q2m6xza r1")
    assert request["review_configs"] == [
        {"action_name": "apply_proposal", "allowed_decisions": ["approve", "edit", "reject"]}
    ]


def test_the_payload_carries_the_card_and_its_hash() -> None:
    shown = card()
    payload: Any = hitl_request(shown, TEXTS)
    assert from_json(ReviewCard, payload["card"]) == shown
    args = payload["action_requests"][0]["args"]
    assert (args["proposal_hash"], args["revision"]) == (shown.proposal_hash, 1)
    assert all(isinstance(value, str | int) for value in args.values())


@pytest.mark.parametrize("kind", ["override", "undo"])
def test_a_second_card_cannot_be_edited(kind: CardKind) -> None:
    payload: Any = hitl_request(card(kind), TEXTS)
    assert payload["review_configs"][0]["allowed_decisions"] == ["approve", "reject"]
    assert not [k for k in payload["action_requests"][0]["args"] if k.startswith("text:")]


def test_a_text_with_a_secret_does_not_leave() -> None:
    key = "sk-" + "proj-" + "0123456789abcdef0123456789abcdef"
    payload: Any = hitl_request(card(), {"a.md": f"use {key}", "b.md": "fine"})
    args = payload["action_requests"][0]["args"]
    assert "text:a.md" not in args
    assert args["text:b.md"] == "fine"


@pytest.mark.parametrize(
    "answer",
    [
        {"decisions": [{"type": "approve"}]},
        {"decisions": [{"type": "reject", "message": "wrong_fix: no"}], "by": "mara"},
        {"decisions": [{"type": "edit", "edited_action": {"name": "x", "args": {"text:a": "b"}}}]},
    ],
)
def test_what_clients_send_is_taken(answer: object) -> None:
    assert ResumeAnswer.model_validate(answer).decisions[0].type


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({}, "Field required"),
        ({"decisions": []}, "at least 1 item"),
        ({"decisions": [{"type": "approve"}, {"type": "approve"}]}, "at most 1 item"),
        ({"decisions": [{"type": "respond", "message": "yes"}]}, "'approve', 'edit' or 'reject'"),
        ({"decisions": [{"type": "edit"}]}, "an edit needs `edited_action`"),
        ("yes", "valid dictionary"),
        ({"decisions": "approve"}, "valid list"),
    ],
)
def test_what_is_no_single_typed_decision_is_refused(answer: object, problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        ResumeAnswer.model_validate(answer)
