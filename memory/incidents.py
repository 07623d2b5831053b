"""Alerts, the runs they started, and what each node of a run has done already."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, cast

from sqlalchemy import Connection, update

from contracts.errors import ProjectMismatch
from contracts.json_types import Json, JsonObject
from memory.audit import AuditLog
from memory.database import Database
from memory.schema import alerts, incidents, steps

IncidentState = Literal["running", "waiting", "closed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One run for one alert: one LangGraph thread, bound to its project."""

    thread: str
    project: str
    kind: str
    key: str
    request: JsonObject
    state: IncidentState


class Incidents:
    """The runs of one project."""

    def __init__(self, db: Database, log: AuditLog) -> None:
        self._db = db
        self._log = log

    def open(self, thread: str, *, kind: str, key: str, request: JsonObject) -> Incident:
        """The incident of this thread, made when it is new.

        Raises:
            ProjectMismatch: the thread belongs to another project; that is audited here.
        """
        with self._db.write() as tx:
            values = {"kind": kind, "key": key, "request": dict(request), "state": "running"}
            row = {"thread": thread, "at": self._db.now(), **values}
            if self._db.insert_once(tx, incidents, row):
                self._log.append(tx, "incident.opened", {"thread": thread, "kind": kind})
            owner = tx.execute(
                incidents.select().where(incidents.c.thread == thread)
            ).mappings().one()  # fmt: skip
            mismatch = owner["project"] != self._db.project
            if mismatch:
                self._log.append(tx, "incident.project_mismatch", {"thread": thread})
        if mismatch:
            raise ProjectMismatch(
                f"thread {thread} belongs to another project than {self._db.project!r}; "
                "start a new one"
            )
        return self.get(thread)

    def get(self, thread: str) -> Incident:
        """The incident of this thread.

        Raises:
            ProjectMismatch: this project has no such thread.
        """
        row = self._db.first(incidents, thread=thread)
        if row is None:
            raise ProjectMismatch(f"project {self._db.project!r} has no thread {thread}")
        return Incident(
            thread=row["thread"], project=row["project"], kind=row["kind"], key=row["key"],
            request=row["request"], state=row["state"],
        )  # fmt: skip

    def closed(self, thread: str) -> bool:
        """Whether there is such a run and it ended."""
        row = self._db.first(incidents, thread=thread)
        return row is not None and row["state"] == "closed"

    def unfinished(self) -> list[Incident]:
        """Runs that are not closed, oldest first."""
        with self._db.read() as tx:
            statement = self._db.mine(incidents).where(incidents.c.state != "closed")
            rows = self._db.rows(tx, statement.order_by(incidents.c.at))
        return [self.get(row["thread"]) for row in rows]

    def set_state(self, thread: str, state: IncidentState) -> None:
        """Note where the run stands; the checkpointer knows more, this is for listing."""
        with self._db.write() as tx:
            mine = (incidents.c.project == self._db.project) & (incidents.c.thread == thread)
            tx.execute(update(incidents).where(mine).values(state=state))

    def claim_alert(self, *, source: str, key: str, thread: str, body: JsonObject) -> str:
        """The thread of this alert: `thread` when it is new, else the one that has it already."""
        with self._db.write() as tx:
            row = {"thread": thread, "body": dict(body), "at": self._db.now()}
            if self._db.insert_once(tx, alerts, {"source": source, "key": key, **row}):
                self._log.append(tx, "alert.received", {"source": source, "thread": thread})
            found = self._db.rows(tx, self._db.mine(alerts, source=source, key=key))
        return cast("str", found[0]["thread"])


class Steps:
    """What nodes have done already, by thread and step."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def get(self, thread: str, step: str) -> JsonObject | None:
        """What the step returned when it was done; None when it was not."""
        row = self._db.first(steps, thread=thread, step=step)
        return None if row is None else cast("JsonObject", row["body"])

    def once(
        self, thread: str, step: str, write: Callable[[Connection], Mapping[str, Json]]
    ) -> JsonObject:
        """Run `write` and keep its result in one transaction, unless the step is done already.

        Everything a node writes goes through here, so that a node which runs again after a crash
        changes nothing and returns what it returned the first time.
        """
        with self._db.write() as tx:
            found = self._db.rows(tx, self._db.mine(steps, thread=thread, step=step))
            if found:
                return cast("JsonObject", found[0]["body"])
            body = dict(write(tx))
            row = {"thread": thread, "step": step, "body": body, "at": self._db.now()}
            self._db.insert_once(tx, steps, row)
            return body
