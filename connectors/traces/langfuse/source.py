"""A Langfuse project as a source of traces, by whichever generation of its API the server has.

Source: Langfuse 4.16 public API over plain HTTP (docs/decisions/0012); HTTP Basic with a project's
public and secret key. Observations v2 is tried first; where the server answers 404 for it, the
older trace endpoints are read, and the source remembers which it was.
"""

import asyncio
import base64
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

import httpx
from pydantic import SecretStr

from connectors.traces.calls import Budget, CallError, Calls, Limit, NotThere
from connectors.traces.collect import Collector
from connectors.traces.cursors import read_cursor, write_cursor
from connectors.traces.langfuse.fields import text, time_ns
from connectors.traces.langfuse.paging import DEPRECATED, GENERAL, Api, to_ns
from connectors.traces.langfuse.reader_v1 import TRACES, ReaderV1
from connectors.traces.langfuse.reader_v2 import OBSERVATIONS, ReaderV2
from connectors.traces.langfuse.streaming import Bounds, Stream
from connectors.traces.raw import Raw, RawSpan, as_objects
from connectors.traces.tree import OWN_ENVIRONMENT, build_trace
from contracts.errors import SourceError, UsageError
from contracts.json_types import Json
from contracts.traces import SourceInfo, Trace, TraceBatch, TraceId, TraceQuery

