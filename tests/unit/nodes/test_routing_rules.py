"""Routing: requests are checked, equal alerts are one key, triage prefers what text can fix."""

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.errors import UsageError
from contracts.findings import Diagnosis, Finding, FindingId, Remedy, Signature
from nodes.handoff import ticket, why_text_cannot
from nodes.router import alert_key, checked_request, incident_key, triage
from nodes.watch import FEW, counted

NOW = datetime(2026, 11, 30, tzinfo=UTC)


def finding(
    name: str = "f-1", *, remedies: tuple[Remedy, ...] = ("skill",), actionable: bool = True
) -> Finding:
    return Finding(
        id=FindingId(name), kind="tool_timeout", signature=Signature(f"tool_timeout:{name}:504"),
        title=f"{name} does not answer", units=19, units_total=150, rate=(0.08, 0.127, 0.19),
        baseline_units=0, baseline_total=150, change="new", p_holm=0.001, severity="high",
        diagnosis=Diagnosis(
            cause="tool_timeout", remedies=remedies, confidence=0.8, summary="It gives up.",
            falsifier="A second call fails too.", parameters={},
        ),
        actionable=actionable, why_not=None if actionable else "usual", exemplars=(),
        first_seen=NOW, last_seen=NOW, score=1.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "request.kind: needs one of alert, improve"),
        ({"kind": "dance"}, "request.kind: needs one of"),
        ({"kind": "alert"}, "request.alert: a request of kind 'alert' needs it"),
        ({"kind": "alert", "alert": "fire"}, "request.alert: needs an object"),
        ({"kind": "question"}, "request.text"),
        ({"kind": "undo"}, "request.release"),
    ],
)
def test_what_is_no_request_says_what_is_missing(value: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        checked_request(value)


@given(st.recursive(st.none() | st.booleans() | st.text(), lambda x: st.dictionaries(st.text(), x)))
def test_checking_a_request_is_total(value: object) -> None:
    with suppress(UsageError):
        assert "kind" in checked_request(value)


def test_equal_bodies_are_one_alert_and_the_senders_key_wins() -> None:
    one = alert_key({"source": "s", "body": {"b": 1, "a": 2}})
    assert one == alert_key({"source": "s", "body": {"a": 2, "b": 1}})
    assert one != alert_key({"source": "s", "body": {"a": 2}})
    assert alert_key({"source": "s", "key": "k", "body": {}}) == "k"
    assert incident_key({"kind": "undo", "release": "r-1"}) == "r-1"


def test_triage_takes_the_first_that_text_can_fix() -> None:
    code = finding("code", remedies=("tool",))
    chosen = triage([code, finding("text")], open_for=None)
    assert (chosen.next, chosen.finding) == ("evolution", "text")


def test_triage_hands_off_when_nothing_is_text() -> None:
    chosen = triage([finding("code", remedies=("infrastructure",))], open_for=None)
    assert (chosen.next, chosen.finding) == ("handoff", "code")


def test_triage_leaves_the_usual_alone_unless_a_person_asks() -> None:
    usual = finding("usual", actionable=False)
    assert triage([usual], open_for=None).next == "end"
    assert triage([usual], open_for=None, asked="usual").next == "evolution"


def test_one_open_proposal_per_harness() -> None:
    assert triage([finding("a")], open_for="a").why == "linked to its open proposal"
    assert triage([finding("a")], open_for="b").why.startswith("ready")


def test_a_ticket_carries_counts_evidence_and_place() -> None:
    code = finding("code", remedies=("tool",))
    filed = ticket(code, why_text_cannot(code))
    assert filed["where"] == "tool"
    assert filed["counts"] == {"units": 19, "units_total": 150}
    assert "never edits" in str(filed["why"])


def test_a_watch_says_when_it_cannot_tell() -> None:
    assert counted(finding(), None, 0, "session")["watched"] == "too_few"
    assert counted(finding(), None, FEW - 1, "session")["watched"] == "too_few"
    fell = counted(finding(), None, 150, "session")
    assert (fell["watched"], fell["p"]) == ("fell", None)
    after: Any = fell["after"]
    assert after["low"] == 0.0
    assert 0.0 < after["high"] < 0.03
    same = counted(finding(), replace(finding(), units=40), 150, "session")
    assert same["watched"] == "not_fallen"
    nothing: Any = counted(finding(), None, 0, "session")["after"]
    assert nothing["rate"] is None
