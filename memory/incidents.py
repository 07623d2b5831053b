"""Alerts, the runs they started, and what each node of a run has done already."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Literal, cast

from sqlalchemy import ColumnElement, Connection, RowMapping, union_all, update

from contracts.errors import ProjectMismatch
from contracts.json_types import Json, JsonObject
from memory.audit import AuditLog
from memory.columns import bounded_key
from memory.database import Database
from memory.schema import alerts, incidents, steps, threads

IncidentState = Literal["running", "waiting", "quarantined", "closed"]
DriverKind = Literal["local", "foreign"]
OURS: tuple[DriverKind, ...] = ("local",)
"""What our doors started; where a foreign server is named to us, its own threads count as well."""


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
            self.open_in(
                tx, thread, kind=kind, key=key, request=request, driver=driver, group=group,
                due_at=due_at,
            )  # fmt: skip
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

    def open_in(
        self,
        tx: Connection,
        thread: str,
        *,
        kind: str,
        key: str,
        request: JsonObject,
        driver: DriverKind,
        group: str = "",
        due_at: str | None = None,
    ) -> bool:
        """Insert the incident of a thread, with the arguments of `open`. True: it is new."""
        values = {
            "kind": kind, "key": key, "request": dict(request), "state": "running",
            "driver": driver, "group_key": bounded_key(group), "due_at": due_at,
            "fired": 1 if kind == "alert" else 0,
        }  # fmt: skip
        row = {"thread": thread, "at": self._db.now(), **values}
        if not self._db.insert_once(tx, incidents, row):
            return False
        self._log.append(tx, "incident.opened", {"thread": thread, "kind": kind})
        said = {"project": self._db.project, "kind": kind}
        seen = {"thread": thread, "metadata": said, "at": row["at"], "updated_at": row["at"]}
        if not self._db.insert_once(tx, threads, seen):
            # A client named the id before there was a run: the run says whose it is, so that
            # nobody reads a run of ours by having guessed its thread.
            others = (threads.c.thread == thread) & (threads.c.project != self._db.project)
            tx.execute(update(threads).where(others).values(project=self._db.project, **seen))
        return True

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

    def due(self, now: str, *, drivers: Collection[DriverKind] = OURS) -> list[Incident]:
        """Runs of these drivers that there is something to do for now, oldest first."""
        c = incidents.c
        mine = self._db.mine(incidents).where(c.driver.in_(drivers))
        # Three ranges of one index, so that it costs nothing how many wait: SQLite goes through
        # all of them when it is asked in one condition.
        reached = union_all(
            mine.where(c.state == "running", c.due_at.is_(None)),
            mine.where(c.state == "running", c.due_at <= now),
            mine.where(c.state == "waiting", c.due_at <= now),
        )
        with self._db.read() as tx:
            found = [_incident(row) for row in tx.execute(reached).mappings()]
        return sorted(found, key=lambda run: (run.at, run.thread))

    def closed(self, thread: str) -> bool:
        """Whether there is such a run and it ended."""
        row = self._db.first(incidents, thread=thread)
        return row is not None and row["state"] == "closed"

    def unfinished(self, *, drivers: Collection[DriverKind] = OURS) -> list[Incident]:
        """Runs of these drivers that are not closed, oldest first; quarantined ones too."""
        with self._db.read() as tx:
            statement = self._db.mine(incidents).where(
                incidents.c.driver.in_(drivers), incidents.c.state != "closed"
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
            self.note(tx, thread, state, due_at=due_at, tries=tries, problem=problem)

    def note(
        self,
        tx: Connection,
        thread: str,
        state: IncidentState,
        *,
        due_at: str | None = None,
        tries: int = 0,
        problem: str | None = None,
    ) -> None:
        """`set_state`, in the transaction of what it goes with."""
        values = {"state": state, "due_at": due_at, "tries": tries, "problem": problem}
        tx.execute(update(incidents).where(self._is(thread)).values(**values))

    def recovered(self, tx: Connection, thread: str) -> None:
        """Note that the trouble which the run looks at is over, by its sender's word."""
        tx.execute(update(incidents).where(self._is(thread)).values(recovered_at=self._db.now()))

    def _is(self, thread: str) -> ColumnElement[bool]:
        return (incidents.c.project == self._db.project) & (incidents.c.thread == thread)

    def claim_alert(self, *, source: str, key: str, thread: str, body: JsonObject) -> str:
        """The thread of this alert: `thread` when it is new, else the one that has it already."""
        key = bounded_key(key)
        with self._db.write() as tx:
            row = {"thread": thread, "body": dict(body), "at": self._db.now()}
            if self._db.insert_once(tx, alerts, {"source": source, "key": key, **row}):
                self._log.append(tx, "alert.received", {"source": source, "thread": thread})
            found = self._db.rows(tx, self._db.mine(alerts, source=source, key=key))
            if found[0]["thread"] is None:  # received by a hook, and not looked at yet
                mine = (alerts.c.project == self._db.project) & (alerts.c.source == source)
                mine &= alerts.c.key == key
                tx.execute(update(alerts).where(mine).values(thread=thread, state="started"))
                return thread
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
