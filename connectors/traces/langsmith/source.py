"""Traces of one LangSmith project, read by whichever generation of the API its server has.

Source: LangSmith API by langsmith 0.15.1 (`runs.query`) and plain HTTP; limits as documented for
the cloud on 30 Nov 2026: v2 queries 300 in 10 s, v1 queries 15 in 10 s, everything else 2000 a
minute, of one key.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final
from uuid import UUID

from pydantic import SecretStr

from connectors.traces.calls import BadRequest, Budget, Calls, Limit, NotThere
from connectors.traces.collect import Collector
from connectors.traces.cursors import read_cursor, write_cursor
from connectors.traces.langsmith import reader_v1, reader_v2
from connectors.traces.langsmith.asking import Ask, Reader
from connectors.traces.langsmith.job import Job, Place
from connectors.traces.langsmith.payloads import Blobs
from connectors.traces.langsmith.reader_v1 import ReaderV1
from connectors.traces.langsmith.reader_v2 import ReaderV2, make_client
from connectors.traces.langsmith.server import (
    Project,
    Server,
    access_of,
    find_project,
    find_server,
    root_of,
)
from connectors.traces.langsmith.slices import DAY_NS, FIRST_NS, SECOND_NS, gathered
from connectors.traces.langsmith.values import as_list, as_time_ns
from connectors.traces.normalise import EPOCH, when
from connectors.traces.raw import Raw, RawSpan, as_int, as_text
from connectors.traces.tree import build_trace
from contracts.errors import SourceError, TracemendError
from contracts.json_types import Json
from contracts.traces import SourceInfo, Trace, TraceBatch, TraceId, TraceQuery

LIMITS: Final[Mapping[str, Limit]] = {
    reader_v2.KLASS: Limit(requests=300, seconds=10),
    reader_v1.KLASS: Limit(requests=15, seconds=10),
    "general": Limit(requests=2000, seconds=60),
}
MAX_BODY_BYTES: Final = 64 << 20
MAX_AHEAD: Final = 200  # ids in a cursor


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """A server that answered, and the readers that it has."""

    calls: Calls
    server: Server
    project: Project
    reader: Reader
    older: Reader | None


class LangSmithSource:
    """Implements `contracts.protocols.TraceSource`."""

    def __init__(
        self,
        *,
        api_url: str,
        api_key: SecretStr,
        project: str,
        workspace_id: str | None = None,
        environment: str | None = None,
        budget_s: float = 600,
        payload_cap_bytes: int = 256 << 10,
        batch_traces: int = 100,
        timeout_s: float = 60,
        limits: Mapping[str, Limit] = LIMITS,
        allowed_blob_hosts: Sequence[str] = (),
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        name: str = "langsmith",
    ) -> None:
        """Nothing is asked before the first read.

        Args:
            api_url: of a region or of a self-hosted server, with or without `/api` or `/api/v1`.
            api_key: a workspace's key, or an organization's together with `workspace_id`.
            project: name or id of the tracing project.
            workspace_id: sent as `X-Tenant-Id`.
            environment: read only this one; runs carry it as metadata, else the project's name
                stands for it.
            budget_s: wall-clock time of one read.
            payload_cap_bytes: of an input or output that are kept.
            batch_traces: at most so many in a batch.
            timeout_s: of one call.
            limits: by endpoint class: `runs-v2`, `runs-v1`, `general`, `blobs`.
            allowed_blob_hosts: hosts, besides the API's own, from which payloads are fetched.
            now: the time, for a window without an end.
            name: in messages and reports.
        """
        self.name = name
        self._api_url = api_url
        self._key = api_key
        self._project = project
        self._workspace = workspace_id
        self._environment = environment
        self._budget_s = budget_s
        self._cap = payload_cap_bytes
        self._batch = batch_traces
        self._timeout_s = timeout_s
        self._limits = limits
        self._blob_hosts = tuple(allowed_blob_hosts)
        self._now = now
        self._known: tuple[Server, Project] | None = None

    @property
    def _where(self) -> str:
        return f"{self.name}:{self._project}"

    async def check(self) -> SourceInfo:
        """Which server and reader, the newest trace, limits and clock. Never raises."""
        try:
            async with self._open(min(60.0, self._budget_s)) as opened:
                reader, newest = await self._newest(opened)
                return self._info(replace(opened, reader=reader), newest)
        except TracemendError as error:
            return SourceInfo(source=self._where, reachable=False, reader="none", detail=str(error))

    async def window(self, query: TraceQuery) -> AsyncIterator[TraceBatch]:
        """Whole traces that start in the window, oldest first.

        Raises:
            UsageError: there is no such project, or the cursor is of another read.
            SourceError: the server cannot be reached, or gave nothing.
        """
        async with self._open(self._budget_s) as opened:
            asked = self._asked(query, opened)
            place = self._place(query, read_cursor(asked, query.cursor))
            job = self._job(opened, self._collector(opened, query), place)
            async for batch in job.batches():
                yield replace(batch, cursor=_cursor(asked, place))
            self._remember(opened, job)

    async def trace(self, trace_id: TraceId) -> Trace:
        """One whole trace, our own and pending ones included.

        Raises:
            SourceError: there is no such trace, or the server cannot be reached.
        """
        async with self._open(self._budget_s) as opened:
            records = await self._records(opened, str(trace_id))
        if not any(isinstance(record, RawSpan) for record in records):
            raise SourceError(
                f"{self.name}: no trace {str(trace_id)[:64]!r} in project {self._project!r}",
                backend=self.name,
                operation="trace",
            )
        return build_trace([one for one in records if one is not None], self._cap).trace

    async def _records(self, opened: _Opened, trace_id: str) -> list[Raw]:
        if not _is_uuid(trace_id):
            return []
        job = self._job(opened, self._collector(opened, TraceQuery()), self._place(TraceQuery()))
        for reader in (opened.reader, opened.older):
            if reader is None:
                continue
            job.reader = reader
            try:
                runs = await job.runs_of(trace_id)
            except (NotThere, BadRequest):
                continue
            traces, _ = gathered(runs.values(), opened.project.name)
            if trace_id in traces:
                return await job.records_of([traces[trace_id]])
        return []

    @asynccontextmanager
    async def _open(self, budget_s: float) -> AsyncIterator[_Opened]:
        """The server and the project, asked for once and remembered; connections for one read."""
        root = root_of(self._api_url)
        key = self._key.get_secret_value()
        headers, hint = access_of(key, self._workspace)
        calls = Calls(
            backend=self.name,
            base_url=root,
            headers=headers,
            key=key,
            budget=Budget(budget_s),
            limits=self._limits,
            timeout_s=self._timeout_s,
            max_body_bytes=MAX_BODY_BYTES,
            hint=hint,
        )
        newer: ReaderV2 | None = None
        try:
            if self._known is None:
                server = await find_server(calls, self._api_url)
                self._known = server, await find_project(calls, server, self._project)
            server, project = self._known
            older = ReaderV1(calls, server.prefix, project.id) if server.v1 else None
            make = partial(make_client, root, key, self._workspace)
            newer = ReaderV2(calls, make, project.id, max_body_bytes=MAX_BODY_BYTES)
            reader = newer if server.v2 or older is None else older
            yield _Opened(
                calls=calls, server=server, project=project, reader=reader,
                older=older if reader is newer else None,
            )  # fmt: skip
        finally:
            if newer is not None:
                await newer.aclose()
            await calls.aclose()

    def _collector(self, opened: _Opened, query: TraceQuery) -> Collector:
        return Collector(
            source=self._where,
            reader=opened.reader.name,
            query=query,
            cap=self._cap,
            environment=self._environment,
            why=opened.server.why,
        )

    def _job(self, opened: _Opened, collector: Collector, place: Place) -> Job:
        return Job(
            reader=opened.reader,
            older=opened.older,
            older_may_know=not opened.server.v2_alone,
            calls=opened.calls,
            blobs=Blobs(
                opened.calls, root_of(self._api_url), self._blob_hosts, max_bytes=MAX_BODY_BYTES
            ),
            collector=collector,
            project=opened.project.name,
            place=place,
            now_ns=_ns(self._now()),
            batch_traces=self._batch,
            source=self._where,
        )

    def _remember(self, opened: _Opened, job: Job) -> None:
        """Once the second generation was found missing it is not asked again."""
        if job.reader is opened.older:
            server = replace(opened.server, v2=False, why=job.collector.why)
            self._known = server, opened.project

    def _asked(self, query: TraceQuery, opened: _Opened) -> Json:
        """What a cursor is bound to."""
        return {
            "source": "langsmith",
            "project": opened.project.id,
            "start": query.start.isoformat() if query.start else None,
            "end": query.end.isoformat() if query.end else None,
            "environment": query.environment,
        }

    def _place(self, query: TraceQuery, resumed: Mapping[str, Json] | None = None) -> Place:
        """Where to begin: at the start of the window, or where an earlier read stopped."""
        start = _ns(query.start) if query.start else FIRST_NS
        end = _ns(query.end) if query.end else _ns(self._now()) + SECOND_NS
        if resumed is None:
            return Place(at_ns=max(start, FIRST_NS), trace_id="", end_ns=end)
        return Place(
            at_ns=as_int(resumed.get("at")) or start,
            trace_id=as_text(resumed.get("trace")),
            end_ns=as_int(resumed.get("end")) or end,
            ahead={one for one in as_list(resumed.get("ahead")) if isinstance(one, str)},
        )

    async def _newest(self, opened: _Opened) -> tuple[Reader, int | None]:
        """(the reader that answers, start of the newest trace as far as is known)."""
        now = _ns(self._now())
        ask = Ask(start_ns=now - 30 * DAY_NS, end_ns=now + DAY_NS, what="steps", roots_only=True)
        reader = opened.reader
        try:
            page = await reader.page(ask, size=10)  # servers give the newest first
        except NotThere:
            if opened.older is None:
                raise
            reader = opened.older
            page = await reader.page(ask, size=10)
        starts = [as_time_ns(run.get("start_time")) for run in page.runs]
        known = [ns for ns in (opened.project.newest_ns, *starts) if ns is not None]
        return reader, max(known, default=None)

    def _info(self, opened: _Opened, newest: int | None) -> SourceInfo:
        server = opened.server
        flags = f" ({server.flags_text})" if server.flags_text else ""
        detail = (
            f"project {opened.project.name!r}; {server.why}{flags}; what the key may write is"
            " decided by its role, which the API does not tell"
        )
        limits = [
            f"{klass}: {limit.requests} in {limit.seconds:g} s"
            for klass, limit in self._limits.items()
        ]
        return SourceInfo(
            source=self._where,
            reachable=True,
            reader=opened.reader.name,
            detail=detail,
            newest=when(newest) if newest else None,
            limits=f"{', '.join(limits)} (documented ones)" if limits else "none kept",
            clock_offset_s=opened.calls.clock_offset_s,
            can_write=None,
        )


def _cursor(asked: Json, place: Place) -> str:
    ahead = sorted(place.ahead)[-MAX_AHEAD:]
    return write_cursor(
        asked,
        {
            "at": place.at_ns,
            "trace": place.trace_id,
            "end": place.end_ns,
            "ahead": list[Json](ahead),
        },
    )


def _ns(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1) * 1000


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
