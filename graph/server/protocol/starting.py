"""A run's input: checked, bound to its thread and noted, in one transaction."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast
from uuid import uuid4

from contracts.errors import UsageError
from contracts.json_types import Json, JsonObject
from graph.installation import Door
from graph.server.problems import Problem
from graph.service import thread_for
from memory.database import rfc3339
from memory.ledger import Ledger
from memory.protocol import RunRow
from nodes.router import Request, alert_key, checked_request, incident_key

_KEYS: Mapping[str, frozenset[str]] = {
    "alert": frozenset({"alert"}), "improve": frozenset({"finding"}),
    "question": frozenset({"text"}), "text": frozenset({"text"}), "watch": frozenset({"release"}),
    "undo": frozenset({"release"}),
}  # fmt: skip
_LONGEST_TEXT = 20_000
_LONGEST_ID = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What is to be started. `thread` None: the request's own thread, or a new one."""

    run: str
    thread: str | None
    request: Request
    body: JsonObject
    after: float | None


def checked_input(value: Json) -> Request:
    """The request of an input, and nothing beside it: other keys could forge a step's result.

    Raises:
        Problem: 422, and what is wrong.
    """
    if not isinstance(value, Mapping) or set(value) != {"request"}:
        raise Problem(422, 'input: needs {"request": {"kind": ...}} and no other key')
    try:
        request = checked_request(value["request"])
    except UsageError as error:
        raise Problem(422, f"input.{error}") from error
    said = cast("Mapping[str, Json]", value["request"])
    unknown = sorted(set(said) - {"kind"} - _KEYS[request["kind"]])
    if unknown:
        raise Problem(422, f"input.request: {unknown[0][:80]!r} is no key of this kind")
    _check_texts(said)
    if request["kind"] == "alert":
        _check_alert(cast("Mapping[str, Json]", said["alert"]))
    return request


def _check_texts(said: Mapping[str, Json]) -> None:
    for key, longest in (("text", _LONGEST_TEXT), ("finding", _LONGEST_ID), ("release", 200)):
        value = said.get(key)
        if value is not None and (not isinstance(value, str) or len(value) > longest):
            raise Problem(422, f"input.request.{key}: needs text of {longest} characters at most")


def _check_alert(alert: Mapping[str, Json]) -> None:
    source, key, window = alert.get("source"), alert.get("key"), alert.get("window")
    if not isinstance(source, str) or not 0 < len(source) <= _LONGEST_ID:
        raise Problem(422, "input.request.alert.source: needs a name")
    if key is not None and (not isinstance(key, str) or len(key) > 1000):
        raise Problem(422, "input.request.alert.key: needs text of 1000 characters at most")
    if window is None:
        return
    where = "input.request.alert.window"
    if not isinstance(window, Mapping):
        raise Problem(422, f"{where}: needs `start` and `end`")
    start, end = (_moment(window.get(name), f"{where}.{name}") for name in ("start", "end"))
    if start >= end:
        raise Problem(422, f"{where}: start must be before end")


def _moment(value: Json, where: str) -> datetime:
    try:
        found = datetime.fromisoformat(str(value))
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise Problem(422, f"{where}: needs an RFC 3339 time with a zone")
    return found


async def start(door: Door, asked: Start) -> RunRow:
    """Bind the request and note the run; the dispatcher drives it.

    Raises:
        Problem: 404 for a finding or release that is not there, 409 for a thread that has had its
            input, or an alert that has a thread already.
    """
    return await asyncio.to_thread(_start, door.ws.ledger, asked)


def _start(ledger: Ledger, asked: Start) -> RunRow:
    request, kind = asked.request, asked.request["kind"]
    _check_there(ledger, request)
    own = asked.thread is None
    thread = asked.thread or _own_thread(ledger.db.project, request)
    if not own:
        _check_free(ledger, thread)
    body = cast("JsonObject", request)
    if kind == "alert":
        thread = _claimed(ledger, request, thread, own=own)
    due = None
    if asked.after:
        due = rfc3339(ledger.db.clock() + timedelta(seconds=asked.after))
    with ledger.db.write() as tx:
        new = ledger.incidents.open_in(
            tx, thread, kind=kind, key=incident_key(request), request=body, driver="local",
            due_at=due,
        )  # fmt: skip
        if new or own:
            ledger.protocol.put_run(tx, asked.run, thread, asked.body)
    if not (new or own):
        _check_free(ledger, thread)
    row = ledger.protocol.run(asked.run)
    if row is None:
        raise Problem(409, "thread_id: taken; choose another")
    return row


def _own_thread(project: str, request: Request) -> str:
    """Equal alerts, watches and undos share a thread; what a person asks has one of its own."""
    kind, key = request["kind"], incident_key(request)
    if kind in ("improve", "question", "text"):
        return str(uuid4())
    if kind == "alert":
        key = f"{request['alert']['source']}|{alert_key(request['alert'])}"
    return thread_for(project, kind, key)


def _check_free(ledger: Ledger, thread: str) -> None:
    """An input is the first thing on its thread.

    Raises:
        Problem: 409, and where the thread stands.
    """
    incident = ledger.incidents.find(thread)
    if incident is None:
        return
    why = {
        "running": "works on its input; wait for it, or make a new thread",
        "waiting": "waits for a decision: resume it by its interrupt's id",
        "quarantined": "failed too often: `tracemend retry` puts it back",
        "closed": "has had its run; make a new thread for another input",
    }[incident.state]
    raise Problem(409, f"the thread {why}", more={"state": incident.state})


def _check_there(ledger: Ledger, request: Request) -> None:
    try:
        if finding := request.get("finding"):
            ledger.knowledge.finding(finding)
        if release := request.get("release"):
            ledger.effects.release(release)
    except UsageError as error:
        raise Problem(404, str(error)) from error


def _claimed(ledger: Ledger, request: Request, thread: str, *, own: bool) -> str:
    """The thread of the first equal alert.

    Raises:
        Problem: 409, when that is another one than the caller named.
    """
    alert = request["alert"]
    owner = ledger.incidents.claim_alert(
        source=alert["source"], key=alert_key(alert), thread=thread,
        body=cast("JsonObject", request),
    )  # fmt: skip
    if owner != thread and not own:
        raise Problem(409, f"this alert has the thread {owner} already", more={"thread_id": owner})
    return owner
