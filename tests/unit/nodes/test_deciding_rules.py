"""Who may decide, how many must, and what counts as a word."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.findings import FindingId
from contracts.harness import Revision
from contracts.proposals import (
    REJECT_REASONS,
    Decision,
    DecisionId,
    DecisionType,
    Draft,
    Proposal,
    ProposalHash,
    ProposalId,
    Risk,
)
from graph.cli.outcome import exit_code
from graph.service import Outcome, thread_for
from nodes.decide import Person, name_problem, seats_needed, settled, split_reason

NOW = datetime(2026, 11, 30, tzinfo=UTC)


def proposal(risk: Risk = "low", author: str = "playbook:x") -> Proposal:
    return Proposal(
        id=ProposalId("p-1"), revision=1, project="refunds", thread="t",
        finding_id=FindingId("f-1"), base_revision=Revision("a"),
        candidate_revision=Revision("b"), files=(),
        draft=Draft(operations=(), why="", falsifier="", author=author), checks=(), risk=risk,
        risk_reasons=(), lines_added=1, lines_removed=0, created_at=NOW,
    )  # fmt: skip


def decision(kind: DecisionType, seat: int = 1, by: str = "ann") -> Decision:
    return Decision(
        id=DecisionId(f"d-{seat}"), proposal=ProposalId("p-1"), revision=1,
        proposal_hash=ProposalHash("h"), card="approve", seat=seat, type=kind, by=by, via="cli",
        at=NOW,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("risk", "threshold", "seats"),
    [("low", "high", 1), ("high", "high", 2), ("medium", "medium", 2), ("high", "never", 1)],
)
def test_two_people_decide_at_or_above_the_threshold(
    risk: Risk, threshold: str, seats: int
) -> None:
    assert seats_needed(risk, threshold) == seats


def test_one_yes_of_two_settles_nothing_and_any_no_does() -> None:
    yes, second = decision("approve"), decision("approve", 2, "bob")
    no = decision("reject", 2, "bob")
    assert settled([], 1) is None
    assert settled([yes], 2) is None
    assert settled([yes], 1) == yes
    assert settled([yes, second], 2) == second
    assert settled([yes, no], 2) == no


@given(st.lists(st.sampled_from(["approve", "edit", "reject", "expired"]), max_size=4))
def test_a_yes_never_wins_over_a_no(kinds: list[DecisionType]) -> None:
    counted = settled([decision(k, n + 1) for n, k in enumerate(kinds)], 2)
    if any(kind != "approve" for kind in kinds):
        assert counted is not None
        assert counted.type != "approve"


@pytest.mark.parametrize("reason", REJECT_REASONS)
def test_a_reason_is_split_from_its_note(reason: str) -> None:
    assert split_reason(f"{reason}: too eager") == (reason, "too eager")
    assert split_reason(reason) == (reason, None)


def test_free_text_is_the_reason_other_and_silence_is_none() -> None:
    assert split_reason("I do not like it: at all") == ("other", "I do not like it: at all")
    assert split_reason("  ") is None
    assert split_reason(None) is None


def test_without_a_name_nobody_decides() -> None:
    nobody = Person(name=None, via="langgraph", authenticated=True)
    assert "needs a name" in str(name_problem(proposal(), nobody))


@pytest.mark.parametrize("risk", ["medium", "high"])
def test_a_name_that_nobody_checked_is_for_low_risk_only(risk: Risk) -> None:
    said = Person(name="ann", via="langgraph", authenticated=False)
    assert name_problem(proposal("low"), said) is None
    assert "only a signed-in person" in str(name_problem(proposal(risk), said))
    checked = Person(name="ann", via="api", authenticated=True)
    assert name_problem(proposal(risk), checked) is None


def test_who_wrote_a_risky_text_does_not_approve_it() -> None:
    ann = Person(name="ann", via="cli", authenticated=True)
    assert "somebody else" in str(name_problem(proposal("medium", "person:ann"), ann))
    assert name_problem(proposal("medium", "person:bob"), ann) is None


def _outcome(**more: Any) -> Outcome:
    values: dict[str, Any] = {
        "decision": decision("approve"), "first": True, "state": "watching",
        "proposal": proposal(), "changed": (), "report": None, "release": None, **more,
    }  # fmt: skip
    return Outcome(**values)


def test_exit_codes_of_a_decision() -> None:
    assert exit_code(_outcome(changed=("a.md",), decision=None, first=False)) == 3
    assert exit_code(_outcome(first=False)) == 4
    assert exit_code(_outcome(report=(object(), "h"))) == 5
    assert exit_code(_outcome(report=(object(), "h"), release=object())) == 0
    assert exit_code(_outcome(decision=decision("reject"), state="rejected")) == 0


def test_equal_requests_have_one_thread() -> None:
    assert thread_for("a", "alert", "k") == thread_for("a", "alert", "k")
    assert len({thread_for(p, k, "x") for p in "ab" for k in ("alert", "undo")}) == 4
