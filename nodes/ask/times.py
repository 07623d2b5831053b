"""Words for a time in a question: `since Monday`, `yesterday`, `in the last 24h`. Pure.

Days begin at midnight in the zone of `now`. What is not understood is no window, never a guess.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
_UNITS = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
MAX_SPAN = timedelta(days=366)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedTime:
    """A window that a question names."""

    start: datetime
    end: datetime
    words: str
    """As they stand in the question."""


_DAY = rf"(?P<day>{'|'.join(_DAYS)})"
_DATE = (
    r"(?P<date>\d{4}-\d\d-\d\d(?:[t ]\d\d:\d\d)?"
    rf"|(?:{'|'.join(m[:3] for m in _MONTHS)})[a-z]*\.? \d{{1,2}}(?:st|nd|rd|th)?\b"
    rf"|\d{{1,2}}(?:st|nd|rd|th)? (?:{'|'.join(m[:3] for m in _MONTHS)})[a-z]*)"
)
_LENGTH = (
    r"(?P<number>\d{1,4}|an?|few|couple of) ?(?P<unit>minutes?|mins?|m|hours?|h|days?|d|weeks?|w)\b"
)

_Found = re.Match[str]
_Rule = Callable[[_Found, datetime], tuple[datetime, datetime] | None]


def asked_time(
    question: str, now: datetime, *, released: datetime | None = None
) -> AskedTime | None:
    """The window that the question names, or None.

    Args:
        question: a person's words.
        now: aware; its zone says where days begin.
        released: when the newest release was applied, for `since the last release`.
    """
    text = question.lower()
    rules: tuple[tuple[str, _Rule], ...] = (
        *_RULES,
        (r"since (?:the |our )?(?:last |latest )?(?:release|deploy(?:ment)?)\b",
         lambda _, at: (released, at) if released is not None else None),
    )  # fmt: skip
    for pattern, rule in rules:
        found = re.search(rf"\b{pattern}", text)
        span = rule(found, now) if found is not None else None
        if found is not None and span is not None and _sound(span, now):
            words = question[found.start() : found.end()]
            return AskedTime(start=span[0], end=min(span[1], now), words=words)
    return None


def _sound(span: tuple[datetime, datetime], now: datetime) -> bool:
    start, end = span
    return start < min(end, now) and now - start <= MAX_SPAN


def _midnight(at: datetime) -> datetime:
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


def _day_named(name: str, now: datetime, *, today: bool = True) -> datetime:
    """The latest day of that name; today counts unless it is not wanted."""
    back = (now.weekday() - _DAYS.index(name)) % 7
    return _midnight(now) - timedelta(days=back if back or today else 7)


def _length(found: _Found) -> timedelta:
    said = found["number"]
    number = {"a": 1, "an": 1, "few": 3, "couple of": 2}.get(said) or int(said)
    return timedelta(seconds=number * _UNITS[found["unit"][0]])


def _date(text: str, now: datetime) -> datetime | None:
    """A date in the past, at midnight unless it names a time."""
    try:
        return datetime.fromisoformat(text).replace(tzinfo=now.tzinfo)
    except ValueError:
        pass
    parts = text.replace(".", "").split()
    name = next(part for part in parts if part[0].isalpha())
    number = int(re.sub(r"\D", "", next(part for part in parts if part[0].isdigit())))
    month = next(at for at, known in enumerate(_MONTHS, 1) if known.startswith(name[:3]))
    for year in (now.year, now.year - 1):
        try:
            found = datetime(year, month, number, tzinfo=now.tzinfo)
        except ValueError:
            return None
        if found <= now:
            return found
    return None


def _since_date(found: _Found, now: datetime) -> tuple[datetime, datetime] | None:
    start = _date(found["date"], now)
    return (start, now) if start is not None else None


def _on_date(found: _Found, now: datetime) -> tuple[datetime, datetime] | None:
    start = _date(found["date"], now)
    return (start, _midnight(start) + timedelta(days=1)) if start is not None else None


def _between(found: _Found, now: datetime) -> tuple[datetime, datetime] | None:
    start, end = (_date(found[name], now) for name in ("first", "second"))
    if start is None or end is None:
        return None
    whole = end == _midnight(end)
    return start, end + timedelta(days=1) if whole else end


def _since_clock(found: _Found, now: datetime) -> tuple[datetime, datetime] | None:
    hour, minute = int(found["hour"]), int(found["minute"])
    if hour > 23 or minute > 59:
        return None
    at = _midnight(now) + timedelta(hours=hour, minutes=minute)
    return (at if at <= now else at - timedelta(days=1)), now


def _week(now: datetime) -> datetime:
    return _midnight(now) - timedelta(days=now.weekday())


def _month(now: datetime) -> datetime:
    return _midnight(now).replace(day=1)


def _of_day(start: datetime) -> tuple[datetime, datetime]:
    return start, start + timedelta(days=1)


_ISO = r"\d{4}-\d\d-\d\d(?:[t ]\d\d:\d\d)?"
_RULES: tuple[tuple[str, _Rule], ...] = (
    (rf"(?:between|from) (?P<first>{_ISO}) (?:and|to|until) (?P<second>{_ISO})", _between),
    (rf"since {_DATE}", _since_date),
    (r"since (?P<hour>\d\d?):(?P<minute>\d\d)\b", _since_clock),
    (rf"since (?:last )?{_DAY}", lambda f, now: (_day_named(f["day"], now), now)),
    (r"since yesterday", lambda _, now: (_midnight(now) - timedelta(days=1), now)),
    (r"(?:since )?(?:today|this morning|midnight)\b", lambda _, now: (_midnight(now), now)),
    (r"yesterday", lambda _, now: _of_day(_midnight(now) - timedelta(days=1))),
    (rf"(?:in |over |within |during )?(?:the )?(?:last|past) {_LENGTH}",
     lambda f, now: (now - _length(f), now)),
    (r"(?:in |over |within |during )?the (?:last|past) (?P<unit>hour|day|week)\b",
     lambda f, now: (now - timedelta(seconds=_UNITS[f["unit"][0]]), now)),
    (rf"{_LENGTH} ago", lambda f, now: (now - _length(f), now)),
    (r"(?:last|past) (?P<unit>hour|day)\b",
     lambda f, now: (now - timedelta(seconds=_UNITS[f["unit"][0]]), now)),
    (r"(?:since )?this week", lambda _, now: (_week(now), now)),
    (r"since last week", lambda _, now: (_week(now) - timedelta(days=7), now)),
    (r"last week", lambda _, now: (_week(now) - timedelta(days=7), _week(now))),
    (r"(?:since )?this month", lambda _, now: (_month(now), now)),
    (r"last month", lambda _, now: (_month(_month(now) - timedelta(days=1)), _month(now))),
    (rf"(?:on )?last {_DAY}", lambda f, now: _of_day(_day_named(f["day"], now, today=False))),
    (rf"on {_DAY}", lambda f, now: _of_day(_day_named(f["day"], now))),
    (rf"on {_DATE}", _on_date),
)  # fmt: skip


def without(question: str, time: AskedTime | None) -> str:
    """The question without its words for a time: they say nothing of what failed."""
    return question.replace(time.words, " ") if time is not None else question


def rules() -> Iterator[str]:
    """The patterns, for a test that each of them can match."""
    for pattern, _ in _RULES:
        yield pattern
