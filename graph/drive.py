"""Drive the graph: start a thread, resume it by interrupt id, go on after a crash.

Where a thread stands is in `checkpoints.sqlite`; what is true is in the ledger. Only the holder of
a thread's lease drives it.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, StreamMode
from langsmith import tracing_context

from contracts.context import RunContext
from contracts.errors import LeaseLost, TracemendError
from contracts.json_types import Json, JsonObject
from graph.app import RECURSION_LIMIT
from graph.build import build
from graph.saver import open_saver
from graph.state import LoopInput, LoopState
from memory.incidents import DriverKind
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
    """How a thread is driven, here or on a foreign server.

    Who asks for a step says what it has seen: where the thread has moved on meanwhile, since
    another process drove it, nothing is run and its new standing is the answer.
    """

    drives: tuple[DriverKind, ...]
    """Whose threads it can drive."""

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


class Listener(Protocol):
    """Follows the runs that are driven in this process; it never holds one up."""

    def modes(self, thread: str) -> Sequence[StreamMode]:
        """What it wants of a run that begins now, beside `updates` and `custom`."""
        ...

    def heard(self, thread: str, mode: str, chunk: object) -> None:
        """One part of the graph's stream, as LangGraph gives it."""
        ...


class LocalDriver:
    """Drives threads in this process on our own checkpointer."""

    drives: tuple[DriverKind, ...] = ("local",)

    def __init__(self, loop: Loop, ledger: Ledger) -> None:
        self.loop = loop
        self._ledger = ledger
        self._context = RunContext(project=ledger.db.project)
        self.listener: Listener | None = None

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
        return await self._run(
            thread, {"request": dict(request)}, on_event, lambda now: not now.started
        )

    async def resume(
        self, thread: str, interrupt: str, answer: JsonObject, on_event: OnEvent
    ) -> Standing:
        """Answer one pending interrupt, by its id, and run on."""
        command: Command[object] = Command(resume={interrupt: dict(answer)})
        return await self._run(
            thread, command, on_event, lambda now: any(p.id == interrupt for p in now.pending)
        )

    async def go_on(self, thread: str, on_event: OnEvent) -> Standing:
        """Run on after a crash."""
        return await self._run(
            thread, None, on_event,
            lambda now: now.started and not now.finished and not now.pending,
        )  # fmt: skip

    async def _run(
        self,
        thread: str,
        given: Mapping[str, Json] | Command[object] | None,
        on_event: OnEvent,
        wanted: Callable[[Standing], bool],
    ) -> Standing:
        async with driving(self._ledger, thread):
            # Between the caller's look and the lease another process may have driven it.
            now = await self.standing(thread)
            if not wanted(now):
                return now
            # Our own state must never be uploaded as a trace, whatever the environment says.
            with tracing_context(enabled=False):
                stream = self.loop.astream(
                    cast("LoopInput", given),  # LangGraph types its input as the state only
                    _config(thread),
                    context=self._context,
                    stream_mode=_modes(self.listener, thread),
                    durability="sync",
                )
                async for mode, chunk in stream:
                    if self.listener is not None:
                        self.listener.heard(thread, mode, chunk)
                    for event in _events(mode, chunk):
                        on_event(event)
            return await self.standing(thread)


@asynccontextmanager
async def driving(ledger: Ledger, thread: str) -> AsyncIterator[None]:
    """Hold the thread's lease and keep renewing it.

    Raises:
        Busy: another process has it.
        LeaseLost: another process took it over in the middle; what was done here stays done.
    """
    lease = await _taken(ledger, thread)
    me = asyncio.current_task()
    lost: list[LeaseLost] = []
    renewing = asyncio.create_task(_renew(ledger, lease, me, lost))
    try:
        yield
    except asyncio.CancelledError:
        if not lost or me is None:
            raise
        me.uncancel()
        raise lost[0] from None
    finally:
        renewing.cancel()
        with suppress(asyncio.CancelledError):
            await renewing
        await asyncio.to_thread(ledger.leases.release, lease)


async def _taken(ledger: Ledger, thread: str) -> Lease:
    """The lease; a caller that is cancelled while it is taken leaves none behind."""
    taking = asyncio.create_task(asyncio.to_thread(ledger.leases.take, lease_name(thread)))
    try:
        lease = await asyncio.shield(taking)
    except asyncio.CancelledError:
        late = await taking
        if late is not None:
            await asyncio.to_thread(ledger.leases.release, late)
        raise
    if lease is None:
        raise Busy(f"another process drives thread {thread} now; it goes on there")
    return lease


async def _renew(
    ledger: Ledger, lease: Lease, driver: "asyncio.Task[object] | None", lost: list[LeaseLost]
) -> None:
    try:
        while True:
            await asyncio.sleep(LEASE_SECONDS / 3)
            await asyncio.to_thread(ledger.leases.renew, lease)
    except LeaseLost as error:
        lost.append(error)
        if driver is not None:
            driver.cancel("another process took this thread over")


def lease_name(thread: str) -> str:
    """The name of the lease of who drives a thread."""
    return f"thread:{thread}"


def _events(mode: str, chunk: object) -> list[JsonObject]:
    if not isinstance(chunk, dict):
        return []
    if mode == "custom":
        return [cast("JsonObject", chunk)]
    return [{"node": name} for name in chunk] if mode == "updates" else []


def _modes(listener: Listener | None, thread: str) -> list[StreamMode]:
    asked = () if listener is None else listener.modes(thread)
    return list(dict.fromkeys(("updates", "custom", *asked)))


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
