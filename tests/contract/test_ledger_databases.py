"""What the stores of the ledger promise, on SQLite and on PostgreSQL."""

import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import insert
from sqlalchemy.exc import IntegrityError

from contracts.gate import Lesson
from memory.database import Place, rfc3339
from memory.ledger import Ledger
from memory.schema import effects
from tests.ledger_worlds import NOW, alert, at_once, card_of, decision, effect, lesson, waiting

# -- written once


def test_of_one_delivery_sent_many_times_one_is_kept(ledger: Ledger) -> None:
    kept = at_once(lambda _n: ledger.alerts.receive(alert("same")))
    assert sorted(kept, key=str) == [False] * 5 + [True]
    assert [a.key for a in ledger.alerts.new()] == ["same"]


def test_a_step_that_is_asked_for_many_times_at_once_is_done_once(ledger: Ledger) -> None:
    ran: list[int] = []

    def step(number: int) -> object:
        def write(_tx: object) -> dict[str, int]:
            ran.append(number)
            return {"by": number}

        return ledger.steps.once("t", "s", write)

    answers = at_once(step)
    assert answers == [{"by": ran[0]}] * 6
    assert len(ran) == 1


def test_of_decisions_on_one_seat_one_stands(ledger: Ledger) -> None:
    kept = waiting(ledger)

    def decide(number: int) -> bool:
        with ledger.db.write() as tx:
            return ledger.proposals.decide(tx, decision(kept, f"person{number}"))

    first = at_once(decide)
    assert first.count(True) == 1
    stands = ledger.proposals.decision(kept.id, 1, "approve")
    assert stands is not None
    assert stands.by == f"person{first.index(True)}"
    with ledger.db.write() as tx:
        assert ledger.proposals.decide(tx, decision(kept, "second", seat=2))
    assert [d.seat for d in ledger.proposals.decisions(kept.id, 1, "approve")] == [1, 2]


def test_of_applies_of_one_hash_one_is_intended(ledger: Ledger) -> None:
    kept = waiting(ledger)

    def intend(number: int) -> str:
        with ledger.db.write() as tx:
            return ledger.effects.intend(tx, effect(kept, decided=f"d-{number}")).key

    assert len(set(at_once(intend))) == 1


def test_the_database_itself_refuses_a_second_apply(ledger: Ledger) -> None:
    kept = waiting(ledger)
    with ledger.db.write() as tx:
        ledger.effects.intend(tx, effect(kept))
    row = {
        "project": "refunds", "key": "other", "kind": "apply", "proposal_hash": kept.hash,
        "decision_id": "d", "target": "directory:.", "before": "a", "after": "b",
        "state": "intended", "fence": 0, "updated_at": "",
    }  # fmt: skip
    with pytest.raises(IntegrityError), ledger.db.write() as tx:
        tx.execute(insert(effects).values(row))


def test_a_lesson_a_card_and_a_slot_are_kept_once(ledger: Ledger) -> None:
    kept = waiting(ledger)
    second: Lesson = replace(lesson("1"), outcome="other")
    with ledger.db.write() as tx:
        ledger.knowledge.put_lesson(tx, lesson("1"))
        ledger.knowledge.put_lesson(tx, second)
        ledger.proposals.put_card(tx, replace(card_of(kept), view={"second": True}))
    assert [found.outcome for found in ledger.knowledge.lessons()] == ["applied"]
    card = ledger.proposals.card(kept.id, 1, "approve")
    assert card is not None
    assert card.view == {}
    taken = at_once(lambda _n: ledger.schedules.take("nightly", rfc3339(NOW)))
    assert taken.count(True) == 1
    assert not ledger.schedules.take("nightly", rfc3339(NOW - timedelta(days=1)))
    assert ledger.schedules.take("nightly", rfc3339(NOW + timedelta(days=1)))


# -- the audit chain


_APPEND = """
import sys
from pathlib import Path
from memory.ledger import open_ledger
place = sys.argv[1] if "://" in sys.argv[1] else Path(sys.argv[1])
ledger = open_ledger(place, "refunds")
print("open", flush=True)
sys.stdin.readline()
for number in range(25):
    with ledger.db.write() as tx:
        ledger.audit.append(tx, "test", {"number": number})
ledger.close()
"""


