"""Words for a time become a window; what is not understood becomes none."""

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.ask.times import MAX_SPAN, asked_time, rules, without

NOW = datetime(2026, 12, 2, 15, 30, tzinfo=UTC)  # a Wednesday
RELEASED = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)

KNOWN = {
    "why did refunds fail since Monday?": ("11-30 00:00", "12-02 15:30"),
    "what failed since last Friday": ("11-27 00:00", "12-02 15:30"),
    "since Wednesday": ("12-02 00:00", "12-02 15:30"),
    "on Monday": ("11-30 00:00", "12-01 00:00"),
    "last Wednesday": ("11-25 00:00", "11-26 00:00"),
    "yesterday": ("12-01 00:00", "12-02 00:00"),
    "since yesterday": ("12-01 00:00", "12-02 15:30"),
    "today": ("12-02 00:00", "12-02 15:30"),
    "in the last 24h": ("12-01 15:30", "12-02 15:30"),
    "in the past 3 days": ("11-29 15:30", "12-02 15:30"),
    "over the last couple of hours": ("12-02 13:30", "12-02 15:30"),
    "in the last hour": ("12-02 14:30", "12-02 15:30"),
    "past day": ("12-01 15:30", "12-02 15:30"),
    "what broke 2 hours ago": ("12-02 13:30", "12-02 15:30"),
    "this week": ("11-30 00:00", "12-02 15:30"),
    "last week": ("11-23 00:00", "11-30 00:00"),
    "since last week": ("11-23 00:00", "12-02 15:30"),
    "this month": ("12-01 00:00", "12-02 15:30"),
    "last month": ("11-01 00:00", "12-01 00:00"),
    "since 2026-11-28": ("11-28 00:00", "12-02 15:30"),
    "since 2026-11-28 10:15": ("11-28 10:15", "12-02 15:30"),
    "since 14:00": ("12-02 14:00", "12-02 15:30"),
    "since 18:00": ("12-01 18:00", "12-02 15:30"),
    "since Nov 28": ("11-28 00:00", "12-02 15:30"),
    "since the 28th": None,
    "on 28th November": ("11-28 00:00", "11-29 00:00"),
    "between 2026-11-01 and 2026-11-03": ("11-01 00:00", "11-04 00:00"),
    "since the last release": ("12-01 09:00", "12-02 15:30"),
    "since 2027-01-01": None,
    "since 2020-01-01": None,
    "since 99:99": None,
    "between 2026-11-03 and 2026-11-01": None,
    "may we pay on time, and why?": None,
}


@pytest.mark.parametrize("question", KNOWN)
def test_words_become_a_window(question: str) -> None:
    found = asked_time(question, NOW, released=RELEASED)
    expected = KNOWN[question]
    if expected is None:
        assert found is None
    else:
        assert found is not None
        assert (f"{found.start:%m-%d %H:%M}", f"{found.end:%m-%d %H:%M}") == expected
        assert found.words in question


def test_days_begin_where_the_person_is() -> None:
    here = timezone(timedelta(hours=9))
    found = asked_time("yesterday", NOW.astimezone(here))
    assert found is not None
    assert found.start == datetime(2026, 12, 2, 0, 0, tzinfo=here)


def test_without_a_release_nothing_is_since_it() -> None:
    assert asked_time("since the last release", NOW) is None


def test_the_words_for_a_time_are_no_words_for_a_failure() -> None:
    found = asked_time("why did monday-sync fail since Monday?", NOW)
    assert without("why did monday-sync fail since Monday?", found) == "why did monday-sync fail  ?"


def test_every_rule_is_met_by_some_question_here() -> None:
    for pattern in rules():
        assert any(re.search(rf"\b{pattern}", question.lower()) for question in KNOWN), pattern


@given(st.text(max_size=80))
def test_no_text_breaks_it_and_a_window_is_in_the_past(text: str) -> None:
    found = asked_time(f"since {text}", NOW, released=RELEASED)
    if found is not None:
        assert found.start < found.end <= NOW
        assert NOW - found.start <= MAX_SPAN
