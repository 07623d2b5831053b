"""Threads: make, read, search, count, say more of, delete."""

import asyncio
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from fastapi import APIRouter
from starlette.responses import Response

from contracts.json_types import Json
from graph.installation import Door
from graph.server.deps import door_for
from graph.server.problems import Problem
from graph.server.protocol.assistants import contains
from graph.server.protocol.bodies import ThreadCount, ThreadCreate, ThreadPatch, ThreadSearch
from graph.server.protocol.names import uuid_of
from graph.server.protocol.places import OWNER, Placed, Places, PlacesDep
from graph.server.protocol.shapes import HIDDEN, Answer, Plain, picked, said_of, thread
from memory.proposals import OPEN_STATES
from memory.protocol import ProtocolRows, ThreadRow

router = APIRouter(prefix="/threads")

_PAGE = 500


@router.post("")
async def create(body: ThreadCreate, places: PlacesDep) -> Response:
    """Make a thread. Where the caller has several projects, its first input binds it to one."""
    if body.supersteps is not None:
        raise Problem(501, "supersteps: a thread's state comes from its run only; send an input")
    if body.ttl is not None:
        raise Problem(501, "ttl: retention is a setting of the project (`retention.checkpoints`)")
    new = str(uuid4()) if body.thread_id is None else uuid_of(body.thread_id, "thread_id")
    made = await make(places, new, body.metadata or {}, project=None)
    if made is None:
        there = await places.find(new)
        if there is None:
            raise Problem(409, "thread_id: taken; choose another")
        if body.if_exists == "raise":
            raise Problem(409, "thread_id: there is such a thread; `if_exists: do_nothing` gets it")
        made = there
    return Answer(thread(made.row, await places.snapshot(made)))


async def make(
    places: Places, new: str, metadata: Mapping[str, Json], *, project: str | None
) -> Placed | None:
    """Insert a thread; None: the id is taken.

    Args:
        places: of the caller.
        new: its id.
        metadata: what the client says of it.
        project: what it is for; None: `metadata.project`, the caller's only one, or not yet known.
    """
    said = _sayable(metadata)
    project = project or _wanted(places, said)
    if project is None:
        unbound = (await places.bindings()).unbound
        said[OWNER] = places.caller.name
        row = await asyncio.to_thread(_put, unbound, new, said)
        return None if row is None else Placed(row=row, door=None)
    door = await door_for(places.installation, places.caller, "run", project)
    row = await asyncio.to_thread(_put, door.ws.ledger.protocol, new, said)
    return None if row is None else Placed(row=row, door=door)


def _put(rows: ProtocolRows, new: str, said: Mapping[str, Json]) -> ThreadRow | None:
    return rows.thread(new) if rows.put_thread(new, said) else None


def _wanted(places: Places, said: Mapping[str, Json]) -> str | None:
    named = said.get("project")
    mine = [p for p in places.installation.projects() if places.caller.may("read", p)]
    if named is None:
        return mine[0] if len(mine) == 1 else None
    if named not in mine:
        raise Problem(404, "metadata.project: no such project, or it is not yours")
    return str(named)


def _sayable(metadata: Mapping[str, Json]) -> dict[str, Json]:
    if any(key.startswith(HIDDEN) for key in metadata):
        raise Problem(422, f"metadata: keys that begin with {HIDDEN!r} are the server's")
    return dict(metadata)


@router.post("/search")
async def search(body: ThreadSearch, places: PlacesDep) -> Response:
    """Threads of all projects of the caller, newest first unless asked otherwise."""
    if body.values is not None or body.extract is not None:
        raise Problem(501, "values, extract: search by status and metadata, then read the states")
    ids = None if body.ids is None else [uuid_of(one, "ids") for one in body.ids]
    ordered = body.sort_by in ("updated_at", "state_updated_at") and body.sort_order == "desc"
    enough = body.offset + body.limit if ordered else None
    rows = await _matching(places, body, ids, enough)
    rows.sort(key=lambda row: _order(row, body.sort_by), reverse=body.sort_order == "desc")
    page = rows[body.offset : body.offset + body.limit]
    more = {"X-Pagination-Next": str(body.offset + body.limit)} if len(page) == body.limit else {}
    states = not body.select or bool({"values", "interrupts"} & set(body.select))
    shown = [await _shown(places, row, states=states) for row in page]
    return Answer([picked(one, body.select) for one in shown], headers=more)


@router.post("/count")
async def count(body: ThreadCount, places: PlacesDep) -> Response:
    """How many threads match."""
    if body.values is not None:
        raise Problem(501, "values: count by status and metadata")
    if not body.metadata:
        stores = await _stores(places)
        if len(stores) == 1:  # no thread is unbound, so each row counts
            return Answer(await asyncio.to_thread(lambda: stores[0].count(status=body.status)))
    return Answer(len(await _matching(places, body, None, None)))


