"""The probe of kind "http": a service of the operator's that runs the agent on request."""

import asyncio
import secrets
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

import httpx

from connectors.probe.answers import marks, read_answer, run_body
from connectors.probe.hosts import HOSTS, HostSlots, host_of
from connectors.probe.spans import ReadSpans, read_trace
from connectors.probe.wire import Answer, ProtocolBreachError, WireId, clean
from contracts.errors import ProbeError, TracemendError
from contracts.harness import HarnessSnapshot, Observation
from contracts.json_types import Json, JsonObject
from contracts.traces import Trace

MB: Final = 1024 * 1024
CONNECT_S: Final = 10.0  # a host that takes no connection in that time is down
GRACE_S: Final = 2.0
"""Beyond a run's deadline, how long its answer is waited for."""

ReadInline = Callable[[Json], Trace | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Where a remote agent is, and how it is talked to."""

    url: str
    token: str | None
    """Sent as bearer token; None: none."""
    token_env: str | None
    """The variable that it came from, for messages."""
    concurrency: int
    """Runs at once of this probe."""
    per_host: int | None
    """Runs at once on the host, over all probes of the process; None: not bounded."""
    timeout_s: float
    """Upper bound of a run's deadline."""
    output_cap_bytes: int
    """Longest answer; over it the run is the agent's fail."""

    @property
    def shown(self) -> str:
        """The address for a message, without anything that may be a secret."""
        parts = urlsplit(self.url)
        return clean(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}", 200)

    def headers(self) -> dict[str, str]:
        """What every request carries."""
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}

    def refused(self, status: int, *, backend: str) -> ProbeError:
        """The service does not let us in, which no repetition changes."""
        what = (
            f"the variable {self.token_env} holds no token that it takes"
            if self.token_env is not None
            else "name the variable with its token in `probe.token_env`"
        )
        message = f"probe: {self.shown} answered {status}: {what}"
        return ProbeError(message, backend=backend, operation="run")


class HttpProbe:
    """Implements `contracts.protocols.Probe` by one POST a run.

    The body is the run object of the worker protocol with the candidate's files in it; the answer
    is the worker's answer. The agent fails by `error` alone, by silence until the deadline, or by
    an answer over its limit; whatever else goes wrong is the service's fault, and missing.
    """

    def __init__(
        self,
        *,
        service: Service,
        read_spans: ReadSpans,
        read_inline: ReadInline,
        places: Sequence[Path] = (),
        grace_s: float = GRACE_S,
        hosts: HostSlots = HOSTS,
    ) -> None:
        """Connect to nothing yet.

        Args:
            service: where the agent is.
            read_spans: turns a file of spans into a trace.
            read_inline: turns spans that stand in the answer into a trace.
            places: where a file of spans may lie, beside the temporary folder.
            grace_s: beyond a run's deadline, how long its answer is waited for.
            hosts: where runs are counted by host.
        """
        self._service = service
        self._host = host_of(service.url)
        self._read_spans, self._read_inline = read_spans, read_inline
        self._places = (Path(tempfile.gettempdir()), *places)
        self._grace_s = grace_s
        self._hosts = hosts
        self._slots = asyncio.Semaphore(service.concurrency)
        self._client = httpx.AsyncClient(
            follow_redirects=False,
            headers=service.headers() | {"Accept-Encoding": "identity"},
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=8),
        )

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
        await self._client.aclose()

    async def run(
        self, case_input: Json, harness: HarnessSnapshot, *, seed: int, deadline_s: float
    ) -> Observation:
        """Run once; see the protocol for what is an error, what is missing and what is raised.

        Raises:
            ProbeError: the service does not let us in.
        """
        limit_s = min(deadline_s, self._service.timeout_s)
        wire_id = WireId(secrets.token_hex(16))
        async with self._slots, self._hosts.slot(self._host, self._service.per_host):
            body = run_body(wire_id, case_input, harness, seed=seed, deadline_s=limit_s)
            since = time.monotonic()
            answer, spans = await self._ask(wire_id, body, limit_s)
            seconds = time.monotonic() - since
        if seconds > limit_s and answer.missing is None:
            answer = replace(answer, output=None, error="timeout")
        return Observation(
            output=answer.output, error=answer.error, missing=answer.missing, usage=answer.usage,
            trace=await asyncio.to_thread(self._trace, answer.spans, spans), seconds=seconds,
        )  # fmt: skip

    async def _ask(
        self, wire_id: WireId, body: bytes, limit_s: float
    ) -> tuple[Answer, JsonObject | None]:
        """The answer and its inline spans; closing the connection is how a run is cancelled."""
        try:
            async with asyncio.timeout(limit_s + self._grace_s):
                return await self._post(wire_id, body, connect_s=min(CONNECT_S, limit_s))
        except TimeoutError:
            return Answer(id=wire_id, error="timeout"), None
        except ProtocolBreachError as breach:
            return Answer(id=wire_id, missing=f"protocol: {breach}"), None
        except httpx.HTTPError as error:
            return Answer(id=wire_id, missing=unobserved(error)), None

    async def _post(
        self, wire_id: WireId, body: bytes, *, connect_s: float
    ) -> tuple[Answer, JsonObject | None]:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        async with self._client.stream(
            "POST", self._service.url, content=body, headers=headers | marks(wire_id),
            timeout=httpx.Timeout(None, connect=connect_s),
        ) as response:  # fmt: skip
            status = response.status_code
            if status in (401, 403):
                raise self._service.refused(status, backend="http")
            if not response.is_success:
                return Answer(id=wire_id, missing=f"http_{status}"), None
            read = bytearray()
            async for chunk in response.aiter_raw():
                read += chunk
                if len(read) > self._service.output_cap_bytes:
                    return over_limit(wire_id, self._service.output_cap_bytes), None
        return read_answer(bytes(read), wire_id)

    def _trace(self, name: str | None, inline: JsonObject | None) -> Trace | None:
        if name is not None:
            return read_trace(name, allowed=self._places, read_spans=self._read_spans)
        if inline is None:
            return None
        try:
            return self._read_inline(inline)
        except (ValueError, RecursionError, TracemendError):
            return None  # the run itself was observed; only its spans were not


def over_limit(wire_id: WireId, cap_bytes: int) -> Answer:
    """An answer longer than it may be is the agent's doing."""
    return Answer(id=wire_id, error=f"output limit {cap_bytes / MB:g} MB")


def unobserved(error: httpx.HTTPError) -> str:
    """Why a service could not be asked, or was lost, in a few words without its text."""
    match error:
        case httpx.ConnectError() | httpx.ConnectTimeout():
            return "unreachable: the service takes no connection"
        case httpx.UnsupportedProtocol() | httpx.ProxyError():
            return f"unreachable: {type(error).__name__}"
        case httpx.HTTPStatusError():
            return f"http_{error.response.status_code}"
        case _:
            return f"disconnected: {type(error).__name__}"
