"""The probe of kind "langgraph": a LangGraph server by URL, a fresh thread a run.

Source: langgraph_sdk 0.4.14 against `langgraph dev` (langgraph-api 0.16.7), driven in
`tests/integration/test_probe_langgraph_dev.py`. A server takes `context` or `configurable`, never
both; a dataclass of a context drops keys that it does not know. A run that waits for a free worker
of the server is `pending`; its metadata reach the graph's `config["metadata"]` and its traces. A
run whose thread is deleted before it was cancelled goes on, and keeps its worker.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self, cast

import httpx
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import APIStatusError

from connectors.probe.answers import marks, text_files
from connectors.probe.company import company
from connectors.probe.environment import ENVIRONMENT
from connectors.probe.hosts import HOSTS, HostSlots, host_of
from connectors.probe.http import CONNECT_S, Service, over_limit, unobserved
from connectors.probe.langgraph_state import (
    checked_state,
    failure_of,
    messages_of,
    output_of,
    usage_of,
)
from connectors.probe.wire import ProtocolBreachError, WireId
from contracts.errors import ProbeError
from contracts.harness import HarnessSnapshot, Observation
from contracts.json_types import Json
from contracts.traces import Trace

BACKEND: Final = "langgraph"
CALL_S: Final = 15.0
"""Of one call that does not wait for the agent; over it the server is not reachable."""

ReadMessages = Callable[[Sequence[Json]], Trace | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Which graph is run, and how a case becomes its input and its state an answer."""

    assistant: str
    context_key: str
    input_key: str | None
    output_key: str | None


class LangGraphProbe:
    """Implements `contracts.protocols.Probe` over a LangGraph server's API.

    The agent fails by an error of its graph, by an interrupt (nobody answers one here), by silence
    until the deadline, or by a state over its limit. What goes wrong on the way is missing, and so
    is a run that no worker of the server took up in time.
    """

    def __init__(
        self,
        *,
        service: Service,
        graph: Graph,
        read_messages: ReadMessages,
        hosts: HostSlots = HOSTS,
    ) -> None:
        """Connect to nothing yet.

        Args:
            service: where the server is.
            graph: what is run there.
            read_messages: turns the messages of a final state into a trace.
            hosts: where runs are counted by host.
        """
        self._service, self._graph = service, graph
        self._read_messages = read_messages
        self._host, self._hosts = host_of(service.url), hosts
        self._slots = asyncio.Semaphore(service.concurrency)
        key = {} if service.token is None else {"x-api-key": service.token}
        # Not the SDK's own client: that one would take any key from our environment along.
        self._http = httpx.AsyncClient(
            base_url=service.url,
            transport=_Capped(httpx.AsyncHTTPTransport(), service.output_cap_bytes),
            headers=service.headers() | key | {"Accept-Encoding": "identity"},
            timeout=httpx.Timeout(None, connect=CONNECT_S),
        )
        self._client = LangGraphClient(self._http)

    async def __aenter__(self) -> Self:
        """Connections are opened by the runs."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def run(
        self, case_input: Json, harness: HarnessSnapshot, *, seed: int, deadline_s: float
    ) -> Observation:
        """Run once on a thread of its own, which is deleted whatever happens.

        Raises:
            ProbeError: the server does not let us in, or does not know the assistant.
        """
        limit_s = min(deadline_s, self._service.timeout_s)
        wire_id = WireId(secrets.token_hex(16))
        given: Json = case_input
        if self._graph.input_key is not None:
            given = {self._graph.input_key: case_input}
        texts = text_files(harness)
        request = {
            "input": given, "context": {self._graph.context_key: dict(texts.files)},
            "metadata": {
                "tracemend.run_id": wire_id, "environment": ENVIRONMENT,
                "deployment.environment.name": ENVIRONMENT, "tracemend.seed": seed,
                "tracemend.left_out": list(texts.left_out),
                **{f"tracemend.{service}": url for service, url in company().items()},
            },
        }  # fmt: skip
        async with self._slots, self._hosts.slot(self._host, self._service.per_host):
            return await self._observed(wire_id, request, limit_s)

    async def _observed(
        self, wire_id: WireId, request: dict[str, Any], limit_s: float
    ) -> Observation:
        thread: str | None = None
        since = time.monotonic()
        try:
            async with asyncio.timeout(CALL_S):
                made = await self._client.threads.create(
                    metadata=request["metadata"], headers=marks(wire_id)
                )
            thread = _id_of(made)
            since = time.monotonic()
            return await self._waited(thread, wire_id, request, limit_s)
        except TimeoutError:
            missing = "unreachable: the server does not answer"
        except ProtocolBreachError as breach:
            missing = f"protocol: {breach}"
        except httpx.HTTPStatusError as error:
            missing = self._status(error)
        except httpx.HTTPError as error:
            missing = unobserved(error)
        except _MISSHAPEN:
            missing = "protocol: an answer that is not the API's"
        except _TooLongError:
            failed = over_limit(wire_id, self._service.output_cap_bytes).error
            return Observation(error=failed, seconds=time.monotonic() - since)
        finally:
            if thread is not None:
                await asyncio.shield(self._forget(thread))
        return Observation(missing=missing, seconds=time.monotonic() - since)

    async def _waited(
        self, thread: str, wire_id: WireId, request: dict[str, Any], limit_s: float
    ) -> Observation:
        """Start the run and wait for its end; at the deadline see where it stands, and cancel."""
        since = time.monotonic()
        run = asyncio.ensure_future(
            self._client.runs.wait(
                thread, self._graph.assistant, **request, raise_error=False,
                on_disconnect="cancel", headers=marks(wire_id),
            )
        )  # fmt: skip
        try:
            await asyncio.wait((run,), timeout=limit_s)
            seconds = time.monotonic() - since
            if not run.done():
                return await self._overdue(thread, seconds)
            state = checked_state(run.result())
            failed = failure_of(state) or await self._paused(thread)
        finally:
            if not run.done() or run.exception() is not None:
                await asyncio.shield(self._stop(thread))
            if not run.done():
                run.cancel()  # which closes the connection
                await asyncio.wait((run,))
        given = request["input"].get("messages") if isinstance(request["input"], dict) else None
        before = len(given) if isinstance(given, list) else 0
        return Observation(
            output=None if failed else output_of(state, self._graph.output_key),
            error=failed,
            usage=usage_of(state, before),
            trace=await asyncio.to_thread(self._trace, state),
            seconds=seconds,
        )

    async def _overdue(self, thread: str, seconds: float) -> Observation:
        """A run over its deadline is the agent's timeout, unless no worker ever took it up."""
        async with asyncio.timeout(CALL_S):
            runs = await self._client.runs.list(thread, limit=1)
        if not runs:
            return Observation(missing="unreachable: the run was never made", seconds=seconds)
        if runs[0]["status"] == "pending":
            return Observation(missing="queued: no worker of the server was free", seconds=seconds)
        return Observation(error="timeout", seconds=seconds)

    async def _stop(self, thread: str) -> None:
        """Cancel what runs on the thread, and wait for its end.

        Where only the connection is closed and the thread deleted, the server may lose sight of the
        run before it was cancelled, and a worker of it stays busy.
        """
        with suppress(*_NO_MATTER):
            async with asyncio.timeout(CALL_S):
                for run in await self._client.runs.list(thread, limit=1):
                    if run["status"] in ("pending", "running"):
                        await self._client.runs.cancel(thread, run["run_id"], wait=True)

    async def _paused(self, thread: str) -> str | None:
        """How the thread stands where the answer does not say it; None: it came to its end."""
        async with asyncio.timeout(CALL_S):
            found = await self._client.threads.get(thread)
        status = found["status"]
        if status == "interrupted":
            return "interrupted: the graph waits for a person, and nobody answers here"
        return "error: the run failed" if status == "error" else None

    async def _forget(self, thread: str) -> None:
        """Delete the thread; a server that does not is no reason to doubt the run."""
        with suppress(*_NO_MATTER):
            async with asyncio.timeout(CALL_S):
                await self._client.threads.delete(thread)

    def _status(self, error: httpx.HTTPStatusError) -> str:
        """Why a refused request leaves the run unobserved.

        Raises:
            ProbeError: no repetition would change it.
        """
        status = error.response.status_code
        if status in (401, 403):
            raise self._service.refused(status, backend=BACKEND) from None
        if status in (404, 422) and _about_assistant(error):
            raise ProbeError(
                f"probe: {self._service.shown} has no assistant {self._graph.assistant!r}; "
                "name a graph of its langgraph.json in `probe.assistant`",
                backend=BACKEND, operation="run",
            ) from None  # fmt: skip
        return f"http_{status}"

    def _trace(self, state: Json) -> Trace | None:
        messages = messages_of(state)
        try:
            return self._read_messages(messages) if messages else None
        except (ValueError, RecursionError):
            return None  # the run itself was observed; only its messages could not be read


