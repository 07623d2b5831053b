"""What the vendors keep of scores, comments, feedback and experiments, as HTTP servers with state.

Langfuse: `POST scores` upserts by id and, on a server of SDK 4, takes one object alone (a list is a
400; on a newer server the other way round); comments have ids of the server; OTLP spans are kept by
trace and span. LangSmith: an id that is there is a 409 for feedback and projects, and runs of a
batch are taken once.
"""

import json
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from contracts.json_types import Json
from tests.fakes.serving import Mishaps

Row = dict[str, Json]


@dataclass(slots=True)
class LangfuseKept:
    """One Langfuse project."""

    takes: Literal["one", "list"] = "one"
    scores: dict[str, Row] = field(default_factory=dict)
    comments: list[Row] = field(default_factory=list)
    spans: dict[tuple[str, str], Row] = field(default_factory=dict)
    resources: list[Row] = field(default_factory=list)

    @property
    def app(self) -> Mishaps:
        routes = [
            Route("/api/public/projects", self._projects),
            Route("/api/public/scores", self._score, methods=["POST"]),
            Route("/api/public/comments", self._comments, methods=["GET", "POST"]),
            Route("/api/public/otel/v1/traces", self._otlp, methods=["POST"]),
        ]
        return Mishaps(Starlette(routes=routes))

    async def _projects(self, _: Request) -> Response:
        return JSONResponse({"data": [{"id": "pr-1", "name": "refunds", "metadata": {}}]})

    async def _score(self, request: Request) -> Response:
        body = json.loads(await request.body())
        if isinstance(body, list) != (self.takes == "list"):
            return JSONResponse({"message": "Invalid request data", "error": []}, 400)
        rows = body if isinstance(body, list) else [body]
        for row in rows:
            if not row.get("id") or not row.get("traceId") or "value" not in row:
                return JSONResponse({"message": "Invalid request data"}, 400)
            self.scores[row["id"]] = row
        return JSONResponse({"id": rows[0]["id"]})

    async def _comments(self, request: Request) -> Response:
        if request.method == "POST":
            row = json.loads(await request.body())
            if row["projectId"] != "pr-1" or len(row["content"]) > 5_000:
                return JSONResponse({"message": "Invalid request data"}, 400)
            row["id"] = f"cm{len(self.comments)}"
            self.comments.append(row)
            return JSONResponse({"id": row["id"]})
        asked = {key: values[0] for key, values in parse_qs(request.url.query).items()}
        page, limit = int(asked.get("page", "1")), int(asked.get("limit", "50"))
        rows = [row for row in self.comments if row["objectId"] == asked.get("objectId")]
        here = rows[(page - 1) * limit : page * limit]
        meta: Row = {"page": page, "limit": limit, "totalItems": len(rows),
                     "totalPages": -(-len(rows) // limit)}  # fmt: skip
        return JSONResponse({"data": here, "meta": meta})

    async def _otlp(self, request: Request) -> Response:
        for resource in json.loads(await request.body())["resourceSpans"]:
            self.resources.append(resource["resource"])
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    self.spans[(span["traceId"], span["spanId"])] = span
        return JSONResponse({})


@dataclass(slots=True)
class LangSmithKept:
    """One LangSmith workspace."""

    datasets: dict[str, str] = field(default_factory=dict)
    """Id by name."""
    projects: dict[str, str] = field(default_factory=dict)
    """Id by name, of tracing projects."""
    feedback: dict[str, Row] = field(default_factory=dict)
    sessions: dict[str, Row] = field(default_factory=dict)
    runs: dict[str, Row] = field(default_factory=dict)

    @property
    def app(self) -> Mishaps:
        routes = [
            Route("/info", self._info),
            Route("/datasets", self._datasets),
            Route("/feedback", self._feedback, methods=["POST"]),
            Route("/sessions", self._sessions, methods=["GET", "POST"]),
            Route("/runs/batch", self._batch, methods=["POST"]),
        ]
        return Mishaps(Starlette(routes=routes))

    async def _info(self, _: Request) -> Response:
        return JSONResponse({"version": "0.18.2", "instance_flags": {}})

    async def _datasets(self, request: Request) -> Response:
        name = request.query_params.get("name", "")
        found = self.datasets.get(name)
        return JSONResponse([{"id": found, "name": name}] if found else [])

    async def _feedback(self, request: Request) -> Response:
        return self._keep(self.feedback, json.loads(await request.body()))

    async def _sessions(self, request: Request) -> Response:
        if request.method == "GET":
            name = request.query_params.get("name", "")
            found = self.projects.get(name)
            return JSONResponse([{"id": found, "name": name}] if found else [])
        return self._keep(self.sessions, json.loads(await request.body()))

    async def _batch(self, request: Request) -> Response:
        for run in json.loads(await request.body())["post"]:
            assert run["session_id"] in self.sessions
            assert run["dotted_order"].endswith(run["id"])
            self.runs.setdefault(run["id"], run)
        return JSONResponse({}, 202)

    def _keep(self, rows: dict[str, Row], row: Row) -> Response:
        key = str(row["id"])
        if key in rows:
            return JSONResponse({"detail": "Conflict"}, 409)
        rows[key] = row
        return JSONResponse(row)
