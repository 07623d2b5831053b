"""Drive the graph: start a thread, resume it by interrupt id, go on after a crash.

Where a thread stands is in `checkpoints.sqlite`; what is true is in the ledger. Only the holder of
a thread's lease drives it.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command
from langsmith import tracing_context

from contracts.context import RunContext
from contracts.errors import LeaseLost, TracemendError
from contracts.json_types import Json, JsonObject
from graph.app import RECURSION_LIMIT
from graph.build import build
from graph.saver import open_saver
from graph.state import LoopInput, LoopState
from memory.leases import LEASE_SECONDS, Lease
from memory.ledger import Ledger

OnEvent = Callable[[JsonObject], None]
"""Called with each progress event of a run: `{"node": name}` or what a node streams."""

Loop = CompiledStateGraph[LoopState, RunContext, LoopInput, LoopState]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """An interrupt that waits for an answer."""

    id: str
    payload: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a thread stands: nothing started, at an interrupt, in the middle, or at its end."""

    started: bool
    next: tuple[str, ...]
    pending: tuple[Pending, ...]
    values: JsonObject

    @property
    def finished(self) -> bool:
        """Whether the thread ran to its end."""
        return self.started and not self.next


class Busy(TracemendError):
    """Another living process drives this thread now."""


class Driver(Protocol):
    """How a thread is driven, here or on a foreign server."""

    async def standing(self, thread: str) -> Standing:
        """Where the thread stands."""
        ...

    async def start(self, thread: str, request: JsonObject, on_event: OnEvent) -> Standing:
        """Start a new thread with a request and run it until it pauses or ends."""
        ...

    async def resume(
        self, thread: str, interrupt: str, answer: JsonObject, on_event: OnEvent
    ) -> Standing:
        """Answer one pending interrupt, by its id, and run on."""
        ...

    async def go_on(self, thread: str, on_event: OnEvent) -> Standing:
        """Run on after a crash. Never called at a pending interrupt: that would answer it."""
        ...


class LocalDriver:
    """Drives threads in this process on our own SQLite checkpointer."""

    def __init__(self, loop: Loop, ledger: Ledger) -> None:
        self.loop = loop
        self._ledger = ledger
        self._context = RunContext(project=ledger.db.project)

    async def standing(self, thread: str) -> Standing:
        """Where the thread stands."""
        snapshot = await self.loop.aget_state(_config(thread))
        pending = tuple(
            Pending(id=item.id, payload=cast("JsonObject", item.value))
            for item in snapshot.interrupts
        )
        return Standing(
            started=bool(snapshot.values or snapshot.next), next=snapshot.next, pending=pending,
            values=cast("JsonObject", snapshot.values),
        )  # fmt: skip

    async def start(self, thread: str, request: JsonObject, on_event: OnEvent) -> Standing:
        """Start a new thread with a request and run it until it pauses or ends."""
        return await self._run(thread, {"request": dict(request)}, on_event)

    async def resume(
        self, thread: str, interrupt: str, answer: JsonObject, on_event: OnEvent
    ) -> Standing:
        """Answer one pending interrupt, by its id, and run on."""
        return await self._run(thread, Command(resume={interrupt: dict(answer)}), on_event)

    async def go_on(self, thread: str, on_event: OnEvent) -> Standing:
        """Run on after a crash."""
        return await self._run(thread, None, on_event)

    async def _run(
        self, thread: str, given: Mapping[str, Json] | Command[object] | None, on_event: OnEvent
    ) -> Standing:
        async with self._driving(thread):
            # Our own state must never be uploaded as a trace, whatever the environment says.
            with tracing_context(enabled=False):
                stream = self.loop.astream(
                    cast("LoopInput", given),  # LangGraph types its input as the state only
                    _config(thread),
                    context=self._context,
                    stream_mode=["updates", "custom"],
                    durability="sync",
                )
                async for mode, chunk in stream:
                    for event in _events(mode, chunk):
                        on_event(event)
            return await self.standing(thread)

    @asynccontextmanager
    async def _driving(self, thread: str) -> AsyncIterator[None]:
        """Hold the thread's lease and keep renewing it.

        Raises:
            Busy: another process has it.
        """
        lease = await asyncio.to_thread(self._ledger.leases.take, f"thread:{thread}")
        if lease is None:
            raise Busy(f"another process drives thread {thread} now; it goes on there")
        me = asyncio.current_task()
        renewing = asyncio.create_task(self._renew(lease, me))
        try:
            yield
        finally:
            renewing.cancel()
            with suppress(asyncio.CancelledError):
                await renewing
            await asyncio.to_thread(self._ledger.leases.release, lease)

    async def _renew(self, lease: Lease, driver: "asyncio.Task[object] | None") -> None:
        try:
            while True:
                await asyncio.sleep(LEASE_SECONDS / 3)
                await asyncio.to_thread(self._ledger.leases.renew, lease)
        except LeaseLost:
            if driver is not None:
                driver.cancel("another process took this thread over")


def _events(mode: str, chunk: object) -> list[JsonObject]:
    if mode == "custom":
        return [cast("JsonObject", chunk)] if isinstance(chunk, dict) else []
    return [{"node": name} for name in chunk] if isinstance(chunk, dict) else []


def _config(thread: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread}, "recursion_limit": RECURSION_LIMIT}


@asynccontextmanager
async def open_loop(checkpoints: Path | str) -> AsyncIterator[Loop]:
    """The compiled graph on its checkpointer: a SQLite file, or a PostgreSQL URL.

    Raises:
        ConfigError: PostgreSQL is named and its driver is not installed.
    """
    os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")
    async with open_saver(checkpoints) as saver:
        yield build().compile(checkpointer=saver, name="tracemend")


@asynccontextmanager
async def local_driver(checkpoints: Path | str, ledger: Ledger) -> AsyncIterator[LocalDriver]:
    """A driver of one project, closed at the end."""
    async with open_loop(checkpoints) as loop:
        yield LocalDriver(loop, ledger)
