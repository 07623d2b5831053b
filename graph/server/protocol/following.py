"""Runs until they rest: a run's row follows the incident of its thread.

One loop looks at the incidents of all runs that are not at rest, wherever they are driven; what
waits for one run waits for its event. After a restart the rows that are left are looked at again.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from graph.installation import Door, Installation
from graph.server.protocol.events import Hub
from memory.bindings import Place, places
from memory.ledger import Ledger
from memory.protocol import RunRow, RunStatus

TICK_SECONDS = 0.05
MOST_OF_THE_TIME = 20
"""A look that takes t seconds is followed by a rest of so many t: five percent of one core."""
LONGEST_REST = 0.5
"""A slow look (a busy machine, a locked ledger) makes nobody wait for seconds."""

CANCELLED = "cancelled by "
"""How the problem of an incident begins that a person stopped."""

ACTIVE: tuple[RunStatus, ...] = ("pending", "running")

_log = logging.getLogger("tracemend.server")


@dataclass(slots=True)
class Followed:
    """A run that is waited for. `row` is its newest state."""

    row: RunRow
    door: Door
    rests: asyncio.Event = field(default_factory=asyncio.Event)


def settled(row: RunRow, place: Place | None) -> tuple[RunStatus, str | None]:
    """What a run that is not at rest has come to."""
    if place is None:
        return "error", "the server stopped before the run began; send it again"
    if place.state == "waiting":
        return "interrupted", None
    if place.state == "quarantined":
        return "error", place.problem or "quarantined; see `tracemend status`"
    if place.state == "closed":
        if place.problem is None:
            return "success", None
        return "cancelled" if place.problem.startswith(CANCELLED) else "error", place.problem
    return ("running" if place.held or row.status == "running" else "pending"), None


def settle(ledger: Ledger, rows: Sequence[RunRow]) -> Mapping[str, RunRow]:
    """Move the rows on to where their incidents stand; the rows as they are then, by run."""
    active = [row for row in rows if row.status in ACTIVE]
    where = places(ledger.db, sorted({row.thread for row in active})) if active else {}
    found = {row.run: row for row in rows}
    for row in active:
        status, problem = settled(row, where.get(row.thread))
        if status != row.status:
            ledger.protocol.set_run(row.run, status, problem=problem)
            found[row.run] = ledger.protocol.run(row.run) or row
    return found


class Follower:
    """Follows all active runs of an installation."""

    def __init__(self, installation: Installation, hub: Hub) -> None:
        self._installation = installation
        self._hub = hub
        self._runs: dict[str, Followed] = {}
        self._some = asyncio.Event()

    def follow(self, door: Door, row: RunRow) -> Followed:
        """Follow a run; one that rests already has its event set."""
        there = self._runs.get(row.run)
        if there is not None:
            return there
        followed = Followed(row=row, door=door)
        if row.status in ACTIVE:
            self._runs[row.run] = followed
            self._some.set()
        else:
            followed.rests.set()
        return followed

    async def run(self) -> None:
        """Look until cancelled."""
        await self._take_up()
        while True:
            await self._some.wait()
            begun = time.monotonic()
            by_project: dict[str, list[Followed]] = {}
            for one in self._runs.values():
                by_project.setdefault(one.door.ws.project, []).append(one)
            for followed in by_project.values():
                await self._look(followed)
            if not self._runs:
                self._some.clear()
            took = time.monotonic() - begun
            await asyncio.sleep(min(max(TICK_SECONDS, took * MOST_OF_THE_TIME), LONGEST_REST))

    async def _take_up(self) -> None:
        """Runs that another life of this server left unfinished."""
        for project in self._installation.projects():
            with contextlib.suppress(Exception):  # a broken project is the dispatcher's to report
                door = await self._installation.door_of(project)
                for row in await asyncio.to_thread(_active, door.ws.ledger):
                    self.follow(door, row)

    async def _look(self, followed: Sequence[Followed]) -> None:
        ledger = followed[0].door.ws.ledger
        try:
            rows = await asyncio.to_thread(settle, ledger, [one.row for one in followed])
        except Exception as error:  # noqa: BLE001  # a locked ledger is looked at again
            _log.warning("runs not looked at", extra={"problem": type(error).__name__})
            return
        for one in followed:
            one.row = rows[one.row.run]
            if one.row.status not in ACTIVE:
                self._runs.pop(one.row.run, None)
                feed = self._hub.feed(one.row.run)
                if feed is not None:
                    self._hub.close(feed)
                one.rests.set()


def _active(ledger: Ledger) -> list[RunRow]:
    return [row for status in ACTIVE for row in ledger.protocol.runs(status=status, limit=10_000)]
