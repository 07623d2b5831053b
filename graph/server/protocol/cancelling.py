"""Cancel: an analysis can be stopped, what a person is asked or has decided cannot."""

import asyncio

from graph.dispatch import Dispatcher
from graph.installation import Door
from graph.server.problems import Problem
from graph.server.protocol.following import ACTIVE, CANCELLED
from memory.bindings import places
from memory.ledger import Ledger
from memory.proposals import OPEN_STATES
from memory.protocol import RunRow

LATE_SECONDS = 0.5
"""A step that was stopped may still be writing; afterwards it is looked whether it did."""


async def cancel(door: Door, dispatcher: Dispatcher, row: RunRow, by: str) -> None:
    """Stop driving the run and close its incident with who did it.

    Raises:
        Problem: 409 and what to do instead.
    """
    ledger = door.ws.ledger
    await asyncio.to_thread(_check, ledger, row)
    await dispatcher.stop(row.thread)
    try:
        await asyncio.to_thread(_close, ledger, row, by)
        await asyncio.sleep(LATE_SECONDS)
        await asyncio.to_thread(_check_late, ledger, row.thread)
    finally:
        dispatcher.wake()


def _check(ledger: Ledger, row: RunRow) -> None:
    incident = ledger.incidents.find(row.thread)
    if incident is not None and incident.state == "waiting":
        raise Problem(409, "a card of this run waits for a person: reject it instead")
    if row.status not in ACTIVE:
        raise Problem(409, f"the run is over: {row.status}")
    if said := _proposal_of(ledger, row.thread):
        raise Problem(409, said)


def _close(ledger: Ledger, row: RunRow, by: str) -> None:
    held = places(ledger.db, [row.thread]).get(row.thread)
    if held is not None and held.held:
        raise Problem(409, "another process drives this run; cancel it there, or try again")
    _check(ledger, row)
    with ledger.db.write() as tx:
        ledger.incidents.note(tx, row.thread, "closed", problem=f"{CANCELLED}{by}")
        ledger.audit.append(tx, "run.cancelled", {"thread": row.thread, "run": row.run, "by": by})
    ledger.reads.clear(row.thread)
    ledger.protocol.set_run(row.run, "cancelled", problem=f"{CANCELLED}{by}")


def _check_late(ledger: Ledger, thread: str) -> None:
    if said := _proposal_of(ledger, thread):
        ledger.incidents.set_state(thread, "running")
        raise Problem(409, f"too late: {said}")


def _proposal_of(ledger: Ledger, thread: str) -> str | None:
    """Why the thread cannot be left: it has the harness' open proposal."""
    there = ledger.proposals.open()
    if there is None or there.proposal.thread != thread or there.state not in OPEN_STATES:
        return None
    return f"its proposal {there.proposal.id} is {there.state}: reject it instead"
