"""Many deliveries, few troubles: what the hooks accepted becomes one incident each."""

import json
import time
import tracemalloc
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from contracts.alerts import request_of
from graph.intake import BATCH, take_in
from memory.database import rfc3339
from memory.schema import alerts
from memory.workspace import Workspace, open_project
from tests.hook_worlds import PROJECT, Hooks, make_home, serve_hooks, set_secrets
from tests.run_worlds import START, alert, make_project

CASE = Path(__file__).parents[1] / "data" / "fieldcases" / "55-alert-again-and-ping-again"
STORM, KINDS = 10_000, 5


@pytest.fixture
def hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hooks]:
    set_secrets(monkeypatch)
    with serve_hooks(make_home(tmp_path)) as served:
        yield served


def what_became(hooks: Hooks, ws: Workspace, sent: dict[str, Any]) -> str:
    """Send one delivery of the case, take it in, and say what became of it in the case's words."""
    before = {run.thread: run.fired for run in ws.ledger.incidents.listed()}
    rows = len(hooks.rows())
    moment = datetime.fromisoformat(sent.get("at") or sent["body"]["timestamp"])
    hooks.set_clock(moment)
    answer = hooks.proven(sent["source"], sent["body"], headers=sent.get("headers", {}))
    assert answer.status_code == 202
    take_in(ws)
    runs = ws.ledger.incidents.listed()
    for number, run in enumerate(runs, start=1):
        if run.thread not in before:
            # Somebody begins to work on it, so a recovery withdraws nothing: it stays open.
            lease = ws.ledger.leases.take(f"thread:{run.thread}")
            assert lease is not None
            ws.ledger.leases.release(lease)
            return f"new incident {number}"
        if run.fired > before[run.thread]:
            return f"joins {number}"
    if len(hooks.rows()) == rows:
        return f"the answer of incident {len(runs)}"
    newest = hooks.rows()[-1]
    return "no start (recovery)" if newest.kind == "recovered" else "no start"


def test_field_case_55_repeats_join_and_pings_are_not_swallowed(hooks: Hooks) -> None:
    case = json.loads((CASE / "deliveries.json").read_text("utf-8"))
    expected = json.loads((CASE / "expected.json").read_text("utf-8"))
    ws = open_project(hooks.home, PROJECT)
    became = [what_became(hooks, ws, sent) for sent in case["deliveries"]]
    assert became == expected["per_delivery"]
    runs = ws.ledger.incidents.listed()
    assert len(runs) == expected["incidents"]
    # must: the open incident shows how often it fired
    assert (runs[0].fired, runs[0].state) == (3, "running")
    assert runs[0].recovered_at is not None
    assert all(run.fired == 1 for run in runs[1:])


def _storm(ws: Workspace) -> None:
    """10,000 accepted deliveries of five alerts, as hooks leave them."""
    rows = []
    for number in range(STORM):
        one = alert(f"k-{number}", f"rule-{number % KINDS}")
        rows.append(
            {
                "project": PROJECT, "source": one.source, "key": one.key,
                "group_key": f"generic|{one.group}", "kind": one.kind, "state": "new",
                "body": request_of(one), "at": rfc3339(START + timedelta(milliseconds=number)),
            }
        )  # fmt: skip
    with ws.ledger.db.write() as tx:
        tx.execute(alerts.insert(), rows)


def test_ten_thousand_alerts_end_in_one_incident_each_kind_in_flat_memory(
    home: Path, tmp_path: Path
) -> None:
    ws = make_project(home, tmp_path / "repo")
    _storm(ws)
    take_in(ws)  # what is made once is made now
    taken, begun = BATCH, time.process_time()
    tracemalloc.start()
    try:
        first = 0
        while batch := take_in(ws):
            taken += batch
            first = first or tracemalloc.get_traced_memory()[0]
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    took_s = time.process_time() - begun
    assert taken == STORM
    runs = ws.ledger.incidents.listed()
    assert [run.fired for run in runs] == [STORM // KINDS] * KINDS
    assert ws.ledger.alerts.counts() == {
        ("generic", "started"): KINDS, ("generic", "joined"): STORM - KINDS
    }  # fmt: skip
    assert held - first < 2_000_000, "memory grows with the number of alerts"
    assert peak < 30_000_000
    assert took_s < 20, "a storm holds everything up"  # of processor time; 2 s without the tracing
    assert ws.ledger.audit.verify().ok
    assert ws.ledger.audit.verify().entries < 100, "a storm fills the log"
