"""How long a backend asks us to wait, in every spelling that was met."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.traces.waits import asked_wait_s, backoff_s, read_date

NOW = datetime(2026, 11, 30, 8, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "Mon, 30 Nov 2026 08:00:09 GMT"}, 9),
        ({"x-ratelimit-reset": str(int(NOW.timestamp()) + 5)}, 5),
        ({"x-ratelimit-reset": str((int(NOW.timestamp()) + 5) * 1000)}, 5),
        ({"x-ratelimit-reset": "12"}, 12),
        ({"x-ratelimit-reset": "2026-11-30T08:00:04.000Z"}, 4),
        (
            {"x-ratelimit-reset": "Mon Nov 30 2026 08:00:06 GMT+0000 (Coordinated Universal Time)"},
            6,
        ),
        ({"retry-after": "2", "x-ratelimit-reset": "50"}, 2),
        ({"retry-after": "soon", "x-ratelimit-reset": "3"}, 3),
        ({"retry-after": "0"}, None),
        ({"retry-after": "-4"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "Mon, 30 Nov 2026 07:00:00 GMT"}, None),
        ({}, None),
    ],
)
def test_a_wait_is_read_from_every_spelling(headers: dict[str, str], seconds: float | None) -> None:
    assert asked_wait_s(headers, NOW) == (None if seconds is None else pytest.approx(seconds))


def test_a_date_is_taken_by_the_clock_of_the_backend() -> None:
    headers = {
        "date": "Mon, 30 Nov 2026 09:00:00 GMT",
        "retry-after": "Mon, 30 Nov 2026 09:00:20 GMT",
    }
    assert asked_wait_s(headers, NOW) == 20


@given(st.text(max_size=40), st.text(max_size=40))
def test_no_header_breaks_the_reading(one: str, other: str) -> None:
    wait = asked_wait_s({"retry-after": one, "x-ratelimit-reset": other, "date": one}, NOW)
    assert wait is None or wait > 0
    found = read_date(one)
    assert found is None or found.utcoffset() == timedelta(0)


@given(st.integers(0, 10_000), st.floats(0, 0.999))
def test_a_backoff_grows_to_a_minute_and_no_further(attempt: int, jitter: float) -> None:
    assert 0.75 * min(60, 2 ** min(attempt, 16)) <= backoff_s(attempt, jitter) <= 60
