"""Assistants: one a project, always there. They are made by `tracemend init`, not by clients."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, cast

from fastapi import APIRouter, Query
from starlette.responses import Response

from contracts.errors import ConfigError
from contracts.json_types import Json
from graph.drive import Loop
from graph.installation import Door
from graph.server.problems import Problem
from graph.server.protocol.bodies import AssistantCount, AssistantSearch
from graph.server.protocol.names import GRAPH, assistant_id
from graph.server.protocol.places import Places, PlacesDep
from graph.server.protocol.shapes import Answer, Plain, picked

router = APIRouter(prefix="/assistants")


@router.post("/search")
async def search(body: AssistantSearch, places: PlacesDep) -> Response:
    """The caller's assistants."""
    found = await _matching(places, body)
    found.sort(key=lambda one: str(one[body.sort_by]), reverse=body.sort_order == "desc")
    page = found[body.offset : body.offset + body.limit]
    more = body.offset + body.limit < len(found)
    headers = {"X-Pagination-Next": str(body.offset + body.limit)} if more else {}
    return Answer([picked(one, body.select) for one in page], headers=headers)


@router.post("/count")
async def count(body: AssistantCount, places: PlacesDep) -> Response:
    """How many assistants the caller has."""
    return Answer(len(await _matching(places, body)))


@router.get("/{assistant}")
async def get(assistant: str, places: PlacesDep) -> Response:
    """One assistant, by its id or its project's slug; the graph's id where there is only one."""
    return Answer(await _one(places, assistant))


@router.get("/{assistant}/graph")
async def drawing(
    assistant: str, places: PlacesDep, xray: Annotated[bool | int, Query()] = False
) -> Response:
    """The loop's nodes and edges, for drawing."""
    await places.assistant(assistant)
    if isinstance(xray, int) and not isinstance(xray, bool) and xray < 0:
        raise Problem(422, "xray: needs true, false, or a depth from 0 on")
    # The loop has no subgraphs, so however deep one looks, the drawing is the same.
    return Answer((await places.loop.aget_graph(xray=bool(xray))).to_json())


@router.get("/{assistant}/schemas")
async def schemas(assistant: str, places: PlacesDep) -> Response:
    """JSON schemas of what goes in and comes out."""
    await places.assistant(assistant)
    return Answer(await asyncio.to_thread(_schemas, places.loop))


@router.get("/{assistant}/subgraphs")
@router.get("/{assistant}/subgraphs/{namespace}")
async def subgraphs(assistant: str, places: PlacesDep, namespace: str | None = None) -> Response:
    """The loop has none."""
    await places.assistant(assistant)
    if namespace is not None:
        raise Problem(404, "the graph has no subgraphs")
    return Answer({})


@router.post("/{assistant}/versions")
async def versions(assistant: str, places: PlacesDep) -> Response:
    """An assistant has one version: the project's settings are kept in its repository."""
    return Answer([await _one(places, assistant)])


async def _one(places: Places, text: str) -> Plain:
    slug = await places.assistant(text) or places.only()
    found = [door for door in await places.doors() if door.ws.project == slug]
    if not found:
        raise Problem(404, "no such assistant, or it is not yours")
    return _assistant(found[0])


async def _matching(places: Places, asked: AssistantCount) -> list[Plain]:
    shown = [_assistant(door) for door in await places.doors()]
    return [
        one for one in shown
        if (asked.graph_id is None or asked.graph_id == one["graph_id"])
        and (not asked.name or asked.name.lower() in str(one["name"]).lower())
        and contains(one["metadata"], asked.metadata or {})
    ]  # fmt: skip


def _assistant(door: Door) -> Plain:
    slug, file = door.ws.project, door.ws.root / "tracemend.yaml"
    try:
        changed = datetime.fromtimestamp(file.stat().st_mtime, UTC).isoformat()
    except OSError as error:
        raise ConfigError(f"project {slug!r}: its tracemend.yaml cannot be read") from error
    return {
        "assistant_id": str(assistant_id(slug)), "graph_id": GRAPH, "name": slug,
        "description": f"Traces to reviewed edits, for the project {slug}",
        "config": {}, "context": {"project": slug},
        "metadata": {"project": slug, "created_by": "system"}, "version": 1,
        "created_at": changed, "updated_at": changed,
    }  # fmt: skip


def _schemas(loop: Loop) -> Plain:
    return {
        "graph_id": GRAPH, "input_schema": _open(loop.get_input_jsonschema()),
        "output_schema": _open(loop.get_output_jsonschema()),
        "state_schema": _open(loop.get_output_jsonschema()),
        "config_schema": {"type": "object", "properties": {}},
        "context_schema": _open(loop.get_context_jsonschema()),
    }  # fmt: skip


def _open(schema: Mapping[str, Any] | None) -> Json:
    return cast("Json", schema)


def contains(whole: Json | Any, part: Json | Any) -> bool:  # noqa: ANN401  # JSON of a client
    """Whether everything that was asked for is there, as PostgreSQL's `@>` means it."""
    if isinstance(part, Mapping):
        return isinstance(whole, Mapping) and all(
            key in whole and contains(whole[key], value) for key, value in part.items()
        )
    if isinstance(part, Sequence) and not isinstance(part, str):
        return isinstance(whole, Sequence) and not isinstance(whole, str) and all(
            any(contains(there, value) for there in whole) for value in part
        )  # fmt: skip
    return bool(type(whole) is type(part) and whole == part)
