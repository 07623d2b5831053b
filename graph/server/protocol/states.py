"""Where a thread stands, now and at each of its checkpoints. Read only."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query
from langgraph.types import StateSnapshot
from starlette.responses import Response

from graph.server.problems import Problem
from graph.server.protocol.bodies import History, StateAt
from graph.server.protocol.places import Placed, Places, PlacesDep, config_of
from graph.server.protocol.shapes import Answer, picked, state

router = APIRouter(prefix="/threads/{thread_id}")

Select = Annotated[list[str] | None, Query()]


@router.get("/state")
async def now(thread_id: str, places: PlacesDep, select: Select = None) -> Response:
    """The newest state, with the interrupts that wait."""
    placed = await places.thread(thread_id)
    return Answer(picked(state(await places.snapshot(placed)), select))


@router.post("/state")
async def update(thread_id: str, places: PlacesDep) -> Response:
    """Refused: a written state could hold an answer that no person gave."""
    await places.thread(thread_id)
    raise Problem(
        501, "state: it cannot be written; answer an interrupt with `command.resume`, or start a "
        "new thread",
    )  # fmt: skip


@router.get("/state/{checkpoint}")
async def at(thread_id: str, checkpoint: str, places: PlacesDep, select: Select = None) -> Response:
    """The state at one checkpoint."""
    placed = await places.thread(thread_id)
    return Answer(picked(state(await _at(places, placed, checkpoint)), select))


@router.post("/state/checkpoint")
async def at_named(thread_id: str, body: StateAt, places: PlacesDep) -> Response:
    """The same, with the checkpoint in the body."""
    placed = await places.thread(thread_id)
    which = _checkpoint(body.checkpoint)
    if which is None:
        found = await places.snapshot(placed)
    else:
        found = await _at(places, placed, which)
    return Answer(picked(state(found), body.select))


async def _at(places: Places, placed: Placed, checkpoint: str) -> StateSnapshot:
    found = await places.loop.aget_state(config_of(placed.row.thread, checkpoint[:200]))
    if found.created_at is None:
        raise Problem(404, "the thread has no such checkpoint")
    return found


@router.get("/history")
async def history(
    thread_id: str, places: PlacesDep, limit: Annotated[int, Query(ge=1, le=1000)] = 10,
    before: Annotated[str | None, Query()] = None,
) -> Response:  # fmt: skip
    """States, newest first."""
    return await _history(places, thread_id, History(limit=limit, before=before))


@router.post("/history")
async def history_post(thread_id: str, body: History, places: PlacesDep) -> Response:
    """The same, with a filter in the body."""
    return await _history(places, thread_id, body)


async def _history(places: Places, thread_id: str, body: History) -> Response:
    placed = await places.thread(thread_id)
    if body.checkpoint is not None and body.checkpoint.get("checkpoint_ns"):
        raise Problem(501, "checkpoint.checkpoint_ns: the graph has no subgraphs")
    before = body.before if isinstance(body.before, str) else _checkpoint(body.before)
    # Read into a list: the checkpointer is locked while it is iterated.
    found = [
        one async for one in places.loop.aget_state_history(
            config_of(placed.row.thread), limit=body.limit, filter=body.metadata or None,
            before=None if before is None else config_of(placed.row.thread, before[:200]),
        )
    ]  # fmt: skip
    return Answer([picked(state(one), body.select) for one in found])


def _checkpoint(named: Mapping[str, Any] | None) -> str | None:
    """The checkpoint's id, of a checkpoint or of a config that holds one; never its thread."""
    inner = (named or {}).get("configurable", named)
    found = inner.get("checkpoint_id") if isinstance(inner, Mapping) else None
    if found is not None and not isinstance(found, str):
        raise Problem(422, "checkpoint_id: needs text")
    return found
