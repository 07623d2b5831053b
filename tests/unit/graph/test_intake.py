"""Promise 6 in the ledger: one incident a trouble, however often and in whatever order it fires."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from graph.intake import BEFORE_LOOKED_AT, take_in
from graph.service import thread_for
from memory.incidents import Incident
from memory.ledger import open_ledger
from memory.workspace import Workspace
from tests.run_worlds import PROJECT, START, Clock, alert, make_project


@pytest.fixture
def ws(home: Path, tmp_path: Path) -> Workspace:
    return make_project(home, tmp_path / "repo")


def receive(ws: Workspace, *alerts: object) -> None:
    for one in alerts:
        clock = ws.ledger.db.clock
        assert isinstance(clock, Clock)
        clock.later(seconds=1)
        assert ws.ledger.alerts.receive(one)  # type: ignore[arg-type]  # alerts, all of them


def states(ws: Workspace) -> dict[str, str]:
    return {row.key: row.state for row in ws.ledger.alerts.listed()}


def incidents(ws: Workspace) -> list[Incident]:
    return ws.ledger.incidents.listed()


def test_deliveries_of_one_group_join_the_open_incident_which_counts_them(ws: Workspace) -> None:
    receive(ws, alert("a"), alert("b"), alert("c"), alert("other", "rule-2"))
    assert take_in(ws) == 4
    assert states(ws) == {"a": "started", "b": "joined", "c": "joined", "other": "started"}
    first, second = incidents(ws)
    assert (first.fired, second.fired) == (3, 1)
    assert first.thread == thread_for(PROJECT, "alert", "generic|a")
    assert {row.key for row in ws.ledger.alerts.of_thread(first.thread)} == {"a", "b", "c"}
    receive(ws, alert("d"))
    take_in(ws)
    assert incidents(ws)[0].fired == 4
    assert take_in(ws) == 0
    assert ws.ledger.audit.verify().ok


def test_deliveries_without_a_group_stand_for_themselves(ws: Workspace) -> None:
    receive(ws, alert("a", ""), alert("b", ""))
    take_in(ws)
    assert len(incidents(ws)) == 2


def test_a_run_is_due_when_its_window_has_settled(ws: Workspace) -> None:
    end = START + timedelta(minutes=2)
    receive(ws, alert("a", window=(START, end)))
    take_in(ws)
    (run,) = incidents(ws)
    assert run.due_at is not None
    assert datetime.fromisoformat(run.due_at) == end + ws.settings.alerts.settle
    assert ws.ledger.incidents.due(ws.ledger.db.now()) == []


def test_an_alert_without_a_window_looks_back_from_when_it_came(ws: Workspace) -> None:
    receive(ws, alert("a"))
    (row,) = ws.ledger.alerts.listed()
    clock = ws.ledger.db.clock
    assert isinstance(clock, Clock)
    clock.later(hours=5)  # the server was down
    take_in(ws)
    window = incidents(ws)[0].request["alert"]["window"]  # type: ignore[index,call-overload]
    came = datetime.fromisoformat(row.at)
    assert window == {
        "start": (came - ws.settings.analysis.window).isoformat(), "end": came.isoformat()
    }  # fmt: skip


def test_a_window_that_ends_in_a_thousand_years_is_not_waited_for(ws: Workspace) -> None:
    receive(ws, alert("a", window=(START, START.replace(year=3026))))
    take_in(ws)
    due = incidents(ws)[0].due_at
    assert due is not None
    assert datetime.fromisoformat(due) < START + timedelta(minutes=10)


def test_what_recovers_before_it_was_looked_at_is_closed_and_not_driven(ws: Workspace) -> None:
    receive(ws, alert("a"), alert("a-ok", kind="recovered"))
    take_in(ws)
    (run,) = incidents(ws)
    assert (run.state, run.problem) == ("closed", BEFORE_LOOKED_AT)
    assert run.recovered_at is not None
    assert states(ws)["a-ok"] == "recovered"


def test_a_run_that_was_driven_is_told_of_the_recovery_and_goes_on(ws: Workspace) -> None:
    receive(ws, alert("a"))
    take_in(ws)
    (run,) = incidents(ws)
    lease = ws.ledger.leases.take(f"thread:{run.thread}")
    assert lease is not None
    ws.ledger.leases.release(lease)
    ws.ledger.incidents.set_state(run.thread, "waiting")
    receive(ws, alert("a-ok", kind="recovered"))
    take_in(ws)
    (told,) = incidents(ws)
    assert told.state == "waiting"
    assert told.recovered_at is not None


def test_a_firing_after_a_recovery_is_a_new_incident(ws: Workspace) -> None:
    receive(ws, alert("a"), alert("a-ok", kind="recovered"), alert("b"), alert("c"))
    take_in(ws)
    first, second = incidents(ws)
    assert (first.state, second.state) == ("closed", "running")
    assert states(ws) == {"a": "started", "a-ok": "recovered", "b": "started", "c": "joined"}
    assert second.fired == 2


def test_a_firing_after_its_incident_ended_is_a_new_incident(ws: Workspace) -> None:
    receive(ws, alert("a"))
    take_in(ws)
    ws.ledger.incidents.set_state(incidents(ws)[0].thread, "closed")
    receive(ws, alert("b"))
    take_in(ws)
    assert [run.state for run in incidents(ws)] == ["closed", "running"]


def test_a_recovery_of_nothing_and_a_note_start_nothing(ws: Workspace) -> None:
    receive(ws, alert("ok", kind="recovered"), alert("n", "", kind="note"))
    take_in(ws)
    assert states(ws) == {"ok": "recovered", "n": "noted"}
    assert incidents(ws) == []


def test_a_group_of_another_source_is_another_trouble(ws: Workspace) -> None:
    from dataclasses import replace

    receive(ws, alert("a"), replace(alert("b"), source="langfuse"))
    take_in(ws)
    assert len(incidents(ws)) == 2


def test_an_alert_that_a_person_started_first_is_the_same_run(ws: Workspace) -> None:
    receive(ws, alert("a"))
    body = ws.ledger.alerts.listed()[0].request
    mine = ws.ledger.incidents.claim_alert(source="generic", key="a", thread="t-1", body=body)
    assert mine == "t-1"
    assert states(ws) == {"a": "started"}
    assert take_in(ws) == 0


def test_two_processes_that_take_in_at_once_settle_each_delivery_once(
    ws: Workspace, home: Path
) -> None:
    from concurrent.futures import ThreadPoolExecutor
    from dataclasses import replace

    for number in range(60):
        receive(ws, alert(f"k-{number}", f"rule-{number % 3}"))
    others = [replace(ws, ledger=open_ledger(home / "ledger.sqlite", PROJECT)) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(lambda one: [take_in(one, 7) for _ in range(20)], others))
    assert sum(sum(one) for one in taken) == 60
    assert sorted(run.fired for run in incidents(ws)) == [20, 20, 20]
    assert ws.ledger.audit.verify().ok
