"""A Phoenix that keeps what it is sent: OTLP in, the REST pages of Phoenix 20.26.1 out.

What it has in common with the real one was compared by the test against a real server: resource
attributes are dropped, times cut to microseconds, JSON text in `metadata` comes back flattened.
"""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
from google.protobuf import json_format  # type: ignore[import-untyped]  # it has no stubs here
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

PROJECT_KEY = "openinference.project.name"
_PROTOBUF = "application/x-protobuf"
_IDS = ("traceId", "spanId", "parentSpanId")
_CODES = {"STATUS_CODE_OK": "OK", "STATUS_CODE_ERROR": "ERROR"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def push(base_url: str, lines: Iterable[bytes], *, project: str = "default", key: str = "") -> int:
    """Send lines of OTLP JSON the way an exporter does; returns how many requests that were."""
    headers = {"content-type": _PROTOBUF, **({"authorization": f"Bearer {key}"} if key else {})}
    sent = 0
    with httpx.Client(base_url=base_url, headers=headers) as client:
        for line in lines:
            document = _ids(json.loads(line), lambda text: base64.b64encode(bytes.fromhex(text)))
            for group in document["resourceSpans"]:
                attributes = group.setdefault("resource", {}).setdefault("attributes", [])
                attributes.append({"key": PROJECT_KEY, "value": {"stringValue": project}})
            message = json_format.ParseDict(
                document, ExportTraceServiceRequest(), ignore_unknown_fields=True
            )
            client.post("/v1/traces", content=message.SerializeToString()).raise_for_status()
            sent += 1
    return sent


@dataclass
class FakePhoenix:
    """One server. `empty_pages`: every page is followed by an empty one that leads on."""

    key: str = ""
    empty_pages: bool = False
    repeats_cursor: bool = False
    knows_annotations: bool = True
    projects: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {"default": []})
    annotations: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """By `span` and `trace`."""

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/traces", self._take, methods=["POST"]),
                Route("/v1/{kind}_annotations", self._annotate, methods=["POST"]),
                Route("/v1/projects/{project}/traces", self._traces),
                Route("/v1/projects/{project}/spans", self._spans),
                Route("/v1/projects/{project}/{kind}_annotations", self._annotations),
            ]
        )

    async def _take(self, request: Request) -> Response:
        if request.headers.get("content-type") != _PROTOBUF:
            return PlainTextResponse("Unsupported content type", 415)
        message = ExportTraceServiceRequest()
        message.ParseFromString(await request.body())
        document = json_format.MessageToDict(message)
        document = _ids(document, lambda text: base64.b64decode(text).hex().encode())
        for group in document.get("resourceSpans", ()):
            resource = dict(_attributes(group.get("resource", {}).get("attributes", ())))
            rows = self.projects.setdefault(resource.get(PROJECT_KEY, "default"), [])
            for scope in group.get("scopeSpans", ()):
                rows += [_row(span) for span in scope.get("spans", ())]
        body = ExportTraceServiceResponse().SerializeToString()
        return Response(body, media_type=_PROTOBUF)

    async def _annotate(self, request: Request) -> Response:
        """Upserts annotations, as the client of Phoenix sends them."""
        kept = self.annotations.setdefault(request.path_params["kind"], [])
        for one in (await request.json())["data"]:
            now = datetime.now(UTC).isoformat()
            kept.append({"source": "API", "created_at": now, "updated_at": now, **one})
        return JSONResponse({"data": []})

    async def _traces(self, request: Request) -> Response:
        starts: dict[str, str] = {}
        for row in self.projects.get(request.path_params["project"], ()):
            trace_id, start = row["context"]["trace_id"], row["start_time"]
            starts[trace_id] = min(start, starts.get(trace_id, start))
        query = request.query_params
        begin, end = query.get("start_time"), query.get("end_time")
        found = [
            {"trace_id": trace_id, "start_time": start}
            for trace_id, start in starts.items()
            if (begin is None or _date(start) >= _date(begin))
            and (end is None or _date(start) < _date(end))
        ]
        found.sort(key=lambda one: _date(one["start_time"]), reverse=query.get("order") != "asc")
        return self._page(request, found)

    async def _spans(self, request: Request) -> Response:
        wanted = request.query_params.getlist("trace_id")
        rows = self.projects.get(request.path_params["project"], ())
        return self._page(
            request, [row for row in reversed(rows) if row["context"]["trace_id"] in wanted]
        )

    async def _annotations(self, request: Request) -> Response:
        kind = request.path_params["kind"]
        if not self.knows_annotations:
            return Response("<!doctype html><html></html>", media_type="text/html")
        wanted = request.query_params.getlist(f"{kind}_ids")
        kept = self.annotations.get(kind, ())
        return self._page(request, [one for one in kept if one[f"{kind}_id"] in wanted])

    def _page(self, request: Request, rows: list[dict[str, Any]]) -> Response:
        """A page of rows; the cursor is opaque to those who get it."""
        if self.key and request.headers.get("authorization") != f"Bearer {self.key}":
            return PlainTextResponse("Invalid token", 401)
        if request.path_params["project"] not in self.projects:
            return PlainTextResponse("Project not found", 404)
        query = request.query_params
        limit = int(query.get("limit", "100"))
        if not 0 < limit <= 1000:
            return PlainTextResponse("limit", 422)
        kind, _, number = query.get("cursor", "f:0").partition(":")
        first = int(number)
        if kind == "e":
            return JSONResponse({"data": [], "next_cursor": f"f:{first}"})
        last = first + limit
        following = f"{'e' if self.empty_pages else 'f'}:{last}" if last < len(rows) else None
        if self.repeats_cursor and following is not None:
            following = query.get("cursor", following)
        return JSONResponse({"data": rows[first:last], "next_cursor": following})


