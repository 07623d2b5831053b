"""The part of a LangGraph server's API that a run needs, over a real graph, for the real SDK.

Behaves as `langgraph dev` (langgraph-api 0.16.7) was measured to: an unknown assistant is 422,
context beside configurable is 400, an error of the graph is `__error__` in a 200, a run waits as
`pending` until a worker is free. A client that goes away cancels its run a moment later, unless its
thread is gone by then: such a run keeps its worker.
"""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Interrupt
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.fakes import langgraph_agent

NOTICED_S = 0.2
"""After this it is noticed that a client went away."""


@dataclass(slots=True, kw_only=True)
class Run:
    """One run as the API tells of it."""

    id: str
    status: str = "pending"
    request: dict[str, Any] = field(default_factory=dict)
    work: "asyncio.Task[dict[str, Any]] | None" = None


@dataclass(slots=True, kw_only=True)
class Thread:
    """One thread and its runs, newest first."""

    id: str
    metadata: dict[str, Any]
    status: str = "idle"
    runs: list[Run] = field(default_factory=list)


class LangGraphServer:
    """State of a server; `app` is what is served."""

    def __init__(
        self, *, graph: CompiledStateGraph[Any, Any, Any, Any] | None = None,
        assistant: str = "agent", jobs: int = 4, token: str | None = None,
    ) -> None:  # fmt: skip
        self.threads: dict[str, Thread] = {}
        self.deleted: list[Thread] = []
        self.cancelled = 0
        self.headers: list[Mapping[str, str]] = []
        self._assistant, self._token = assistant, token
        self._graph = (graph or langgraph_agent.graph).copy({"checkpointer": InMemorySaver()})
        self._jobs = jobs
        self._free: asyncio.Semaphore | None = None
        self.app = Starlette(
            routes=[
                Route("/threads", self._guarded(self._create), methods=["POST"]),
                Route("/threads/{thread}", self._guarded(self._thread), methods=["GET", "DELETE"]),
                Route("/threads/{thread}/runs", self._guarded(self._runs), methods=["GET"]),
                Route("/threads/{thread}/runs/wait", self._guarded(self._wait), methods=["POST"]),
                Route(
                    "/threads/{thread}/runs/{run}/cancel", self._guarded(self._cancel),
                    methods=["POST"],
                ),
            ]
        )  # fmt: skip

    def _guarded(self, answer: Any) -> Any:
        async def guarded(request: Request) -> Response:
            self.headers.append(dict(request.headers))
            if self._token and request.headers.get("authorization") != f"Bearer {self._token}":
                return _refused(401, "Unauthorized")
            thread = request.path_params.get("thread")
            if thread is not None and thread not in self.threads:
                return _refused(404, f"Thread with ID {thread} not found")
            answered: Response = await answer(request)
            return answered

        return guarded

    async def _create(self, request: Request) -> Response:
        body = await request.json()
        thread = Thread(id=str(uuid.uuid4()), metadata=body.get("metadata") or {})
        self.threads[thread.id] = thread
        return JSONResponse(_thread_json(thread))

    async def _thread(self, request: Request) -> Response:
        thread = self.threads[request.path_params["thread"]]
        if request.method == "DELETE":
            self.deleted.append(self.threads.pop(thread.id))
            return Response(status_code=204)
        return JSONResponse(_thread_json(thread))

    async def _runs(self, request: Request) -> Response:
        thread = self.threads[request.path_params["thread"]]
        return JSONResponse([{"run_id": run.id, "status": run.status} for run in thread.runs])

    async def _cancel(self, request: Request) -> Response:
        thread = self.threads[request.path_params["thread"]]
        for run in thread.runs:
            if run.id == request.path_params["run"] and run.status in ("pending", "running"):
                self.cancelled += 1
                self._end(thread, run)
                return Response(status_code=202)
        return _refused(404, "Run not found")

    async def _wait(self, request: Request) -> Response:
        body = await request.json()
        if body["assistant_id"] != self._assistant:
            return _refused(422, f"Invalid assistant: {body['assistant_id']!r}.")
        if "context" in body and (body.get("config") or {}).get("configurable"):
            return _refused(400, "Cannot specify both configurable and context.")
        thread = self.threads[request.path_params["thread"]]
        run = Run(id=str(uuid.uuid4()), request=body)
        thread.runs.insert(0, run)
        run.work = asyncio.ensure_future(self._worked(thread, run))
        place = f"/threads/{thread.id}/runs/{run.id}"
        return StreamingResponse(
            self._answer(thread, run, run.work), media_type="application/json",
            headers={"Content-Location": place},
        )  # fmt: skip

    async def _answer(
        self, thread: Thread, run: Run, work: "asyncio.Task[dict[str, Any]]"
    ) -> AsyncIterator[bytes]:
        try:
            yield b"\n"  # dev keeps a waiting connection alive with blanks
            yield json.dumps(await asyncio.shield(work)).encode()
        finally:
            if not work.done():
                asyncio.get_running_loop().call_later(NOTICED_S, self._left, thread, run)

    def _left(self, thread: Thread, run: Run) -> None:
        if thread.id in self.threads:
            self._end(thread, run)

    def _end(self, thread: Thread, run: Run) -> None:
        if run.work is not None and not run.work.done():
            run.work.cancel()
            run.status = thread.status = "interrupted"

    async def _worked(self, thread: Thread, run: Run) -> dict[str, Any]:
        if self._free is None:
            self._free = asyncio.Semaphore(self._jobs)
        async with self._free:
            run.status, thread.status = "running", "busy"
            return await self._invoke(thread, run)

    async def _invoke(self, thread: Thread, run: Run) -> dict[str, Any]:
        body = run.request
        config: Any = {
            "configurable": {"thread_id": thread.id}, "metadata": body.get("metadata") or {},
        }  # fmt: skip
        try:
            values = await self._graph.ainvoke(
                body.get("input"), config, context=body.get("context")
            )
        except Exception as error:  # noqa: BLE001  whatever the graph raises is its answer
            run.status = thread.status = "error"
            return {"__error__": {"error": type(error).__name__, "message": str(error)}}
        run.status = "success"
        thread.status = "interrupted" if "__interrupt__" in values else "idle"
        plain: dict[str, Any] = _plain(values)
        return plain


def _plain(value: object) -> Any:
    if isinstance(value, BaseMessage):
        return value.model_dump()
    if isinstance(value, Interrupt):
        return {"value": value.value, "id": value.id}
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value


def _thread_json(thread: Thread) -> dict[str, Any]:
    return {"thread_id": thread.id, "status": thread.status, "metadata": thread.metadata}


def _refused(status: int, detail: str) -> Response:
    return JSONResponse({"detail": detail}, status_code=status)
