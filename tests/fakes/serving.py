"""Fakes of backends as real HTTP servers on loopback, and the mishaps they are told to have."""

import asyncio
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SECRET_HEADERS = frozenset({"authorization", "x-api-key", "api_key", "cookie"})

Kind = Literal["status", "page", "slow", "torn"]


@contextmanager
def running(
    config: uvicorn.Config, *, stops_within_s: float
) -> Iterator[tuple[str, uvicorn.Server]]:
    """Run uvicorn in a thread on the socket that the config names; its base URL, and the server.

    On exit the server has stopped, its thread has ended and its socket is closed.
    """
    server = uvicorn.Server(config)
    socket = config.bind_socket()
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            time.sleep(0.005)
        yield f"http://127.0.0.1:{socket.getsockname()[1]}", server
    finally:
        server.should_exit = True
        thread.join(stops_within_s)
        socket.close()
        assert not thread.is_alive(), "the server did not stop"


@contextmanager
def serve(app: ASGIApp) -> Iterator[str]:
    """Run a fake on a free port of 127.0.0.1; yields its base URL."""
    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, log_level="critical", lifespan="off", ws="none",
        timeout_graceful_shutdown=1,
    )  # fmt: skip
    with running(config, stops_within_s=10) as (url, _):
        yield url


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A request as a fake saw it."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    """Lower-case keys; of secrets only that they were there."""
    mishap: bool
    """It was answered with a mishap."""


@dataclass(slots=True, kw_only=True)
class Mishap:
    """What goes wrong instead of, or with, an answer."""

    kind: Kind
    status: int = 500
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b'{"error":"mishap"}'
    seconds: float = 0.0
    path: str = ""
    """Only requests whose path contains it."""
    after: int = 0
    """So many such requests are answered well first."""
    times: int = 1
    """So many are answered badly then."""


class Mishaps:
    """An ASGI app around another: records what is asked, and answers badly when told to.

    Mishaps are tried in the order in which they were added; each counts the requests that reach it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.seen: list[Seen] = []
        self._planned: list[Mishap] = []
        self._lock = threading.Lock()

    def status(
        self, status: int, *, path: str = "", after: int = 0, times: int = 1,
        headers: Mapping[str, str] | None = None, body: bytes = b'{"error":"mishap"}',
    ) -> None:  # fmt: skip
        """Answer with this status; `headers` such as `{"retry-after": "2"}`."""
        self._plan("status", path, after, times, status=status, headers=headers or {}, body=body)

    def limited(
        self, retry_after: str | None = "1", *, path: str = "", after: int = 0, times: int = 1
    ) -> None:
        """Answer 429, with Retry-After unless it is None."""
        headers = {} if retry_after is None else {"retry-after": retry_after}
        self.status(429, path=path, after=after, times=times, headers=headers)

    def slow(self, seconds: float, *, path: str = "", after: int = 0, times: int = 1) -> None:
        """Answer well, but so much later."""
        self._plan("slow", path, after, times, seconds=seconds)

    def torn(self, *, path: str = "", after: int = 0, times: int = 1) -> None:
        """Promise the whole answer, send half of it and close the connection."""
        self._plan("torn", path, after, times)

    def page(self, body: bytes, *, path: str = "", after: int = 0, times: int = 1) -> None:
        """Answer 200 with this body, such as an empty page that carries a cursor."""
        self._plan("page", path, after, times, body=body)

    def forget(self) -> None:
        """Drop what was planned and what was seen."""
        with self._lock:
            self._planned.clear()
            self.seen.clear()

    def asked(self, path: str = "") -> list[Seen]:
        """The requests so far whose path contains this."""
        with self._lock:
            return [seen for seen in self.seen if path in seen.path]

    def _plan(
        self, kind: Kind, path: str, after: int, times: int, *, status: int = 500,
        headers: Mapping[str, str] | None = None, body: bytes = b"", seconds: float = 0.0,
    ) -> None:  # fmt: skip
        with self._lock:
            self._planned.append(
                Mishap(
                    kind=kind, path=path, after=after, times=times, status=status,
                    headers=headers or {}, body=body, seconds=seconds,
                )
            )  # fmt: skip

    def _next(self, path: str) -> Mishap | None:
        for mishap in self._planned:
            if mishap.path not in path or not mishap.times:
                continue
            if mishap.after:
                mishap.after -= 1
                continue
            mishap.times -= 1
            return mishap
        return None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path = scope["path"]
        with self._lock:
            mishap = self._next(path)
            self.seen.append(_seen(scope, mishap is not None))
        if mishap is None:
            await self.app(scope, receive, send)
        else:
            await self._answer_badly(mishap, scope, receive, send)

    async def _answer_badly(
        self, mishap: Mishap, scope: Scope, receive: Receive, send: Send
    ) -> None:
        match mishap.kind:
            case "status" | "page":
                status = mishap.status if mishap.kind == "status" else 200
                await _respond(send, status, mishap.headers, mishap.body)
            case "slow":
                await asyncio.sleep(mishap.seconds)
                await self.app(scope, receive, send)
            case "torn":
                await self.app(scope, receive, _Tearing(send))


class _Torn(Exception):
    """Makes the server close the connection, since the answer had begun."""


@dataclass(slots=True)
class _Tearing:
    """Lets through the head of an answer and half of its first block."""

    send: Send

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.body":
            body = message.get("body", b"")
            await self.send({**message, "body": body[: len(body) // 2], "more_body": True})
            raise _Torn
        await self.send(message)


def _seen(scope: Scope, mishap: bool) -> Seen:
    headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
    safe = {k: "(there)" if k in SECRET_HEADERS else v for k, v in headers.items()}
    return Seen(
        method=scope["method"],
        path=scope["path"],
        query=scope["query_string"].decode("latin-1"),
        headers=safe,
        mishap=mishap,
    )


async def _respond(send: Send, status: int, headers: Mapping[str, str], body: bytes) -> None:
    sent = {"content-type": "application/json", "content-length": str(len(body)), **headers}
    pairs = [(key.encode(), value.encode()) for key, value in sent.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
