"""What `tracemend status`, `resume` and `retry` say of runs that somebody should know of."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from contracts.errors import SourceError, UsageError
from contracts.json_types import JsonObject
from graph.cli.listing import quarantined_lines, ran_lines, status_json, status_lines
from graph.cli.main import app
from graph.drive import LocalDriver, open_loop
from graph.recovery import MAX_TRIES, Recovery
from graph.runs import Runs
from memory.workspace import Workspace
from tests.run_worlds import PROJECT, Clock, make_project


@pytest.fixture
def ws(home: Path, tmp_path: Path) -> Workspace:
    return make_project(home, tmp_path / "repo")


def run(ws: Workspace, thread: str, *, due_at: str | None = None) -> None:
    request: JsonObject = {"kind": "alert", "alert": {"source": "s", "key": thread}}
    ws.ledger.incidents.open(
        thread, kind="alert", key=thread, request=request, driver="local", group="s|g",
        due_at=due_at,
    )  # fmt: skip


def test_status_names_what_is_stuck_paused_and_how_often_it_fired(ws: Workspace) -> None:
    recovery = Recovery(ws)
    for number in range(4):
        run(ws, f"t-{number}")
    for number in range(3):
        down = SourceError(f"503, try {number}", backend="langfuse", operation="window")
        recovery.failed(f"t-{number}", down)
    recovery.failed("t-3", UsageError("alert.window: start must be before end"))
    with ws.ledger.db.write() as tx:
        ws.ledger.alerts.fired_again(tx, "t-0", 4)
        ws.ledger.incidents.recovered(tx, "t-0")
    text = "\n".join(status_lines(ws))
    assert "t-0  running, fired 5 times, recovered 2026-03-10T09:30:00Z, failed tries: 1" in text
    assert "t-3  quarantined: alert.window: start must be before end" in text
    assert "mend that, then: tracemend retry t-3" in text
    assert "paused    langfuse until 2026-03-10T09:31:00Z: 503, try 2" in text
    document = status_json(ws)
    assert document["paused"] == [
        {"backend": "langfuse", "until": "2026-03-10T09:31:00.000000Z", "problem": "503, try 2"}
    ]
    listed: Any = document["runs"]
    states = {one["thread"]: (one["state"], one["fired"], one["tries"]) for one in listed}
    assert (states["t-0"], states["t-3"]) == (("running", 5, 1), ("quarantined", 1, 1))


def test_retry_wants_one_thread_or_all(ws: Workspace) -> None:
    assert isinstance(CliRunner().invoke(app, ["retry"]).exception, UsageError)
    both = CliRunner().invoke(app, ["retry", "t-1", "--all", "--project", PROJECT])
    assert isinstance(both.exception, UsageError)
    for thread in ("t-1", "t-2"):
        run(ws, thread)
        for _ in range(MAX_TRIES):
            Recovery(ws).failed(thread, ValueError("no such column"))
    assert len(list(quarantined_lines(ws.ledger.incidents.listed(state="quarantined")))) == 4
    done = CliRunner().invoke(app, ["retry", "--all", "--project", PROJECT])
    assert done.exit_code == 0, done.output
    assert [r.state for r in ws.ledger.incidents.listed()] == ["running", "running"]
    again = CliRunner().invoke(app, ["retry", "t-1", "--project", PROJECT])
    assert "t-1 is not quarantined" in again.output


async def test_resume_leaves_a_run_whose_window_settles_and_says_until_when(
    ws: Workspace, tmp_path: Path
) -> None:
    clock = ws.ledger.db.clock
    assert isinstance(clock, Clock)
    run(ws, "t-1", due_at="2026-03-10T09:31:00.000000Z")
    async with open_loop(tmp_path / "checkpoints.sqlite") as loop:
        runs = Runs(ws, LocalDriver(loop, ws.ledger))
        (left,) = await runs.reconcile()
        assert list(ran_lines(left)) == ["alert: waits until 2026-03-10T09:31:00.000000Z"]
        assert ws.ledger.leases.take("thread:t-1") is not None, "it was driven"
