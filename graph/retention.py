"""Remove what only grows: checkpoints of runs that ended long ago, and old deliveries of alerts.

Decisions, releases, findings, lessons and the audit log stay. A run is never touched before it is
closed, nor while something of its proposal is unfinished; what its nodes did stays in the ledger,
so that an equal request later changes nothing.
"""

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Connection, Select, and_, delete, func, or_, select, tuple_, update

from contracts.json_types import Json
from graph.drive import Loop
from memory.database import Database, rfc3339
from memory.ledger import Ledger
from memory.schema import alerts, effects, incidents, proposals, steps
from memory.workspace import Workspace

BATCH = 200
"""Rows in one transaction: writers beside it wait for some milliseconds at most."""
MARK = "retention"
"""The step of a run whose checkpoints are gone."""
UNFINISHED = ("drafting", "waiting", "approved", "gating", "inconclusive")
"""States of a proposal in which its run is still needed."""

_log = logging.getLogger("tracemend.retention")


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """What one pass removed."""

    threads: int
    alerts: int


async def retain(ws: Workspace, loop: Loop | None) -> Removed:
    """One pass over a project; safe to be killed and to run twice at once.

    Args:
        ws: the project; its settings say how old is old.
        loop: the graph with its checkpointer; None: a foreign server keeps the checkpoints, and
            they are its own to remove.
    """
    lease = await asyncio.to_thread(ws.ledger.leases.take, MARK)
    if lease is None:
        return Removed(threads=0, alerts=0)  # another process is at it
    keep = ws.settings.retention
    threads = gone = 0
    try:
        while batch := await asyncio.to_thread(_ended, ws.ledger, keep.checkpoints) if loop else []:
            for thread in batch:
                await _forget(loop, thread)
            await asyncio.to_thread(_mark, ws.ledger, batch)
            threads += len(batch)
            await asyncio.to_thread(ws.ledger.leases.renew, lease)
        while number := await asyncio.to_thread(_drop_alerts, ws.ledger, keep.alerts):
            gone += number
            await asyncio.to_thread(ws.ledger.leases.renew, lease)
        if threads or gone:
            await asyncio.to_thread(_say, ws, threads, gone)
    finally:
        await asyncio.to_thread(ws.ledger.leases.release, lease)
    return Removed(threads=threads, alerts=gone)


async def _forget(loop: Loop | None, thread: str) -> None:
    saver = loop.checkpointer if loop is not None else None
    if saver is not None and not isinstance(saver, bool):
        await saver.adelete_thread(thread)


def _ended(ledger: Ledger, age: timedelta) -> list[str]:
    """Closed runs whose last step is older, and whose checkpoints are still there; the oldest."""
    db = ledger.db
    with db.read() as tx:
        return [row.thread for row in tx.execute(_old_runs(db, age).limit(BATCH))]


def _old_runs(db: Database, age: timedelta) -> Select[str]:
    c, s = incidents.c, steps.c
    mine = and_(s.project == db.project, s.thread == c.thread)
    worked = select(func.max(s.at)).where(mine, s.step != MARK).scalar_subquery()
    marked = select(func.max(s.at)).where(mine, s.step == MARK).scalar_subquery()
    last = func.coalesce(worked, c.at)
    p, e = proposals.c, effects.c
    needed = select(p.thread).where(p.project == db.project, p.state.in_(UNFINISHED))
    # An older revision keeps the state it was replaced in; only the newest says what waits.
    newer = proposals.alias()
    needed = needed.where(
        ~select(newer.c.id)
        .where(newer.c.project == p.project, newer.c.id == p.id, newer.c.revision > p.revision)
        .exists()
    )
    intended = (
        select(p.thread)
        .join(effects, and_(e.project == p.project, e.proposal_hash == p.hash))
        .where(e.project == db.project, e.state == "intended")
    )
    return (
        select(c.thread)
        .where(
            c.project == db.project, c.driver == "local", c.state == "closed",
            last < rfc3339(db.clock() - age),
            or_(marked.is_(None), marked < last),
            c.thread.not_in(needed), c.thread.not_in(intended),
        )
        .order_by(c.at)
    )  # fmt: skip


def _mark(ledger: Ledger, threads: list[str]) -> None:
    """Note that their checkpoints are gone, so that the next pass does not look at them again."""
    db = ledger.db
    with db.write() as tx:
        for thread in threads:
            row = {"thread": thread, "step": MARK, "body": {}, "at": db.now()}
            if not db.insert_once(tx, steps, row):
                mine = and_(steps.c.project == db.project, steps.c.thread == thread)
                again = update(steps).where(mine, steps.c.step == MARK)
                tx.execute(again.values(at=db.now()))


def _drop_alerts(ledger: Ledger, age: timedelta) -> int:
    """Delete one batch of old deliveries that were looked at and whose run is not open."""
    db, c = ledger.db, alerts.c
    open_runs = select(incidents.c.thread).where(
        incidents.c.project == db.project, incidents.c.state != "closed"
    )
    old = (
        select(c.source, c.key)
        .where(
            c.project == db.project, c.at < rfc3339(db.clock() - age), c.state != "new",
            or_(c.thread.is_(None), c.thread.not_in(open_runs)),
        )
        .order_by(c.at)
        .limit(BATCH)
    )  # fmt: skip
    with db.write() as tx:
        keys = [(row.source, row.key) for row in tx.execute(old)]
        if keys:
            these = tuple_(c.source, c.key).in_(keys)
            tx.execute(delete(alerts).where(c.project == db.project, these))
    return len(keys)


def _say(ws: Workspace, threads: int, gone: int) -> None:
    said: dict[str, Json] = {"threads": threads, "alerts": gone}
    with ws.ledger.db.write() as tx:
        _audit(ws.ledger, tx, said)
    _log.info("retention removed", extra={"project": ws.project, **said})


def _audit(ledger: Ledger, tx: Connection, said: dict[str, Json]) -> None:
    ledger.audit.append(tx, "retention.removed", said)