Generation = Literal["v2", "v1"]
_BOTH: Final[tuple[Generation, ...]] = ("v2", "v1")
GENERAL_A_MINUTE = 1000  # of Langfuse Cloud Pro; Hobby has 30, self-hosted none
DEPRECATED_A_MINUTE = 100
PENDING_WAITS_S: Final = (2.0, 5.0, 15.0)
"""A trace may answer 404 right after it was flushed (langfuse/langfuse#8240)."""
HINT: Final = "check LANGFUSE_PUBLIC_KEY, LANGFUSE_SECRET_KEY and the base URL"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class LangfuseSource:
    """Traces of one Langfuse project; implements `contracts.protocols.TraceSource`."""

    def __init__(
        self,
        *,
        base_url: str,
        public_key: SecretStr,
        secret_key: SecretStr,
        environment: str | None = None,
        budget_s: float = 600,
        payload_cap_bytes: int = 256 << 10,
        batch_traces: int = 100,
        general_a_minute: int = GENERAL_A_MINUTE,
        deprecated_a_minute: int = DEPRECATED_A_MINUTE,
        timeout_s: float = 60,
        pending_waits_s: Sequence[float] = PENDING_WAITS_S,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        name: str = "langfuse",
    ) -> None:
        """Nothing is opened before the first call.

        Args:
            base_url: of Langfuse Cloud's region or of a server of one's own.
            public_key: of the project, `pk-lf-...`.
            secret_key: of the project, `sk-lf-...`.
            environment: only traces of this environment; None: of all.
            budget_s: wall-clock time of one read or check.
            payload_cap_bytes: kept of each input and output.
            batch_traces: at most so many in one batch.
            general_a_minute: calls to the current endpoints.
            deprecated_a_minute: calls to the older ones.
            timeout_s: of one call.
            pending_waits_s: waits before a single trace is said to be missing.
            sleep: how to wait.
            name: begins every message.
        """
        self.name = name
        self._base_url = base_url
        self._public_key = public_key
        self._secret_key = secret_key
        self._environment = environment
        self._budget_s = budget_s
        self._cap = payload_cap_bytes
        self._batch = batch_traces
        self._limits = {
            GENERAL: Limit(requests=general_a_minute, seconds=60),
            DEPRECATED: Limit(requests=deprecated_a_minute, seconds=60),
        }
        self._timeout_s = timeout_s
        self._waits = tuple(pending_waits_s)
        self._sleep = sleep
        self._known: Generation | None = None

    async def check(self) -> SourceInfo:
        """Whether the project can be read, by which generation, and what the server says."""
        headers: dict[str, str] = {}

        async def note(response: httpx.Response) -> None:
            for key, value in response.headers.items():
                if key.lower().startswith("x-ratelimit-"):
                    headers[key.lower()] = value[:64]

        async with httpx.AsyncClient(event_hooks={"response": [note]}) as client:
            calls = self._calls(client)
            try:
                generation, newest = await self._probe(calls)
                version = await _version(calls)
            except SourceError as error:
                return SourceInfo(
                    source=self._where, reachable=False, reader="none", detail=str(error),
                    clock_offset_s=calls.clock_offset_s,
                )  # fmt: skip
        endpoint = "observations v2" if generation == "v2" else "traces v1 (it has no v2)"
        return SourceInfo(
            source=self._where,
            reachable=True,
            reader=f"langfuse-{generation}",
            detail=f"Langfuse {version}, read by {endpoint}",
            newest=newest,
            limits=self._said_limits(headers, generation),
            clock_offset_s=calls.clock_offset_s,
            can_write=True,  # a project's key pair has no scopes: whatever reads can also write
        )

    async def window(self, query: TraceQuery) -> AsyncIterator[TraceBatch]:
        """Whole traces that start in the window, newest first.

        Raises:
            SourceError: nothing could be read at all.
            UsageError: the cursor is of another read.
        """
        asked: Json = [self._where, self._environment, query.environment,
                       str(query.start), str(query.end)]  # fmt: skip
        place = read_cursor(asked, query.cursor)
        generations = _generations(place, self._known)
        calls = self._calls()
        try:
            for generation in generations:
                collector = Collector(
                    source=self._where, reader=f"langfuse-{generation}", query=query, cap=self._cap,
                    environment=self._environment,
                )  # fmt: skip
                try:
                    batches = self._batches(
                        generation, calls, collector, query, place=place, asked=asked
                    )
                    async with aclosing(batches):
                        async for batch in batches:
                            self._known = generation
                            yield batch
                except NotThere as error:
                    if generation == generations[-1]:
                        raise self._no_endpoint(error) from error
                else:
                    return
        finally:
            await calls.aclose()

    async def trace(self, trace_id: TraceId) -> Trace:
        """One whole trace, our own included; waits a little for one that was only just recorded.

        Raises:
            SourceError: there is no such trace, or it cannot be read whole.
        """
        calls = self._calls()
        try:
            records = await self._found(calls, str(trace_id))
            for wait in self._waits:
                if _has_span(records):
                    break
                await self._sleep(wait)
                records = await self._found(calls, str(trace_id))
        finally:
            await calls.aclose()
        if not _has_span(records):
            waited = f" after {sum(self._waits):g} s" if self._waits else ""
            raise SourceError(
                f"no trace {str(trace_id)!r} in {self._where}{waited}; one that was recorded just"
                " now may still be on its way",
                backend=self.name, operation="trace", retryable=True,
            )  # fmt: skip
        return build_trace([one for one in records if one is not None], self._cap).trace

    async def _batches(
        self,
        generation: Generation,
        calls: Calls,
        collector: Collector,
        query: TraceQuery,
        *,
        place: Mapping[str, Json] | None,
        asked: Json,
    ) -> AsyncGenerator[TraceBatch]:
        wanted = query.environment or self._environment
        bounds = Bounds(
            low_ns=to_ns(query.start),
            high_ns=to_ns(query.end),
            environments=(wanted, OWN_ENVIRONMENT) if wanted else (),
        )
        api = Api(calls)
        reader = (
            ReaderV2(api, collector, bounds) if generation == "v2" else ReaderV1(api, collector)
        )
        collector.why = reader.why
        if place and place.get("done"):
            yield collector.batch((), requests=calls.requests, cursor=query.cursor)
            return
        stream = Stream(reader, collector, bounds, place=place, batch_traces=self._batch)

        def cursor() -> str | None:
            here = stream.place
            return None if here is None else write_cursor(asked, {**here, "by": generation})

        async with aclosing(stream.batches()) as parts:
            async for traces in parts:
                yield collector.batch(traces, requests=calls.requests, cursor=cursor())
        yield collector.batch((), requests=calls.requests, cursor=cursor())

    async def _found(self, calls: Calls, trace_id: str) -> list[Raw]:
        """Records of the trace, by the id as given or as the UUID that it may have been."""
        for generation in (self._known,) if self._known else _BOTH:
            reader, collector = self._reader_of_one(generation, calls)
            try:
                records = await reader.read_one(trace_id)
                other = _as_uuid(trace_id)
                if not _has_span(records) and other is not None:
                    records = await reader.read_one(other)
            except NotThere as error:
                if generation == "v1" or self._known:
                    raise self._no_endpoint(error) from error
                continue
            if not _has_span(records) and collector.partial:
                why = collector.report(requests=0).skipped[-1].why
                raise SourceError(f"trace {trace_id!r} {why}", backend=self.name, operation="trace")
            self._known = generation if _has_span(records) else self._known
            return records
        return []

    def _reader_of_one(
        self, generation: Generation, calls: Calls
    ) -> tuple[ReaderV2 | ReaderV1, Collector]:
        collector = Collector(
            source=self._where, reader=generation, query=TraceQuery(), cap=self._cap
        )
        if generation == "v1":
            return ReaderV1(Api(calls), collector), collector
        return ReaderV2(Api(calls), collector, Bounds(low_ns=None, high_ns=None)), collector

    async def _probe(self, calls: Calls) -> tuple[Generation, datetime | None]:
        """The generation of the server and the start of its newest trace."""
        try:
            page = await calls.get(OBSERVATIONS, {"limit": 1, "fields": "core"}, klass=GENERAL)
            self._known = "v2"
        except NotThere:
            page = await calls.get(TRACES, {"limit": 1, "page": 1}, klass=DEPRECATED)
            self._known = "v1"
        rows = as_objects(page.get("data") if isinstance(page, dict) else None)
        times = [time_ns(row.get("startTime") or row.get("timestamp")) for row in rows]
        newest = next((at for at in times if at is not None), None)
        when = None if newest is None else _EPOCH + timedelta(microseconds=newest // 1000)
        return self._known, when

    def _calls(self, client: httpx.AsyncClient | None = None) -> Calls:
        public, secret = self._public_key.get_secret_value(), self._secret_key.get_secret_value()
        token = base64.b64encode(f"{public}:{secret}".encode()).decode()
        return Calls(
            backend=self.name,
            base_url=self._base_url,
            headers={"authorization": f"Basic {token}"},
            key=public,
            budget=Budget(self._budget_s),
            limits=self._limits,
            timeout_s=self._timeout_s,
            hint=HINT,
            sleep=self._sleep,
            client=client,
        )

    def _said_limits(self, headers: Mapping[str, str], generation: Generation) -> str:
        limit, left = headers.get("x-ratelimit-limit"), headers.get("x-ratelimit-remaining")
        if limit is not None:
            return f"the server says {limit} calls in its window, {left or '?'} left"
        klass = GENERAL if generation == "v2" else DEPRECATED
        return f"the server says none; we keep to {self._limits[klass].requests} calls a minute"

    def _no_endpoint(self, error: NotThere) -> SourceError:
        return SourceError(
            f"{self._where}: the server has neither observations v2 nor the older trace endpoints;"
            f" is the base URL that of Langfuse? ({error})",
            backend=self.name, operation="window",
        )  # fmt: skip

    @property
    def _where(self) -> str:
        """Name and address, without credentials that may stand in it."""
        scheme, _, rest = self._base_url.partition("://")
        return f"{self.name}:{scheme}://{rest.rpartition('@')[2].rstrip('/')}"


def _generations(
    place: Mapping[str, Json] | None, known: Generation | None
) -> tuple[Generation, ...]:
    """Which readers to try: that of the cursor, the one that worked before, or both."""
    by = place.get("by", "v2") if place else known
    if by is None:
        return _BOTH
    for one in _BOTH:
        if by == one:
            return (one,)
    raise UsageError("this is no cursor that a read gave away; start without one")


async def _version(calls: Calls) -> str:
    try:
        health = await calls.get("/api/public/health")
    except CallError:
        return "(version unknown)"
    return text(health.get("version"))[:32] if isinstance(health, dict) else "(version unknown)"


def _has_span(records: Sequence[Raw]) -> bool:
    return any(isinstance(one, RawSpan) for one in records)


def _as_uuid(trace_id: str) -> str | None:
    """The hyphenated form, under which older SDKs recorded; None where it cannot be one."""
    if len(trace_id) != 32:
        return None
    try:
        found = uuid.UUID(trace_id)
    except ValueError:
        return None
    return str(found) if found.version is not None else None
