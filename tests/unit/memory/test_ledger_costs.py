"""What is asked every second, or for every request, reads a range of an index and nothing more."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import event

from memory.database import rfc3339
from memory.ledger import Ledger, open_ledger
from tests.ledger_worlds import NOW


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = open_ledger(tmp_path / "ledger.sqlite", "refunds")
    yield opened
    opened.close()


def plan(ledger: Ledger, ask: Callable[[], object]) -> list[str]:
    """SQLite's plan of the only SELECT that `ask` makes."""
    said: list[tuple[str, object]] = []

    def heard(*given: object) -> None:
        if str(given[2]).startswith("SELECT"):
            said.append((str(given[2]), given[3]))

    event.listen(ledger.db.engine, "before_cursor_execute", heard)
    ask()
    event.remove(ledger.db.engine, "before_cursor_execute", heard)
    ((statement, values),) = said
    with ledger.db.read() as tx:
        rows = tx.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)  # type: ignore[arg-type]
        return [str(row[-1]) for row in rows]


def test_due_reads_three_ranges_whatever_number_waits(ledger: Ledger) -> None:
    steps = plan(ledger, lambda: ledger.incidents.due(rfc3339(NOW)))
    ranges = [step for step in steps if step.startswith("SEARCH")]
    assert len(ranges) == 3
    assert all("incidents_by_state (project=? AND state=? AND due_at" in step for step in ranges)
    assert not [step for step in steps if step.startswith("SCAN")]


@pytest.mark.parametrize(
    ("ask", "index"),
    [
        (lambda ledger: ledger.alerts.new(), "alerts_by_state (project=? AND state=?)"),
        (lambda ledger: ledger.alerts.of_thread("t"), "alerts_by_thread (project=? AND thread=?)"),
        (lambda ledger: ledger.alerts.listed(), "alerts_by_time (project=?)"),
        (lambda ledger: ledger.protocol.threads(), "threads_by_time (project=?)"),
        (lambda ledger: ledger.protocol.runs(thread="t"), "runs_by_thread (project=? AND thread"),
        (lambda ledger: ledger.proposals.by_hash("h"), "proposals_by_hash (project=? AND hash=?)"),
        (lambda ledger: ledger.proposals.open(), "proposals_by_time (project=?)"),
        (
            lambda ledger: ledger.proposals.page(
                states=["waiting"], finding=None, limit=9, before=None
            ),
            "proposals_by_time (project=?)",
        ),
    ],
)  # fmt: skip
def test_lists_and_pages_are_read_in_the_order_of_an_index(
    ledger: Ledger, ask: Callable[[Ledger], object], index: str
) -> None:
    steps = plan(ledger, lambda: ask(ledger))
    assert index in steps[0]
    assert "USE TEMP B-TREE FOR ORDER BY" not in steps  # nothing is sorted as a whole