def _row(span: Mapping[str, Any]) -> dict[str, Any]:
    attributes = dict(_attributes(span.get("attributes", ())))
    metadata = attributes.pop("metadata", None)
    if metadata is not None:
        attributes.update(_flat("metadata", json.loads(metadata)))
    status = span.get("status", {})
    code = _CODES.get(status.get("code", ""), "UNSET")
    return {
        "id": base64.b64encode(span["spanId"].encode()).decode(),
        "name": span.get("name", ""),
        "context": {"trace_id": span["traceId"], "span_id": span["spanId"]},
        "span_kind": attributes.pop("openinference.span.kind", "UNKNOWN"),
        "parent_id": span.get("parentSpanId"),
        "start_time": _iso(span["startTimeUnixNano"]),
        "end_time": _iso(span.get("endTimeUnixNano", span["startTimeUnixNano"])),
        "status_code": code,
        "status_message": status.get("message", "") if code == "ERROR" else "",
        "attributes": attributes,
        "events": [
            {
                "name": one.get("name", ""),
                "attributes": dict(_attributes(one.get("attributes", ()))),
            }
            for one in span.get("events", ())
        ],
    }


def _attributes(pairs: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Any]]:
    for pair in pairs:
        (kind, value), *_ = pair["value"].items()
        if kind == "arrayValue":
            value = [next(iter(one.values())) for one in value.get("values", ())]
        yield pair["key"], int(value) if kind == "intValue" else value


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict):
        yield prefix, value
        return
    for key, item in value.items():
        yield from _flat(f"{prefix}.{key}", item)


def _ids(value: Any, change: Any) -> Any:
    """The document with its ids written another way."""
    if isinstance(value, dict):
        return {
            k: change(v).decode() if k in _IDS and isinstance(v, str) else _ids(v, change)
            for k, v in value.items()
        }
    return [_ids(item, change) for item in value] if isinstance(value, list) else value


def _iso(nanos: str | int) -> str:
    return (_EPOCH + timedelta(microseconds=int(nanos) // 1000)).isoformat()


def _date(text: str) -> datetime:
    return datetime.fromisoformat(text)
