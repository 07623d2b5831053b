"""Hand-offs: tickets for findings that text cannot fix, and whether the webhook has them.

A ticket is delivered at least once: what was sent is noted after the receiver said yes, so a kill
between the two sends it again, under the same key.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

from sqlalchemy import ColumnElement, Connection, RowMapping, update

from contracts.json_types import Json, JsonObject
from memory.audit import AuditLog
from memory.database import Database
from memory.schema import handoffs

TicketState = Literal["open", "closed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """One hand-off. Times are RFC 3339, UTC."""

    finding: str
    state: TicketState
    body: JsonObject
    """What its reader needs (`nodes.handoff.ticket`), and why it was closed."""
    at: str
    """When it was filed, or filed again after it had been closed."""
    sent_at: str | None
    problem: str | None
    """Why it was not taken, last time."""
    closed_at: str | None
    tries: int
    tried_at: str | None


class Handoffs:
    """The tickets of one project; one a finding."""

    def __init__(self, db: Database, log: AuditLog) -> None:
        self._db = db
        self._log = log

    def file(self, tx: Connection, finding: str, body: Mapping[str, Json]) -> None:
        """File a ticket, or bring the body of an open one up to date; a closed one stays as it is.

        What was sent already is not sent again for newer counts.
        """
        row = {"finding": finding, "state": "open", "body": dict(body), "at": self._db.now()}
        if self._db.insert_once(tx, handoffs, row):
            self._log.append(tx, "handoff.filed", {"finding": finding})
            return
        mine = self._is(finding) & (handoffs.c.state == "open")
        tx.execute(update(handoffs).where(mine).values(body=dict(body)))

    def file_again(self, tx: Connection, finding: str, body: Mapping[str, Json]) -> None:
        """Open a closed ticket again; it is to be sent again."""
        mine = self._is(finding) & (handoffs.c.state == "closed")
        values = {
            "state": "open", "body": dict(body), "at": self._db.now(), "sent_at": None,
            "problem": None, "closed_at": None, "tries": 0, "tried_at": None,
        }  # fmt: skip
        if tx.execute(update(handoffs).where(mine).values(**values)).rowcount:
            self._log.append(tx, "handoff.filed_again", {"finding": finding})

    def close(self, tx: Connection, finding: str, body: Mapping[str, Json], *, by: str) -> bool:
        """Close an open ticket; `body` says why. False: there is none that is open."""
        mine = self._is(finding) & (handoffs.c.state == "open")
        values = {"state": "closed", "body": dict(body), "closed_at": self._db.now()}
        closed = bool(tx.execute(update(handoffs).where(mine).values(**values)).rowcount)
        if closed:
            self._log.append(tx, "handoff.closed", {"finding": finding, "by": by})
        return closed

    def sent(self, tx: Connection, ticket: Ticket) -> None:
        """Note that the receiver took this filing of the ticket."""
        mine = self._is(ticket.finding) & (handoffs.c.at == ticket.at)
        now = self._db.now()
        values = {"sent_at": now, "tried_at": now, "problem": None, "tries": 0}
        if tx.execute(update(handoffs).where(mine).values(**values)).rowcount:
            self._log.append(tx, "handoff.sent", {"finding": ticket.finding})

    def not_sent(self, tx: Connection, ticket: Ticket, problem: str) -> None:
        """Note why the receiver did not take it; one line."""
        mine = self._is(ticket.finding) & (handoffs.c.at == ticket.at)
        values = {"problem": problem, "tried_at": self._db.now(), "tries": handoffs.c.tries + 1}
        tx.execute(update(handoffs).where(mine).values(**values))

    def get(self, finding: str) -> Ticket | None:
        """The ticket of a finding; None: it has none."""
        row = self._db.first(handoffs, finding=finding)
        return None if row is None else _ticket(row)

    def get_in(self, tx: Connection, finding: str) -> Ticket | None:
        """`get`, inside the caller's transaction."""
        rows = self._db.rows(tx, self._db.mine(handoffs, finding=finding))
        return _ticket(rows[0]) if rows else None

    def listed(self) -> list[Ticket]:
        """All tickets, oldest first."""
        with self._db.read() as tx:
            return self.listed_in(tx)

    def listed_in(self, tx: Connection) -> list[Ticket]:
        """`listed`, inside the caller's transaction."""
        statement = self._db.mine(handoffs).order_by(handoffs.c.at, handoffs.c.finding)
        return [_ticket(row) for row in self._db.rows(tx, statement)]

    def unsent(self) -> list[Ticket]:
        """Open tickets that no receiver has taken, oldest first."""
        with self._db.read() as tx:
            waiting = self._db.mine(handoffs, state="open").where(handoffs.c.sent_at.is_(None))
            rows = self._db.rows(tx, waiting.order_by(handoffs.c.at, handoffs.c.finding))
            return [_ticket(row) for row in rows]

    def _is(self, finding: str) -> ColumnElement[bool]:
        return (handoffs.c.project == self._db.project) & (handoffs.c.finding == finding)


def _ticket(row: RowMapping) -> Ticket:
    return Ticket(
        finding=row["finding"], state=cast("TicketState", row["state"]),
        body=cast("JsonObject", row["body"]), at=row["at"], sent_at=row["sent_at"],
        problem=row["problem"], closed_at=row["closed_at"], tries=row["tries"],
        tried_at=row["tried_at"],
    )  # fmt: skip
