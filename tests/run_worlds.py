"""A small project on a real ledger whose clock a test sets, for what happens around runs."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from contracts.alerts import Alert, AlertKind
from contracts.traces import ReadReport
from memory.workspace import Workspace, open_project, register

PROJECT = "refunds"
START = datetime(2026, 3, 10, 9, 30, tzinfo=UTC)


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self, now: datetime = START) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def later(self, **span: float) -> None:
        self.now += timedelta(**span)


def make_project(home: Path, root: Path, **sections: Mapping[str, Any] | list[Any]) -> Workspace:
    """A project with these sections of settings; its clock stands at `START`."""
    root.mkdir(parents=True, exist_ok=True)
    settings: dict[str, Any] = {"version": 1, "project": PROJECT, **sections}
    (root / "tracemend.yaml").write_text(yaml.safe_dump(settings), "utf-8")
    register(home, PROJECT, root)
    ws = open_project(home, PROJECT)
    ws.ledger.db.clock = Clock()
    return ws


def alert(key: str, group: str = "rule-1", kind: AlertKind = "firing", **more: Any) -> Alert:
    """An alert of the generic hook."""
    return Alert(source="generic", key=key, group=group, kind=kind, title=f"alert {key}", **more)


def reading(**counts: Any) -> ReadReport:
    """The report of a read."""
    return ReadReport(source="files", format="otlp", **counts)
