"""A run as a stream of events, or as one answer when it rests."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import orjson

from graph.drive import Loop
from graph.server.protocol.bodies import StreamName
from graph.server.protocol.events import Feed, Part, Reader
from graph.server.protocol.following import Followed
from graph.server.protocol.places import config_of
from graph.server.protocol.shapes import Plain, dumps, values_of
from memory.protocol import RunRow

LOOK_SECONDS = 1.0
"""How often the state of a run is read that another process drives."""
ALIVE_SECONDS = 5.0
"""How often a silent connection is told that it still stands."""


def event(name: str, data: bytes, id_: str | None = None) -> bytes:
    """One server-sent event; its data is JSON, so no line break is in it."""
    head = b"" if id_ is None else b"id: " + id_.encode() + b"\n"
    return head + b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"


@dataclass(slots=True)
class Stream:
    """One client's stream of one run."""

    loop: Loop
    followed: Followed
    feed: Feed
    reader: Reader
    modes: Sequence[StreamName]
    _checkpoint: str | None = None
    """The checkpoint whose values were sent last by us."""
    _silent: float = 0.0
    _sent_values: bytes = b"null"

    async def events(self) -> AsyncIterator[bytes]:
        """Everything until the run rests, then `end`. The run goes on whatever becomes of this."""
        run = self.followed.row
        try:
            yield event("metadata", dumps({"run_id": run.run, "attempt": 1}))
            if self.reader.dropped:
                yield await self._values()
            while not self.followed.rests.is_set():
                async for sent in self._next():
                    yield sent
            async for sent in self._last():
                yield sent
        finally:
            self.feed.readers.discard(self.reader)

    async def _next(self) -> AsyncIterator[bytes]:
        await self._wait()
        parts = self.reader.fetch()
        if self.reader.dropped:
            self.reader.dropped = False
            yield await self._values()
        for part in parts:
            yield self._sent(part)
        if parts:
            self._silent = 0.0
        elif self.feed.seq == 0 and "values" in self.modes:
            # Nothing was heard of it here: another process drives it, so its state is read.
            async for sent in self._moved():
                yield sent
        if self._silent >= ALIVE_SECONDS:
            self._silent = 0.0
            yield b": working\n\n"

    async def _wait(self) -> None:
        """Until something is heard, the run rests, or it is time for a look."""
        waits = [
            asyncio.create_task(self.reader.woken.wait()),
            asyncio.create_task(self.followed.rests.wait()),
        ]
        try:
            done, _ = await asyncio.wait(
                waits, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for one in waits:
                one.cancel()
        if not done:
            self._silent += LOOK_SECONDS

    async def _last(self) -> AsyncIterator[bytes]:
        parts = self.reader.fetch()
        if self.reader.dropped:
            parts = []
        for part in parts:
            yield self._sent(part)
        row = self.followed.row
        if row.status == "error":
            yield event("error", dumps(error_of(row)))
        elif "values" in self.modes:
            snapshot = await self.loop.aget_state(config_of(row.thread))
            last = dumps(values_of(snapshot))
            if orjson.loads(last) != orjson.loads(self._sent_values):
                yield event("values", last)
        yield event("end", dumps({"status": "interrupted" if _stopped(row) else row.status}))

    def _sent(self, part: Part) -> bytes:
        if part.event == "values":
            self._sent_values = part.data
        return event(part.event, part.data, self.feed.id_of(part))

    async def _moved(self) -> AsyncIterator[bytes]:
        snapshot = await self.loop.aget_state(config_of(self.followed.row.thread))
        here = snapshot.config.get("configurable", {}).get("checkpoint_id")
        if here != self._checkpoint:
            self._checkpoint = here
            self._sent_values = dumps(values_of(snapshot))
            yield event("values", self._sent_values)

    async def _values(self) -> bytes:
        snapshot = await self.loop.aget_state(config_of(self.followed.row.thread))
        self._sent_values = dumps(values_of(snapshot))
        return event("values", self._sent_values)


async def outcome(loop: Loop, followed: Followed) -> AsyncIterator[bytes]:
    """One JSON document when the run rests; before it spaces, so that nobody hangs up."""
    while not followed.rests.is_set():
        try:
            await asyncio.wait_for(followed.rests.wait(), ALIVE_SECONDS)
        except TimeoutError:
            yield b"\n"
    if followed.row.status == "error":
        yield dumps({"__error__": error_of(followed.row)})
        return
    snapshot = await loop.aget_state(config_of(followed.row.thread))
    yield dumps(values_of(snapshot))


def error_of(row: RunRow) -> Plain:
    """Why a run failed, as the SDK raises it."""
    return {"error": "RunFailed", "message": row.problem or "the run failed"}


def _stopped(row: RunRow) -> bool:
    return row.status == "cancelled"
