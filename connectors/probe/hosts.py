"""Runs under way by host, over all probes of this process: a service is not run over by our own."""

import asyncio
import threading
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass(slots=True, kw_only=True, eq=False)
class _Waiter:
    """A run that waits for a slot, in the event loop that it runs in."""

    most: int
    loop: asyncio.AbstractEventLoop
    turn: asyncio.Event = field(default_factory=asyncio.Event)
    granted: bool = False


class HostSlots:
    """Counts runs by host name. Usable from several event loops and threads at once.

    Each run brings the limit of its own project; a run without one counts, and never waits.
    Within a limit, who came first goes first.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._busy: Counter[str] = Counter()
        self._waiting: dict[str, deque[_Waiter]] = {}

    @asynccontextmanager
    async def slot(self, host: str, most: int | None) -> AsyncIterator[None]:
        """Hold a slot of the host; waits until fewer than `most` are held. None: never waits."""
        await self._take(host, most)
        try:
            yield
        finally:
            self._give(host)

    def busy(self, host: str) -> int:
        """Slots held now."""
        with self._lock:
            return self._busy[host]

    async def _take(self, host: str, most: int | None) -> None:
        with self._lock:
            waiting = self._waiting.get(host)
            if most is None or (not waiting and self._busy[host] < most):
                self._busy[host] += 1
                return
            waiter = _Waiter(most=most, loop=asyncio.get_running_loop())
            self._waiting.setdefault(host, deque()).append(waiter)
            self._grant(host)  # those before it may have a lower limit than it has
        try:
            await waiter.turn.wait()
        except asyncio.CancelledError:
            self._leave(host, waiter)
            raise

    def _leave(self, host: str, waiter: _Waiter) -> None:
        """Nobody waits for this turn any more, whether it has come or not."""
        with self._lock:
            if waiter.granted:
                self._free(host)
            else:
                self._waiting[host].remove(waiter)
            self._grant(host)

    def _give(self, host: str) -> None:
        with self._lock:
            self._free(host)
            self._grant(host)

    def _free(self, host: str) -> None:
        self._busy[host] -= 1
        if not self._busy[host]:
            del self._busy[host]

    def _grant(self, host: str) -> None:
        """Give what is free to whom it may be given. The lock is held."""
        for waiter in tuple(self._waiting.get(host, ())):
            if self._busy[host] >= waiter.most:
                continue
            self._waiting[host].remove(waiter)
            try:
                waiter.loop.call_soon_threadsafe(waiter.turn.set)
            except RuntimeError:
                continue  # its loop was closed with it
            waiter.granted = True
            self._busy[host] += 1
        if not self._waiting.get(host):
            self._waiting.pop(host, None)
            if not self._busy[host]:
                del self._busy[host]


HOSTS = HostSlots()
"""Of this process."""


def host_of(url: str) -> str:
    """The host's name in an address, in lower case: ports of one machine share its strength."""
    return (urlsplit(url).hostname or "").lower()
