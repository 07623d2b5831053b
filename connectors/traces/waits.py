"""How long a backend asks us to wait, from the headers of its answer.

Source: RFC 9110 (Retry-After, Date) and what backends really send as `X-RateLimit-Reset`: Unix
seconds or milliseconds, seconds from now, an HTTP date, ISO 8601, or a printed JavaScript date.
"""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_BACKOFF_S = 60.0


def asked_wait_s(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds that the answer asks for, above zero; None where it does not say.

    A date is compared with the answer's own `Date`, so that a clock of ours that is off does not
    matter, else with `now`.
    """
    here = read_date(headers.get("date", "")) or now
    wait = _seconds(headers.get("retry-after", ""), here, absolute=False)
    if wait is None:
        wait = _seconds(headers.get("x-ratelimit-reset", ""), here, absolute=True)
    return wait if wait is not None and wait > 0 else None


def backoff_s(attempt: int, jitter: float) -> float:
    """1, 2, 4 … seconds for attempt 0, 1, 2 …, less up to a quarter by `jitter` in [0, 1)."""
    whole: float = min(LONGEST_BACKOFF_S, 2.0 ** min(attempt, 16))
    return whole * (1 - jitter / 4)


def read_date(text: str) -> datetime | None:
    """A date of a header as aware UTC; one without a zone is in UTC."""
    plain = text.partition("(")[0].replace("GMT+", "+").replace("UTC+", "+").strip()
    try:
        when = datetime.fromisoformat(plain)
    except ValueError:
        try:
            when = parsedate_to_datetime(plain)
        except (ValueError, TypeError, IndexError, OverflowError):
            return None
    try:
        return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _seconds(text: str, now: datetime, *, absolute: bool) -> float | None:
    text = text.strip()
    try:
        number = float(text)
    except ValueError:
        when = read_date(text) if text else None
        return (when - now).total_seconds() if when is not None else None
    if not math.isfinite(number):
        return None
    if absolute and number > 1e11:  # Unix milliseconds
        number /= 1000
    if absolute and number > 1e8:  # Unix seconds; anything smaller counts from now
        number -= now.timestamp()
    return number
