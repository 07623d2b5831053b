"""Traces by the older endpoints, the reader for servers without observations v2 (Langfuse 3).

Source: Langfuse 3 and 4.16, `GET /api/public/traces` (numbered pages, newest first), `GET
/api/public/traces/{id}` (the trace with its observations and scores), and `GET
/api/public/observations?traceId=` for a trace that is too much in one answer.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final
from urllib.parse import quote

from connectors.traces.calls import NotThere, TooMuch
from connectors.traces.collect import Collector
from connectors.traces.langfuse.exports import export_spans
from connectors.traces.langfuse.fields import text, time_ns
from connectors.traces.langfuse.paging import DEPRECATED, Api, iso, numbered_pages, together
from connectors.traces.langfuse.streaming import MS, Bounds
from connectors.traces.langfuse.windows import halves
from connectors.traces.raw import Raw
from contracts.json_types import Json

TRACES: Final = "/api/public/traces"
OBSERVATIONS: Final = "/api/public/observations"
PAGE_ROWS = 100
SMALL_PAGE_ROWS = 10


class ReaderV1:
    """Reads by traces."""

    name = "langfuse-v1"
    slack_ns = 60_000_000_000
    why = "the server answers 404 for observations v2"

    def __init__(self, api: Api, collector: Collector) -> None:
        self.listed = 0
        self._api = api
        self._collector = collector

    async def starts(self, bounds: Bounds) -> AsyncIterator[tuple[str, int]]:
        """(trace id, time) of every trace of the window, newest first."""
        todo: list[tuple[int | None, int | None]] = [(bounds.low_ns, bounds.high_ns)]
        while todo:
            begin, end = todo.pop()
            try:
                async for rows in self._listed(begin, end, bounds.environments):
                    for trace_id, at in rows:
                        end = at - at % MS + MS
                        yield trace_id, at
            except TooMuch as error:
                parts = halves(begin, end)
                todo += parts
                if not parts:
                    place = f"{iso(begin or 0)} to {iso(end or 0)}"
                    why = f"traces of {place} were not read: {error}"
                    self._collector.skip("langfuse", why, partial=True)

    async def _listed(
        self, low: int | None, high: int | None, environments: Sequence[str]
    ) -> AsyncIterator[list[tuple[str, int]]]:
        params: dict[str, str | int | list[str]] = {"fields": "core", "orderBy": "timestamp.desc"}
        if low is not None:
            params["fromTimestamp"] = iso(low)
        if high is not None:
            params["toTimestamp"] = iso(high)
        if environments:
            params["environment"] = list(environments)
        async for rows in numbered_pages(
            self._api, TRACES, params, limit=PAGE_ROWS, klass=DEPRECATED
        ):
            self.listed += 1
            pairs = ((text(row.get("id")), time_ns(row.get("timestamp"))) for row in rows)
            yield [(trace_id, at) for trace_id, at in pairs if trace_id and at is not None]

    async def read(self, trace_ids: Sequence[str]) -> Mapping[str, list[Raw]]:
        """One call a trace; a trace that was deleted meanwhile has no records."""
        out: dict[str, list[Raw]] = {}

        async def one(trace_id: str) -> None:
            out[trace_id] = await self.read_one(trace_id)

        await together(one(trace_id) for trace_id in trace_ids)
        return out

    async def read_one(self, trace_id: str) -> list[Raw]:
        """All records of one trace; empty when the server does not have it."""
        path = f"{TRACES}/{quote(trace_id, safe='')}"
        try:
            answer = await self._api.get(path, klass=DEPRECATED)
        except NotThere as error:
            if error.html and not self.listed:
                raise  # no such endpoint, rather than no such trace
            return []
        except TooMuch as error:
            return await self._in_parts(trace_id, path, error)
        return list(export_spans(answer)) if isinstance(answer, dict) else []

    async def _in_parts(self, trace_id: str, path: str, error: TooMuch) -> list[Raw]:
        """The trace without its observations, and those by themselves in small pages."""
        rows: list[Mapping[str, Json]] = []
        try:
            trace = await self._api.get(path, {"fields": "core,scores"}, klass=DEPRECATED)
            pages = numbered_pages(
                self._api,
                OBSERVATIONS,
                {"traceId": trace_id},
                limit=SMALL_PAGE_ROWS,
                klass=DEPRECATED,
            )
            rows = [row async for page in pages for row in page]
        except TooMuch:
            self._collector.skip(f"trace {trace_id}", f"was not read: {error}", partial=True)
            return []
        bare = {**trace, "observations": []} if isinstance(trace, dict) else {}
        return list(export_spans({"trace": bare, "observations": rows}))
