"""Cron expressions as operators know them, and the newest moment that one names.

APScheduler says when an expression is next due. What it does otherwise than cron is mended here: it
counts weekdays from Monday where cron counts from Sunday, it joins day of month and weekday by
`and`, and where the clocks change it fires a repeated hour twice and may leave out a day (from
March to midnight of 1 April it counts an hour too much). So it is only asked about the wall clock
of a zone without changes, and what the wall clock shows becomes a moment here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from apscheduler.triggers.cron import CronTrigger  # type: ignore[import-untyped]  # has no types

from configs.settings import ScheduleSettings
from contracts.errors import ConfigError

_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LOOKS = tuple(timedelta(days=days) for days in (1 / 24, 1, 8, 32, 367, 8 * 366))
"""How far back the newest slot is looked for; a leap day is up to eight years away."""


_AROUND = timedelta(hours=3)
"""More than clocks are ever put forward or back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron:
    """One checked expression in its time zone."""

    wall: CronTrigger
    """On the wall clock, which is written as UTC."""
    zone: ZoneInfo
    names_hours: bool
    """Hours are named: a slot is a time of the wall clock, and there is one where that repeats or
    is skipped. False: every hour, each real one once."""

    @property
    def timer(self) -> CronTrigger:
        """When to look. Where the clocks change it may miss a slot, which the next look finds."""
        fields = {f.name: str(f) for f in self.wall.fields if not f.is_default}
        return CronTrigger(**fields, timezone=self.zone)

    def newest(self, now: datetime) -> datetime | None:
        """The newest slot that is not after `now`, in UTC; None: there was none in eight years."""
        shown = now.astimezone(self.zone).replace(tzinfo=UTC)
        at = self._next(self._before(shown - _AROUND) or shown - _AROUND)
        found: datetime | None = None
        while at is not None and at <= shown + _AROUND:
            for moment in self._moments(at):
                if moment <= now and (found is None or moment > found):
                    found = moment
            at = self._next(at + timedelta(microseconds=1))
        return found

    def _moments(self, shown: datetime) -> list[datetime]:
        """When the wall clock shows this: once, and for every real hour never or twice."""
        wall = shown.replace(tzinfo=self.zone)
        if self.names_hours:
            return [wall.astimezone(UTC)]
        both = (wall.replace(fold=fold).astimezone(UTC) for fold in (0, 1))
        return [m for m in both if m.astimezone(self.zone).replace(tzinfo=UTC, fold=0) == shown]

    def _before(self, shown: datetime) -> datetime | None:
        """The newest time of the wall clock that is named and not after this one."""
        for look in _LOOKS:
            first = self._next(shown - look)
            if first is not None and first <= shown:
                return self._last_between(shown - look, shown)
        return None

    def _last_between(self, low: datetime, end: datetime) -> datetime:
        """By halves: `_next` never falls, so the last moment before which a slot lies is sought."""
        high = end + timedelta(microseconds=1)
        while high - low > timedelta(seconds=1):
            middle = low + (high - low) / 2
            following = self._next(middle)
            if following is not None and following <= end:
                low = middle
            else:
                high = middle
        found = self._next(low)
        assert found is not None, "the search began before a slot"  # noqa: S101  # narrows
        return found

    def _next(self, shown: datetime) -> datetime | None:
        found: datetime | None = self.wall.get_next_fire_time(None, shown)
        return found


def read_cron(schedule: ScheduleSettings, key: str) -> Cron:
    """Check one schedule.

    Args:
        schedule: its settings.
        key: its place in them, such as `schedules.0`, for messages.

    Raises:
        ConfigError: names the key and what is wrong with it.
    """
    try:
        zone = ZoneInfo(schedule.timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ConfigError(
            f"{key}.timezone: got {schedule.timezone!r}, needs a name such as 'Europe/Berlin' or "
            "'UTC' (tracemend.yaml)"
        ) from None
    try:
        return _read(schedule.cron.lower().split(), zone)
    except (ValueError, OverflowError) as error:
        raise ConfigError(
            f"{key}.cron: got {schedule.cron!r}, needs five fields such as '0 7 * * 1-5': "
            f"{error} (tracemend.yaml)"
        ) from None


def check_schedules(schedules: Sequence[ScheduleSettings]) -> list[Cron]:
    """Every schedule of a project.

    Raises:
        ConfigError: one is wrong, or two have the same name.
    """
    names = [schedule.name for schedule in schedules]
    for at, name in enumerate(names):
        if name in names[:at]:
            raise ConfigError(f"schedules.{at}.name: {name!r} is taken already (tracemend.yaml)")
    return [read_cron(schedule, f"schedules.{at}") for at, schedule in enumerate(schedules)]


def _read(fields: Sequence[str], zone: ZoneInfo) -> Cron:
    if len(fields) != 5:
        raise ValueError(f"there are {len(fields)}")
    minute, hour, day, month, weekday = fields
    if day != "*" and weekday != "*":
        raise ValueError("give the day of the month or the weekday; two schedules can do both")
    wall = CronTrigger(
        minute=minute, hour=hour, day=day, month=month, day_of_week=_weekdays(weekday),
        timezone=UTC,
    )  # fmt: skip
    found = Cron(wall=wall, zone=zone, names_hours=hour != "*")
    if found.newest(datetime.now(UTC)) is None:
        raise ValueError("there is no such day")
    return found


def _weekdays(field: str) -> str:
    """Cron's weekdays (0 and 7 are Sunday) as names."""
    if field == "*":
        return field
    chosen: set[int] = set()
    for part in field.split(","):
        days, slash, step = part.partition("/")
        first, dash, last = days.partition("-")
        if slash and not (step.isdecimal() and int(step)):
            raise ValueError(f"weekday {part!r}: needs a step above 0")
        low = 0 if first == "*" else _weekday(first)
        high = low
        if dash:
            high = _weekday(last) or 7
        elif first == "*" or slash:
            high = 6
        if high < low:
            raise ValueError(f"weekday {part!r}: ends before it begins")
        chosen |= {day % 7 for day in range(low, high + 1, int(step or 1))}
    return ",".join(_DAYS[day] for day in sorted(chosen))


def _weekday(text: str) -> int:
    if text in _DAYS:
        return _DAYS.index(text)
    if text.isdecimal() and int(text) <= 7:
        return int(text) % 7
    raise ValueError(f"weekday {text!r}: needs 0 to 7, or sun to sat")
