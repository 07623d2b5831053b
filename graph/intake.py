"""Turn what hooks received into runs: one incident a trouble, however often it fires.

Many deliveries are settled in one transaction, and each is looked at inside it: two processes that
take in at once settle every delivery once.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast

from sqlalchemy import Connection

from contracts.json_types import Json, JsonObject
from graph.drive import lease_name
from graph.service import thread_for
from memory.alerts import StoredAlert
from memory.database import rfc3339
from memory.schema import leases, steps
from memory.workspace import Workspace

BATCH = 500
"""Deliveries in one transaction: a storm is taken in quickly, and no writer waits for long."""
CLOCKS_DIFFER = timedelta(minutes=5)
"""A window that ends later than this is a wrong clock or a joke; its run does not wait for it."""
BEFORE_LOOKED_AT = "recovered before it was looked at"

_log = logging.getLogger("tracemend.intake")


def take_in(ws: Workspace, limit: int = BATCH) -> int:
    """Settle the oldest new deliveries of a project; how many it were, `limit` at most."""
    if not ws.ledger.alerts.new(limit=1):
        return 0
    with ws.ledger.db.write() as tx:
        taken = _Intake(ws, tx)
        fresh = ws.ledger.alerts.new_in(tx, limit)
        for alert in fresh:
            taken.settle(alert)
        taken.join()
    return len(fresh)


class _Intake:
    """One transaction of intake."""

    def __init__(self, ws: Workspace, tx: Connection) -> None:
        self._ws, self._tx = ws, tx
        self._ledger = ws.ledger
        self._open: dict[str, str | None] = {}
        """By group, as this transaction has made it: looked up once, not once a delivery."""
        self._again: dict[str, list[StoredAlert]] = {}
        """By thread: further deliveries that joined it."""

    def settle(self, alert: StoredAlert) -> None:
        kind: str = alert.kind  # of a row, which a newer release may have written
        if kind == "firing":
            self._fired(alert)
        elif kind == "recovered":
            self._recovered(alert)
        elif kind == "note":
            self._ledger.alerts.settle(self._tx, alert, "noted", note=alert.note)
        else:
            _log.warning("alert ignored: unknown kind", extra={"source": alert.source})
            self._ledger.alerts.settle(self._tx, alert, "ignored", note="unknown kind")

    def join(self) -> None:
        """Write which deliveries joined the open incidents, which count them."""
        for thread, again in self._again.items():
            self._ledger.alerts.joined(self._tx, thread, again)

    def _open_of(self, group: str) -> str | None:
        if group not in self._open:
            self._open[group] = self._ledger.alerts.open_incident(self._tx, group)
        return self._open[group]

    def _fired(self, alert: StoredAlert) -> None:
        thread = self._open_of(alert.group) if alert.group else None
        if thread is not None:
            self._again.setdefault(thread, []).append(alert)
            return
        thread = thread_for(self._ws.project, "alert", f"{alert.source}|{alert.key}")
        request, due_at = _with_window(self._ws, alert)
        self._ledger.incidents.open_in(
            self._tx, thread, kind="alert", key=alert.key, request=request, driver="local",
            group=alert.group, due_at=due_at,
        )  # fmt: skip
        self._ledger.alerts.settle(self._tx, alert, "started", thread=thread)
        if alert.group:
            self._open[alert.group] = thread

    def _recovered(self, alert: StoredAlert) -> None:
        thread = self._open_of(alert.group) if alert.group else None
        if thread is None:
            note = "nothing was open that this recovers"
            self._ledger.alerts.settle(self._tx, alert, "recovered", note=note)
            return
        self._ledger.incidents.recovered(self._tx, thread)
        if not self._looked_at(thread):
            self._ledger.incidents.note(self._tx, thread, "closed", problem=BEFORE_LOOKED_AT)
        self._ledger.alerts.settle(self._tx, alert, "recovered", thread=thread)
        self._open[alert.group] = None

    def _looked_at(self, thread: str) -> bool:
        """Whether somebody drove it: whoever does takes its lease first, and the row stays."""
        db = self._ledger.db
        driven = db.rows(self._tx, db.mine(leases, name=lease_name(thread)))
        return bool(driven) or bool(db.rows(self._tx, db.mine(steps, thread=thread)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    start: datetime
    end: datetime


def _with_window(ws: Workspace, alert: StoredAlert) -> tuple[JsonObject, str]:
    """The graph's input with the window that is looked at, and when its read may begin."""
    said = cast("Mapping[str, Json]", alert.request["alert"])
    received = datetime.fromisoformat(alert.at)
    named = _named(said.get("window"))
    window = named or _Window(start=received - ws.settings.analysis.window, end=received)
    ends = min(window.end, received + CLOCKS_DIFFER)
    body: dict[str, Json] = {
        **said,
        "window": {"start": window.start.isoformat(), "end": window.end.isoformat()},
    }
    return {"kind": "alert", "alert": body}, rfc3339(ends + ws.settings.alerts.settle)


def _named(window: Json) -> _Window | None:
    """The window that an alert names; None: it names none that can be read."""
    if not isinstance(window, Mapping):
        return None
    try:
        start, end = (datetime.fromisoformat(str(window[key])) for key in ("start", "end"))
    except (KeyError, ValueError):
        return None
    if start.tzinfo is None or end.tzinfo is None or start >= end:
        return None
    return _Window(start=start, end=end)
