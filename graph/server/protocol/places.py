"""Where a caller's thread, assistant and project are. What a caller may not see is not there."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends
from langchain_core.runnables import RunnableConfig
from langgraph.types import StateSnapshot

from contracts.people import Permission, Principal
from graph.drive import Loop
from graph.installation import Door, Installation
from graph.server.deps import InstallationDep, PrincipalDep, door_for, doors_of, not_allowed
from graph.server.problems import Problem
from graph.server.protocol.names import GRAPH, assistant_id, uuid_of
from graph.server.protocol.shapes import HIDDEN
from memory.bindings import NOBODY, Bindings
from memory.protocol import ThreadRow

OWNER = f"{HIDDEN}owner"
"""Who made a thread that has no project yet: nobody else sees it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A thread and its project's door; `door` None: no input has named a project yet."""

    row: ThreadRow
    door: Door | None


@dataclass(frozen=True, slots=True)
class Places:
    """Looks things up for one caller."""

    installation: Installation
    caller: Principal

    @property
    def loop(self) -> Loop:
        """The graph on our checkpointer.

        Raises:
            Problem: 501, a foreign server drives the threads and speaks the protocol.
        """
        if self.installation.loop is None:
            raise Problem(501, "a foreign server drives these threads: ask it")
        return self.installation.loop

    async def doors(self) -> list[Door]:
        """Doors of every project that the caller may read."""
        return await doors_of(self.installation, self.caller)

    async def bindings(self) -> Bindings:
        """Which thread is whose.

        Raises:
            Problem: 404, the caller sees no project at all.
        """
        doors = await self.doors()
        if not doors:
            raise Problem(404, "no project of yours is here")
        db = doors[0].ws.ledger.db
        return Bindings(db.engine, clock=db.clock)

    async def thread(self, thread_id: str, permission: Permission = "read") -> Placed:
        """A thread that the caller may use so.

        Raises:
            Problem: 404, 403, or 422 for an id that is no UUID.
        """
        thread = uuid_of(thread_id, "thread_id")
        found = await self.find(thread)
        if found is None:
            raise Problem(404, "no such thread, or it is not yours")
        if found.door is not None and not self.caller.may(permission, found.door.ws.project):
            raise not_allowed(permission)
        return found

    async def find(self, thread: str) -> Placed | None:
        """The thread; None: there is none that the caller may see."""
        bindings = await self.bindings()
        project = await asyncio.to_thread(bindings.project_of, thread)
        if project == NOBODY:
            row = await asyncio.to_thread(bindings.unbound.thread, thread)
            mine = row is not None and row.metadata.get(OWNER) == self.caller.name
            return Placed(row=row, door=None) if row is not None and mine else None
        if project is None or not self.caller.may("read", project):
            return None
        if project not in self.installation.projects():
            return None  # it was taken out of the registry
        door = await door_for(self.installation, self.caller, "read", project)
        row = await asyncio.to_thread(door.ws.ledger.protocol.thread, thread)
        return None if row is None else Placed(row=row, door=door)

    async def snapshot(self, placed: Placed) -> StateSnapshot:
        """Where the thread stands."""
        return await self.loop.aget_state(config_of(placed.row.thread))

    async def assistant(self, text: str) -> str | None:
        """The project that an assistant's id or name stands for; None: the graph, so any.

        Raises:
            Problem: 404.
        """
        if text == GRAPH:
            return None
        for slug in self.installation.projects():
            if self.caller.may("read", slug) and text in (slug, str(assistant_id(slug))):
                return slug
        raise Problem(404, "no such assistant, or it is not yours; POST /assistants/search lists")

    async def project(
        self, assistant: str, context: Mapping[str, Any] | None, bound: str | None
    ) -> str:
        """The one project that a run is for.

        Args:
            assistant: an assistant's id or name, or the graph's.
            context: of the run.
            bound: the project that the thread belongs to.

        Raises:
            Problem: 404 for a project that the caller does not see, 409 for a thread of another
                one, 422 where several would fit or two are named.
        """
        by_assistant, by_context = await self.assistant(assistant), self._named(context)
        named = by_assistant or by_context
        if by_assistant and by_context and by_assistant != by_context:
            raise Problem(422, "context.project: the assistant is of another project")
        if bound is not None and named is not None and named != bound:
            raise Problem(409, "the thread belongs to another project; make a new thread")
        if bound is not None or named is not None:
            return bound or named or ""
        return self.only()

    def only(self) -> str:
        """The caller's one project.

        Raises:
            Problem: 422, there are several.
        """
        mine = [p for p in self.installation.projects() if self.caller.may("read", p)]
        if len(mine) != 1:
            raise Problem(
                422, "context.project: say which project, or use its assistant; "
                "POST /assistants/search lists them",
            )  # fmt: skip
        return mine[0]

    def _named(self, context: Mapping[str, Any] | None) -> str | None:
        named = (context or {}).get("project")
        if named is None:
            return None
        if not isinstance(named, str):
            raise Problem(422, "context.project: needs a project's slug")
        if named not in self.installation.projects() or not self.caller.may("read", named):
            raise Problem(404, "context.project: no such project, or it is not yours")
        return named


def config_of(thread: str, checkpoint: str | None = None) -> RunnableConfig:
    """The checkpointer's address; the thread is never one that a body names."""
    named: dict[str, str] = {"thread_id": thread}
    if checkpoint is not None:
        named |= {"checkpoint_ns": "", "checkpoint_id": checkpoint}
    return {"configurable": named}


def places_of(installation: InstallationDep, caller: PrincipalDep) -> Places:
    """What every route of the protocol asks for."""
    return Places(installation, caller)


PlacesDep = Annotated[Places, Depends(places_of)]
