"""What becomes of runs that fail: later, with their backend, or before a person."""

import random
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from contracts.errors import (
    ConfigError,
    GateError,
    LeaseLost,
    ProbeError,
    ProjectMismatch,
    SourceError,
    TracesLate,
)
from contracts.json_types import JsonObject
from graph.drive import Busy
from graph.recovery import MAX_TRIES, PROBE_FOR, Recovery, backoff, problem_line
from memory.circuits import FAILURES
from memory.incidents import Incident
from memory.workspace import Workspace
from tests.run_worlds import START, Clock, make_project


@pytest.fixture
def ws(home: Path, tmp_path: Path) -> Workspace:
    return make_project(home, tmp_path / "repo")


@pytest.fixture
def recovery(ws: Workspace) -> Recovery:
    return Recovery(ws, random.Random(7))  # noqa: S311  # jitter


def run(ws: Workspace, name: str = "t-1") -> Incident:
    request: JsonObject = {"kind": "alert", "alert": {"source": "s", "key": name}}
    return ws.ledger.incidents.open(
        name, kind="alert", key=name, request=request, driver="local"
    )  # fmt: skip


def again(ws: Workspace, name: str = "t-1") -> Incident:
    return ws.ledger.incidents.get(name)


def clock(ws: Workspace) -> Clock:
    held = ws.ledger.db.clock
    assert isinstance(held, Clock)
    return held


def down(backend: str = "langfuse") -> SourceError:
    return SourceError("503 from the server", backend=backend, operation="window", retryable=True)


def test_waits_grow_from_five_seconds_to_a_quarter_of_an_hour() -> None:
    rng = random.Random(1)  # noqa: S311  # jitter
    for tries, longest in enumerate((5, 20, 80, 320, 900, 900), start=1):
        waits = [backoff(tries, rng).total_seconds() for _ in range(200)]
        assert longest * 0.8 <= min(waits) < max(waits) <= longest
        assert max(waits) - min(waits) > longest * 0.1, "runs that failed together stay together"


def test_a_failed_run_is_due_later_and_keeps_its_tries(ws: Workspace, recovery: Recovery) -> None:
    run(ws)
    recovery.failed("t-1", GateError("the agent's worker broke off"))
    recovery.failed("t-1", GateError("the agent's worker broke off"))
    failed = again(ws)
    assert (failed.state, failed.tries) == ("running", 2)
    assert failed.problem == "the agent's worker broke off"
    assert failed.due_at is not None
    assert timedelta(seconds=15) < datetime.fromisoformat(failed.due_at) - START
    assert ws.ledger.incidents.due(ws.ledger.db.now()) == []
    clock(ws).later(seconds=21)
    assert [one.thread for one in ws.ledger.incidents.due(ws.ledger.db.now())] == ["t-1"]


def test_after_six_tries_a_person_must_look_and_can_put_it_back(
    ws: Workspace, recovery: Recovery
) -> None:
    run(ws)
    for _ in range(MAX_TRIES):
        assert again(ws).state == "running"
        recovery.failed("t-1", ValueError("no such column"))
    stuck = again(ws)
    assert (stuck.state, stuck.tries) == ("quarantined", 6)
    assert stuck.problem == "ValueError: no such column"
    clock(ws).later(days=2)
    assert ws.ledger.incidents.due(ws.ledger.db.now()) == []
    recovery.failed("t-1", ValueError("from a process that was slow"))
    assert again(ws) == stuck
    assert recovery.retry("t-1") is True
    back = again(ws)
    assert (back.state, back.tries, back.due_at, back.problem) == ("running", 0, None, None)
    assert recovery.retry("t-1") is False
    assert ws.ledger.audit.verify().ok


def test_what_no_retry_can_mend_is_quarantined_at_once(ws: Workspace, recovery: Recovery) -> None:
    run(ws)
    recovery.failed("t-1", ConfigError("traces.0: the variable LANGFUSE_SECRET_KEY is not set"))
    assert again(ws).state == "quarantined"


def test_a_run_of_another_project_is_closed(ws: Workspace, recovery: Recovery) -> None:
    run(ws)
    recovery.failed("t-1", ProjectMismatch("it belongs to another project"))
    assert again(ws).state == "closed"


@pytest.mark.parametrize("error", [Busy("elsewhere"), LeaseLost("elsewhere")])
def test_a_run_that_goes_on_elsewhere_has_not_failed(
    ws: Workspace, recovery: Recovery, error: Exception
) -> None:
    before = run(ws)
    recovery.failed("t-1", error)
    assert again(ws) == before


