"""An HTTP service on loopback whose every byte a test decides: the agent behind a probe."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request as it came, and the way to answer it."""

    method: str
    path: str
    headers: dict[str, str]
    """By lower-case name."""
    body: Any
    writer: asyncio.StreamWriter

    async def say(self, answer: object, *, status: int = 200, **headers: str) -> None:
        """A whole answer; bytes as they are, anything else as JSON."""
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.writer.write("\r\n".join((*lines, "", "")).encode() + body)
        await self.writer.drain()


Handler = Callable[[Ask], Awaitable[None]]


@dataclass(slots=True, kw_only=True)
class Agent:
    """A running service, and what it was asked so far."""

    url: str = ""
    asks: list[Ask] = field(default_factory=list)
    closed: int = 0
    """Connections that the other side closed before they were answered."""


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[Agent]:
    """Serve one request a connection on a free port of 127.0.0.1."""
    agent = Agent()
    under_way: set[asyncio.Task[None]] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _one(agent, handler, reader, writer)
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        under_way.add(asyncio.ensure_future(answer(reader, writer)))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    agent.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield agent
    finally:
        server.close()
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


async def _one(
    agent: Agent, handler: Handler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    method, path, _ = head[0].split(" ")
    pairs = (line.split(": ", 1) for line in head[1:] if line)
    headers = {name.lower(): value for name, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    ask = Ask(
        method=method, path=path, headers=headers, body=json.loads(body) if body else None,
        writer=writer,
    )  # fmt: skip
    agent.asks.append(ask)
    answering = asyncio.ensure_future(handler(ask))
    left = asyncio.ensure_future(reader.read())
    try:
        await asyncio.wait((answering, left), return_when=asyncio.FIRST_COMPLETED)
        agent.closed += not answering.done()
    finally:
        left.cancel()
        answering.cancel()
        await asyncio.gather(answering, left, return_exceptions=True)
