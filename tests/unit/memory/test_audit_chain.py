"""Promise 12: a changed, missing, reordered or cut-off entry is found."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from contracts.harness import Revision
from contracts.proposals import DecisionId, ProposalHash, ProposalId, Release, ReleaseId
from memory.ledger import Ledger, open_ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return open_ledger(tmp_path / "ledger.sqlite", "refunds")


def _write(ledger: Ledger, count: int) -> None:
    for number in range(count):
        with ledger.db.write() as tx:
            ledger.audit.append(tx, "test.event", {"number": number})


def _release(ledger: Ledger, name: str) -> None:
    release = Release(
        id=ReleaseId(name), proposal=ProposalId("p-1"), proposal_hash=ProposalHash("h"),
        decision_id=DecisionId("d-1"), target="directory:/x", before=Revision("a"),
        after=Revision("b"), at=datetime(2026, 11, 30, tzinfo=UTC),
    )  # fmt: skip
    with ledger.db.write() as tx:
        ledger.effects.put_release(tx, release)


def test_a_whole_log_verifies(ledger: Ledger) -> None:
    _write(ledger, 5)
    _release(ledger, "r-1")
    state = ledger.audit.verify()
    assert (state.ok, state.entries, state.first_bad) == (True, 6, None)


def test_an_empty_log_verifies(ledger: Ledger) -> None:
    assert ledger.audit.verify().ok


def _change(tx: Connection) -> None:
    tx.execute(text("UPDATE audit SET body = '{\"number\": 99}' WHERE seq = 3"))


def _remove(tx: Connection) -> None:
    tx.execute(text("DELETE FROM audit WHERE seq = 3"))


def _reorder(tx: Connection) -> None:
    tx.execute(text("UPDATE audit SET seq = 100 WHERE seq = 2"))
    tx.execute(text("UPDATE audit SET seq = 2 WHERE seq = 3"))
    tx.execute(text("UPDATE audit SET seq = 3 WHERE seq = 100"))


def _cut(tx: Connection) -> None:
    tx.execute(text("DELETE FROM audit WHERE seq > 4"))


def _backdate(tx: Connection) -> None:
    tx.execute(text("UPDATE audit SET at = '2020-01-01T00:00:00.000000Z' WHERE seq = 3"))


@pytest.mark.parametrize(
    ("tamper", "first_bad"),
    [(_change, 3), (_remove, 3), (_reorder, 2), (_cut, 5), (_backdate, 3)],
)
def test_tampering_is_found_where_it_was_done(
    ledger: Ledger, tamper: Callable[[Connection], None], first_bad: int
) -> None:
    _write(ledger, 6)
    with ledger.db.write() as tx:
        tamper(tx)
    state = ledger.audit.verify()
    assert not state.ok
    assert state.first_bad == first_bad


def test_a_log_cut_off_with_its_end_is_found_by_a_release(ledger: Ledger) -> None:
    _write(ledger, 3)
    before = ledger.audit.verify().head
    _release(ledger, "r-1")
    with ledger.db.write() as tx:
        tx.execute(text("DELETE FROM audit WHERE seq > 3"))
        tx.execute(text("UPDATE audit_heads SET seq = 3, hash = :h"), {"h": before})
    state = ledger.audit.verify()
    assert not state.ok
    assert "release r-1" in (state.why or "")


def test_projects_have_chains_of_their_own(tmp_path: Path) -> None:
    one = open_ledger(tmp_path / "ledger.sqlite", "one")
    two = open_ledger(tmp_path / "ledger.sqlite", "two")
    _write(one, 3)
    _write(two, 2)
    assert one.audit.verify().entries == 3
    assert two.audit.verify().entries == 2