async def _stores(places: Places) -> list[ProtocolRows]:
    doors = [door for door in await places.doors() if places.loop]
    if not doors:
        return []
    bound = [door.ws.ledger.protocol for door in doors]
    return [*bound, (await places.bindings()).unbound]


async def _matching(
    places: Places, asked: ThreadCount, ids: list[str] | None, enough: int | None
) -> list[ThreadRow]:
    found: list[ThreadRow] = []
    for rows in await _stores(places):
        found += await asyncio.to_thread(_filtered, rows, places.caller.name, asked, ids, enough)
    return found


def _filtered(
    rows: ProtocolRows, caller: str, asked: ThreadCount, ids: list[str] | None, enough: int | None
) -> list[ThreadRow]:
    """Rows of one project that match, `enough` of the newest at most."""
    found: list[ThreadRow] = []
    offset = 0
    while True:
        page = rows.threads(status=asked.status, ids=ids, limit=_PAGE, offset=offset)
        found += [
            row for row in page
            if (row.project or row.metadata.get(OWNER) == caller)
            and contains(said_of(row), asked.metadata or {})
        ]  # fmt: skip
        offset += _PAGE
        if len(page) < _PAGE or (enough is not None and len(found) >= enough):
            return found


def _order(row: ThreadRow, by: str) -> tuple[str, str]:
    key = {"thread_id": row.thread, "status": row.status, "created_at": row.created_at}
    return key.get(by, row.updated_at), row.thread


async def _shown(places: Places, row: ThreadRow, *, states: bool) -> Plain:
    placed = Placed(row=row, door=None)
    return thread(row, await places.snapshot(placed) if states else None)


@router.get("/{thread_id}")
async def get(thread_id: str, places: PlacesDep) -> Response:
    """One thread, with its values and the interrupts that wait."""
    placed = await places.thread(thread_id)
    return Answer(thread(placed.row, await places.snapshot(placed)))


@router.patch("/{thread_id}")
async def patch(thread_id: str, body: ThreadPatch, places: PlacesDep) -> Response:
    """Say more of a thread; its project stays."""
    if body.ttl is not None:
        raise Problem(501, "ttl: retention is a setting of the project (`retention.checkpoints`)")
    placed = await places.thread(thread_id, "run")
    said = _sayable(body.metadata or {})
    if said.get("project", placed.row.project or None) != (placed.row.project or None):
        raise Problem(422, "metadata.project: a thread's project never changes")
    rows = await _rows(places, placed)
    merged = {**placed.row.metadata, **said}
    await asyncio.to_thread(rows.set_metadata, placed.row.thread, merged)
    row = await asyncio.to_thread(rows.thread, placed.row.thread)
    if row is None:
        raise Problem(404, "no such thread, or it is not yours")
    return Answer(thread(row, await places.snapshot(placed)))


async def _rows(places: Places, placed: Placed) -> ProtocolRows:
    if placed.door is None:
        return (await places.bindings()).unbound
    return placed.door.ws.ledger.protocol


@router.delete("/{thread_id}")
async def delete(thread_id: str, places: PlacesDep) -> Response:
    """Forget a thread's checkpoints, runs and metadata; decisions, incident and audit stay."""
    placed = await places.thread(thread_id, "admin")
    if placed.door is not None:
        await asyncio.to_thread(_release, placed.door, placed.row.thread, places.caller.name)
    saver: Any = places.loop.checkpointer  # typed as what a graph may be compiled with
    await saver.adelete_thread(placed.row.thread)
    rows = await _rows(places, placed)
    await asyncio.to_thread(rows.delete_thread, placed.row.thread)
    return Response(status_code=204)


def _release(door: Door, which: str, by: str) -> None:
    """Close what cannot go on without its checkpoints.

    Raises:
        Problem: 409, it works, or a person is waited for.
    """
    ledger = door.ws.ledger
    incident = ledger.incidents.find(which)
    if incident is not None and incident.state in ("running", "waiting"):
        what = "works" if incident.state == "running" else "waits for a person's decision"
        raise Problem(409, f"the thread {what}; it can be deleted when its run has ended")
    open_now = ledger.proposals.open()
    if open_now is not None and open_now.proposal.thread == which:
        raise Problem(
            409, f"its proposal {open_now.proposal.id} is {open_now.state}; decide on it first "
            f"(open are: {', '.join(sorted(OPEN_STATES))})",
        )  # fmt: skip
    if incident is not None and incident.state == "quarantined":
        ledger.incidents.set_state(which, "closed", problem=f"deleted by {by}")
    with ledger.db.write() as tx:
        ledger.audit.append(tx, "thread.deleted", {"thread": which, "by": by})
