"""Work through what is due: alerts become runs, unfinished runs go on, cards expire.

One dispatcher a process; several processes may have one. Who drives a thread is settled by its
lease, what was done already by the ledger.
"""

import asyncio
import contextlib
import logging
import time
from collections import deque
from dataclasses import dataclass, field
from functools import partial

from configs.redaction import use_names
from contracts.errors import LeaseLost, TracemendError
from graph.drive import Busy
from graph.installation import Door, Installation
from graph.intake import BATCH, take_in
from graph.recovery import problem_line

LOOK_SECONDS = 1.0
"""How often the ledger is looked at for what other processes put there."""
ELSEWHERE_SECONDS = 5.0
"""How long a run that another process drives is left alone, or one whose failure was not noted."""

_log = logging.getLogger("tracemend.dispatch")


@dataclass(slots=True)
class _Queue:
    """What one project has to do, as it was seen last."""

    door: Door
    threads: deque[str] = field(default_factory=deque)


class Dispatcher:
    """Drives the runs of every project of an installation.

    Attributes:
        heartbeat: `time.monotonic()` at the end of the last look at some project (or of the last
            round, where there is none). It stands still when no ledger can be read.
    """

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._wake = asyncio.Event()
        self._looking: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._queues: dict[str, _Queue] = {}
        self._driving: dict[str, asyncio.Task[None]] = {}
        self._not_before: dict[str, float] = {}
        self._broken: dict[str, str] = {}
        self._delivering: dict[str, asyncio.Task[object]] = {}
        self.heartbeat = time.monotonic()

    def wake(self) -> None:
        """There is something to do: look now."""
        self._wake.set()

    async def stop(self, thread: str) -> None:
        """Stop driving a run in this process, and leave it alone for a moment."""
        self._not_before[thread] = time.monotonic() + ELSEWHERE_SECONDS
        task = self._driving.get(thread)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def run(self) -> None:
        """Work until cancelled; what is in the middle then goes on at the next start."""
        try:
            while True:
                await self._round()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), LOOK_SECONDS)
                self._wake.clear()
        finally:
            tasks: list[asyncio.Task[object]] = [
                *self._looking.values(), *self._driving.values(), *self._delivering.values(),
            ]  # fmt: skip
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _round(self) -> None:
        """Begin a look at every project; one that still takes its time is looked at after it."""
        try:
            projects = await asyncio.to_thread(self._installation.projects)
        except Exception as error:  # noqa: BLE001  # a damaged registry stops nothing that runs
            self._said_broken("", error)
            return
        self._works("")
        for project in projects:
            if project in self._looking:
                self._again.add(project)
                continue
            task = asyncio.create_task(self._look(project))
            self._looking[project] = task
            task.add_done_callback(partial(self._looked, project))
        for gone in self._queues.keys() - set(projects):
            del self._queues[gone]
        if not projects:
            self.heartbeat = time.monotonic()

    def _looked(self, project: str, _task: "asyncio.Task[None]") -> None:
        self._looking.pop(project, None)
        if project in self._again:
            self._again.discard(project)
            self._wake.set()

    async def _look(self, project: str) -> None:
        try:
            door = await self._installation.door_of(project)
            use_names(door.ws.settings.redaction.names)
            while await asyncio.to_thread(take_in, door.ws) == BATCH:
                self.heartbeat = time.monotonic()
            await door.service.start_ready()
            threads = await asyncio.to_thread(door.service.due)
        except Exception as error:  # noqa: BLE001  # one project's trouble never stops the others
            self._said_broken(project, error)
            if isinstance(error, TracemendError):  # its settings; the look itself was one
                self.heartbeat = time.monotonic()
            return
        self._works(project)
        self._queues[project] = _Queue(door, deque(threads))
        self.heartbeat = time.monotonic()
        self._fill()
        self._deliver(project, door)

    def _deliver(self, project: str, door: Door) -> None:
        """Send hand-offs beside everything else: a slow receiver holds nothing up."""
        if project in self._delivering or door.ws.settings.handoffs.webhook is None:
            return
        task: asyncio.Task[object] = asyncio.create_task(self._delivered(project, door))
        self._delivering[project] = task
        task.add_done_callback(lambda _: self._delivering.pop(project, None))

    async def _delivered(self, project: str, door: Door) -> None:
        try:
            await door.service.deliver_handoffs()
        except Exception as error:  # noqa: BLE001  # the ledger refuses: the next look tries again
            fields = {"project": project, "problem": problem_line(error)}
            _log.error("hand-offs could not be looked at", extra=fields)

    def _said_broken(self, project: str, error: Exception) -> None:
        line = problem_line(error)
        if self._broken.get(project) != line:
            self._broken[project] = line
            _log.error("project cannot be worked on", extra={"project": project, "problem": line})

    def _works(self, project: str) -> None:
        if self._broken.pop(project, None) is not None:
            _log.info("project works again", extra={"project": project})

    def _fill(self) -> None:
        """Give free workers something to do, the projects in turn."""
        while len(self._driving) < self._installation.settings.workers:
            chosen = next((p for p, queue in self._queues.items() if queue.threads), None)
            if chosen is None:
                return
            queue = self._queues.pop(chosen)
            self._queues[chosen] = queue  # to the end: the next worker is another project's
            thread = queue.threads.popleft()
            if thread in self._driving or self._held_off(thread):
                continue
            task = asyncio.create_task(self._drive(queue.door, thread))
            self._driving[thread] = task
            task.add_done_callback(partial(self._done, thread))

    def _held_off(self, thread: str) -> bool:
        until = self._not_before.get(thread)
        if until is None or until <= time.monotonic():
            self._not_before.pop(thread, None)
            return False
        return True

    def _done(self, thread: str, task: "asyncio.Task[None]") -> None:
        self._driving.pop(thread, None)
        if not task.cancelled():
            self._fill()

    async def _drive(self, door: Door, thread: str) -> None:
        names = door.ws.settings.redaction.names
        use_names(names)
        fields = {"project": door.ws.project, "run": thread}
        try:
            if await asyncio.to_thread(door.service.may_be_driven, thread):
                await door.service.advance(thread)
        except (Busy, LeaseLost):
            self._not_before[thread] = time.monotonic() + ELSEWHERE_SECONDS
        except Exception as error:  # noqa: BLE001  # a run's failure is the run's own
            use_names(names)
            _log.warning("run failed", extra={**fields, "problem": problem_line(error)})
            await self._failed(door, thread, error)

    async def _failed(self, door: Door, thread: str, error: Exception) -> None:
        try:
            await asyncio.to_thread(door.service.recovery.failed, thread, error)
        except Exception as worse:  # noqa: BLE001  # the ledger itself refuses: try again later
            self._not_before[thread] = time.monotonic() + ELSEWHERE_SECONDS
            fields = {"project": door.ws.project, "run": thread, "problem": problem_line(worse)}
            _log.error("failure could not be noted", extra=fields)
