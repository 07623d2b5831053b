"""Runs: create, wait, stream, join, list, cancel, delete. A request only notes what is to be done.

The dispatcher drives; a connection that breaks, or `on_disconnect="cancel"`, stops nothing.
"""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, cast

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response, StreamingResponse

from contracts.people import Permission
from graph.installation import Door
from graph.server.deps import DispatcherDep
from graph.server.problems import Problem
from graph.server.protocol import cancelling
from graph.server.protocol.bodies import RunCreate, StreamName
from graph.server.protocol.creating import Runs, check_modes
from graph.server.protocol.events import Feed, Reader
from graph.server.protocol.following import ACTIVE, Followed, settle
from graph.server.protocol.live import LiveDep
from graph.server.protocol.names import uuid_of
from graph.server.protocol.places import Places, PlacesDep
from graph.server.protocol.shapes import Answer, picked
from graph.server.protocol.shapes import run as run_shape
from graph.server.protocol.streaming import Stream, outcome
from memory.ledger import Ledger
from memory.protocol import RunRow, RunStatus

router = APIRouter()

EVENTS = "text/event-stream"


def _about(row: RunRow, last: str | None = None) -> dict[str, str]:
    """Headers by which the SDK knows the run, and where it reconnects."""
    place = f"/threads/{row.thread}/runs/{row.run}"
    return {"Content-Location": place} | ({} if last is None else {"Location": f"{place}/{last}"})


async def _create(runs: Runs, thread: str | None, body: RunCreate) -> Response:
    followed, _, _ = await runs.create(thread, body)
    row = followed.row
    return Answer(run_shape(row, followed.door.ws.project), headers=_about(row))


async def _wait(runs: Runs, places: Places, thread: str | None, body: RunCreate) -> Response:
    followed, _, _ = await runs.create(thread, body)
    headers = _about(followed.row, "join")
    found = outcome(places.loop, followed)
    return StreamingResponse(found, media_type="application/json", headers=headers)


async def _stream(runs: Runs, places: Places, thread: str | None, body: RunCreate) -> Response:
    followed, feed, reader = await runs.create(thread, body, frozenset(body.modes))
    if feed is None or reader is None:
        raise Problem(500, "the run was noted and cannot be read along; join it")
    return _streamed(places, followed, feed, reader, body.modes)


def _streamed(
    places: Places, followed: Followed, feed: Feed, reader: Reader, modes: Sequence[StreamName]
) -> Response:
    stream = Stream(places.loop, followed, feed, reader, modes)
    headers = {**_about(followed.row, "stream"), "Cache-Control": "no-store"}
    return StreamingResponse(stream.events(), media_type=EVENTS, headers=headers)


@router.post("/threads/{thread_id}/runs")
async def create(
    thread_id: str, body: RunCreate, places: PlacesDep, live: LiveDep, wake: DispatcherDep
) -> Response:
    """Start or resume in the background."""
    return await _create(Runs(places, live, wake), thread_id, body)


@router.post("/threads/{thread_id}/runs/wait")
async def wait(
    thread_id: str, body: RunCreate, places: PlacesDep, live: LiveDep, wake: DispatcherDep
) -> Response:
    """Start or resume, and answer with the state when the run rests."""
    return await _wait(Runs(places, live, wake), places, thread_id, body)


@router.post("/threads/{thread_id}/runs/stream")
async def stream(
    thread_id: str, body: RunCreate, places: PlacesDep, live: LiveDep, wake: DispatcherDep
) -> Response:
    """Start or resume, and stream what happens."""
    return await _stream(Runs(places, live, wake), places, thread_id, body)


@router.post("/runs")
async def create_stateless(
    body: RunCreate, places: PlacesDep, live: LiveDep, wake: DispatcherDep
) -> Response:
    """Start on a thread of the server's choice: equal alerts share theirs."""
    return await _create(Runs(places, live, wake), None, body)


@router.post("/runs/wait")
async def wait_stateless(
    body: RunCreate, places: PlacesDep, live: LiveDep, wake: DispatcherDep
) -> Response:
    """The same, and answer with the state when the run rests."""
    return await _wait(Runs(places, live, wake), places, None, body)


@router.post("/runs/stream")
async def stream_stateless(
    body: RunCreate, places: PlacesDep, live: LiveDep, wake: DispatcherDep
) -> Response:
    """The same, and stream what happens."""
    return await _stream(Runs(places, live, wake), places, None, body)


