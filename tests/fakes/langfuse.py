"""A Langfuse server of one project, in either generation of its API, seeded with rows.

The current generation has observations v2 and scores v3; the older one has traces, observations and
scores by numbered pages, and answers 404 with a page for what came later. What a real 4.16 server
answered is in the recordings that the tests compare this with.
"""

import asyncio
import base64
import time
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal

from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from contracts.json_types import Json
from contracts.traces import Trace
from tests.emit.langfuse import PROJECT, export, observation_rows, score_rows, v1_score
from tests.fakes.langfuse_datasets import LangfuseDatasets
from tests.fakes.langfuse_query import (
    Invalid,
    Row,
    at,
    instant,
    invalid,
    kept,
    named_ids,
    ordered,
    place_of,
    read_cursor,
    selected,
    whole_number,
    words,
    write_cursor,
)
from tests.fakes.langfuse_scores import score_filter, score_place
from tests.fakes.serving import Mishaps

PUBLIC, SECRET = "pk-lf-fake", "sk-lf-fake"
_MISSING = "<!DOCTYPE html><html><head><title>404</title></head><body>Not found</body></html>"
_SCORE_CORE = ("id", "projectId", "name", "value", "dataType", "source", "timestamp", "environment",
               "createdAt", "updatedAt")  # fmt: skip
_SCORE_GROUPS = {
    "details": ("comment", "configId", "metadata"),
    "subject": ("subject",),
    "annotation": ("authorUserId", "queueId"),
}


