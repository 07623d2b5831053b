"""Start what a project's schedules name: analyses, watches, retention.

APScheduler only says when to look. What is due is worked out from the ledger: the newest slot of a
schedule, unless it was taken. So a slot that was missed is caught up, only the newest of many is,
and a slot starts one run, whoever fires it and whatever is killed: the run's key holds the slot,
and the slot is taken after the run is in the ledger.
"""

import asyncio
import logging
from collections.abc import Mapping
from datetime import datetime

from apscheduler.schedulers.asyncio import AsyncIOScheduler  # type: ignore[import-untyped]  # has no types

from configs.settings import ScheduleSettings
from contracts.errors import TracemendError
from contracts.json_types import Json
from contracts.proposals import Release
from graph.dispatch import Dispatcher
from graph.installation import Door, Installation
from graph.retention import retain
from graph.server.cron import Cron, check_schedules
from memory.database import Clock, rfc3339, utc_now
from nodes.insights.late import SCHEDULE

SYNC_SECONDS = 30.0
"""How soon a changed `tracemend.yaml` counts, and how late a slot is seen that no timer fired."""
WATCHED_DAYS = 30
"""A release is counted by schedules for so long; what it did shows by then."""

_log = logging.getLogger("tracemend.schedules")


class Scheduler:
    """The schedules of every project of an installation. Several processes may have one."""

    def __init__(
        self, installation: Installation, dispatcher: Dispatcher, *, clock: Clock = utc_now
    ) -> None:
        self._installation = installation
        self._dispatcher = dispatcher
        self._clock = clock
        self._timed: dict[tuple[str, str], ScheduleSettings] = {}
        self._busy: set[tuple[str, str]] = set()
        self._said: dict[str, str] = {}

    async def run(self) -> None:
        """Fire schedules until cancelled."""
        timer = AsyncIOScheduler(timezone="UTC")
        timer.start()
        try:
            while True:
                await self._sync(timer)
                await asyncio.sleep(SYNC_SECONDS)
        finally:
            timer.shutdown(wait=False)

    async def _sync(self, timer: AsyncIOScheduler) -> None:
        """Time what the settings hold now, and look at each schedule once."""
        found: dict[tuple[str, str], tuple[ScheduleSettings, Cron]] = {}
        for project in self._installation.projects():
            for name, timed in (await self._read(project)).items():
                found[project, name] = timed
        for gone in self._timed.keys() - found.keys():
            timer.remove_job("/".join(gone))
            del self._timed[gone]
        for which, (schedule, cron) in found.items():
            if self._timed.get(which) != schedule:
                timer.add_job(
                    self.fire, cron.timer, args=which, id="/".join(which), replace_existing=True,
                    misfire_grace_time=None, coalesce=True,
                )  # fmt: skip
                self._timed[which] = schedule
            timer.add_job(self.fire, args=which, misfire_grace_time=None)

    async def _read(self, project: str) -> Mapping[str, tuple[ScheduleSettings, Cron]]:
        """A project's schedules by name; none where they are wrong, which is logged once."""
        try:
            door = await self._installation.door_of(project)
            schedules = door.ws.settings.schedules
            crons = check_schedules(schedules)
        except TracemendError as error:
            if self._said.get(project) != str(error):
                self._said[project] = str(error)
                said = {"project": project, "problem": str(error)}
                _log.error("schedules cannot be read", extra=said)
            return {}
        self._said.pop(project, None)
        return {s.name: (s, cron) for s, cron in zip(schedules, crons, strict=True)}

    async def fire(self, project: str, name: str) -> None:
        """Start what is due of one schedule, if anything is. Never raises."""
        which = (project, name)
        if which in self._busy:
            return
        self._busy.add(which)
        try:
            await self._fire(project, name)
        except Exception as error:  # noqa: BLE001  # one schedule's failure is looked at again at the next sync
            said = {"project": project, "schedule": name, "problem": str(error)}
            _log.exception("schedule failed; it is tried again", extra=said)
        finally:
            self._busy.discard(which)

    async def _fire(self, project: str, name: str) -> None:
        timed = (await self._read(project)).get(name)
        newest = timed[1].newest(self._clock()) if timed is not None else None
        if timed is None or newest is None:
            return
        slot = rfc3339(newest)
        door = await self._installation.door_of(project)
        slots = door.ws.ledger.schedules
        last = (await asyncio.to_thread(slots.last_slots)).get(name)
        if last is None:  # new here: it begins with its next slot
            await asyncio.to_thread(slots.take, name, slot)
            return
        if slot <= last:
            return
        thread = await self._start(door, timed[0], slot)
        if await asyncio.to_thread(lambda: slots.take(name, slot, thread=thread)):
            said = {"project": project, "schedule": name, "slot": slot, "run": thread}
            _log.info("schedule fired", extra=said)
        self._dispatcher.wake()

    async def _start(self, door: Door, schedule: ScheduleSettings, slot: str) -> str | None:
        if schedule.run == "analyze":
            return await door.service.enqueue(analysis_request(door, schedule.name, slot))
        if schedule.run == "retention":
            await retain(door.ws, self._installation.loop)
            return None
        thread = None
        for release in await asyncio.to_thread(self._watched, door):
            request: dict[str, Json] = {"kind": "watch", "release": release.id, "slot": slot}
            thread = await door.service.enqueue(request)
        return thread

    def _watched(self, door: Door) -> list[Release]:
        """Releases that are watched still: applied, not taken back, not older than a month."""
        ledger, now = door.ws.ledger, self._clock()
        return [
            release
            for release in ledger.effects.releases()
            if release.undoes is None
            and (now - release.at).days < WATCHED_DAYS
            and ledger.proposals.latest(release.proposal).state == "watching"
        ]


def analysis_request(door: Door, name: str, slot: str) -> dict[str, Json]:
    """The request of an analysis at a slot: equal for everybody who fires it."""
    end = datetime.fromisoformat(slot) - door.ws.settings.alerts.settle
    start = end - door.ws.settings.analysis.window
    window: dict[str, Json] = {"start": start.isoformat(), "end": end.isoformat()}
    return {
        "kind": "alert",
        "alert": {
            "source": SCHEDULE,
            "key": f"schedule:{name}:{slot}",
            "window": window,
            "body": {"title": f"schedule {name}"},
        },
    }
