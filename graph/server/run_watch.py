"""Times of runs and nodes, as LangGraph reports them: for metrics and for our own traces."""

import asyncio
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langgraph.errors import GraphBubbleUp
from opentelemetry.context import Context
from opentelemetry.trace import Span, Status, StatusCode, Tracer, set_span_in_context

from contracts.errors import TracemendError, TracesLate
from graph.installation import Installation
from graph.server.metrics import Meters
from memory.workspace import project_of_thread

_STEP = "graph:step:"
"""How LangGraph tags what it calls as a node, and nothing inside of one."""

_log = logging.getLogger("tracemend.runs")


@dataclass(slots=True, kw_only=True)
class _Open:
    """A run or a node that has begun."""

    name: str
    thread: str
    root: UUID
    begun: float
    span: Span
    paused: bool = False
    """Of a run: some node waits for a person."""
    whose: tuple[str, str] | None = None
    """Of a run: project and kind, once the ledger told them."""


class RunWatch(AsyncCallbackHandler):
    """Sees every run that is driven in this process. It reads ids and names, never a value."""

    def __init__(self, installation: Installation, meters: Meters, tracer: Tracer) -> None:
        self._installation = installation
        self._meters = meters
        self._tracer = tracer
        self._open: dict[UUID, _Open] = {}
        self._roots: dict[UUID, UUID] = {}
        """Whatever is running inside of a run, to the run."""

    async def on_chain_start(
        self, serialized: dict[str, Any], inputs: dict[str, Any], *, run_id: UUID,
        parent_run_id: UUID | None = None, tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None, **kwargs: object,
    ) -> None:  # fmt: skip
        """A run, a node, or something inside of a node begins."""
        del serialized, inputs
        thread = str((metadata or {}).get("thread_id", ""))
        if parent_run_id is None:
            self._roots[run_id] = run_id
            self._open[run_id] = self._begin("run", thread, run_id, None)
            return
        root = self._roots.get(parent_run_id)
        if root is None:
            return
        self._roots[run_id] = root
        if any(tag.startswith(_STEP) for tag in tags or ()):
            parent = set_span_in_context(self._open[root].span)
            name = str(kwargs.get("name") or (metadata or {}).get("langgraph_node") or "node")
            self._open[run_id] = self._begin(name, thread, root, parent)

    def _begin(self, name: str, thread: str, root: UUID, parent: Context | None) -> _Open:
        span = self._tracer.start_span(name, context=parent or Context())
        span.set_attribute("tracemend.thread", thread)
        return _Open(name=name, thread=thread, root=root, begun=time.perf_counter(), span=span)

    async def on_chain_end(
        self, outputs: dict[str, Any], *, run_id: UUID, parent_run_id: UUID | None = None,
        **kwargs: object,
    ) -> None:  # fmt: skip
        """It came to its end, or to a person."""
        del outputs, parent_run_id, kwargs
        await self._end(run_id, None)

    async def on_chain_error(
        self, error: BaseException, *, run_id: UUID, parent_run_id: UUID | None = None,
        **kwargs: object,
    ) -> None:  # fmt: skip
        """It stopped: at an interrupt, by cancellation, or by an error."""
        del parent_run_id, kwargs
        await self._end(run_id, error)

    async def _end(self, run_id: UUID, error: BaseException | None) -> None:
        root = self._roots.pop(run_id, None)
        ended = self._open.pop(run_id, None)
        if ended is None:
            return
        if root == run_id:
            self._forget(root)
        seconds = time.perf_counter() - ended.begun
        outcome = _outcome(error, paused=ended.paused)
        if outcome == "waiting" and root is not None and root in self._open:
            self._open[root].paused = True
        ended.span.set_attribute("tracemend.outcome", outcome)
        if outcome == "failed":
            ended.span.set_attribute("error.type", type(error).__name__)
            ended.span.set_status(Status(StatusCode.ERROR))
        whose = await self._known(ended if root == run_id else self._open.get(ended.root, ended))
        if whose is not None:
            ended.span.set_attribute("tracemend.project", whose[0])
        ended.span.end()
        if whose is None:
            return
        project, kind = whose
        if ended.root == run_id:
            self._meters.runs.labels(project, kind, outcome).observe(seconds)
            said = {"project": project, "run": ended.thread, "kind": kind, "outcome": outcome}
            _log.info("run paused or ended", extra={**said, "ms": round(seconds * 1000, 1)})
        else:
            self._meters.nodes.labels(project, ended.name, outcome).observe(seconds)

    def _forget(self, root: UUID) -> None:
        """What was cancelled with its run may have reported no end of its own."""
        for inner in [one for one, run in self._roots.items() if run == root]:
            del self._roots[inner]
            left = self._open.pop(inner, None)
            if left is not None:
                left.span.end()

    async def _known(self, run: _Open) -> tuple[str, str] | None:
        """Project and kind of a run; asked of the ledger once a drive."""
        if run.whose is None:
            run.whose = await asyncio.to_thread(self._whose, run.thread)
        return run.whose

    def _whose(self, thread: str) -> tuple[str, str] | None:
        """As its incident says; None for a thread that has none, or a project that is broken."""
        try:
            project = project_of_thread(self._installation.home, thread)
            incident = self._installation.door(project).ws.ledger.incidents.find(thread)
        except TracemendError:
            return None
        return (project, incident.kind) if incident is not None else None

    async def on_llm_start(
        self, serialized: dict[str, Any], prompts: list[str], *, run_id: UUID,
        parent_run_id: UUID | None = None, **kwargs: object,
    ) -> None:  # fmt: skip
        """A model is asked; only inside of which run is kept."""
        del serialized, prompts, kwargs
        root = self._roots.get(parent_run_id) if parent_run_id is not None else None
        if root is not None:
            self._roots[run_id] = root

    async def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[Any]], *, run_id: UUID,
        parent_run_id: UUID | None = None, **kwargs: object,
    ) -> None:  # fmt: skip
        """The same for chat models."""
        del messages, kwargs
        await self.on_llm_start(serialized, [], run_id=run_id, parent_run_id=parent_run_id)

    async def on_llm_error(
        self, error: BaseException, *, run_id: UUID, parent_run_id: UUID | None = None,
        **kwargs: object,
    ) -> None:  # fmt: skip
        """The call failed; what it used is not known."""
        del error, parent_run_id, kwargs
        await self._called(run_id, [])

    async def on_llm_end(
        self, response: LLMResult, *, run_id: UUID, parent_run_id: UUID | None = None,
        **kwargs: object,
    ) -> None:  # fmt: skip
        """The model answered; its usage is counted where it is said."""
        del parent_run_id, kwargs
        said = [
            generation.message
            for group in response.generations
            for generation in group
            if isinstance(generation, ChatGeneration) and isinstance(generation.message, AIMessage)
        ]
        await self._called(run_id, said)

    async def _called(self, run_id: UUID, said: Iterable[AIMessage]) -> None:
        root = self._roots.pop(run_id, run_id)
        whose = await self._known(self._open[root]) if root in self._open else None
        if whose is None:
            return
        project = whose[0]
        usages = [m.usage_metadata for m in said if m.usage_metadata is not None]
        self._meters.model_calls.labels(project, "known" if usages else "unknown").inc()
        for usage in usages:
            numbers = cast("dict[str, int]", usage)
            for direction in ("input", "output"):
                counter = self._meters.model_tokens.labels(project, direction)
                counter.inc(numbers[f"{direction}_tokens"])


def _outcome(error: BaseException | None, *, paused: bool) -> str:
    if isinstance(error, GraphBubbleUp):
        return "waiting"
    if isinstance(error, asyncio.CancelledError):
        return "stopped"
    if isinstance(error, TracesLate):
        return "late"
    if error is not None:
        return "failed"
    return "waiting" if paused else "ended"


def watch_runs(installation: Installation, meters: Meters, tracer: Tracer) -> None:
    """Let the graph of this installation report its runs; a no-op where a server drives them."""
    if installation.loop is not None:
        handler = RunWatch(installation, meters, tracer)
        installation.loop = installation.loop.with_config(callbacks=[handler])
