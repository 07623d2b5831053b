"""What goes wrong with single calls of the fake Langfuse, and what somebody does in between."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from starlette.types import ASGIApp, Message, Receive, Scope, Send

WRITE = "WRITE"
"""Stands for every method but GET."""

Kind = Literal["refuse", "lost", "late"]


class _Cut(Exception):
    """Makes the server close the connection, since the answer had begun."""


@dataclass(slots=True, kw_only=True)
class Fault:
    """What happens to the next calls of a method whose path contains a text."""

    kind: Kind
    method: str
    path: str = ""
    status: int = 500
    body: bytes = b'{"message":"fault","error":"Fault"}'
    times: int = 1
    after: int = 0
    """So many such calls go well first."""


@dataclass(slots=True, kw_only=True)
class Between:
    """What somebody else does just before a call is handled."""

    method: str
    path: str
    do: Callable[[], object]
    after: int = 0
    """So many such calls come first."""


@dataclass(slots=True)
class Faults:
    """An ASGI app around another that knows methods: a read goes well and a write does not."""

    app: ASGIApp
    asked: list[tuple[str, str]] = field(default_factory=list)
    """Method and path (as sent, without the query) of every call, in order."""
    sent: list[tuple[str, bytes]] = field(default_factory=list)
    """Method and body of every call, in order."""
    planned: list[Fault] = field(default_factory=list)
    waiting: list[Between] = field(default_factory=list)
    give_up: threading.Event = field(default_factory=threading.Event)
    """Set by a test once its client has given up: calls that are `late` are handled then."""
    handled_late: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def refuse(
        self, method: str, path: str = "", *, status: int, body: bytes | None = None,
        times: int = 1, after: int = 0,
    ) -> Fault:  # fmt: skip
        """Answer with a status; nothing is done."""
        said = body if body is not None else b'{"message":"fault","error":"Fault"}'
        fault = Fault(
            kind="refuse", method=method, path=path, status=status, body=said, times=times,
            after=after,
        )  # fmt: skip
        self.planned.append(fault)
        return fault

    def lose(self, method: str, path: str = "", *, after: int = 0) -> Fault:
        """Do it, and cut the answer off."""
        fault = Fault(kind="lost", method=method, path=path, after=after)
        self.planned.append(fault)
        return fault

    def delay(self, method: str, path: str = "") -> None:
        """Do it only after `give_up` was set: the caller is gone by then."""
        self.planned.append(Fault(kind="late", method=method, path=path))

    def meanwhile(
        self, method: str, path: str, do: Callable[[], object], *, after: int = 0
    ) -> None:
        """Have somebody else do something just before such a call is handled."""
        self.waiting.append(Between(method=method, path=path, do=do, after=after))

    def calls(self, method: str, path: str = "") -> list[str]:
        """The paths asked for by a method."""
        return [there for how, there in self.asked if how == method and path in there]

    def bodies(self, method: str) -> list[bytes]:
        """What was sent by a method."""
        return [body for how, body in self.sent if how == method]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        method = scope["method"]
        path = scope["raw_path"].decode().partition("?")[0]
        body = await _whole(receive)
        with self._lock:
            self.asked.append((method, path))
            self.sent.append((method, body))
            fault, do = self._next(method, path), self._between(method, path)
        if do is not None:
            do()
        match fault.kind if fault else None:
            case "refuse":
                assert fault is not None
                await _answer(send, fault.status, fault.body)
            case "lost":
                await self.app(scope, _again(body), _cutting(send))
            case "late":
                await asyncio.to_thread(self.give_up.wait, 30)
                await self.app(scope, _again(body), _nowhere)
                self.handled_late.set()
            case _:
                await self.app(scope, _again(body), send)

    def _next(self, method: str, path: str) -> Fault | None:
        for fault in self.planned:
            meant = fault.method == method or (fault.method == WRITE and method != "GET")
            if not meant or fault.path not in path or not fault.times:
                continue
            if fault.after:
                fault.after -= 1
                continue
            fault.times -= 1
            return fault
        return None

    def _between(self, method: str, path: str) -> Callable[[], object] | None:
        for one in self.waiting:
            if one.method != method or one.path not in path:
                continue
            if one.after:
                one.after -= 1
            else:
                self.waiting.remove(one)
                return one.do
        return None


async def _whole(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += bytes(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body"):
            return body


def _again(body: bytes) -> Receive:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def _cutting(send: Send) -> Send:
    async def cut(message: Message) -> None:
        if message["type"] == "http.response.body":
            half = message.get("body", b"")[: len(message.get("body", b"")) // 2]
            await send({**message, "body": half, "more_body": True})
            raise _Cut
        await send(message)

    return cut


async def _nowhere(message: Message) -> None:
    del message


async def _answer(send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
