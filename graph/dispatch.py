"""Work through what is due: alerts become runs, unfinished runs go on, cards expire.

One dispatcher a process; several processes may have one. Who drives a thread is settled by its
lease, what was done already by the ledger.
"""

import asyncio
import contextlib
import logging
from functools import partial

from contracts.errors import TracemendError
from graph.drive import Busy
from graph.installation import Door, Installation
from graph.service import Service
from memory.alerts import StoredAlert

LOOK_SECONDS = 1.0
"""How often the ledger is looked at for what other processes put there."""

_log = logging.getLogger("tracemend.dispatch")


class Dispatcher:
    """Drives the runs of every project of an installation."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._free = asyncio.Semaphore(installation.settings.workers)
        self._wake = asyncio.Event()
        self._driving: dict[str, asyncio.Task[None]] = {}

    def wake(self) -> None:
        """There is something to do: look now."""
        self._wake.set()

    async def run(self) -> None:
        """Work until cancelled; what is in the middle then goes on at the next start."""
        try:
            while True:
                for project in self._installation.projects():
                    await self._look(project)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), LOOK_SECONDS)
                self._wake.clear()
        finally:
            for task in list(self._driving.values()):
                task.cancel()
            await asyncio.gather(*self._driving.values(), return_exceptions=True)

    async def _look(self, project: str) -> None:
        door = await self._installation.door_of(project)
        for alert in await asyncio.to_thread(door.ws.ledger.alerts.new):
            await asyncio.to_thread(take_in, door.service, door.ws.ledger.alerts, alert)
        now = door.ws.ledger.db.now()
        for incident in await asyncio.to_thread(door.ws.ledger.incidents.due, now):
            if incident.thread not in self._driving:
                task = asyncio.create_task(self._drive(door, incident.thread))
                self._driving[incident.thread] = task
                task.add_done_callback(partial(self._done, incident.thread))

    def _done(self, thread: str, _task: "asyncio.Task[None]") -> None:
        self._driving.pop(thread, None)

    async def _drive(self, door: Door, thread: str) -> None:
        async with self._free:
            try:
                await door.service.advance(thread)
            except Busy:
                return
            except TracemendError as problem:
                _log.warning("run failed", extra={"thread": thread, "problem": str(problem)})


def take_in(service: Service, alerts: object, alert: StoredAlert) -> None:
    """Turn one delivery into a run, or join it to the one that is open."""
    raise NotImplementedError