@router.get("/threads/{thread_id}/runs")
async def listed(
    thread_id: str, places: PlacesDep, *, limit: Annotated[int, Query(ge=1, le=1000)] = 10,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    status: Annotated[str | None, Query()] = None,
    select: Annotated[list[str] | None, Query()] = None,
) -> Response:  # fmt: skip
    """Runs of a thread, newest first."""
    placed = await places.thread(thread_id)
    if placed.door is None:
        return Answer([])
    project = placed.door.ws.project
    rows = await asyncio.to_thread(
        _listed, placed.door.ws.ledger, placed.row.thread, status, limit, offset
    )
    return Answer([picked(run_shape(row, project), select) for row in rows])


def _listed(
    ledger: Ledger, thread: str, status: str | None, limit: int, offset: int
) -> list[RunRow]:
    for active in ACTIVE:
        settle(ledger, ledger.protocol.runs(thread=thread, status=active))
    if status == "timeout":
        return []
    known: RunStatus | None = cast("RunStatus | None", status)
    return ledger.protocol.runs(thread=thread, status=known, limit=limit, offset=offset)


async def _run(
    thread_id: str, run_id: str, places: Places, *, wants: Permission = "read"
) -> tuple[Door, RunRow]:
    """A run of a thread, as it is now.

    Raises:
        Problem: 404, or 403 for what the caller may not do with it.
    """
    placed = await places.thread(thread_id, wants)
    run = uuid_of(run_id, "run_id")
    door = placed.door
    row = None
    if door is not None:
        row = await asyncio.to_thread(door.ws.ledger.protocol.run, run)
    if door is None or row is None or row.thread != placed.row.thread:
        raise Problem(404, "no such run on this thread")
    return door, (await asyncio.to_thread(settle, door.ws.ledger, [row]))[run]


@router.get("/threads/{thread_id}/runs/{run_id}")
async def get(thread_id: str, run_id: str, places: PlacesDep) -> Response:
    """One run."""
    door, row = await _run(thread_id, run_id, places)
    return Answer(run_shape(row, door.ws.project))


@router.get("/threads/{thread_id}/runs/{run_id}/join")
async def join(thread_id: str, run_id: str, places: PlacesDep, live: LiveDep) -> Response:
    """Answer with the thread's state when the run rests."""
    door, row = await _run(thread_id, run_id, places)
    found = outcome(places.loop, live.follower.follow(door, row))
    return StreamingResponse(found, media_type="application/json", headers=_about(row, "join"))


@router.get("/threads/{thread_id}/runs/{run_id}/stream")
async def join_stream(
    thread_id: str, run_id: str, request: Request, places: PlacesDep, live: LiveDep, *,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:  # fmt: skip
    """Read along from here, or from after the event that was seen last."""
    door, row = await _run(thread_id, run_id, places)
    modes = _modes_of(request)
    check_modes(frozenset(modes))
    followed = live.follower.follow(door, row)
    feed = live.hub.feed(row.run)
    if feed is None:
        feed = live.hub.open(row.run, row.thread, frozenset(modes))
        if followed.rests.is_set():
            live.hub.close(feed)
    reader = feed.read(frozenset(modes), last_event_id)
    return _streamed(places, followed, feed, reader, modes)


def _modes_of(request: Request) -> tuple[StreamName, ...]:
    asked: list[Any] = []
    for value in request.query_params.getlist("stream_mode"):
        asked += [part.strip() for part in value.split(",") if part.strip()]
    return tuple(dict.fromkeys(asked or ["values"]))


@router.post("/threads/{thread_id}/runs/{run_id}/cancel")
async def cancel(
    thread_id: str, run_id: str, places: PlacesDep, dispatcher: DispatcherDep,
    action: Annotated[str, Query()] = "interrupt",
) -> Response:  # fmt: skip
    """Stop an analysis. What a person is asked, or has decided, cannot be cancelled."""
    if action != "interrupt":
        raise Problem(501, "action: nothing is rolled back; `interrupt` stops the run")
    door, row = await _run(thread_id, run_id, places, wants="run")
    await cancelling.cancel(door, dispatcher, row, places.caller.name)
    return Answer({}, status_code=202)


@router.delete("/threads/{thread_id}/runs/{run_id}")
async def delete(thread_id: str, run_id: str, places: PlacesDep, live: LiveDep) -> Response:
    """Forget a run that rests; its thread and decisions stay."""
    door, row = await _run(thread_id, run_id, places, wants="run")
    if row.status in ACTIVE:
        raise Problem(409, f"the run is {row.status}; cancel it, or wait until it rests")
    await asyncio.to_thread(door.ws.ledger.protocol.delete_run, row.run)
    feed = live.hub.feed(row.run)
    if feed is not None:
        live.hub.drop(feed)
    return Response(status_code=204)