def test_the_chain_is_whole_after_processes_and_threads_wrote(place: Place, ledger: Ledger) -> None:
    def append(number: int) -> None:
        for _ in range(10):
            with ledger.db.write() as tx:
                ledger.audit.append(tx, "test", {"thread": number})

    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _APPEND, str(place)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(4)
    ]  # fmt: skip
    with ExitStack() as stack:
        for writer in writers:
            stack.enter_context(writer)
            assert writer.stdout is not None
            assert writer.stdout.readline() == "open\n"
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.close()  # all are open: now
        at_once(append, 4)
    assert [writer.returncode for writer in writers] == [0] * 4
    state = ledger.audit.verify()
    assert (state.ok, state.entries) == (True, 140)


def test_a_chain_with_hostile_bodies_verifies(ledger: Ledger) -> None:
    with ledger.db.write() as tx:
        ledger.audit.append(tx, "test", {"said": "a\x00b\ud800", "p": 0.1, "big": 10**30})
    assert ledger.audit.verify().ok


# -- what is due


def test_a_decision_wakes_the_run_that_waits_in_its_transaction(ledger: Ledger) -> None:
    kept = waiting(ledger)
    other = waiting(ledger, "p-2", thread="t-2")
    now = rfc3339(NOW)
    assert ledger.incidents.due(now) == []

    def killed() -> None:
        with ledger.db.write() as tx:
            ledger.proposals.decide(tx, decision(kept))
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        killed()
    assert ledger.incidents.due(now) == []
    with ledger.db.write() as tx:
        ledger.proposals.decide(tx, decision(kept))
    assert [run.thread for run in ledger.incidents.due(now)] == [kept.thread]
    assert ledger.incidents.get(other.thread).state == "waiting"


def test_a_decision_wakes_the_run_that_shows_the_undo_card(ledger: Ledger) -> None:
    kept = waiting(ledger)
    ledger.incidents.open("t-undo", kind="undo", key="r-1", request={}, driver="local")
    ledger.incidents.set_state("t-undo", "waiting", due_at=rfc3339(NOW + timedelta(days=7)))
    with ledger.db.write() as tx:
        ledger.proposals.decide(tx, replace(decision(kept), card="undo", binds="r-1"))
    assert "t-undo" in [run.thread for run in ledger.incidents.due(rfc3339(NOW))]


def test_what_is_due_by_state_and_time(ledger: Ledger) -> None:
    now, later = rfc3339(NOW), rfc3339(NOW + timedelta(microseconds=1))
    for number, (state, due) in enumerate(
        [
            ("running", None), ("running", now), ("running", later), ("waiting", None),
            ("waiting", now), ("waiting", later), ("quarantined", now), ("closed", None),
        ]
    ):  # fmt: skip
        ledger.incidents.open(f"t{number}", kind="improve", key="k", request={}, driver="local")
        ledger.incidents.set_state(f"t{number}", state, due_at=due)  # type: ignore[arg-type]
    ledger.incidents.open("foreign", kind="improve", key="k", request={})
    assert [run.thread for run in ledger.incidents.due(now)] == ["t0", "t1", "t4"]


def test_a_settled_delivery_is_not_new_and_its_run_counts_it(ledger: Ledger) -> None:
    for number in range(3):
        ledger.alerts.receive(alert(f"k{number}"))
    first, *more = ledger.alerts.new()
    ledger.incidents.open("t", kind="alert", key="k0", request={}, group=first.group)
    with ledger.db.write() as tx:
        ledger.alerts.settle(tx, first, "started", thread="t")
        assert ledger.alerts.open_incident(tx, first.group) == "t"
        for one in more:
            ledger.alerts.settle(tx, one, "joined", thread="t")
        ledger.alerts.fired_again(tx, "t", len(more))
    assert ledger.alerts.new() == []
    assert ledger.incidents.get("t").fired == 3
    assert ledger.alerts.counts() == {("generic", "started"): 1, ("generic", "joined"): 2}
    assert [a.key for a in ledger.alerts.of_thread("t")] == ["k0", "k1", "k2"]
