"""What every sender's reader needs: when the delivery arrived, and fields that cannot surprise."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from contracts.json_types import Json, JsonObject

Window = tuple[datetime, datetime]

MAX_WINDOW = timedelta(days=31)
"""No sender watches a longer time at once; a longer one is a mistake that would read everything."""
CLOCK_SKEW = timedelta(minutes=5)
"""How far ahead a sender's clock may be."""
_FIRST_YEAR, _LAST_YEAR = 2000, 2200
_MAX_TIME_CHARS = 64
_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,60}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A delivery beside its body.

    Attributes:
        now: aware UTC.
        longest: the project's analysis window.
        kept: how long deliveries are remembered; an older one could be a replay nobody recognises.
        digest: SHA-256 of the raw body, in hex.
        said_key: the header `Idempotency-Key`.
        is_ours: whether a commit message names a change that this project made.
    """

    now: datetime
    longest: timedelta
    kept: timedelta
    digest: str
    said_key: str | None = None
    is_ours: Callable[[str], bool] = lambda _: False

    def forgotten(self, moment: datetime | None) -> str | None:
        """Why a delivery about this moment starts nothing any more; None: it is young enough."""
        if moment is None or self.now - moment <= self.kept:
            return None
        return "it is older than deliveries are kept (`retention.alerts`): it may be a replay"


def text_at(value: Json, *path: str) -> str | None:
    """The text under these keys; None where there is none, or only blanks."""
    found = value_at(value, *path)
    return found.strip() or None if isinstance(found, str) else None


def object_at(value: Json, *path: str) -> JsonObject:
    """The object under these keys; an empty one where there is none."""
    found = value_at(value, *path)
    return found if isinstance(found, Mapping) else {}


def list_at(value: Json, *path: str) -> Sequence[Json]:
    """The list under these keys; an empty one where there is none."""
    found = value_at(value, *path)
    return found if isinstance(found, Sequence) and not isinstance(found, str) else ()


def value_at(value: Json, *path: str) -> Json:
    """The value under these keys; None where there is none."""
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def name_of(text: str | None) -> str:
    """A vendor's word as it may stand in a log line; anything else is `another kind`."""
    return text if text is not None and _NAME.fullmatch(text) else "another kind"


def moment_of(value: Json) -> datetime | None:
    """A time as aware UTC: RFC 3339, or Unix seconds. One without a zone is in UTC."""
    try:
        if isinstance(value, str) and len(value) <= _MAX_TIME_CHARS:
            read = datetime.fromisoformat(value.strip())
        elif isinstance(value, int | float) and not isinstance(value, bool):
            read = datetime.fromtimestamp(value, UTC)
        else:
            return None
        if not _FIRST_YEAR <= read.year <= _LAST_YEAR:  # such as 0001-01-01 for "not yet"
            return None
        return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None


def window_of(start: datetime | None, end: datetime | None, now: datetime) -> Window | None:
    """The window, unless it is none, ends in the future or is longer than `MAX_WINDOW`."""
    if start is None or end is None or not start < end <= now + CLOCK_SKEW:
        return None
    return (start, end) if end - start <= MAX_WINDOW else None
