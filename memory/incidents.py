"""Alerts, the runs they started, and what each node of a run has done already."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, cast

from sqlalchemy import Connection, RowMapping, and_, or_, update

from contracts.errors import ProjectMismatch
from contracts.json_types import Json, JsonObject
from memory.audit import AuditLog
from memory.database import Database
from memory.schema import alerts, incidents, steps, threads

IncidentState = Literal["running", "waiting", "quarantined", "closed"]
DriverKind = Literal["local", "foreign"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One run for one alert: one LangGraph thread, bound to its project."""

    thread: str
    project: str
    kind: str
    key: str
    request: JsonObject
    state: IncidentState
    at: str
    driver: DriverKind = "local"
    group: str = ""
    fired: int = 0
    """How often its alert fired; 0 for runs that no alert started."""
    recovered_at: str | None = None
    due_at: str | None = None
    """Running: not to be tried before. Waiting: when the card expires."""
    tries: int = 0
    """Failed tries in a row since it last moved."""
    problem: str | None = None
    """Why the last try failed, or why it was closed without a run; one masked line."""


class Incidents:
    """The runs of one project."""

    def __init__(self, db: Database, log: AuditLog) -> None:
        self._db = db
        self._log = log

    def open(
        self,
        thread: str,
        *,
        kind: str,
        key: str,
        request: JsonObject,
        driver: DriverKind = "foreign",
        group: str = "",
        due_at: str | None = None,
    ) -> Incident:
        """The incident of this thread, made when it is new.

        Args:
            thread: the LangGraph thread.
            kind: the request's kind.
            key: what makes two requests the same.
            request: the graph's input.
            driver: who drives it. Doors of ours say "local" before the graph starts; where the
                router is the first to insert the row, a server that is not ours drives it.
            group: of an alert, what further deliveries join it by.
            due_at: not to be started before.

        Raises:
            ProjectMismatch: the thread belongs to another project; that is audited here.
        """
        with self._db.write() as tx:
            values = {
                "kind": kind, "key": key, "request": dict(request), "state": "running",
                "driver": driver, "group_key": group, "due_at": due_at,
                "fired": 1 if kind == "alert" else 0,
            }  # fmt: skip
            row = {"thread": thread, "at": self._db.now(), **values}
            if self._db.insert_once(tx, incidents, row):
                self._log.append(tx, "incident.opened", {"thread": thread, "kind": kind})
                said = {"project": self._db.project, "kind": kind}
                seen = {"thread": thread, "metadata": said, "at": row["at"]}
                self._db.insert_once(tx, threads, {**seen, "updated_at": row["at"]})
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
        return _incident(row)

    def find(self, thread: str) -> Incident | None:
        """The incident of this thread, if this project has it."""
        row = self._db.first(incidents, thread=thread)
        return None if row is None else _incident(row)

    def listed(self, *, state: IncidentState | None = None) -> list[Incident]:
        """Runs of one state, or all, oldest first."""
        which = {} if state is None else {"state": state}
        with self._db.read() as tx:
            statement = self._db.mine(incidents, **which).order_by(incidents.c.at)
            return [_incident(row) for row in self._db.rows(tx, statement)]

    def due(self, now: str) -> list[Incident]:
        """Runs of ours that there is something to do for now, oldest first."""
        c = incidents.c
        reached = or_(and_(c.state == "running", c.due_at.is_(None)), c.due_at <= now)
        statement = self._db.mine(incidents, driver="local").where(
            c.state.in_(("running", "waiting")), reached
        )
        with self._db.read() as tx:
            return [_incident(row) for row in self._db.rows(tx, statement.order_by(c.at))]

    def closed(self, thread: str) -> bool:
        """Whether there is such a run and it ended."""
        row = self._db.first(incidents, thread=thread)
        return row is not None and row["state"] == "closed"

    def unfinished(self) -> list[Incident]:
        """Runs of ours that are not closed, oldest first; quarantined ones are among them."""
        with self._db.read() as tx:
            statement = self._db.mine(incidents, driver="local").where(
                incidents.c.state != "closed"
            )
            rows = self._db.rows(tx, statement.order_by(incidents.c.at))
        return [_incident(row) for row in rows]

    def set_state(
        self,
        thread: str,
        state: IncidentState,
        *,
        due_at: str | None = None,
        tries: int = 0,
        problem: str | None = None,
    ) -> None:
        """Note where the run stands, and when there is something to do for it again."""
        with self._db.write() as tx:
            mine = (incidents.c.project == self._db.project) & (incidents.c.thread == thread)
            values = {"state": state, "due_at": due_at, "tries": tries, "problem": problem}
            tx.execute(update(incidents).where(mine).values(**values))

    def claim_alert(self, *, source: str, key: str, thread: str, body: JsonObject) -> str:
        """The thread of this alert: `thread` when it is new, else the one that has it already."""
        with self._db.write() as tx:
            row = {"thread": thread, "body": dict(body), "at": self._db.now()}
            if self._db.insert_once(tx, alerts, {"source": source, "key": key, **row}):
                self._log.append(tx, "alert.received", {"source": source, "thread": thread})
            found = self._db.rows(tx, self._db.mine(alerts, source=source, key=key))
        return cast("str", found[0]["thread"])


def _incident(row: RowMapping) -> Incident:
    return Incident(
        thread=row["thread"], project=row["project"], kind=row["kind"], key=row["key"],
        request=row["request"], state=row["state"], at=row["at"], driver=row["driver"],
        group=row["group_key"], fired=row["fired"], recovered_at=row["recovered_at"],
        due_at=row["due_at"], tries=row["tries"], problem=row["problem"],
    )  # fmt: skip


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
