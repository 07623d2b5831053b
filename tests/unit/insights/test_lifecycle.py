"""What an analysis does to known findings and their tickets: reopened, not seen, closed, back."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from contracts.findings import Finding
from contracts.json_types import Json
from graph.findings import close, merge, rename, reopen, resolve, revoke, split
from memory.handoffs import Ticket
from memory.workspace import Workspace
from nodes.decide import Person
from nodes.handoff import fell, file_ticket, is_back, rose, ticket, ticket_text
from nodes.insights.choices import Closed, choices_of
from nodes.insights.lifecycle import next_state, standing_after, write_standing
from nodes.insights.signature import template_of
from tests.finding_worlds import MESSAGE, NOW, found, keep, later, state_of, text_of
from tests.run_worlds import Clock, make_project

ANN = Person(name="ann", via="cli", authenticated=True)
PAY = found("tool_error:pay:500", 10, 100)
SEARCH = found("tool_error:search:503", 4, 100)
CLOSED = Closed(by="ann", at=text_of(NOW), reason="known", units=10, units_total=100)
SOON = NOW + timedelta(hours=5)


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[Workspace]:
    made = make_project(tmp_path / "home", tmp_path / "agent")
    keep(made.ledger, PAY, SEARCH)
    yield made
    made.ledger.close()


def analysed(ws: Workspace, *seen: Finding, total: int = 100, complete: bool = True) -> None:
    """What the insights node does with the findings of an analysis, about their life."""
    choices = choices_of(ws.ledger.choices.listed())
    standing = standing_after(ws.ledger.knowledge.findings(), seen, choices)
    with ws.ledger.db.write() as tx:
        for finding in seen:
            ws.ledger.knowledge.put_finding(tx, finding)
        write_standing(ws.ledger, tx, standing, seen, total, complete=complete)


def later_by(ws: Workspace, **span: float) -> None:
    clock = ws.ledger.db.clock
    assert isinstance(clock, Clock)
    clock.later(**span)


def test_a_finding_that_a_person_closed_stays_closed_at_its_rate() -> None:
    assert next_state("closed", replace(PAY, last_seen=SOON), CLOSED) is None
    little_more = replace(PAY, units=13, last_seen=SOON)
    assert next_state("closed", little_more, CLOSED) is None


def test_it_is_reopened_when_its_rate_is_above_what_it_was() -> None:
    step = next_state("closed", replace(PAY, units=30, last_seen=SOON), CLOSED)
    assert step is not None
    assert step.state == "reopened"
    assert step.why == "30 of 100, more than the 10 of 100 when ann closed it"


def test_units_from_before_it_was_closed_reopen_nothing() -> None:
    before = replace(PAY, units=90, last_seen=NOW - timedelta(minutes=1))
    assert next_state("closed", before, CLOSED) is None


def test_one_that_was_closed_when_it_was_gone_is_back_with_two_units() -> None:
    gone = replace(CLOSED, units=0)
    one, two = replace(PAY, units=1, last_seen=SOON), replace(PAY, units=2, last_seen=SOON)
    assert next_state("closed", one, gone) is None
    assert next_state("closed", two, gone) is not None


def test_after_a_release_it_is_reopened_only_when_it_is_new_or_risen() -> None:
    assert next_state("watching", replace(PAY, change="same"), None) is None
    step = next_state("watching", replace(PAY, change="risen"), None)
    assert step is not None
    assert step.state == "reopened"
    assert next_state("open", replace(PAY, change="risen"), None) is None


def test_a_reopened_finding_says_why_in_the_ledger_and_in_the_audit_log(ws: Workspace) -> None:
    close(ws, PAY.id, "the provider knows", ANN)
    later_by(ws, hours=2)
    analysed(ws, later(PAY, units=40, last_seen=SOON))
    assert state_of(ws, PAY) == "reopened"
    (choice,) = ws.ledger.choices.listed()
    assert (choice.kind, choice.by) == ("reopen", "tracemend")
    assert "40 of 100, more than the 10 of 100" in str(choice.body["reason"])
    assert ws.ledger.audit.verify().ok


def test_what_a_window_does_not_show_is_not_closed_but_said(ws: Workspace) -> None:
    analysed(ws, PAY)
    stored = resolve(ws, SEARCH.id)
    assert stored.state == "open"
    assert stored.unseen_at is not None
    first = stored.unseen_at
    later_by(ws, hours=1)
    analysed(ws, PAY)
    assert resolve(ws, SEARCH.id).unseen_at == first  # since when, not the last time
    analysed(ws, PAY, SEARCH)
    assert resolve(ws, SEARCH.id).unseen_at is None


def test_a_read_in_part_says_nothing_of_what_is_absent(ws: Workspace) -> None:
    analysed(ws, PAY, complete=False)
    assert resolve(ws, SEARCH.id).unseen_at is None


def test_first_and_last_seen_are_kept_over_analyses(ws: Workspace) -> None:
    analysed(ws, later(PAY, first_seen=SOON, last_seen=SOON + timedelta(hours=1)))
    kept = resolve(ws, PAY.id).finding
    assert (kept.first_seen, kept.last_seen) == (PAY.first_seen, SOON + timedelta(hours=1))
    analysed(ws, later(PAY, first_seen=None, last_seen=None))
    assert resolve(ws, PAY.id).finding.first_seen == PAY.first_seen


def test_a_closed_finding_is_counted_and_not_worked_on(ws: Workspace) -> None:
    close(ws, PAY.id, "known", ANN)
    known, choices = ws.ledger.knowledge.findings(), choices_of(ws.ledger.choices.listed())
    assert standing_after(known, [PAY, SEARCH], choices).resting == {PAY.id}
    rising = later(PAY, units=50, last_seen=SOON)
    assert standing_after(known, [rising], choices).resting == frozenset()


def test_close_reopen_close_leaves_it_closed(ws: Workspace) -> None:
    close(ws, PAY.id, "known", ANN)
    reopen(ws, PAY.id, ANN)
    assert state_of(ws, PAY) == "reopened"
    assert close(ws, PAY.id, "known", ANN).first
    assert state_of(ws, PAY) == "closed"
    assert [one.kind for one in ws.ledger.choices.listed()] == ["close"]
    assert not close(ws, PAY.id, "known", ANN).first


def test_revoking_a_close_opens_the_finding_again(ws: Workspace) -> None:
    said = close(ws, PAY.id, "known", ANN)
    revoke(ws, said.choice.id, ANN)
    assert state_of(ws, PAY) == "reopened"
    assert ws.ledger.choices.listed() == []


def test_a_merged_finding_is_closed_and_comes_back_when_it_is_split(ws: Workspace) -> None:
    said = merge(ws, SEARCH.id, PAY.id, ANN)
    assert state_of(ws, SEARCH) == "closed"
    assert said.choice.body["template"] == template_of(MESSAGE)
    split(ws, SEARCH.id, ANN)
    assert state_of(ws, SEARCH) == "reopened"
    assert [one.kind for one in ws.ledger.choices.listed()] == ["split"]


def test_a_name_of_secrets_is_masked_before_it_is_kept(ws: Workspace) -> None:
    said = rename(ws, PAY.id, "fails with sk-proj-aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5z", ANN)
    assert "aB3dE5fG7hI9" not in str(said.choice.body["title"])


# Tickets.


def filed(ws: Workspace, finding: Finding) -> Ticket:
    with ws.ledger.db.write() as tx:
        file_ticket(ws.ledger, tx, finding, "not text")
    kept = ws.ledger.handoffs.get(finding.id)
    assert kept is not None
    return kept


def test_a_ticket_closes_by_itself_when_the_rate_fell_and_says_the_numbers(ws: Workspace) -> None:
    filed(ws, PAY)
    analysed(ws, later(PAY, units=9))
    assert ws.ledger.handoffs.listed()[0].state == "open"
    analysed(ws, later(PAY, units=1, units_total=120))
    (closed,) = ws.ledger.handoffs.listed()
    assert closed.state == "closed"
    numbers = closed.body["closed"]
    assert isinstance(numbers, dict)
    assert (numbers["units"], numbers["units_total"]) == (1, 120)
    assert numbers["filed"] == {"units": 10, "units_total": 100}
    p = numbers["p"]
    assert isinstance(p, float)
    assert p < 0.05


def test_not_seen_in_few_units_is_no_fall_and_in_many_it_is(ws: Workspace) -> None:
    filed(ws, PAY)
    analysed(ws, SEARCH, total=20)
    assert ws.ledger.handoffs.listed()[0].state == "open"
    analysed(ws, SEARCH, total=100, complete=False)
    assert ws.ledger.handoffs.listed()[0].state == "open"
    analysed(ws, SEARCH, total=100)
    assert ws.ledger.handoffs.listed()[0].state == "closed"


def test_the_fall_is_measured_from_the_filing_and_not_from_the_last_look(ws: Workspace) -> None:
    filed(ws, PAY)
    for units in (8, 6, 4):  # each step alone is chance
        kept = filed(ws, later(PAY, units=units))
    assert kept.body["filed"] == {"units": 10, "units_total": 100}
    assert kept.body["counts"] == {"units": 4, "units_total": 100}
    assert fell(kept.body, 4, 100) is None
    assert fell(kept.body, 3, 100) is not None


def test_a_closed_ticket_is_filed_again_only_when_the_rate_is_back(ws: Workspace) -> None:
    filed(ws, PAY)
    analysed(ws, later(PAY, units=1, units_total=120))
    still_there = filed(ws, later(PAY, units=2))
    assert still_there.state == "closed"
    again = filed(ws, later(PAY, units=20))
    assert (again.state, again.body["filing"]) == ("open", 2)
    assert again.body["filed"] == {"units": 20, "units_total": 100}


def test_rising_is_judged_by_the_exact_test_and_from_nothing_by_two_units() -> None:
    assert not rose(10, 100, 13, 100)
    assert rose(10, 100, 25, 100)
    assert not rose(0, 100, 1, 100)
    assert rose(0, 100, 2, 100)
    assert not is_back({"closed": {"units": 3, "units_total": 100}}, 0, 100)


def test_a_ticket_says_where_why_what_would_prove_it_wrong_and_that_nothing_was_done() -> None:
    quotes: list[dict[str, Json]] = [
        {"trace_id": "t1", "span_id": "s1", "quote": "a `b`\n# c", "failed": True},
    ]
    text = ticket_text(ticket(PAY, "It belongs to the infrastructure.", quotes))
    assert "Where: infrastructure, at `pay`." in text
    assert "It would be wrong if: It answers when it is called again." in text
    assert "Suggestion (nothing was applied):" in text
    assert text.endswith("- trace t1, span s1: `a 'b' # c`")  # no line or mark of its own
