"""LangSmith's reading API as a stateful server: both generations, and what they trap readers with.

Source: the request and answer types of langsmith 0.15.1, and the limits that its documentation
states. The official SDK reads from it (tests/integration/test_langsmith_sdk_reads_the_fake.py).
"""

import base64
import hashlib
import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from contracts.json_types import Json
from tests.emit.langsmith import PROJECT_ID, v1_run
from tests.fakes.langsmith_datasets import LangSmithDatasets
from tests.fakes.langsmith_filter import FilterError, compiled
from tests.fakes.serving import Mishaps

Run = dict[str, Json]
Body = dict[str, Json]

PAGE = "<!doctype html><title>LangSmith</title>"
_V2_KEYS = frozenset({
    "project_ids", "reference_dataset_id", "trace_id", "ids", "run_type", "is_root", "has_error",
    "filter", "trace_filter", "tree_filter", "min_start_time", "max_start_time", "page_size",
    "cursor", "selects", "include_subtree_usage", "reference_examples",
})  # fmt: skip


def newest_first(runs: list[Run]) -> list[Run]:
    """The order that the API is known to have."""
    return sorted(runs, key=lambda r: (str(r["start_time"]), str(r["id"])), reverse=True)


def by_hash(runs: list[Run]) -> list[Run]:
    """Some other order; v2 promises none."""
    return sorted(runs, key=lambda r: hashlib.sha256(str(r["id"]).encode()).digest())


class _Refusal(Exception):
    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