def test_late_traces_are_no_try_and_no_failure_of_the_source(
    ws: Workspace, recovery: Recovery
) -> None:
    run(ws)
    late = TracesLate("no traces yet", backend="langfuse", operation="window", retryable=True)
    for _ in range(MAX_TRIES * 2):
        recovery.failed("t-1", late)
    waiting = again(ws)
    assert (waiting.state, waiting.tries, waiting.problem) == ("running", 0, "no traces yet")
    assert waiting.due_at is not None
    assert timedelta() < datetime.fromisoformat(waiting.due_at) - START <= timedelta(seconds=30)
    assert ws.ledger.circuits.listed() == []


def test_three_runs_that_fail_in_a_row_pause_their_backend(
    ws: Workspace, recovery: Recovery
) -> None:
    for number in range(4):
        run(ws, f"t-{number}")
    for number in range(FAILURES - 1):
        recovery.failed(f"t-{number}", down())
    assert recovery.held(again(ws, "t-3")) is None
    recovery.failed("t-2", down())
    circuit = recovery.held(again(ws, "t-3"))
    assert circuit is not None
    recovery.wait_for(again(ws, "t-3"), circuit)
    waits = again(ws, "t-3")
    assert (waits.tries, waits.due_at) == (0, circuit.open_until)
    assert waits.problem == "waits for langfuse: 503 from the server"
    assert [c.backend for c in ws.ledger.circuits.paused(clock(ws).now)] == ["langfuse"]


def _paused(ws: Workspace, recovery: Recovery) -> None:
    for number in range(5):
        run(ws, f"t-{number}")
    for number in range(FAILURES):
        recovery.failed(f"t-{number}", down())


def test_after_the_pause_one_run_tries_and_its_success_lets_all_go(
    ws: Workspace, recovery: Recovery
) -> None:
    _paused(ws, recovery)
    clock(ws).later(seconds=61)
    assert recovery.held(again(ws, "t-3")) is None
    for other in ("t-0", "t-1", "t-2", "t-4"):
        assert recovery.held(again(ws, other)) is not None
    used = recovery.needs(again(ws, "t-3"))
    ws.ledger.steps.once("t-3", "insights", lambda _: {"next": "end"})
    recovery.worked(again(ws, "t-3"), used)
    assert ws.ledger.circuits.listed() == []
    assert recovery.held(again(ws, "t-4")) is None


def test_a_failed_try_after_the_pause_pauses_for_twice_as_long(
    ws: Workspace, recovery: Recovery
) -> None:
    _paused(ws, recovery)
    clock(ws).later(seconds=61)
    assert recovery.held(again(ws, "t-3")) is None
    recovery.failed("t-3", down())
    (circuit,) = ws.ledger.circuits.paused(clock(ws).now)
    assert circuit.open_until is not None
    assert datetime.fromisoformat(circuit.open_until) - clock(ws).now == timedelta(minutes=2)


def test_where_the_run_that_tries_is_killed_another_tries(
    ws: Workspace, recovery: Recovery
) -> None:
    _paused(ws, recovery)
    clock(ws).later(seconds=61)
    assert recovery.held(again(ws, "t-3")) is None  # and nothing is heard of it again
    assert recovery.held(again(ws, "t-4")) is not None
    clock(ws).later(seconds=PROBE_FOR.total_seconds())
    assert recovery.held(again(ws, "t-4")) is None


def test_an_outage_quarantines_nobody(ws: Workspace, recovery: Recovery) -> None:
    _paused(ws, recovery)
    for _ in range(MAX_TRIES * 3):
        recovery.failed("t-0", down())
    assert again(ws, "t-0").state == "running"


def test_one_run_that_fails_for_itself_never_pauses_the_others(
    ws: Workspace, recovery: Recovery
) -> None:
    run(ws, "t-0")
    run(ws, "t-1")
    for _ in range(MAX_TRIES):
        recovery.failed("t-0", down())
    assert again(ws, "t-0").state == "quarantined"
    assert recovery.held(again(ws, "t-1")) is None


def test_runs_that_are_past_their_read_do_not_wait_for_a_source(
    ws: Workspace, recovery: Recovery
) -> None:
    _paused(ws, recovery)
    ws.ledger.steps.once("t-4", "insights", lambda _: {"next": "evolution"})
    assert recovery.held(again(ws, "t-4")) is None


def test_a_broken_agent_holds_no_run_that_only_reads(ws: Workspace, recovery: Recovery) -> None:
    for number in range(4):
        run(ws, f"t-{number}")
    for number in range(FAILURES):
        recovery.failed(f"t-{number}", ProbeError("exit 1", backend="worker", operation="run"))
    assert ws.ledger.circuits.paused(clock(ws).now) != []
    assert recovery.held(again(ws, "t-3")) is None


def test_a_problem_is_one_masked_line() -> None:
    key = "sk-lf-" + "0a1b2c3d-1111-4222-8333-444455556666"
    line = problem_line(ValueError(f"bad\nanswer \x1b[31m{key} " + "x" * 1000))
    assert key not in line
    assert "\n" not in line
    assert "\x1b" not in line
    assert line.startswith("ValueError: bad answer")
    assert len(line) <= 320
