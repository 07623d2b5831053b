"""What hooks received: one insert a delivery, then the intake that turns deliveries into runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, cast

from sqlalchemy import Connection, RowMapping, bindparam, func, select, update

from contracts.alerts import Alert, AlertKind, request_of
from contracts.json_types import Json, JsonObject
from memory.audit import AuditLog
from memory.columns import bounded_key
from memory.database import Database, rfc3339
from memory.schema import alerts, incidents

AlertState = Literal["new", "started", "joined", "recovered", "ignored", "noted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAlert:
    """A delivery and what became of it. `request` is the graph's input that it would start."""

    source: str
    key: str
    group: str
    kind: AlertKind
    state: AlertState
    thread: str | None
    request: JsonObject
    note: str | None
    at: str


class Alerts:
    """Deliveries of one project."""

    def __init__(self, db: Database, log: AuditLog) -> None:
        self._db = db
        self._log = log

    def receive(
        self, alert: Alert, *, unless: str | None = None, since: datetime | None = None
    ) -> bool:
        """Keep a delivery: the one insert that a hook makes. False: it was here before.

        Args:
            alert: the delivery.
            unless: the key of an earlier delivery of this source that it repeats, if that one is
                here and is not older than `since`.
            since: aware UTC; needed with `unless`.
        """
        state: AlertState = "new"
        if alert.ignored is not None:
            state = "noted" if alert.kind == "note" else "ignored"
        row: dict[str, object] = {
            "source": alert.source, "key": bounded_key(alert.key), "group_key": _group(alert),
            "kind": alert.kind, "state": state, "thread": None, "note": alert.ignored,
            "body": request_of(alert), "at": self._db.now(),
        }  # fmt: skip
        with self._db.write() as tx:
            if unless is not None and since is not None:
                earlier = self._db.mine(alerts, source=alert.source, key=bounded_key(unless))
                if self._db.rows(tx, earlier.where(alerts.c.at >= rfc3339(since))):
                    return False
            return self._db.insert_once(tx, alerts, row)

    def new(self, limit: int = 500) -> list[StoredAlert]:
        """Deliveries that nobody looked at yet, oldest first."""
        with self._db.read() as tx:
            return self.new_in(tx, limit)

    def new_in(self, tx: Connection, limit: int) -> list[StoredAlert]:
        """The same, as this transaction sees them."""
        statement = self._db.mine(alerts, state="new").order_by(alerts.c.at, alerts.c.key)
        return [_stored(row) for row in self._db.rows(tx, statement.limit(limit))]

    def of_thread(self, thread: str) -> list[StoredAlert]:
        """Every delivery that belongs to a run, oldest first."""
        with self._db.read() as tx:
            statement = self._db.mine(alerts, thread=thread).order_by(alerts.c.at)
            return [_stored(row) for row in self._db.rows(tx, statement)]

    def listed(self, limit: int = 100) -> list[StoredAlert]:
        """The newest deliveries first."""
        with self._db.read() as tx:
            statement = self._db.mine(alerts).order_by(alerts.c.at.desc()).limit(limit)
            return [_stored(row) for row in self._db.rows(tx, statement)]

    def counts(self) -> dict[tuple[str, str], int]:
        """How many deliveries, by source and state."""
        mine = alerts.c.project == self._db.project
        counted = select(alerts.c.source, alerts.c.state, func.count()).where(mine)
        with self._db.read() as tx:
            rows = tx.execute(counted.group_by(alerts.c.source, alerts.c.state)).all()
        return {(source, state): number for source, state, number in rows}

    def settle(
        self,
        tx: Connection,
        alert: StoredAlert,
        state: AlertState,
        *,
        thread: str | None = None,
        note: str | None = None,
    ) -> None:
        """Say what became of a delivery, in the transaction of what it did."""
        mine = (alerts.c.project == self._db.project) & (alerts.c.source == alert.source)
        mine &= alerts.c.key == alert.key
        tx.execute(update(alerts).where(mine).values(state=state, thread=thread, note=note))
        said: Mapping[str, Json] = {"source": alert.source, "state": state, "thread": thread}
        if state != "joined":  # a storm would fill the log; the incident counts how often it fired
            self._log.append(tx, "alert.settled", said)

    def joined(self, tx: Connection, thread: str, again: Sequence[StoredAlert]) -> None:
        """Say of deliveries that they joined a run; one statement, since a storm brings many."""
        c = alerts.c
        one = (c.project == self._db.project) & (c.source == bindparam("its_source"))
        statement = update(alerts).where(one, c.key == bindparam("its_key"))
        which = [{"its_source": alert.source, "its_key": alert.key} for alert in again]
        tx.execute(statement.values(state="joined", thread=thread), which)
        self.fired_again(tx, thread, len(again))

    def open_incident(self, tx: Connection, group: str) -> str | None:
        """The newest run of this group that is not closed and whose trouble has not recovered."""
        if not group:
            return None
        statement = (
            self._db.mine(incidents, group_key=group, recovered_at=None)
            .where(incidents.c.state != "closed")
            .order_by(incidents.c.at.desc())
        )
        rows = self._db.rows(tx, statement.limit(1))
        return cast("str", rows[0]["thread"]) if rows else None

    def fired_again(self, tx: Connection, thread: str, times: int = 1) -> None:
        """Count further deliveries for a run."""
        mine = (incidents.c.project == self._db.project) & (incidents.c.thread == thread)
        tx.execute(update(incidents).where(mine).values(fired=incidents.c.fired + times))


def _group(alert: Alert) -> str:
    return bounded_key(f"{alert.source}|{alert.group}") if alert.group else ""


def _stored(row: RowMapping) -> StoredAlert:
    return StoredAlert(
        source=row["source"], key=row["key"], group=row["group_key"], kind=row["kind"],
        state=row["state"], thread=row["thread"], request=row["body"], note=row["note"],
        at=row["at"],
    )  # fmt: skip
