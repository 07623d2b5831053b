"""A project with a calm week and a bad day, for questions."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from memory.workspace import Workspace
from tests.run_worlds import Clock, make_project
from tests.trace_worlds import START, OtlpSpan, line, root, tool

NOW = datetime.fromtimestamp(START / 1e9, UTC) + timedelta(hours=6)
HOUR = 3_600_000_000_000
DOWN = ("ServiceError", "503 the payment service answered service unavailable")
BROKEN = ("KeyError", "no such street in the address book")
UNITS = 40


def ask_world(root_folder: Path, home: Path, *, says: str = "refund", **sections: Any) -> Workspace:
    """`pay` fails in 10 of 40 runs today and in none before; `label` in 4 of 40 on both days.

    Args:
        root_folder: the agent's repository, made here.
        home: the installation.
        says: what the requests of failing `pay` runs ask for.
        sections: more settings.
    """
    traces = root_folder / "traces"
    traces.mkdir(parents=True)
    for day, pay in ((0, 10), (-1, 0)):
        lines = [_run(day, number, pay, says) for number in range(UNITS)]
        (traces / f"day{day}.otlp.jsonl").write_bytes(b"".join(lines))
    sources: list[dict[str, str]] = [{"kind": "files", "path": "traces/"}]
    ws = make_project(home, root_folder, traces=sources, **sections)
    ws.ledger.db.clock = Clock(NOW)
    return ws


def _run(day: int, number: int, pay: int, says: str) -> bytes:
    trace = (day + 2) * 1_000 + number
    fails = number < pay
    labels = number >= UNITS - 4
    request = json.dumps({"message": f"please {says} order" if fails else "send a parcel label"})
    spans = [
        root(request, trace=trace),
        tool(1, "pay", {"order": number}, None if fails else {"paid": True}, trace=trace,
             error=DOWN if fails else None),
        tool(2, "label", {"n": number}, None if labels else {"ok": True}, trace=trace,
             error=BROKEN if labels else None),
    ]  # fmt: skip
    return line([_shifted(one, day * 24 * HOUR) for one in spans])


def _shifted(one: OtlpSpan, by: int) -> OtlpSpan:
    times = ("startTimeUnixNano", "endTimeUnixNano")
    return {**one, **{name: str(int(str(one[name])) + by) for name in times}}
