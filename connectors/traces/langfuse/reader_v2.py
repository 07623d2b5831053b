"""Traces by observations v2, the reader for Langfuse 4 and Langfuse Cloud.

Source: Langfuse 4.16, `GET /api/public/v2/observations`. Rows come by start, newest first, at most
1000 a page. The list asks for the core fields only; whole traces are then read by their ids, first
without inputs and outputs, which are fetched by row id for the rows that need them. What is too
much for the server is asked for again in halves.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Final

import orjson

from connectors.traces.calls import BadRequest, TooMuch
from connectors.traces.collect import Collector
from connectors.traces.langfuse.fields import flag, text, time_ns
from connectors.traces.langfuse.paging import Api, ServerDown, cursor_pages, iso, portions, together
from connectors.traces.langfuse.rows import free_roots, row_span
from connectors.traces.langfuse.scores import Scores
from connectors.traces.langfuse.streaming import MS, Bounds
from connectors.traces.langfuse.windows import halves
from connectors.traces.normalise import kind_of
from connectors.traces.raw import Raw, RawSpan
from contracts.json_types import Json

OBSERVATIONS: Final = "/api/public/v2/observations"
PAGE_ROWS = 1000
SMALL_PAGE_ROWS = 100
SKELETON: Final = "core,basic,time,metadata,model,usage,prompt,metrics,trace_context"
EVERYTHING: Final = f"{SKELETON},io"
IDS_AT_ONCE = 200
GROUP_MAX_ROWS = 10_000  # rows of several traces that are held at once
MARGIN_NS = 86_400_000_000_000  # traces that cross the window's edge by less are read in one go
MAX_HALVINGS = 26  # from the start of 2020 down to a minute, and smaller pages of that
IO_MISSING = "tracemend.io_missing"

_CONTENT_TYPES: Final = frozenset({"GENERATION", "TOOL", "RETRIEVER", "AGENT", "GUARDRAIL"})
_CONTENT_KINDS: Final = frozenset({"llm", "tool", "retriever", "agent", "guardrail"})

Row = dict[str, Json]


class ReaderV2:
    """Reads by observations v2."""

    name = "langfuse-v2"
    why = "the server has observations v2"
    slack_ns = 0

    def __init__(self, api: Api, collector: Collector, bounds: Bounds) -> None:
        self.listed = 0
        self._api = api
        self._collector = collector
        self._bounds = bounds
        self._lists = True  # a filter may name several ids
        self._io_ids = IDS_AT_ONCE
        self._scores = Scores(api, collector)
        self._lost_io = 0

    async def starts(self, bounds: Bounds) -> AsyncIterator[tuple[str, int]]:
        """(trace id, start) of every observation of the window, newest first."""
        todo: list[tuple[int | None, int | None, int]] = [
            (bounds.low_ns, bounds.high_ns, PAGE_ROWS)
        ]
        failed = 0
        while todo:
            low, high, limit = todo.pop()
            try:
                async for rows in self._listed(low, high, limit, bounds.environments):
                    failed = 0
                    for trace_id, at in rows:
                        high = at - at % MS + MS
                        yield trace_id, at
            except TooMuch as error:
                failed += 1
                if failed > MAX_HALVINGS:
                    why = f"{error}; so said the last {failed} answers"
                    raise ServerDown(why, backend="langfuse", operation="window") from error
                todo += self._smaller(low, high, limit, error)

    async def _listed(
        self, low: int | None, high: int | None, limit: int, environments: Sequence[str]
    ) -> AsyncIterator[list[tuple[str, int]]]:
        params: dict[str, str | int | list[str]] = {"fields": "core", "limit": limit}
        if low is not None:
            params["fromStartTime"] = iso(low)
        if high is not None:
            params["toStartTime"] = iso(high)
        if environments:
            params["environment"] = list(environments)
        nameless = 0
        async for rows in cursor_pages(self._api, OBSERVATIONS, params):
            self.listed += 1
            found = []
            for row in rows:
                trace_id, at = text(row.get("traceId")), time_ns(row.get("startTime"))
                if trace_id and at is not None:
                    found.append((trace_id, at))
                else:
                    nameless += 1
            yield found
        if nameless:
            why = f"{nameless} observations without a trace id or a start"
            self._collector.skip("langfuse", why, partial=True)

    def _smaller(
        self, low: int | None, high: int | None, limit: int, error: TooMuch
    ) -> list[tuple[int | None, int | None, int]]:
        """What is left of a slice of the window that was too much, last one first to be read."""
        parts = halves(low, high)
        if parts:
            return [(begin, end, limit) for begin, end in parts]
        if limit > SMALL_PAGE_ROWS:
            return [(low, high, SMALL_PAGE_ROWS)]
        place = f"{iso(low or 0)} to {iso(high or 0)}"
        self._collector.skip("langfuse", f"traces of {place} were not read: {error}", partial=True)
        return []

    async def read(self, trace_ids: Sequence[str]) -> Mapping[str, list[Raw]]:
        """Skeletons, then inputs and outputs, then scores."""
        rows = await self._whole(trace_ids)
        await self._fill([row for trace in rows.values() for row in trace])
        notes = await self._scores.of(rows)
        return {
            trace_id: [*_spans(found), *notes.get(trace_id, ())] for trace_id, found in rows.items()
        }

    async def read_one(self, trace_id: str) -> list[Raw]:
        """All records of one trace, in one go where that is not too much; empty without any."""
        params: dict[str, str | int] = {
            "fields": EVERYTHING, "limit": PAGE_ROWS, "traceId": trace_id,
        }  # fmt: skip
        try:
            rows = [dict(row) async for page in cursor_pages(self._api, OBSERVATIONS, params)
                    for row in page]  # fmt: skip
        except TooMuch:
            return list((await self.read([trace_id])).get(trace_id, ()))
        if not rows:
            return []
        notes = await self._scores.of({trace_id: rows})
        return [*_spans(rows), *notes.get(trace_id, ())]

    async def _whole(self, trace_ids: Sequence[str]) -> dict[str, list[Row]]:
        """Rows by trace; a trace that seems torn is asked for again without bounds of time."""
        rows = await self._rows(trace_ids, bounded=True)
        bounded = self._bounds.low_ns is not None or self._bounds.high_ns is not None
        torn = [key for key, found in rows.items() if bounded and _is_torn(found)]
        if torn:
            rows |= await self._rows(torn, bounded=False)
        return rows

    async def _rows(self, trace_ids: Sequence[str], *, bounded: bool) -> dict[str, list[Row]]:
        try:
            return await self._rows_at_once(trace_ids, bounded=bounded)
        except BadRequest:
            if len(trace_ids) == 1 or not self._lists:
                raise
            self._lists = False
        except TooMuch as error:
            if len(trace_ids) == 1:
                return await self._rows_slowly(trace_ids[0], error)
        if self._lists:
            middle = len(trace_ids) // 2
            parts = [trace_ids[:middle], trace_ids[middle:]]
        else:
            parts = [[trace_id] for trace_id in trace_ids]
        out: dict[str, list[Row]] = {}
        for part in parts:
            out |= await self._rows(part, bounded=bounded)
        return out

    async def _rows_at_once(
        self, trace_ids: Sequence[str], *, bounded: bool
    ) -> dict[str, list[Row]]:
        out: dict[str, list[Row]] = {trace_id: [] for trace_id in trace_ids}
        params: dict[str, str | int] = {"fields": SKELETON, "limit": PAGE_ROWS}
        if len(trace_ids) == 1:
            params["traceId"] = trace_ids[0]
        else:
            low, high = self._bounds.low_ns, self._bounds.high_ns
            times = _times(
                low - MARGIN_NS if bounded and low is not None else None,
                high + MARGIN_NS if bounded and high is not None else None,
            )
            params["filter"] = orjson.dumps(_any_of("traceId", trace_ids) + times).decode()
        held = 0
        async with aclosing(cursor_pages(self._api, OBSERVATIONS, params)) as pages:
            async for rows in pages:
                for row in rows:
                    found = out.get(text(row.get("traceId")))
                    if found is not None:
                        found.append(dict(row))
                        held += 1
                if held > GROUP_MAX_ROWS and len(trace_ids) > 1:
                    break
            else:
                return out
        middle = len(trace_ids) // 2
        first = await self._rows(trace_ids[:middle], bounded=bounded)
        return first | await self._rows(trace_ids[middle:], bounded=bounded)

    async def _rows_slowly(self, trace_id: str, error: TooMuch) -> dict[str, list[Row]]:
        """One trace in small pages; given up where even that is too much."""
        params: dict[str, str | int] = {
            "fields": SKELETON, "limit": SMALL_PAGE_ROWS, "traceId": trace_id,
        }  # fmt: skip
        try:
            pages = cursor_pages(self._api, OBSERVATIONS, params)
            return {trace_id: [dict(row) async for page in pages for row in page]}
        except TooMuch:
            self._collector.skip(f"trace {trace_id}", f"was not read: {error}", partial=True)
            return {}

    async def _fill(self, rows: list[Row]) -> None:
        """Inputs and outputs of the rows that need them, into the rows."""
        wanted: dict[str, list[Row]] = {}  # ids of spans are unique within a trace only
        for row in _in_need(rows):
            wanted.setdefault(text(row.get("id")), []).append(row)
        parts = portions(list(wanted), self._io_ids)
        await together(self._fill_part(part, wanted) for part in parts)

    async def _fill_part(self, ids: Sequence[str], wanted: Mapping[str, Sequence[Row]]) -> None:
        rows = [row for key in ids for row in wanted[key]]
        try:
            self._put(await self._io(rows), rows)
        except (TooMuch, BadRequest) as error:
            if len(ids) == 1:
                await together(self._fill_one(row) for row in rows)
                return
            middle = len(ids) // 2
            if isinstance(error, TooMuch):
                self._io_ids = max(1, min(self._io_ids, middle))
            await self._fill_part(ids[:middle], wanted)
            await self._fill_part(ids[middle:], wanted)

    async def _fill_one(self, row: Row) -> None:
        """One row by itself: its id may be that of rows of other traces too."""
        try:
            found = await self._io([row], trace_id=text(row.get("traceId")))
        except (TooMuch, BadRequest):
            found = {}
        self._put(found, [row])

    async def _io(
        self, rows: Sequence[Row], *, trace_id: str | None = None
    ) -> dict[tuple[str, str], Row]:
        times = [at for row in rows if (at := time_ns(row.get("startTime"))) is not None]
        low = min(times) - min(times) % MS if times else None
        high = max(times) - max(times) % MS + MS if times else None
        ids = list(dict.fromkeys(text(row.get("id")) for row in rows))
        asked = _times(low, high) + _any_of("id", ids)
        if trace_id is not None:
            asked += _any_of("traceId", [trace_id])
        params: dict[str, str | int] = {
            "fields": "core,io", "limit": PAGE_ROWS, "filter": orjson.dumps(asked).decode(),
        }  # fmt: skip
        pages = cursor_pages(self._api, OBSERVATIONS, params)
        return {_key(row): dict(row) async for page in pages for row in page}

    def _put(self, found: Mapping[tuple[str, str], Row], rows: Sequence[Row]) -> None:
        for row in rows:
            filled = found.get(_key(row))
            if filled is None:
                row[IO_MISSING] = True
                self._count_missing()
            else:
                row["input"], row["output"] = filled.get("input"), filled.get("output")

    def _count_missing(self) -> None:
        self._collector.mark("io_missing")
        self._lost_io += 1
        if self._lost_io == 1:
            why = "some inputs and outputs were not read: too much for the server (`io_missing`)"
            self._collector.skip("langfuse", why, partial=True)


def _any_of(column: str, ids: Sequence[str]) -> list[Json]:
    """A condition of the `filter` parameter, which replaces all simple parameters."""
    return [{"type": "stringOptions", "column": column, "operator": "any of", "value": list(ids)}]


def _times(low: int | None, high: int | None) -> list[Json]:
    return [
        {"type": "datetime", "column": "startTime", "operator": operator, "value": iso(ns)}
        for operator, ns in ((">=", low), ("<", high))
        if ns is not None
    ]


def _spans(rows: Sequence[Row]) -> list[RawSpan | None]:
    spans = [row_span(row, cut_metadata=True) for row in rows]
    for row, span in zip(rows, spans, strict=True):
        if span is not None and row.get(IO_MISSING):
            span.attributes[IO_MISSING] = True
    free_roots(spans)
    return spans


def _key(row: Mapping[str, Json]) -> tuple[str, str]:
    return text(row.get("traceId")), text(row.get("id"))


def _is_torn(rows: Sequence[Row]) -> bool:
    """Whether a row's parent is not among the rows, and it is not marked as a root."""
    ids = {row.get("id") for row in rows}
    return any(
        (parent := text(row.get("parentObservationId")))
        and parent not in ids
        and flag(row.get("isRootObservation")) is not True
        for row in rows
    )


def _in_need(rows: Iterable[Row]) -> list[Row]:
    """The rows whose input and output say something: all but the inner steps that only pass on."""
    rows = list(rows)
    inner = {(text(row.get("traceId")), text(row.get("parentObservationId"))) for row in rows}
    return [row for row in rows if "input" not in row and _needs_io(row, _key(row) in inner)]


def _needs_io(row: Row, has_children: bool) -> bool:
    is_root = not text(row.get("parentObservationId")) or flag(row.get("isRootObservation")) is True
    if is_root or not has_children or text(row.get("level")) in ("ERROR", "WARNING"):
        return True
    if text(row.get("type")) in _CONTENT_TYPES:
        return True
    span = row_span(row)
    return isinstance(span, RawSpan) and kind_of(span.attributes) in _CONTENT_KINDS
