"""When an equal body without a key is a retry, and when it is a second ping.

The key of such a ping ends in the number of its minute, counted from the epoch. Two deliveries of
one minute have the same key; one of the next minute names the key of the minute before, so that the
ledger compares the times themselves and the edge of a minute makes no difference.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from connectors.alerts.generic import BODY_KEY
from contracts.alerts import Alert

RETRY_WITHIN = timedelta(seconds=60)
"""HTTP clients give up within a minute; people and schedules that ask again wait longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    """A delivery to enter.

    Attributes:
        alert: with its final key.
        unless: the key of an earlier delivery that this one repeats, if it came after `since`.
        since: aware UTC.
    """

    alert: Alert
    unless: str | None = None
    since: datetime | None = None


def to_enter(alert: Alert, now: datetime) -> Ping:
    """The alert as it is to be entered; only a generic one without a key is compared by time."""
    if alert.source != "generic" or not alert.key.startswith(f"{BODY_KEY}|"):
        return Ping(alert=alert)
    minute = int(now.timestamp() // RETRY_WITHIN.total_seconds())
    return Ping(
        alert=replace(alert, key=f"{alert.key}|{minute}"), unless=f"{alert.key}|{minute - 1}",
        since=now - RETRY_WITHIN,
    )  # fmt: skip
