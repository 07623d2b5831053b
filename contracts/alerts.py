"""An alert as the rest of Tracemend knows it, whoever sent it."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from contracts.json_types import Json, JsonObject

AlertKind = Literal["firing", "recovered", "note"]
"""Only "firing" can start a run. "note" is kept and shown, such as a prompt changed by a person."""

HookSource = Literal["langfuse", "langsmith", "alertmanager", "generic"]
HOOK_SOURCES: tuple[HookSource, ...] = ("langfuse", "langsmith", "alertmanager", "generic")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One delivery, understood.

    Attributes:
        source: who sent it.
        key: equal for deliveries that are the same one (a retry, a fan-out).
        group: equal for deliveries about the same trouble; while its incident is open, more of them
            join it. Empty: each delivery stands for itself.
        kind: whether it can start a run.
        window: what to look at, `(start, end)` in aware UTC; None: the project's window.
        title: one line for people, cleaned and masked.
        body: what is kept of it, masked and capped.
        ignored: why it starts nothing, for the log; None: it is taken by its kind.
    """

    source: HookSource
    key: str
    group: str
    kind: AlertKind
    window: tuple[datetime, datetime] | None = None
    title: str = ""
    body: JsonObject = field(default_factory=dict)
    ignored: str | None = None


def request_of(alert: Alert) -> dict[str, Json]:
    """The graph's input for an alert."""
    window: dict[str, Json] | None = None
    if alert.window is not None:
        start, end = alert.window
        window = {"start": start.isoformat(), "end": end.isoformat()}
    body: dict[str, Json] = {"title": alert.title, **alert.body}
    said: dict[str, Json] = {
        "source": alert.source, "key": alert.key, "window": window, "body": body,
    }  # fmt: skip
    return {"kind": "alert", "alert": said}