def _id_of(thread: object) -> str:
    """The id of a thread, which becomes a part of addresses.

    Raises:
        ProtocolBreachError: there is none.
    """
    found = thread.get("thread_id") if isinstance(thread, dict) else None
    if not isinstance(found, str) or not found:
        raise ProtocolBreachError("a thread without an id")
    return found


def _about_assistant(error: httpx.HTTPStatusError) -> bool:
    """Whether the refusal is about the assistant's name; the server's text goes nowhere else."""
    body = getattr(error, "body", None) if isinstance(error, APIStatusError) else None
    notes = getattr(error, "__notes__", [])
    return "ssistant" in f"{body} {notes}"


class _TooLongError(Exception):
    """An answer over its limit. No error of httpx: the SDK would ask for the same once more."""


_MISSHAPEN: Final = (ValueError, TypeError, LookupError, AttributeError)
"""What the SDK makes of an answer that is not the API's."""
_NO_MATTER: Final = (httpx.HTTPError, TimeoutError, _TooLongError, *_MISSHAPEN)
"""What may go wrong while a run is put away, without a doubt cast on it."""


class _Capped(httpx.AsyncBaseTransport):
    """A transport whose answers end at a limit."""

    def __init__(self, inner: httpx.AsyncBaseTransport, cap_bytes: int) -> None:
        self._inner, self._cap_bytes = inner, cap_bytes

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._inner.handle_async_request(request)
        stream = cast("httpx.AsyncByteStream", response.stream)  # of an asynchronous transport
        response.stream = _CappedStream(stream, self._cap_bytes)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _CappedStream(httpx.AsyncByteStream):
    def __init__(self, inner: httpx.AsyncByteStream, cap_bytes: int) -> None:
        self._inner, self._cap_bytes = inner, cap_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        async for chunk in self._inner:
            read += len(chunk)
            if read > self._cap_bytes:
                raise _TooLongError
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
