"""Traces that come later than the alert about them: how long they are waited for, and what is said.

An alert carries no traces; its run reads the window itself, and a backend may show a trace minutes
after it ended. The window stays the same at every look.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from contracts.errors import TracesLate
from contracts.traces import ReadReport
from memory.workspace import Workspace
from nodes.insights.analyze import Analysis
from nodes.router import Request

SCHEDULE = "schedule"
"""The source of the alerts that our own schedules make."""

LATE: Mapping[Literal["none", "open"], str] = {
    "none": "there are no traces yet", "open": "some traces are still open",
}  # fmt: skip
"""What keeps the window of an alert from being concluded."""


def waits_until(ws: Workspace, thread: str, request: Request) -> datetime | None:
    """Until when late traces are waited for; None: not at all, such as when a person asks.

    A thread that a client of a foreign server drives is not tried again by us: it concludes. So
    does a schedule: a quiet window is nothing unusual to it, and its next slot reads what is late.
    """
    if request["kind"] != "alert" or request["alert"]["source"] == SCHEDULE:
        return None
    incident = ws.ledger.incidents.get(thread)
    if incident.driver == "foreign":
        return None
    return datetime.fromisoformat(incident.at) + ws.settings.alerts.late


@dataclass(frozen=True, slots=True)
class Waiting:
    """Puts an analysis off while its window has no traces, or open ones."""

    ws: Workspace
    source: str
    until: datetime | None

    def __call__(self, read: ReadReport, units: int) -> None:
        """Raises TracesLate: the window is to be read again in a while."""
        if self.until is None or self.ws.ledger.db.clock() >= self.until:
            return
        what = lacking(read, units)
        if what is not None:
            raise TracesLate(
                f"{self.source}: {LATE[what]} in the window of the alert; it is read again until "
                f"{self.until:%H:%M:%S} UTC",
                backend=self.source, operation="window", retryable=True,
            )  # fmt: skip


def lacking(read: ReadReport, units: int) -> Literal["none", "open"] | None:
    """What is wrong with a window while its traces are on their way; None: nothing."""
    if units == 0 and not read.pending:
        return "none"
    return "open" if units == 0 or read.status == "pending" else None


def concluded(ws: Workspace, thread: str, request: Request, analysis: Analysis) -> str:
    """Follows the reason where an alert was concluded though its traces were not all there."""
    what = lacking(analysis.read, analysis.units_total)
    if what is None:
        return ""
    waited = ws.settings.alerts.late.total_seconds() / 60
    when = f" {waited:g} min after the alert" if waits_until(ws, thread, request) else ""
    if what == "none":
        return f"; there were no traces in its window{when}"
    return f"; {analysis.read.pending} traces of its window were still open{when}"
