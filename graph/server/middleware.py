"""What is noted of every request: an id, a log line, a time, a span.

Plain ASGI, so that a streamed answer streams.
"""

import logging
import re
import time
from uuid import uuid4

import structlog
from fastapi import FastAPI
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from graph.server.metrics import meters_of
from graph.server.tracing import tracer_of

REQUEST_ID = "X-Request-Id"
UNMATCHED = "unmatched"
"""The route of a request that no route takes: its path is the caller's text, and no label."""
_WELL_FORMED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_POLLED = frozenset({"/healthz", "/readyz", "/metrics", "/ok"})
"""Asked every few seconds by machines; logged only when they fail."""

_log = logging.getLogger("tracemend.http")


class Watch:
    """Outermost of ours: sees every answer, the refused ones too."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope["app"].state
        request_id = request_id_of(Headers(scope=scope).get(REQUEST_ID))
        # Bound for good: a server handles each request in a context of its own.
        structlog.contextvars.bind_contextvars(request_id=request_id)
        seen = _Seen(request_id, send)
        span = tracer_of(state).start_span(scope["method"], kind=SpanKind.SERVER)
        try:
            await self._app(scope, receive, seen.send)
        finally:
            seconds = time.perf_counter() - seen.begun
            route = route_of(scope)
            method = scope["method"] if scope["method"] in _METHODS else "other"
            meters_of(state).http.labels(method, route, f"{seen.status}").observe(seconds)
            _note(scope["path"], method, route, seen, seconds)
            _end(span, method, route, seen)


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class _Seen:
    """An answer as it goes by."""

    def __init__(self, request_id: str, send: Send) -> None:
        self.status = 500  # what the caller gets when nothing was answered before an error
        self.request_id = request_id
        self.begun = time.perf_counter()
        self._send = send

    async def send(self, message: Message) -> None:
        """Pass a part of the answer on, with the request's id in its head."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            MutableHeaders(scope=message).setdefault(REQUEST_ID, self.request_id)
        await self._send(message)


def request_id_of(given: str | None) -> str:
    """The caller's id when it is well formed, else a new one."""
    if given is not None and _WELL_FORMED.fullmatch(given):
        return given
    return uuid4().hex


def route_of(scope: Scope) -> str:
    """The template of the route that took the request: a bounded set, unlike its path."""
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) else UNMATCHED


def _note(path: str, method: str, route: str, seen: _Seen, seconds: float) -> None:
    level = logging.INFO
    if seen.status >= 500:
        level = logging.WARNING
    elif route in _POLLED:
        level = logging.DEBUG
    said: dict[str, object] = {"method": method, "route": route, "status": seen.status}
    if route == UNMATCHED:
        said["path"] = path[:200]  # a webhook that was set up wrong is found by it
    _log.log(level, "request", extra={**said, "ms": round(seconds * 1000, 1)})


def _end(span: Span, method: str, route: str, seen: _Seen) -> None:
    span.update_name(f"{method} {route}")
    span.set_attributes({
        "http.request.method": method, "http.route": route,
        "http.response.status_code": seen.status, "tracemend.request_id": seen.request_id,
    })  # fmt: skip
    if seen.status >= 500:
        span.set_status(Status(StatusCode.ERROR))
    span.end()


def install(app: FastAPI) -> None:
    """Watch every request of this application. Call it after all other middlewares."""
    app.add_middleware(Watch)