@dataclass(slots=True, kw_only=True)
class FakeLangSmith:
    """A workspace with one project. Its runs are items of v2 with all fields."""

    runs: list[Run]
    project: str = "refunds"
    version: str = "0.18.2"
    flags: Mapping[str, Json] | None = field(
        default_factory=lambda: {"ch_query_enabled": True, "sdb_query_enabled": True}
    )
    v2: bool = True
    v1: bool = True
    only_v1: frozenset[str] = frozenset()
    """Ids of runs that v2 does not find."""
    prefixes: tuple[str, ...] = ("", "/api/v1")
    """Where v1 lives; a self-hosted server answers a page for every other path."""
    key: str = "lsv2_pt_fake"
    workspace: str | None = None
    """Set: the key is an organization's, and this header is needed."""
    empty_pages: bool = False
    """Every second page is empty and carries a cursor."""
    order: Callable[[list[Run]], list[Run]] = newest_first
    heavy: int | None = None
    """More runs with payloads than this in one answer: 500."""
    blobs_over: int | None = None
    """Payloads of more bytes stand behind a presigned address (v1)."""
    knows_in: bool = True
    """Whether `in(trace_id, ...)` is understood."""
    last_page_has_cursor: bool = True
    """Whether v1 gives a cursor with a full page that is the last."""
    stuck: bool = False
    """Every cursor leads to the same page."""
    base_url: str = ""
    asked: list[tuple[str, Body]] = field(default_factory=list)
    datasets: LangSmithDatasets = field(default_factory=lambda: LangSmithDatasets(_Refusal))
    _blobs: dict[str, bytes] = field(default_factory=dict)

    def app(self) -> Mishaps:
        """The server; hand it to `tests.fakes.serving.serve` and set `base_url`."""
        routes = [Route("/blobs/{name}", self._blob)]
        for prefix in self.prefixes:
            routes += [
                Route(f"{prefix}/info", self._told(self._info)),
                Route(f"{prefix}/sessions", self._told(self._sessions)),
                Route(f"{prefix}/sessions/{{id}}", self._told(self._session)),
                *(
                    Route(f"{prefix}{path}", self._told(answer), methods=["GET", "POST"])
                    for path, answer in self.datasets.answers().items()
                ),
            ]
            if self.v1:
                routes += [
                    Route(f"{prefix}/runs/query", self._told(self._query_v1), methods=["POST"]),
                    Route(f"{prefix}/runs/{{id}}", self._told(self._run_v1)),
                ]
        if self.v2:
            routes += [
                Route("/api/v2/runs/query", self._told(self._query_v2), methods=["POST"]),
                Route("/api/v2/runs/{id}", self._told(self._run_v2)),
            ]
        missing = {404: self._missing}
        return Mishaps(Starlette(routes=routes, exception_handlers=missing))

    async def _missing(self, request: Request, _: Exception) -> Response:
        if "" in self.prefixes or request.url.path.startswith("/api/"):
            return JSONResponse({"detail": "Not Found"}, 404)
        return HTMLResponse(PAGE)  # the web application takes every path

    def _told(self, answer: Callable[[Request, Body], Json]) -> Callable[[Request], object]:
        async def endpoint(request: Request) -> Response:
            body = json.loads(await request.body() or b"{}")
            if request.method == "POST":
                self.asked.append((request.url.path, body))
            try:
                if not request.url.path.endswith("/info"):
                    self._admit(request)
                return JSONResponse(answer(request, body))
            except _Refusal as refusal:
                return JSONResponse({"detail": refusal.detail}, refusal.status)

        return endpoint

    def _admit(self, request: Request) -> None:
        if request.headers.get("x-api-key") != self.key:
            raise _Refusal(401, "Invalid token")
        if self.workspace and request.headers.get("x-tenant-id") != self.workspace:
            raise _Refusal(403, "org_scoped_key_requires_workspace")

    def _info(self, _request: Request, _body: Body) -> Json:
        flags = {} if self.flags is None else {"instance_flags": dict(self.flags)}
        return {"version": self.version, "batch_ingest_config": {"size_limit": 100}, **flags}

    def _sessions(self, request: Request, _body: Body) -> Json:
        named = request.query_params.get("name")
        return [self._project()] if named in (None, self.project) else []

    def _session(self, request: Request, _body: Body) -> Json:
        if request.path_params["id"] != PROJECT_ID:
            raise _Refusal(404, "Project not found")
        return self._project()

    def _project(self) -> Body:
        times = sorted(str(run["start_time"]) for run in self.runs)
        return {
            "id": PROJECT_ID,
            "name": self.project,
            "tenant_id": str(uuid.UUID(int=1)),
            "reference_dataset_id": None,
            "start_time": times[0] if times else "2026-01-01T00:00:00",
            "last_run_start_time": times[-1].removesuffix("+00:00") if times else None,
        }

    def _query_v2(self, _request: Request, body: Body) -> Json:
        unknown = body.keys() - _V2_KEYS
        size = body.get("page_size", 100)
        if unknown or not isinstance(size, int) or not 1 <= size <= 1000:
            raise _Refusal(400, f"bad request: {sorted(unknown) or size}")
        if body.get("project_ids") != [PROJECT_ID]:
            raise _Refusal(400, "project_ids or reference_dataset_id is required")
        selects = body.get("selects", ["ID"])
        assert isinstance(selects, list)
        now = datetime.now(UTC)
        begin = _time(body.get("min_start_time")) or now - timedelta(days=1)
        end = _time(body.get("max_start_time")) or now
        found = [
            run
            for run in self._matching(body, body.get("ids"))
            if begin <= _started(run) <= end and run["id"] not in self.only_v1
        ]
        page, cursor = self._page(found, size, body)
        self._overload(page, selects)
        wanted = {str(name).lower() for name in selects}
        items = [{key: run.get(key) for key in wanted} for run in page]
        return {"items": list[Json](items), "next_cursor": cursor}

    def _query_v1(self, _request: Request, body: Body) -> Json:
        size = body.get("limit", 100)
        if not isinstance(size, int) or not 1 <= size <= 100:
            raise _Refusal(400, "limit must be at most 100")
        ids = body.get("id")
        if ids is None and body.get("session") != [PROJECT_ID]:
            raise _Refusal(400, "At least one of 'session', 'id', ... must be specified")
        begin = _time(body.get("start_time"))
        asked: Body = {} if ids else {**body, "trace_id": body.get("trace")}
        found = [
            run
            for run in self._matching(asked, ids)
            if ids or begin is None or _started(run) >= begin
        ]
        page, cursor = self._page(found, size, body)
        select = body.get("select")
        wanted = {*select, "id"} if isinstance(select, list) else None
        self._overload(page, [str(name).upper() for name in wanted or ("inputs",)])
        runs = [self._as_v1(run, wanted) for run in page]
        return {"runs": list[Json](runs), "cursors": {"next": cursor}}

    def _as_v1(self, run: Run, wanted: set[Json] | None) -> Run:
        v1 = v1_run(run)
        for side in ("inputs", "outputs"):
            data = json.dumps(v1[side]).encode()
            if self.blobs_over is not None and len(data) > self.blobs_over:
                name = hashlib.sha256(data).hexdigest()[:16]
                self._blobs[name] = data
                url = f"{self.base_url}/blobs/{name}?X-Amz-Signature=s3cret"
                v1[f"{side}_s3_urls"] = {"ROOT": {"presigned_url": url}}
                v1[side] = {} if side == "inputs" else None
        return v1 if wanted is None else {k: v for k, v in v1.items() if k in wanted}

    def _run_v1(self, request: Request, _body: Body) -> Json:
        return v1_run(self._one(request.path_params["id"]))

    def _run_v2(self, request: Request, _body: Body) -> Json:
        run = self._one(request.path_params["id"])
        if run["id"] in self.only_v1 or request.query_params.get("project_id") != PROJECT_ID:
            raise _Refusal(404, "run not found")
        selects = request.query_params.getlist("selects") or ["ID"]
        return {name.lower(): run.get(name.lower()) for name in selects}

    def _one(self, run_id: str) -> Run:
        for run in self.runs:
            if run["id"] == run_id:
                return run
        raise _Refusal(404, "run not found")

    def _matching(self, body: Body, ids: Json) -> Iterable[Run]:
        tests: list[Callable[[Run], bool]] = []
        text = body.get("filter")
        if isinstance(text, str):
            if "in(trace_id" in text and not self.knows_in:
                raise _Refusal(400, "unknown field trace_id")
            try:
                tests.append(compiled(text))
            except (FilterError, ValueError, IndexError) as error:
                raise _Refusal(400, str(error)) from error
        if isinstance(ids, list):
            tests.append(lambda run: run["id"] in ids)
        for key in ("trace_id", "is_root"):
            wanted = body.get(key)
            if wanted is not None:
                tests.append(_equals(key, wanted))
        kind = body.get("run_type")
        if isinstance(kind, str):
            tests.append(lambda run: str(run["run_type"]).lower() == kind.lower())
        return (run for run in self.runs if all(test(run) for test in tests))

    def _page(self, found: list[Run], size: int, body: Body) -> tuple[list[Run], str | None]:
        runs = self.order(found)
        asked = {key: value for key, value in body.items() if key != "cursor"}
        mark = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:8]
        at, turn = 0, 0
        cursor = body.get("cursor")
        if isinstance(cursor, str):
            of, at, turn = json.loads(base64.b64decode(cursor))
            if of != mark:
                raise _Refusal(400, "the cursor belongs to another query")
        if self.empty_pages and turn % 2 == 0 and at < len(runs):
            return [], _cursor(mark, at, turn + 1)
        page = runs[at : at + size]
        if self.stuck:
            return page, _cursor(mark, at, turn)
        more = at + size < len(runs) or (
            self.last_page_has_cursor and len(page) == size and "limit" in body
        )
        return page, _cursor(mark, at + size, turn + 1) if more else None

    def _overload(self, page: list[Run], selects: list[Json]) -> None:
        heavy = "INPUTS" in selects or "OUTPUTS" in selects
        if self.heavy is not None and heavy and len(page) > self.heavy:
            raise _Refusal(500, "query exceeded its memory")

    async def _blob(self, request: Request) -> Response:
        if "x-api-key" in request.headers or "X-Amz-Signature" not in request.query_params:
            return Response(status_code=403)
        return Response(self._blobs[request.path_params["name"]])


def _equals(key: str, wanted: Json) -> Callable[[Run], bool]:
    return lambda run: run[key] == wanted


def _cursor(mark: str, at: int, turn: int) -> str:
    return base64.b64encode(json.dumps([mark, at, turn]).encode()).decode()


def _time(value: Json) -> datetime | None:
    if not isinstance(value, str):
        return None
    when = datetime.fromisoformat(value)
    assert when.tzinfo is not None, "a time without a zone was sent"
    return when


def _started(run: Run) -> datetime:
    return datetime.fromisoformat(str(run["start_time"]))
