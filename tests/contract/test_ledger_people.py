"""What people say of findings, and hand-offs, on both databases."""

from datetime import timedelta

import pytest

from contracts.json_types import Json
from memory.choices import ChoiceKind
from memory.handoffs import Ticket
from memory.ledger import Ledger
from tests.finding_worlds import NOW, found, keep, later
from tests.ledger_worlds import at_once

PAY = found("tool_error:pay:500")
SEARCH = found("tool_error:search:503")


def said(ledger: Ledger, kind: ChoiceKind, signature: str, by: str = "ann", **body: Json) -> str:
    with ledger.db.write() as tx:
        return ledger.choices.put(tx, kind, signature, body, by=by).id


def kinds(ledger: Ledger) -> list[tuple[str, str]]:
    return sorted((one.kind, one.signature) for one in ledger.choices.listed())


@pytest.mark.parametrize(
    ("first", "then", "stand"),
    [
        (("rename", "a", {"title": "x"}), ("rename", "a", {"title": "y"}), ["rename a"]),
        (("merge", "a", {"into": "b"}), ("merge", "a", {"into": "c"}), ["merge a"]),
        (("close", "a", {"reason": "r"}), ("reopen", "a", {"reason": "r"}), ["reopen a"]),
        (("merge", "a", {"into": "b"}), ("split", "a", {"from": "b"}), ["split a"]),
        (("split", "a", {"from": "b"}), ("merge", "a", {"into": "b"}), ["merge a"]),
        (("split", "a", {"from": "b"}), ("merge", "b", {"into": "a"}), ["merge b"]),
        (("split", "a", {"from": "b"}), ("split", "a", {"from": "c"}), ["split a", "split a"]),
        (("merge", "a", {"into": "b"}), ("rename", "a", {"title": "x"}), ["merge a", "rename a"]),
        (("close", "a", {"reason": "r"}), ("close", "b", {"reason": "r"}), ["close a", "close b"]),
    ],
)
def test_a_choice_ends_what_it_contradicts_and_nothing_else(
    ledger: Ledger,
    first: tuple[ChoiceKind, str, dict[str, str]],
    then: tuple[ChoiceKind, str, dict[str, str]],
    stand: list[str],
) -> None:
    for kind, signature, body in (first, then):
        said(ledger, kind, signature, "ann", **body)
    assert [f"{kind} {signature}" for kind, signature in kinds(ledger)] == stand
    assert ledger.audit.verify().ok


def test_the_same_said_by_many_at_once_is_one_choice(ledger: Ledger) -> None:
    ids = at_once(lambda n: said(ledger, "close", "a", by=f"p{n}", reason="known"))
    assert len(set(ids)) == 1
    assert kinds(ledger) == [("close", "a")]


def test_said_taken_back_and_said_again_it_stands(ledger: Ledger) -> None:
    one = said(ledger, "rename", "a", title="x")
    with ledger.db.write() as tx:
        assert ledger.choices.revoke(tx, one, by="bob")
        assert not ledger.choices.revoke(tx, one, by="bob")
    assert kinds(ledger) == []
    said(ledger, "rename", "a", title="x")
    assert kinds(ledger) == [("rename", "a")]


def test_first_and_last_seen_widen_and_the_counts_are_the_newest(ledger: Ledger) -> None:
    keep(ledger, PAY)
    keep(
        ledger,
        later(PAY, units=3, first_seen=NOW - timedelta(days=2), last_seen=NOW - timedelta(days=1)),
    )
    kept = ledger.knowledge.finding(PAY.id).finding
    assert (kept.units, kept.first_seen, kept.last_seen) == (
        3, NOW - timedelta(days=2), PAY.last_seen,
    )  # fmt: skip


def test_what_an_analysis_did_not_count_is_unseen_until_it_is_counted(ledger: Ledger) -> None:
    keep(ledger, PAY, SEARCH)
    with ledger.db.write() as tx:
        ledger.knowledge.put_unseen(tx, [PAY.id])
    assert ledger.knowledge.finding(PAY.id).unseen_at is None
    assert ledger.knowledge.finding(SEARCH.id).unseen_at is not None
    keep(ledger, SEARCH)
    assert ledger.knowledge.finding(SEARCH.id).unseen_at is None


def ticket(ledger: Ledger) -> Ticket:
    (one,) = ledger.handoffs.listed()
    return one


def test_a_ticket_is_filed_once_brought_up_to_date_sent_closed_and_filed_again(
    ledger: Ledger,
) -> None:
    with ledger.db.write() as tx:
        ledger.handoffs.file(tx, PAY.id, {"n": 1})
        ledger.handoffs.file(tx, PAY.id, {"n": 2})
    assert (ticket(ledger).body, ticket(ledger).sent_at) == ({"n": 2}, None)
    with ledger.db.write() as tx:
        ledger.handoffs.not_sent(tx, ticket(ledger), "down")
    assert [(one.tries, one.problem) for one in ledger.handoffs.unsent()] == [(1, "down")]
    with ledger.db.write() as tx:
        ledger.handoffs.sent(tx, ticket(ledger))
    assert ledger.handoffs.unsent() == []
    with ledger.db.write() as tx:
        assert ledger.handoffs.close(tx, PAY.id, {"n": 3}, by="ann")
        assert not ledger.handoffs.close(tx, PAY.id, {"n": 4}, by="bob")
        ledger.handoffs.file(tx, PAY.id, {"n": 5})  # a closed one stays as it is
    assert (ticket(ledger).state, ticket(ledger).body) == ("closed", {"n": 3})
    with ledger.db.write() as tx:
        ledger.handoffs.file_again(tx, PAY.id, {"n": 6})
    assert [one.body for one in ledger.handoffs.unsent()] == [{"n": 6}]
    assert ledger.audit.verify().ok


def test_an_answer_to_an_earlier_filing_does_not_count_for_the_next(ledger: Ledger) -> None:
    with ledger.db.write() as tx:
        ledger.handoffs.file(tx, PAY.id, {"n": 1})
    first = ticket(ledger)
    with ledger.db.write() as tx:
        ledger.handoffs.close(tx, PAY.id, {"n": 1}, by="ann")
        ledger.handoffs.file_again(tx, PAY.id, {"n": 2})
        ledger.handoffs.sent(tx, first)
    assert [one.body for one in ledger.handoffs.unsent()] == [{"n": 2}]
