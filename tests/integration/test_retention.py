"""Retention removes what only grows, and nothing that is still needed or that was decided."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from contracts.alerts import Alert
from contracts.harness import Effect
from contracts.json_types import JsonObject
from graph import retention
from graph.drive import Loop, open_loop
from graph.retention import Removed, retain
from memory.incidents import IncidentState
from memory.ledger import Ledger
from memory.workspace import Workspace, open_project
from tests.approval_worlds import Inbox, installation, wait

OLD, YOUNG = timedelta(days=40), timedelta(days=10)


class Clock:
    """A clock that tests set back and forth."""

    def __init__(self, ws: Workspace) -> None:
        self._db = ws.ledger.db
        self._real = ws.ledger.db.clock

    def ago(self, age: timedelta) -> None:
        """What is written now was written then."""
        self._db.clock = lambda: self._real() - age


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    return installation(tmp_path, retention={"checkpoints": "30d", "alerts": "90d"})


@asynccontextmanager
async def opened(inbox: Inbox) -> AsyncIterator[tuple[Workspace, Loop, Clock]]:
    ws = open_project(inbox.home, "refunds")
    async with open_loop(inbox.home / "checkpoints.sqlite") as loop:
        yield ws, loop, Clock(ws)
    ws.ledger.db.clock = Clock(ws)._real


async def run(ws: Workspace, loop: Loop, thread: str, state: IncidentState) -> None:
    """A run that stands so, with a checkpoint."""
    request: JsonObject = {"kind": "question", "text": "q"}
    ws.ledger.incidents.open(thread, kind="question", key=thread, request=request, driver="local")
    ws.ledger.incidents.set_state(thread, state)
    config = {"configurable": {"thread_id": thread}}
    await loop.aupdate_state(config, {"request": dict(request)}, as_node="learn")  # type: ignore[arg-type]  # a RunnableConfig


async def kept(loop: Loop, *threads: str) -> set[str]:
    """Threads that have a checkpoint."""
    found = set()
    for thread in threads:
        snapshot = await loop.aget_state({"configurable": {"thread_id": thread}})
        if snapshot.values:
            found.add(thread)
    return found


def events(ledger: Ledger) -> list[str]:
    with ledger.db.engine.connect() as tx:
        return [row[0] for row in tx.exec_driver_sql("SELECT event FROM audit ORDER BY seq")]


async def test_checkpoints_of_runs_that_ended_long_ago_go_and_the_ledger_stays(
    inbox: Inbox,
) -> None:
    async with opened(inbox) as (ws, loop, clock):
        clock.ago(OLD)
        await run(ws, loop, "ended", "closed")
        await run(ws, loop, "waits", "waiting")
        await run(ws, loop, "given-up", "quarantined")
        clock.ago(YOUNG)
        await run(ws, loop, "ended-lately", "closed")
        clock.ago(timedelta(0))
        assert await retain(ws, loop) == Removed(threads=1, alerts=0)
        everyone = ("ended", "waits", "given-up", "ended-lately")
        assert await kept(loop, *everyone) == {"waits", "given-up", "ended-lately"}
        assert {i.thread for i in ws.ledger.incidents.listed()} == set(everyone)
        assert events(ws.ledger)[-1] == "retention.removed"
        assert ws.ledger.audit.verify().ok
        # The next pass has nothing to do, and says nothing.
        assert await retain(ws, loop) == Removed(threads=0, alerts=0)
        assert events(ws.ledger).count("retention.removed") == 1


async def test_a_run_that_worked_lately_is_young_however_old_its_alert(inbox: Inbox) -> None:
    async with opened(inbox) as (ws, loop, clock):
        clock.ago(OLD)
        await run(ws, loop, "t", "closed")
        clock.ago(YOUNG)
        ws.ledger.steps.once("t", "learn", lambda _tx: {})
        clock.ago(timedelta(0))
        assert (await retain(ws, loop)).threads == 0
        clock.ago(-timedelta(days=21))  # and three weeks later it is not
        assert (await retain(ws, loop)).threads == 1


async def test_a_run_of_an_unfinished_proposal_or_change_is_never_touched(inbox: Inbox) -> None:
    shown = await asyncio.to_thread(wait, inbox, thread="t")
    async with opened(inbox) as (ws, loop, clock):
        await run(ws, loop, "t", "closed")
        clock.ago(-OLD)
        assert (await retain(ws, loop)).threads == 0
        with ws.ledger.db.write() as tx:
            ws.ledger.proposals.set_state(tx, shown, "applied")
            intended = Effect(
                key="e", project="refunds", kind="apply", proposal_hash=shown.hash,
                decision_id="d", target="folder", before=shown.base_revision,
                after=shown.candidate_revision,
            )  # fmt: skip
            effect = ws.ledger.effects.intend(tx, intended)
        assert (await retain(ws, loop)).threads == 0
        lease = ws.ledger.leases.take("target:folder")
        assert lease is not None
        ws.ledger.effects.claim(effect, lease)
        with ws.ledger.db.write() as tx:
            ws.ledger.effects.finish(tx, effect, lease, state="done", reason=None)
        assert (await retain(ws, loop)).threads == 1


async def test_old_alerts_go_unless_they_are_new_or_their_run_is_open(inbox: Inbox) -> None:
    async with opened(inbox) as (ws, loop, clock):
        clock.ago(timedelta(days=100))
        for key, state in (("closed", "closed"), ("open", "waiting")):
            ws.ledger.incidents.claim_alert(source="generic", key=key, thread=key, body={})
            await run(ws, loop, key, "closed" if state == "closed" else "waiting")
        fresh = Alert(source="generic", key="unseen", group="", kind="firing")
        ws.ledger.alerts.receive(fresh)
        noted = Alert(source="generic", key="noted", group="", kind="note", ignored="by a person")
        ws.ledger.alerts.receive(noted)
        clock.ago(timedelta(days=1))
        ws.ledger.incidents.claim_alert(source="generic", key="late", thread="late", body={})
        clock.ago(timedelta(0))
        assert (await retain(ws, loop)).alerts == 2
        assert {alert.key for alert in ws.ledger.alerts.listed()} == {"open", "unseen", "late"}


async def test_many_go_in_bounded_batches(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BATCH", 3)
    async with opened(inbox) as (ws, loop, clock):
        clock.ago(timedelta(days=100))
        for number in range(8):
            await run(ws, loop, f"t-{number}", "closed")
            ws.ledger.incidents.claim_alert(
                source="generic", key=str(number), thread=f"t-{number}", body={}
            )
        clock.ago(timedelta(0))
        assert await retain(ws, loop) == Removed(threads=8, alerts=8)
        assert await kept(loop, *(f"t-{number}" for number in range(8))) == set()


async def test_another_project_of_the_installation_is_not_touched(tmp_path: Path) -> None:
    inbox = installation(tmp_path, "refunds", "billing")
    async with opened(inbox) as (ws, loop, clock):
        other = open_project(inbox.home, "billing")
        theirs = Clock(other)
        for each, own in ((ws, clock), (other, theirs)):
            own.ago(timedelta(days=400))
            await run(each, loop, f"t-{each.project}", "closed")
            own.ago(timedelta(0))
        assert (await retain(ws, loop)).threads == 1
        assert await kept(loop, "t-refunds", "t-billing") == {"t-billing"}
        other.ledger.db.clock = theirs._real


async def test_while_another_process_is_at_it_nothing_is_done(inbox: Inbox) -> None:
    async with opened(inbox) as (ws, loop, clock):
        clock.ago(OLD)
        await run(ws, loop, "ended", "closed")
        clock.ago(timedelta(0))
        assert ws.ledger.leases.take(retention.MARK) is not None
        assert await retain(ws, loop) == Removed(threads=0, alerts=0)
        assert await kept(loop, "ended") == {"ended"}
