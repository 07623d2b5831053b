"""Watch what agents' processes use together, and end the one that uses too much."""

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Protocol

from configs.gate_settings import LimitsSettings
from connectors.probe.tree import PROC, Tree, proportional_bytes, resident_bytes, table

TICK_S = 0.1
"""Between two looks; a table of 100 processes takes about a millisecond."""
MB = 1024 * 1024
_BACKSTOP_TIMES, _BACKSTOP_MB = 2, 2048


class Watched(Protocol):
    """A process under watch."""

    @property
    def tree(self) -> Tree: ...

    def exceed(self, reason: str) -> None:
        """It used too much: it is to be ended, and that is its own failure."""
        ...


def limits_refused(limits: LimitsSettings) -> str | None:
    """Why these limits cannot be kept here; None: they can."""
    if limits.memory_mb is None and limits.processes is None:
        return None
    return None if (PROC / "self/statm").exists() else "there is no /proc to watch memory in"


def backstop_bytes(limits: LimitsSettings) -> int:
    """What one process may map of private writable memory, for what grows between two looks.

    Well above the limit, since runtimes map more than they use; 0: not bounded.
    """
    if limits.memory_mb is None:
        return 0
    return (_BACKSTOP_TIMES * limits.memory_mb + _BACKSTOP_MB) * MB


class Watcher:
    """One loop for all processes of a probe; it runs while there are any and a limit is set."""

    def __init__(self, limits: LimitsSettings, *, tick_s: float = TICK_S) -> None:
        self._limits = limits
        self._tick_s = tick_s
        self._watched: set[Watched] = set()
        self._loop: asyncio.Task[None] | None = None

    def watch(self, process: Watched) -> None:
        """From now on, until it is forgotten."""
        if self._limits.memory_mb is None and self._limits.processes is None:
            return
        self._watched.add(process)
        if self._loop is None or self._loop.done():
            self._loop = asyncio.create_task(self._look_on())

    def forget(self, process: Watched) -> None:
        """It ended."""
        self._watched.discard(process)

    async def close(self) -> None:
        """Watch no more."""
        self._watched.clear()
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await loop

    async def _look_on(self) -> None:
        while self._watched:
            for process, reason in await asyncio.to_thread(self._over, tuple(self._watched)):
                if process in self._watched:
                    process.exceed(reason)
            await asyncio.sleep(self._tick_s)

    def _over(self, watched: Iterable[Watched]) -> list[tuple[Watched, str]]:
        now = table()
        return [
            (process, reason)
            for process in watched
            if (reason := self._reason(process.tree.members(now))) is not None
        ]

    def _reason(self, pids: list[int]) -> str | None:
        most, memory_mb = self._limits.processes, self._limits.memory_mb
        if most is not None and len(pids) > most:
            return f"processes limit {most}"
        if memory_mb is None or resident_bytes(pids) <= memory_mb * MB:
            return None
        # Pages that several of them share were counted for each: look closer before the verdict.
        return f"memory limit {memory_mb} MB" if proportional_bytes(pids) > memory_mb * MB else None
