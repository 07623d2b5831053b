"""Pages of one Phoenix project: ids of traces, spans of some traces, annotations.

Source: Phoenix REST API, `GET /v1/projects/{p}/traces` (by start time), `.../spans?trace_id=`,
`.../span_annotations`, `.../trace_annotations`; `next_cursor` leads on, also from a short or empty
page; at most 1,000 a page; version tried: 20.26.1.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from connectors.traces.answers import Asked
from connectors.traces.calls import Broken, Calls, NotThere, Params, TooMuch
from connectors.traces.phoenix_rows import score_of
from connectors.traces.raw import as_objects, as_text
from contracts.json_types import Json
from contracts.traces import Score

LISTED: Final = 200  # traces a page of ids
PAGE_SPANS: Final = 500  # spans a page; halved where the server cannot answer
MAX_SPAN_IDS: Final = 100  # in one address: 3 kB, which every proxy takes
ANNOTATIONS: Final = 1000
GROW_AFTER: Final = 8  # pages that went well, after which a halved page is doubled again
_LARGEST: Final = {"traces": LISTED, "spans": PAGE_SPANS}

Row = Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A trace as the list names it."""

    id: str
    start: str
    """As the server wrote it; what a list can be told to begin at."""


class Pages:
    """Asks for one project; remembers how large a page the server can answer."""

    def __init__(self, calls: Calls, backend: str, project: str) -> None:
        self._calls = calls
        self._backend = backend
        self._base = f"/v1/projects/{quote(project, safe='')}"
        self._limits = dict(_LARGEST)
        self._went_well = 0

    async def newest(self) -> Listed | None:
        """The trace that started last."""
        answer = await self._calls.get(f"{self._base}/traces", {"limit": 1, "order": "desc"})
        return next(iter(_listed(_rows(answer))), None)

    async def traces(self, start: str | None, end: str | None) -> AsyncIterator[list[Listed]]:
        """Traces that start in [start, end), earliest first, a page at a time.

        Raises:
            CallError: the backend failed.
        """
        params: dict[str, str | int | Sequence[str]] = {"sort": "start_time", "order": "asc"}
        bounds = {"start_time": start, "end_time": end}
        params.update({key: value for key, value in bounds.items() if value is not None})
        async for rows in self._pages("traces", params):
            yield _listed(rows)

    async def spans(self, trace_ids: Sequence[str]) -> AsyncIterator[list[Row]]:
        """All spans of these traces, in no order, a page at a time.

        Raises:
            CallError: the backend failed.
        """
        async for rows in self._pages("spans", {"trace_id": list(trace_ids)}):
            yield rows

    async def scores(
        self, trace_ids: Sequence[str], span_ids: Sequence[str]
    ) -> list[tuple[str, Score]]:
        """Annotations of these, each with the trace or span id it is about.

        Raises:
            CallError: the backend failed.
        """
        found = await self._scores_of("trace", trace_ids)
        for first in range(0, len(span_ids), MAX_SPAN_IDS):
            found += await self._scores_of("span", span_ids[first : first + MAX_SPAN_IDS])
        return found

    async def _scores_of(self, kind: str, ids: Sequence[str]) -> list[tuple[str, Score]]:
        found = []
        params: Params = {f"{kind}_ids": list(ids), "limit": ANNOTATIONS}
        try:
            async for rows in self._pages(f"{kind}_annotations", params):
                found += [score for score in map(score_of, rows) if score is not None]
        except NotThere:  # what Phoenix answers where none of the ids exists any more
            return []
        return found

    async def _pages(self, what: str, params: Params) -> AsyncIterator[list[Row]]:
        """Follow the cursor to its end; a page may be short or empty and still lead on."""
        cursors: set[str] = set()
        asked = dict(params)
        while True:
            answer = await self._page(what, asked)
            yield _rows(answer)
            cursor = as_text(answer.get("next_cursor")) if isinstance(answer, dict) else ""
            if not cursor:
                return
            if cursor in cursors:
                raise self._broken(what, "gives the same cursor again, so its pages never end")
            cursors.add(cursor)
            asked["cursor"] = cursor

    async def _page(self, what: str, params: Params) -> Json:
        """One page, as large as the server can answer."""
        while True:
            limit = self._limits.get(what)
            asked = params if limit is None else {**params, "limit": limit}
            try:
                answer = await self._calls.get(f"{self._base}/{what}", asked)
            except TooMuch:
                if limit is None or limit == 1:
                    raise
                self._limits[what] = limit // 2
                self._went_well = 0
                continue
            if not isinstance(answer, dict) or not isinstance(answer.get("data"), list):
                raise self._broken(what, "answers with JSON that is no page; is this a Phoenix?")
            self._grow(what)
            return answer

    def _grow(self, what: str) -> None:
        """Ask for more again after a while: what was slow may have passed."""
        self._went_well += 1
        limit = self._limits.get(what)
        if limit is not None and self._went_well >= GROW_AFTER:
            self._limits[what] = min(_LARGEST[what], limit * 2)
            self._went_well = 0

    def _broken(self, what: str, why: str) -> Broken:
        return Broken(why, Asked(backend=self._backend, what=f"GET {self._base}/{what}"))


def _rows(answer: Json) -> list[Row]:
    return as_objects(answer.get("data")) if isinstance(answer, dict) else []


def _listed(rows: Sequence[Row]) -> list[Listed]:
    named = [(as_text(row.get("trace_id")), as_text(row.get("start_time"))) for row in rows]
    return [Listed(id=trace_id, start=start) for trace_id, start in named if trace_id]
