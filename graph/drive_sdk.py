"""Drive threads that a foreign LangGraph server owns, by `langgraph_sdk`.

The server keeps checkpoints and runs the nodes; our ledger says what is true. Runs are started with
`reject` and then looked at until they end, so that a broken connection, or a restart of ours, finds
the run again instead of starting a second one.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import APIStatusError
from langgraph_sdk.schema import Command, Run, RunStatus, ThreadState

from contracts.errors import ConnectorError, TracesLate
from contracts.json_types import JsonObject
from graph.drive import Busy, OnEvent, Pending, Standing, driving
from memory.incidents import DriverKind
from memory.ledger import Ledger

GRAPH = "tracemend"
"""The graph's name in `langgraph.json`."""
BACKEND = "server"
LOOK_FIRST_S, LOOK_LONGEST_S = 0.1, 2.0
"""How often a run of the server is looked at: soon, then less often."""
TIMEOUT_S = 30.0
"""Of one call; no call waits for a run."""
_ACTIVE: tuple[RunStatus, ...] = ("pending", "running")


class SdkDriver:
    """Drives one project's threads on a foreign server."""

    drives: tuple[DriverKind, ...] = ("local", "foreign")

    def __init__(self, url: str, token: str | None, ledger: Ledger) -> None:
        self._url, self._token = url, token
        self._ledger = ledger
        self._project = ledger.db.project

    async def standing(self, thread: str) -> Standing:
        """Where the thread stands; a thread that the server does not know was not started."""
        async with self._calling("get_state") as client:
            return await self._standing(client, thread)

    async def start(self, thread: str, request: JsonObject, on_event: OnEvent) -> Standing:
        """Start a new thread with a request and run it until it pauses or ends."""
        del on_event  # a foreign server streams to its own clients
        return await self._run(
            thread, lambda now: not now.started, {"input": {"request": dict(request)}}
        )

    async def resume(
        self, thread: str, interrupt: str, answer: JsonObject, on_event: OnEvent
    ) -> Standing:
        """Answer one pending interrupt, by its id, and run on."""
        del on_event
        command = Command(resume={interrupt: dict(answer)})
        return await self._run(
            thread, lambda now: any(p.id == interrupt for p in now.pending), {"command": command}
        )

    async def go_on(self, thread: str, on_event: OnEvent) -> Standing:
        """Run on after a crash or an error."""
        del on_event
        return await self._run(
            thread, lambda now: now.started and not now.finished and not now.pending, {}
        )

    async def _run(
        self, thread: str, wanted: Callable[[Standing], bool], given: Mapping[str, Any]
    ) -> Standing:
        """One run, under the thread's lease in our ledger: servers do not all refuse a second."""
        async with driving(self._ledger, thread), self._calling("run") as client:
            active = await self._active(client, thread)
            if active is not None:  # started by another client, or by us before a restart
                await self._ended(client, thread, active)
                return await self._standing(client, thread)
            now = await self._standing(client, thread)
            if not wanted(now):
                return now
            await client.threads.create(
                thread_id=thread, if_exists="do_nothing", graph_id=GRAPH,
                metadata={"project": self._project},
            )  # fmt: skip
            run = await client.runs.create(
                thread, GRAPH, context={"project": self._project}, multitask_strategy="reject",
                durability="sync", metadata={"project": self._project}, **given,
            )  # fmt: skip
            await self._ended(client, thread, run)
            return await self._standing(client, thread)

    async def _active(self, client: LangGraphClient, thread: str) -> Run | None:
        for status in _ACTIVE:
            try:
                found = await client.runs.list(thread, status=status, limit=1)
            except APIStatusError as error:
                if error.status_code == 404:
                    return None
                raise
            if found:
                return found[0]
        return None

    async def _ended(self, client: LangGraphClient, thread: str, run: Run) -> None:
        """Wait until a run is over.

        Raises:
            TracesLate: it stopped since traces are late.
            ConnectorError: it failed.
        """
        wait = LOOK_FIRST_S
        while run["status"] in _ACTIVE:
            await asyncio.sleep(wait)
            wait = min(wait * 1.5, LOOK_LONGEST_S)
            run = await client.runs.get(thread, run["run_id"])
        if run["status"] in ("error", "timeout"):
            raise await self._failure(client, thread, run)

    async def _failure(self, client: LangGraphClient, thread: str, run: Run) -> ConnectorError:
        """What the server says of a run that failed: an error of the task that it failed in."""
        state = await client.threads.get_state(thread)
        errors = [str(task["error"]) for task in state["tasks"] if task.get("error")]
        said = errors[0] if errors else str(run.get("error") or run["status"])
        kind = TracesLate if said.startswith("TracesLate") else ConnectorError
        return kind(
            f"the server's run failed: {said}", backend=BACKEND, operation="run", retryable=True
        )

    async def _standing(self, client: LangGraphClient, thread: str) -> Standing:
        try:
            state = await client.threads.get_state(thread)
        except APIStatusError as error:
            if error.status_code == 404:
                return Standing(started=False, next=(), pending=(), values={})
            raise
        values = cast("JsonObject", state["values"]) if isinstance(state["values"], dict) else {}
        after = tuple(state["next"] or ())
        return Standing(
            started=bool(values or after), next=after, pending=_pending(state), values=values
        )

    @asynccontextmanager
    async def _calling(self, operation: str) -> AsyncIterator[LangGraphClient]:
        """A client for some calls; what goes wrong with them is an error of ours."""
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        client = get_client(url=self._url, api_key=None, headers=headers, timeout=TIMEOUT_S)
        try:
            async with client:
                yield client
        except APIStatusError as error:
            if error.status_code == 409:
                raise Busy("the server has a run on this thread; it goes on there") from error
            raise ConnectorError(
                f"the LangGraph server answered {error.status_code} to {operation}",
                backend=BACKEND, operation=operation, retryable=error.status_code >= 500,
            ) from error  # fmt: skip
        except httpx.HTTPError as error:
            raise ConnectorError(
                f"the LangGraph server cannot be reached: {type(error).__name__}; is `foreign.url` "
                "right, and is it up?",
                backend=BACKEND, operation=operation, retryable=True,
            ) from error  # fmt: skip


def _pending(state: ThreadState) -> tuple[Pending, ...]:
    """Interrupts that wait; some servers name them at their tasks only."""
    listed: Sequence[Any] = state.get("interrupts") or [
        interrupt for task in state["tasks"] for interrupt in task.get("interrupts") or ()
    ]
    return tuple(
        Pending(id=str(one["id"]), payload=cast("JsonObject", one["value"]))
        for one in listed
    )  # fmt: skip