class FakeLangfuse:
    """The server's state and its switches; `app` is what is served.

    Generation "both" is a server that still has the older endpoints beside the current ones.
    """

    def __init__(
        self, traces: Iterable[Trace] = (), *, generation: Literal["v2", "v1", "both"] = "v2"
    ) -> None:
        self.generation = generation
        self.rows: list[Row] = []
        self._indexed: list[Row] | None = None
        self._places: list[tuple[str, str, str]] = []
        self._by: dict[str, dict[str, list[Row]]] = {}
        self.scores: list[Row] = []
        self.exports: dict[str, dict[str, Json]] = {}
        for trace in traces:
            self.add(trace)
        self.empty_every = 0
        """Each so many pages an empty one comes, with a cursor."""
        self.widest_s: float | None = None
        """Lists over more time than this are too much."""
        self.most_io = 1 << 30
        """More inputs and outputs than this in one answer are too much."""
        self.latency_s = 0.0
        self.per_window: int | None = None
        """Calls allowed in `window_s`, counted from the first."""
        self.window_s = 60.0
        self.too_many = 0
        self._window: tuple[float, int] = (0.0, 0)
        self.datasets = LangfuseDatasets(PROJECT)
        self.app = Mishaps(Starlette(routes=self._routes(), exception_handlers=_HANDLERS))

    def add(self, trace: Trace) -> None:
        """Store a trace, as it is recorded by either generation."""
        self.rows = ordered([*self.rows, *observation_rows(trace)])
        self.scores += score_rows(trace)
        self.exports[trace.id] = export(trace)

    def _routes(self) -> list[Route]:
        v2 = {"/api/public/v2/observations": self._observations_v2,
              "/api/public/v3/scores": self._scores_v3}  # fmt: skip
        v1 = {
            "/api/public/traces": self._traces,
            "/api/public/traces/{trace_id:path}": self._trace,
            "/api/public/observations": self._observations_v1,
            "/api/public/v2/scores": self._scores_v2,
        }
        both = {"/api/public/projects": self._projects}
        paths = {
            **(v2 if self.generation != "v1" else {}),
            **(v1 if self.generation != "v2" else {}),
            **both,
        }
        routes = [Route(path, self._guarded(answer)) for path, answer in paths.items()]
        for path, answered in self.datasets.answers().items():
            methods = ["GET", "POST"] if "{" not in path else ["GET"]
            routes.append(Route(path, self._with_body(answered), methods=methods))
        return [Route("/api/public/health", self._health), *routes]

    def _with_body(
        self, answer: Callable[[Request, bytes], Response]
    ) -> Callable[[Request], Awaitable[Response]]:
        """The same for an answer that depends on what was sent."""

        async def read(request: Request) -> Response:
            body = await request.body()
            return await self._guarded(lambda asked: answer(asked, body))(request)

        return read

    def _guarded(
        self, answer: Callable[[Request], Response]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Key, rate limit and latency before an answer."""

        async def guarded(request: Request) -> Response:
            expected = base64.b64encode(f"{PUBLIC}:{SECRET}".encode()).decode()
            if request.headers.get("authorization") != f"Basic {expected}":
                error = {"message": "Invalid credentials. Confirm that you've configured the"
                         " correct host.", "error": "UnauthorizedError"}  # fmt: skip
                return JSONResponse(error, 401)
            limited, headers = self._counted()
            if limited:
                return JSONResponse({"message": "rate limit exceeded"}, 429, headers)
            if self.latency_s:
                await asyncio.sleep(self.latency_s)
            try:
                response = answer(request)
            except Invalid as error:
                response = JSONResponse(dict(error.body), 400)
            response.headers.update(headers)
            return response

        return guarded

    def _counted(self) -> tuple[bool, dict[str, str]]:
        """A fixed window from its first call, as the server counts."""
        if self.per_window is None:
            return False, {}
        now = time.monotonic()
        begun, count = self._window
        if now - begun >= self.window_s:
            begun, count = now, 0
        self._window = (begun, count + 1)
        left = self.per_window - count - 1
        headers = {
            "x-ratelimit-limit": str(self.per_window),
            "x-ratelimit-remaining": str(max(0, left)),
        }
        if left >= 0:
            return False, headers
        self.too_many += 1
        return True, {**headers, "retry-after": str(int(begun + self.window_s - now) + 1)}

    def _health(self, request: Request) -> Response:
        del request
        version = "3.99.0" if self.generation == "v1" else "4.16.0"
        return JSONResponse({"status": "OK", "version": version})

    def _projects(self, request: Request) -> Response:
        del request
        organization = {"id": "org1", "name": "org1"}
        project = {"id": PROJECT, "name": PROJECT, "organization": organization, "metadata": {}}
        return JSONResponse({"data": [project]})

    def _observations_v2(self, request: Request) -> Response:
        params = request.query_params
        limit = whole_number(params, "limit", 50, 1000)
        after, turn = read_cursor(params.get("cursor"))
        keep = kept(params)
        fields = params.get("fields") or None
        begin, end = instant(params, "fromStartTime"), instant(params, "toStartTime")
        if self.widest_s is not None and not (params.get("filter") or params.get("traceId")):
            wide = begin is None or end is None or (end - begin).total_seconds() > self.widest_s
            if wide:
                return _timed_out()
        if self.empty_every and turn % self.empty_every == self.empty_every - 1:
            place = after or ("9999", "", "")
            return JSONResponse({"data": [], "meta": {"cursor": write_cursor(place, turn + 1)}})
        rest = list(islice(filter(keep, self._candidates(params, after)), limit + 1))
        page = rest[:limit]
        if "io" in (fields or "").split(",") and len(page) > self.most_io:
            return _timed_out()
        more = len(rest) > limit
        meta = {"cursor": write_cursor(place_of(page[-1]), turn + 1)} if more else {}
        return JSONResponse({"data": [selected(row, fields) for row in page], "meta": meta})

    def _candidates(self, params: QueryParams, after: tuple[str, str, str] | None) -> Iterator[Row]:
        """The rows after a place in their order, by an index where the parameters name ids."""
        if self._indexed is not self.rows:
            self._indexed = self.rows
            self._places = [place_of(row) for row in reversed(self.rows)]
            self._by = {"traceId": {}, "id": {}}
            for row in self.rows:
                for column, index in self._by.items():
                    index.setdefault(str(row[column]), []).append(row)
        named = named_ids(params)
        if named is not None:
            column, ids = named
            found = ordered(row for one in ids for row in self._by[column].get(one, ()))
            return (row for row in found if after is None or place_of(row) < after)
        count = len(self.rows)
        begin = 0 if after is None else count - bisect_left(self._places, after)
        return (self.rows[n] for n in range(begin, count))

    def _scores_v3(self, request: Request) -> Response:
        params = request.query_params
        limit = whole_number(params, "limit", 50, 100)
        groups = words(params, "fields")
        if any(group not in _SCORE_GROUPS for group in groups):
            raise invalid("fields", "Unknown field group", "invalid_value")
        keep = score_filter(params)
        after, turn = read_cursor(params.get("cursor"))
        rows = sorted((row for row in self.scores if keep(row)), key=score_place, reverse=True)
        rest = [row for row in rows if after is None or score_place(row) < after]
        page = rest[:limit]
        meta: dict[str, Json] = {"limit": limit}
        if len(rest) > limit:
            meta["cursor"] = write_cursor(score_place(page[-1]), turn + 1)
        names = (*_SCORE_CORE, *(key for group in groups for key in _SCORE_GROUPS[group]))
        data = [{key: row[key] for key in names} for row in page]
        return JSONResponse({"data": data, "meta": meta})

    def _traces(self, request: Request) -> Response:
        params = request.query_params
        begin, end = instant(params, "fromTimestamp"), instant(params, "toTimestamp")
        if self.widest_s is not None and (
            begin is None or end is None or (end - begin).total_seconds() > self.widest_s
        ):
            return _timed_out()
        places = [one for one in params.getlist("environment") if one]
        heads = [_head(document) for document in self.exports.values()]
        found = [
            head for head in heads
            if (begin is None or at(head, "timestamp") >= begin)
            and (end is None or at(head, "timestamp") < end)
            and (not places or head["environment"] in places)
        ]  # fmt: skip
        found.sort(key=lambda head: (str(head["timestamp"]), str(head["id"])), reverse=True)
        listed = [{**head, "scores": [s["id"] for s in _dicts(head["scores"])]} for head in found]
        return _numbered(request, listed)

    def _trace(self, request: Request) -> Response:
        trace_id = request.path_params["trace_id"]
        document = self.exports.get(trace_id)
        if document is None:
            message = f"Trace {trace_id[:64]} not found within authorized project"
            return JSONResponse({"message": message, "error": "LangfuseNotFoundError"}, 404)
        fields = words(request.query_params, "fields")
        head = _head(document)
        rows = [_view(row) for row in _dicts(document["observations"])]
        if fields and "observations" not in fields:
            rows = []
        elif len(rows) > self.most_io:
            return _timed_out()
        return JSONResponse({**head, "observations": rows})

    def _observations_v1(self, request: Request) -> Response:
        params = request.query_params
        begin, end = instant(params, "fromStartTime"), instant(params, "toStartTime")
        wanted = params.get("traceId") or None
        rows = [_view(row) for document in self.exports.values()
                for row in _dicts(document["observations"])]  # fmt: skip
        found = [
            row for row in rows
            if (wanted is None or row["traceId"] == wanted)
            and (begin is None or at(row, "startTime") >= begin)
            and (end is None or at(row, "startTime") < end)
        ]  # fmt: skip
        return _numbered(request, sorted(found, key=place_of, reverse=True))

    def _scores_v2(self, request: Request) -> Response:
        trace_id = request.query_params.get("traceId") or None
        rows = [v1_score(dict(row)) for row in self.scores]
        found = [row for row in rows if trace_id is None or row["traceId"] == trace_id]
        return _numbered(request, found, most=100)


def _head(document: dict[str, Json]) -> dict[str, Json]:
    head = document["trace"]
    assert isinstance(head, dict)
    return {**head, "htmlPath": f"/project/{PROJECT}/traces/{head['id']}", "totalCost": 0.0}


def _view(row: dict[str, Json]) -> dict[str, Json]:
    """A row of the older endpoint, with its deprecated columns."""
    usage = row["usageDetails"]
    counts = usage if isinstance(usage, dict) else {}
    old = {key: counts.get(key, 0) for key in ("input", "output", "total")}
    return {
        **row,
        "usage": {**old, "unit": "TOKENS"},
        "calculatedInputCost": None,
        "calculatedOutputCost": None,
        "calculatedTotalCost": row["totalCost"],
    }


def _dicts(value: Json) -> list[dict[str, Json]]:
    assert isinstance(value, list)
    return [item for item in value if isinstance(item, dict)]


def _numbered(request: Request, rows: Sequence[Row], *, most: int | None = None) -> Response:
    limit = whole_number(request.query_params, "limit", 50, most)
    number = whole_number(request.query_params, "page", 1, None)
    page = rows[(number - 1) * limit : number * limit]
    meta = {"page": number, "limit": limit, "totalItems": len(rows),
            "totalPages": -(-len(rows) // limit)}  # fmt: skip
    return JSONResponse({"data": [dict(row) for row in page], "meta": meta})


def _timed_out() -> Response:
    error = "Request timed out"
    return JSONResponse({"message": "Request is taking too long", "error": error}, 422)


def _not_found(request: Request, error: Exception) -> Response:
    del request, error
    return HTMLResponse(_MISSING, 404)


def _not_allowed(request: Request, error: Exception) -> Response:
    del request, error
    body = {"message": "Method not allowed", "error": "MethodNotAllowedError"}
    return JSONResponse(body, 405, {"allow": "GET, HEAD"})


_HANDLERS: dict[int | type[Exception], Callable[[Request, Exception], Response]] = {
    404: _not_found,
    405: _not_allowed,
}
