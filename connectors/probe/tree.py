"""Processes as /proc shows them: which belong to an agent, what they use, and their end.

Without /proc (other systems than Linux) there are none to be seen: what an agent started is then
killed with its process group only.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

PROC = Path("/proc")
MARK = b"TRACEMEND_RUN_ID="
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PATIENCE_S = 5.0
"""How long processes that start others as fast as they are killed are hunted."""


@dataclass(frozen=True, slots=True)
class Process:
    """One line of the table. `started` (clock ticks since boot) tells two of one number apart."""

    pid: int
    state: str
    parent: int
    session: int
    started: int


def table() -> Mapping[int, Process]:
    """All processes that are not dead, by number; empty where there is no /proc."""
    found = {}
    with contextlib.suppress(OSError), os.scandir(PROC) as entries:
        for entry in entries:
            process = _process(entry.name) if entry.name.isdigit() else None
            if process is not None and process.state not in "ZX":
                found[process.pid] = process
    return found


def _process(pid: str) -> Process | None:
    try:
        text = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        return Process(int(pid), text[0].decode(), int(text[1]), int(text[3]), int(text[19]))
    except (OSError, ValueError, IndexError):
        return None  # ended meanwhile


def _read(file: str) -> bytes:
    with open(file, "rb", buffering=0) as stream:  # noqa: PTH123  many times a second
        return stream.readall() or b""


def mark_of(pid: int) -> str | None:
    """The mark that the process was started with; None: it has none, or is somebody else's."""
    try:
        for entry in _read(f"/proc/{pid}/environ").split(b"\0"):
            if entry.startswith(MARK):
                return entry.removeprefix(MARK).decode("ascii", "replace")
    except OSError:
        return None
    return None


@dataclass(slots=True, kw_only=True)
class Tree:
    """The processes of one agent: of its session, its descendants, and those with its mark.

    Who was seen once stays in it, also after it left session, parent and environment behind.
    """

    root: int
    mark: str
    since: int
    """When the root started, in clock ticks since boot: nobody older is of it. 0: not known."""
    _known: set[tuple[int, int]] = field(default_factory=set)

    @classmethod
    def of(cls, root: int, mark: str) -> "Tree":
        """The tree of a process that was started just now, even if it ended already."""
        born = _process(str(root))
        return cls(root=root, mark=mark, since=born.started if born is not None else 0)

    def members(self, now: Mapping[int, Process]) -> list[int]:
        """Numbers of its processes in a table of now."""
        young = [process for process in now.values() if process.started >= self.since]
        inside = {process.pid for process in young if self._belongs(process)}
        while more := {p.pid for p in young if p.pid not in inside and p.parent in inside}:
            inside |= more
        self._known |= {(pid, now[pid].started) for pid in inside}
        return sorted(inside)

    def _belongs(self, process: Process) -> bool:
        if (process.pid, process.started) in self._known or process.session == self.root:
            return True
        return mark_of(process.pid) == self.mark

    def kill(self) -> None:
        """Kill all of it that can be seen, and what it starts meanwhile."""
        _hunt(self.members)


def kill_marked(prefix: str) -> None:
    """Kill every process whose mark begins so, wherever it went."""
    _hunt(lambda now: [pid for pid in now if (mark_of(pid) or "").startswith(prefix)])


def _hunt(whom: Callable[[Mapping[int, Process]], Iterable[int]]) -> None:
    until = time.monotonic() + _PATIENCE_S
    beyond = {os.getpid()}
    while pids := [pid for pid in whom(table()) if pid not in beyond]:
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            except PermissionError:
                beyond.add(pid)
        if time.monotonic() > until:
            return
        time.sleep(0.002)


def resident_bytes(pids: Iterable[int]) -> int:
    """Resident memory of the processes together; memory that they share counts once for each."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            total += int(_read(f"/proc/{pid}/statm").split()[1]) * _PAGE
    return total


def proportional_bytes(pids: Iterable[int]) -> int:
    """The same with shared memory divided among those that share it; slower to read."""
    return sum(_proportional(pid) for pid in pids)


def _proportional(pid: int) -> int:
    try:
        for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return resident_bytes([pid])
