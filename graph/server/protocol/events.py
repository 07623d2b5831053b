"""What runs stream while they are driven in this process, for whoever reads along.

A reader never holds a run up: what it does not fetch in time is dropped, and it is told so that it
reads the state instead. A feed keeps the last parts of its run, so that a client whose connection
broke goes on where it was (`Last-Event-ID`).
"""

import asyncio
import secrets
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from langchain_core.messages import AIMessageChunk, BaseMessage, BaseMessageChunk
from langgraph.types import StreamMode

from graph.server.protocol.bodies import StreamName
from graph.server.protocol.shapes import dumps, plain

READER_BYTES = 2_000_000
"""What may wait for one slow reader."""
FEED_BYTES = 2_000_000
"""What a feed keeps of its run for a reader that comes back."""
FEEDS = 64
"""Feeds kept after their runs ended or their readers left."""

_GRAPH_MODES: dict[StreamName, StreamMode] = {
    "values": "values", "updates": "updates", "custom": "custom", "debug": "debug",
    "tasks": "tasks", "checkpoints": "checkpoints", "messages": "messages",
    "messages-tuple": "messages",
}  # fmt: skip
SUPPORTED: frozenset[StreamName] = frozenset(_GRAPH_MODES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One event, ready to be sent. `asked`: the mode that it belongs to."""

    seq: int
    asked: StreamName
    event: str
    data: bytes


@dataclass(slots=True, eq=False)
class Reader:
    """One client's place in a feed."""

    modes: frozenset[StreamName]
    waiting: deque[Part] = field(default_factory=deque)
    size: int = 0
    dropped: bool = False
    """Parts were dropped since the last fetch: the state is to be read instead."""
    woken: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, part: Part) -> None:
        """Hand over a part; one too many drops all that waits."""
        if part.asked not in self.modes:
            return
        self.waiting.append(part)
        self.size += len(part.data)
        if self.size > READER_BYTES:
            self.waiting.clear()
            self.size, self.dropped = 0, True
        self.woken.set()

    def fetch(self) -> list[Part]:
        """Everything that waits."""
        found = list(self.waiting)
        self.waiting.clear()
        self.size = 0
        self.woken.clear()
        return found


class Feed:
    """What one run streams."""

    def __init__(self, run: str, thread: str, modes: frozenset[StreamName]) -> None:
        self.run, self.thread, self.modes = run, thread, modes
        self.epoch = secrets.token_hex(4)
        self.seq = 0
        self.readers: set[Reader] = set()
        self._kept: deque[Part] = deque()
        self._kept_bytes = 0
        self._messages: dict[str, BaseMessageChunk] = {}

    def heard(self, mode: str, chunk: object) -> None:
        """Take one part of the graph's stream."""
        for asked in sorted(self.modes):
            if _GRAPH_MODES[asked] != mode:
                continue
            if asked == "messages":
                self._heard_message(chunk)
            else:
                self._add(asked, "messages" if asked == "messages-tuple" else asked, chunk)

    def read(self, modes: frozenset[StreamName], last_id: str | None) -> Reader:
        """A reader from here on, or from after the event that it saw last.

        With an id that the feed no longer knows it is marked as one that missed something.
        """
        reader = Reader(modes)
        self.modes |= modes  # of the graph they are asked when it is driven next
        if last_id is not None:
            seen = self._seen(last_id)
            first = self._kept[0].seq if self._kept else self.seq + 1
            if seen is None or seen + 1 < first:
                reader.dropped = True
            for part in self._kept:
                if seen is not None and part.seq > seen:
                    reader.put(part)
        self.readers.add(reader)
        return reader

    def id_of(self, part: Part) -> str:
        """The event's id for a client; it names this feed, since a restart counts anew."""
        return f"{self.epoch}-{part.seq}"

    def _seen(self, last_id: str) -> int | None:
        if last_id == "-1":
            return 0
        epoch, _, seq = last_id.partition("-")
        known = epoch == self.epoch and seq.isascii() and seq.isdigit() and len(seq) < 12
        return int(seq) if known else None

    def _add(self, asked: StreamName, event: str, chunk: object) -> None:
        self.seq += 1
        part = Part(seq=self.seq, asked=asked, event=event, data=dumps(chunk))
        self._kept.append(part)
        self._kept_bytes += len(part.data)
        while self._kept_bytes > FEED_BYTES:
            self._kept_bytes -= len(self._kept.popleft().data)
        for reader in self.readers:
            reader.put(part)

    def _heard_message(self, chunk: object) -> None:
        """Mode `messages`: what was said so far, again with every token."""
        message, about = chunk if isinstance(chunk, tuple) and len(chunk) == 2 else (None, None)
        if not isinstance(message, BaseMessage):
            return
        key = message.id or ""
        if key not in self._messages:
            self._add("messages", "messages/metadata", {key: {"metadata": plain(about)}})
        if not isinstance(message, BaseMessageChunk):
            self._messages.pop(key, None)
            self._add("messages", "messages/complete", [message])
            return
        before = self._messages.get(key)
        whole = message if before is None else before + message
        self._messages = {key: whole if isinstance(whole, AIMessageChunk) else message}
        self._add("messages", "messages/partial", [self._messages[key]])


class Hub:
    """All feeds; it is the `Listener` of the drivers of this process."""

    def __init__(self) -> None:
        self._feeds: OrderedDict[str, Feed] = OrderedDict()
        self._by_thread: dict[str, list[Feed]] = {}

    def open(self, run: str, thread: str, modes: frozenset[StreamName]) -> Feed:
        """A feed of a run that is about to begin."""
        feed = Feed(run, thread, modes)
        self._feeds[run] = feed
        self._by_thread.setdefault(thread, []).append(feed)
        for old in [*self._feeds.values()]:
            if len(self._feeds) <= FEEDS:
                break
            if not old.readers:
                self.drop(old)
        return feed

    def feed(self, run: str) -> Feed | None:
        """The feed of a run, if there is one."""
        return self._feeds.get(run)

    def drop(self, feed: Feed) -> None:
        """Forget a feed."""
        self._feeds.pop(feed.run, None)
        self.close(feed)

    def close(self, feed: Feed) -> None:
        """The run ended: it hears nothing more, and keeps what it has for who comes back."""
        here = self._by_thread.get(feed.thread, [])
        if feed in here:
            here.remove(feed)
        if not here:
            self._by_thread.pop(feed.thread, None)

    def modes(self, thread: str) -> Sequence[StreamMode]:
        """What readers of this thread's runs want of the graph."""
        feeds = self._by_thread.get(thread, [])
        return sorted({_GRAPH_MODES[mode] for feed in feeds for mode in feed.modes})

    def heard(self, thread: str, mode: str, chunk: object) -> None:
        """One part of a run's stream."""
        for feed in self._by_thread.get(thread, []):
            feed.heard(mode, chunk)
