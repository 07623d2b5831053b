"""What no request may be, whatever the route, and what every answer carries.

Plain ASGI, so that a streamed answer streams and a refused body is never buffered.
"""

from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from fastapi import FastAPI
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from configs.server_settings import ServerSettings
from graph.server.problems import ANSWER_HEADERS, Problem, answer

LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})

_TELLING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_ASKED_BY_ADDRESS = frozenset({"/healthz", "/readyz", "/metrics"})
_OWN_CONTENT_CHECK = "/hooks/"
"""Hooks check the signature over the raw bytes first, and their content type after it."""

Settings = Callable[[], ServerSettings]


class AnswerHeaders:
    """Outermost: every answer is data for its caller alone, never a page of this origin."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in ANSWER_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, marked)


class RequestGuard:
    """Refuses by head alone (host, content type, declared size), then counts the body's bytes."""

    def __init__(self, app: ASGIApp, *, settings: Settings, embedded: bool) -> None:
        self._app = app
        self._settings = settings
        self._embedded = embedded

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        settings = self._settings()
        headers = Headers(scope=scope)
        limit = settings.limits.body_bytes
        problem = (
            self._of_host(scope["path"], headers, settings)
            or _of_size(headers, limit)
            or _of_content(scope["method"], scope["path"], headers)
        )
        if problem is not None:
            await answer(problem)(scope, receive, send)
            return
        await self._app(scope, _counted(receive, limit), send)

    def _of_host(self, path: str, headers: Headers, settings: ServerSettings) -> Problem | None:
        allowed = allowed_hosts(settings, embedded=self._embedded)
        if allowed is None or path in _ASKED_BY_ADDRESS:
            return None
        if _host_name(headers.get("host", "")) in allowed:
            return None
        return Problem(421, "this server does not answer for that host; see `public_url`")


def allowed_hosts(settings: ServerSettings, *, embedded: bool) -> frozenset[str] | None:
    """Names under which this server may be asked; None: any.

    A page of a foreign name that resolves to this machine (DNS rebinding) sends its own name.
    """
    public = urlsplit(settings.public_url).hostname if settings.public_url else None
    here = embedded and settings.host in LOOPBACK_NAMES
    if public is None and not here:
        return None
    return LOOPBACK_NAMES | ({public} if public is not None else set())


def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _too_large(limit: int) -> str:
    return f"the body is larger than {limit} bytes (`limits.body_bytes`)"


def _of_size(headers: Headers, limit: int) -> Problem | None:
    declared = headers.get("content-length", "0")
    if not (declared.isascii() and declared.isdigit()):
        return Problem(400, "Content-Length: needs a number")
    return Problem(413, _too_large(limit)) if int(declared[:20]) > limit else None


def _of_content(method: str, path: str, headers: Headers) -> Problem | None:
    if method not in _TELLING or path.startswith(_OWN_CONTENT_CHECK):
        return None
    kind = headers.get("content-type")
    if kind is None:
        empty = headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers
        return None if empty else Problem(415, "send `Content-Type: application/json`")
    if kind.partition(";")[0].strip().lower() == "application/json":
        return None
    return Problem(415, "only `application/json` is taken here")


def _counted(receive: Receive, limit: int) -> Callable[[], Awaitable[Message]]:
    """The body as it arrives, refused at the byte that is too many, whatever its length said."""
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            raise HTTPException(413, _too_large(limit))
        return message

    return counted


def install(app: FastAPI, settings: ServerSettings | None, *, embedded: bool) -> None:
    """Add both to an application."""

    def current() -> ServerSettings:
        installation = getattr(app.state, "installation", None)
        found: ServerSettings = (
            installation.settings if installation is not None else settings or ServerSettings()
        )
        return found

    app.add_middleware(RequestGuard, settings=current, embedded=embedded)
    app.add_middleware(AnswerHeaders)
