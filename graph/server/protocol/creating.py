"""Creating a run: what it may ask, which thread it is on, and what the ledger keeps of it."""

import asyncio
from collections.abc import Mapping
from typing import cast
from uuid import uuid4

from contracts.json_types import Json, JsonObject
from contracts.people import Permission
from graph.dispatch import Dispatcher
from graph.installation import Door
from graph.server.deps import not_allowed
from graph.server.problems import Problem
from graph.server.protocol.bodies import RunCreate, StreamName
from graph.server.protocol.events import SUPPORTED, Feed, Reader
from graph.server.protocol.following import Followed
from graph.server.protocol.live import Live
from graph.server.protocol.names import uuid_of
from graph.server.protocol.places import Placed, Places
from graph.server.protocol.resuming import Resume, checked_command, resume
from graph.server.protocol.starting import Start, checked_input, start
from graph.server.protocol.threads import make
from memory.protocol import RunRow

Modes = frozenset[StreamName]


class Runs:
    """Creates runs for one caller."""

    def __init__(self, places: Places, live: Live, dispatcher: Dispatcher) -> None:
        self._places, self._live, self._dispatcher = places, live, dispatcher

    async def create(
        self, thread_id: str | None, body: RunCreate, modes: Modes = frozenset()
    ) -> tuple[Followed, Feed | None, Reader | None]:
        """Note a run; with `modes` its events are heard from the very beginning.

        Raises:
            Problem: why nothing was noted.
        """
        _check_supported(body, modes)
        run = str(uuid4())
        placed = await self._placed(thread_id, body)
        thread = None if placed is None else placed.row.thread
        feed, reader = None, None
        if modes and thread is not None:
            feed = self._live.hub.open(run, thread, modes)
            reader = feed.read(modes, None)
        try:
            door, row = await self._noted(run, placed, body)
        except BaseException:
            if feed is not None:
                self._live.hub.drop(feed)
            raise
        if modes and feed is None:
            feed = self._live.hub.open(run, row.thread, modes)
            reader = feed.read(modes, None)
        followed = self._live.follower.follow(door, row)
        self._dispatcher.wake()
        return followed, feed, reader

    async def _placed(self, thread_id: str | None, body: RunCreate) -> Placed | None:
        if thread_id is None:
            if body.command is not None:
                raise Problem(422, "command: a resume needs the thread that waits")
            return None
        thread = uuid_of(thread_id, "thread_id")
        found = await self._places.find(thread)
        if found is None and body.if_not_exists == "create":
            project = await self._places.project(body.assistant_id, body.context, None)
            found = await make(self._places, thread, {}, project=project)
        if found is None:
            raise Problem(404, "no such thread, or it is not yours")
        return found

    async def _noted(self, run: str, placed: Placed | None, body: RunCreate) -> tuple[Door, RunRow]:
        bound = placed.row.project or None if placed is not None else None
        project = await self._places.project(body.assistant_id, body.context, bound)
        caller = self._places.caller
        wants: Permission = "run" if body.command is None else "decide"
        if not caller.may(wants, project):
            raise not_allowed(wants)
        door = await self._places.installation.door_of(project)
        kept = _kept(body, caller.name)
        if body.command is not None:
            interrupt, answer = checked_command(body.command)
            if placed is None or placed.door is None:
                raise Problem(409, "command.resume: nothing waits on this thread")
            asked = Resume(
                run=run, thread=placed.row.thread, interrupt=interrupt, answer=answer, body=kept
            )
            return door, await resume(door, caller, asked)
        request = checked_input(body.input)
        if placed is not None and placed.door is None:
            bindings = await self._places.bindings()
            if not await asyncio.to_thread(bindings.bind, placed.row.thread, project):
                raise Problem(409, "the thread was given another input at the same moment")
        thread = None if placed is None else placed.row.thread
        begun = Start(run=run, thread=thread, request=request, body=kept, after=body.after_seconds)
        return door, await start(door, begun)


def _kept(body: RunCreate, by: str) -> JsonObject:
    """What is kept of a run's body. An answer to a card is in the ledger, under its decision."""
    kept: dict[str, Json] = {
        "input": body.input, "context": body.context, "by": by,
        "metadata": body.metadata, "command": None,
    }  # fmt: skip
    if body.command is not None:
        resumed = cast("Mapping[str, Json]", body.command.resume or {})
        kept["command"] = {"resume": dict.fromkeys(resumed)}
    return kept


_NO: Mapping[str, tuple[int, str]] = {
    "interrupt_before": (501, "the loop pauses where a person decides, and nowhere else"),
    "interrupt_after": (501, "the loop pauses where a person decides, and nowhere else"),
    "checkpoint": (501, "a run goes on from where its thread stands; nothing is forked"),
    "checkpoint_id": (501, "a run goes on from where its thread stands; nothing is forked"),
    "webhook": (501, "the server calls nobody; join the run, or read the thread"),
    "feedback_keys": (501, "feedback is kept where the traces are"),
    "langsmith_tracer": (501, "what a run does is never uploaded as a trace"),
}


def _check_supported(body: RunCreate, modes: Modes) -> None:
    """Refuse what would be silently wrong to leave out.

    Raises:
        Problem: 501 or 422.
    """
    for name, (status, why) in _NO.items():
        if getattr(body, name):
            raise Problem(status, f"{name}: {why}")
    if body.on_completion == "delete":
        raise Problem(501, "on_completion: threads are kept; an admin can delete one")
    named = (body.config or {}).get("configurable") or {}
    if not isinstance(named, Mapping):
        raise Problem(422, "config.configurable: needs an object")
    for key in named:
        if key.startswith(("__", "checkpoint")):
            raise Problem(501, f"config.configurable.{key[:80]}: a run's place is its thread")
    if body.input is None and body.command is None:
        raise Problem(422, 'send `input`, or `command` with {"resume": {"<interrupt id>": ...}}')
    if extra := sorted(set(body.context or {}) - {"project"}):
        raise Problem(422, f"context: {extra[0][:80]!r} is no key; there is `project`")
    check_modes(modes)


def check_modes(modes: Modes) -> None:
    """Whether all of these can be streamed.

    Raises:
        Problem: 501, one cannot.
    """
    if missing := sorted(modes - SUPPORTED):
        known = ", ".join(sorted(SUPPORTED))
        raise Problem(501, f"stream_mode: {missing[0]!r} is not supported; there are {known}")
