"""When a schedule is due: cron's own weekdays, clocks that change, and one slot for each time."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.settings import ScheduleSettings
from contracts.errors import ConfigError
from graph.server.cron import Cron, check_schedules, read_cron


def cron(expression: str, timezone: str = "UTC") -> Cron:
    schedule = ScheduleSettings(name="s", cron=expression, run="analyze", timezone=timezone)
    return read_cron(schedule, "schedules.0")


def slots(found: Cron, start: str, end: str) -> list[str]:
    """Every slot that somebody who looks each minute sees for the first time."""
    seen: list[str] = []
    at, stop = datetime.fromisoformat(start), datetime.fromisoformat(end)
    last: datetime | None = None
    while at < stop:
        newest = found.newest(at)
        if newest is not None and (last is None or newest > last):
            if last is not None:
                seen.append(newest.strftime("%d %H:%M"))
            last = newest
        at += timedelta(minutes=1)
    return seen


def test_weekdays_are_counted_from_sunday_as_cron_does() -> None:
    monday_to_friday = cron("0 7 * * 1-5")
    thursday = datetime(2026, 11, 26, 12, tzinfo=UTC)
    newest = [monday_to_friday.newest(thursday + timedelta(days=more)) for more in range(5)]
    days = [found.strftime("%a") for found in newest if found is not None]
    assert days == ["Thu", "Fri", "Fri", "Fri", "Mon"]


@pytest.mark.parametrize(
    ("weekdays", "expected"),
    [
        ("0", "sun"),
        ("7", "sun"),
        ("5-7", "sun,fri,sat"),
        ("sun", "sun"),
        ("fri-sun", "sun,fri,sat"),
        ("1,3", "mon,wed"),
        ("*/2", "sun,tue,thu,sat"),
        ("1-5/2", "mon,wed,fri"),
        ("4/2", "thu,sat"),
    ],
)
def test_every_way_to_write_weekdays(weekdays: str, expected: str) -> None:
    field = next(f for f in cron(f"0 0 * * {weekdays}").wall.fields if f.name == "day_of_week")
    assert str(field) == expected


def test_an_hour_that_the_clocks_repeat_has_one_slot() -> None:
    found = cron("30 2 * * *", "Europe/Berlin")
    seen = slots(found, "2026-10-24T12:00+00:00", "2026-10-26T12:00+00:00")
    assert seen == ["25 00:30", "26 01:30"]  # 02:30 summer time, then 02:30 winter time


def test_an_hour_that_the_clocks_skip_has_one_slot() -> None:
    found = cron("30 2 * * *", "Europe/Berlin")
    seen = slots(found, "2026-03-28T12:00+00:00", "2026-03-30T12:00+00:00")
    assert seen == ["29 01:30", "30 00:30"]  # 03:30 summer time in place of 02:30


def test_every_hour_is_every_real_hour_when_the_clocks_change() -> None:
    found = cron("15 * * * *", "Europe/Berlin")
    autumn = slots(found, "2026-10-24T23:00+00:00", "2026-10-25T04:00+00:00")
    assert autumn == ["24 23:15", "25 00:15", "25 01:15", "25 02:15", "25 03:15"]
    spring = slots(found, "2026-03-28T23:00+00:00", "2026-03-29T04:00+00:00")
    assert spring == ["28 23:15", "29 00:15", "29 01:15", "29 02:15", "29 03:15"]


def test_no_day_is_left_out_after_the_clocks_changed() -> None:
    monthly = cron("0 0 1 * *", "Europe/Berlin")
    now = datetime(2024, 4, 1, 1, tzinfo=UTC)
    assert monthly.newest(now) == datetime(2024, 3, 31, 22, tzinfo=UTC)
    assert monthly.newest(now - timedelta(hours=1)) == datetime(2024, 3, 31, 22, tzinfo=UTC)


@settings(max_examples=40)
@given(
    st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"]),
    st.datetimes(min_value=datetime(2020, 1, 1), max_value=datetime(2032, 1, 1)),  # noqa: DTZ001
    st.sampled_from(["0 0 1 * *", "30 2 * * *", "15 * * * *", "0 3 * * 0", "*/30 1-3 * 3,10 *"]),
)
def test_a_slot_is_what_the_wall_clock_shows_or_would_have_shown(
    timezone: str, at: datetime, expression: str
) -> None:
    """Against a search that asks the wall clock of the minutes before."""
    zone, now = ZoneInfo(timezone), at.replace(tzinfo=UTC)
    found = cron(expression, timezone).newest(now)
    assert found is not None
    wall = cron(expression, "UTC")
    shown = found.astimezone(zone).replace(tzinfo=UTC, fold=0)
    if wall.newest(shown) != shown:  # only where the clocks were put forward over it
        before = (found - timedelta(hours=3)).astimezone(zone).utcoffset()
        assert before is not None
        assert wall.newest((found + before).replace(tzinfo=UTC)) == (found + before)
    # Whatever the wall clock showed for the first time since then is no slot.
    at_minute = now.replace(second=0, microsecond=0)
    for back in range(min(60, int((now - found).total_seconds() // 60))):
        moment = (at_minute - timedelta(minutes=back)).astimezone(zone)
        if moment > found and not moment.fold:
            showing = moment.replace(tzinfo=UTC)
            assert wall.newest(showing) != showing


def test_a_slot_far_back_is_found() -> None:
    now = datetime(2026, 11, 30, tzinfo=UTC)
    assert cron("0 0 29 2 *").newest(now) == datetime(2024, 2, 29, tzinfo=UTC)
    assert cron("5 4 1 1 *", "Asia/Tokyo").newest(now) == datetime(2025, 12, 31, 19, 5, tzinfo=UTC)


@given(
    st.sampled_from(["* * * * *", "*/7 3 * * *", "0 0 1 * *", "17 4 * * 0", "0 */5 * 3 *"]),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
    st.datetimes(min_value=datetime(2020, 1, 1), max_value=datetime(2032, 1, 1)),  # noqa: DTZ001
)
def test_the_newest_slot_is_past_and_none_is_between(
    expression: str, timezone: str, at: datetime
) -> None:
    found, now = cron(expression, timezone), at.replace(tzinfo=UTC)
    newest = found.newest(now)
    assert newest is not None
    assert newest <= now
    assert (newest.second, newest.microsecond) == (0, 0)
    assert found.newest(newest) == newest
    middle = newest + (now - newest) / 2
    assert found.newest(middle) == newest


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("0 7 * *", "there are 4"),
        ("@daily", "there are 1"),
        ("61 7 * * *", r"schedules\.0\.cron: got '61 7 \* \* \*'"),
        ("0 7 1 * 1", "two schedules can do both"),
        ("0 7 * * 8", "needs 0 to 7"),
        ("0 7 * * 5-1", "ends before it begins"),
        ("0 7 * * 1/0", "a step above 0"),
        ("0 7 31 2 *", "there is no such day"),
        ("0 7 * * monday", "needs 0 to 7"),
        ("a b c d e", r"schedules\.0\.cron"),
    ],
)
def test_a_wrong_expression_is_one_line_that_names_its_key(expression: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as raised:
        cron(expression)
    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith("schedules.0.cron: got ")


@pytest.mark.parametrize("timezone", ["Europe/Atlantis", "", "../../etc/passwd", "/etc/passwd"])
def test_a_wrong_time_zone_is_one_line_that_names_its_key(timezone: str) -> None:
    with pytest.raises(ConfigError, match=r"schedules\.0\.timezone: got "):
        cron("0 7 * * *", timezone)


def test_two_schedules_of_one_name_are_refused() -> None:
    twice = [ScheduleSettings(name="daily", cron="0 7 * * *", run="analyze")] * 2
    with pytest.raises(ConfigError, match=r"schedules\.1\.name: 'daily' is taken already"):
        check_schedules(twice)
