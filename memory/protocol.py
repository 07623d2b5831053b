"""Threads and runs as clients of the Agent Protocol see them, beside their incidents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from sqlalchemy import Connection, RowMapping, Select, func, select, update

from contracts.json_types import Json, JsonObject
from memory.database import Database
from memory.schema import incidents, runs, threads

ThreadStatus = Literal["idle", "busy", "interrupted", "error"]
RunStatus = Literal["pending", "running", "success", "interrupted", "error", "cancelled"]

STATUS_OF: Mapping[str | None, ThreadStatus] = {
    None: "idle", "closed": "idle", "running": "busy", "waiting": "interrupted",
    "quarantined": "error",
}  # fmt: skip
"""An incident's state as the protocol calls it; None: nothing ran on the thread yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadRow:
    """A thread. Times are RFC 3339 UTC."""

    thread: str
    project: str
    metadata: JsonObject
    status: ThreadStatus
    problem: str | None
    created_at: str
    updated_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run. `body` is what the client sent: input, command, config, context, metadata."""

    run: str
    thread: str
    status: RunStatus
    body: JsonObject
    problem: str | None
    created_at: str
    updated_at: str


class ProtocolRows:
    """Threads and runs of one project."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def put_thread(self, thread: str, metadata: Mapping[str, Json]) -> bool:
        """Insert a thread. False: the id is taken, maybe by another project (nothing changes)."""
        now = self._db.now()
        row = {"thread": thread, "metadata": dict(metadata), "at": now, "updated_at": now}
        run = select(incidents.c.project).where(incidents.c.thread == thread)
        with self._db.write() as tx:
            if tx.execute(run).scalar_one_or_none() not in (None, self._db.project):
                return False  # a run whose thread was deleted here still has its checkpoints
            return self._db.insert_once(tx, threads, row)

    def set_metadata(self, thread: str, metadata: Mapping[str, Json]) -> None:
        """Replace what the client said of a thread."""
        mine = (threads.c.project == self._db.project) & (threads.c.thread == thread)
        values = {"metadata": dict(metadata), "updated_at": self._db.now()}
        with self._db.write() as tx:
            tx.execute(update(threads).where(mine).values(**values))

    def thread(self, thread: str) -> ThreadRow | None:
        """One thread, whether a client made it or an alert."""
        found = self.threads(ids=[thread], limit=1)
        return found[0] if found else None

    def threads(
        self, *, status: ThreadStatus | None = None, ids: Sequence[str] | None = None,
        limit: int = 100, offset: int = 0,
    ) -> list[ThreadRow]:  # fmt: skip
        """Threads, newest first. Metadata is filtered by the caller, who pages over this."""
        newest = threads.c.updated_at.desc(), threads.c.thread
        statement = self._joined(status, ids).order_by(*newest)
        with self._db.read() as tx:
            rows = tx.execute(statement.limit(limit).offset(offset)).mappings().all()
        return [_thread(row) for row in rows]

    def count(self, *, status: ThreadStatus | None = None) -> int:
        """How many threads there are."""
        inner = self._joined(status, None).subquery()
        with self._db.read() as tx:
            return tx.execute(select(func.count()).select_from(inner)).scalar_one()

    def _joined(
        self, status: ThreadStatus | None, ids: Sequence[str] | None
    ) -> Select[tuple[object, ...]]:
        c = threads.c
        same = (c.thread == incidents.c.thread) & (c.project == incidents.c.project)
        joined = threads.outerjoin(incidents, same)
        statement = select(
            c.thread, c.project, c.metadata, c.at, c.updated_at, incidents.c.state,
            incidents.c.problem,
        ).select_from(joined).where(c.project == self._db.project)  # fmt: skip
        if ids is not None:
            statement = statement.where(c.thread.in_(ids))
        if status is not None:
            states = [state for state, name in STATUS_OF.items() if name == status]
            found = incidents.c.state.in_([s for s in states if s is not None])
            statement = statement.where(
                found | incidents.c.state.is_(None) if None in states else found
            )
        return cast("Select[tuple[object, ...]]", statement)

    def delete_thread(self, thread: str) -> None:
        """Forget what clients said of a thread; incident, decisions and audit stay."""
        with self._db.write() as tx:
            for table in (runs, threads):
                mine = (table.c.project == self._db.project) & (table.c.thread == thread)
                tx.execute(table.delete().where(mine))

    def put_run(self, tx: Connection, run: str, thread: str, body: Mapping[str, Json]) -> None:
        """Insert a run as pending."""
        now = self._db.now()
        row = {"run": run, "thread": thread, "status": "pending", "body": dict(body)}
        self._db.insert_once(tx, runs, {**row, "at": now, "updated_at": now})

    def set_run(self, run: str, status: RunStatus, *, problem: str | None = None) -> None:
        """Move a run on."""
        mine = (runs.c.project == self._db.project) & (runs.c.run == run)
        values = {"status": status, "problem": problem, "updated_at": self._db.now()}
        with self._db.write() as tx:
            tx.execute(update(runs).where(mine).values(**values))

    def delete_run(self, run: str) -> None:
        """Forget a run."""
        mine = (runs.c.project == self._db.project) & (runs.c.run == run)
        with self._db.write() as tx:
            tx.execute(runs.delete().where(mine))

    def run(self, run: str) -> RunRow | None:
        """One run."""
        row = self._db.first(runs, run=run)
        return None if row is None else _run(row)

    def runs(
        self, *, thread: str | None = None, status: RunStatus | None = None, limit: int = 100,
        offset: int = 0,
    ) -> list[RunRow]:  # fmt: skip
        """Runs, newest first."""
        which = {k: v for k, v in (("thread", thread), ("status", status)) if v is not None}
        statement = self._db.mine(runs, **which).order_by(runs.c.at.desc(), runs.c.run)
        with self._db.read() as tx:
            return [_run(r) for r in self._db.rows(tx, statement.limit(limit).offset(offset))]


def _thread(row: RowMapping) -> ThreadRow:
    return ThreadRow(
        thread=row["thread"], project=row["project"], metadata=row["metadata"],
        status=STATUS_OF[row["state"]], problem=row["problem"], created_at=row["at"],
        updated_at=row["updated_at"],
    )  # fmt: skip


def _run(row: RowMapping) -> RunRow:
    return RunRow(
        run=row["run"], thread=row["thread"], status=row["status"], body=row["body"],
        problem=row["problem"], created_at=row["at"], updated_at=row["updated_at"],
    )  # fmt: skip
