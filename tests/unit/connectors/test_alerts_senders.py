"""Each sender's deliveries: what fires, what recovers, what starts nothing, and over which time."""

import copy
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from connectors.alerts.body import BadDelivery
from connectors.alerts.langfuse import changes_named
from contracts.alerts import Alert, HookSource
from tests.alert_worlds import (
    COMMIT,
    ISSUE,
    MONITOR,
    NOTIFICATION,
    NOW,
    PING,
    PROMPT,
    RULE,
    THRESHOLD,
    read,
)


def changed(body: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of the body with another value at a dotted path; `...` takes the key out."""
    copied = copy.deepcopy(body)
    here: Any = copied
    *parents, last = path.split(".")
    for part in parents:
        here = here[int(part)] if part.isdigit() else here[part]
    if value is ...:
        del here[last]
    else:
        here[last] = value
    return copied


def minutes(alert: Alert) -> tuple[str, str] | None:
    """The window as clock times."""
    if alert.window is None:
        return None
    return alert.window[0].strftime("%H:%M"), alert.window[1].strftime("%H:%M")


def taken(alert: Alert) -> str:
    """What becomes of it."""
    return "ignored" if alert.ignored and alert.kind != "note" else alert.kind


Case = tuple[HookSource, dict[str, Any], str, str, tuple[str, str] | None]

TABLE: dict[str, Case] = {
    "an alert of Langfuse": ("langfuse", MONITOR, "firing", "mon-desk", ("09:14", "09:29")),
    "a warning": (
        "langfuse", changed(MONITOR, "payload.severity", "WARNING"), "firing", "mon-desk",
        ("09:14", "09:29"),
    ),
    "back to OK": (
        "langfuse", changed(MONITOR, "payload.severity", "OK"), "recovered", "mon-desk",
        ("09:14", "09:29"),
    ),
    "no data": (
        "langfuse", changed(MONITOR, "payload.severity", "NO_DATA"), "ignored", "mon-desk",
        ("09:14", "09:29"),
    ),
    "an alert without its times": (
        "langfuse", changed(MONITOR, "payload.fromTimestamp", ...), "firing", "mon-desk", None,
    ),
    "an alert whose window is turned round": (
        "langfuse", changed(MONITOR, "payload.fromTimestamp", "2026-11-24T09:29:01Z"), "firing",
        "mon-desk", None,
    ),
    "an alert from the future": (
        "langfuse", changed(MONITOR, "payload.toTimestamp", "2026-11-24T10:29:00Z"), "firing",
        "mon-desk", None,
    ),
    "an alert over a year": (
        "langfuse", changed(MONITOR, "payload.fromTimestamp", "2025-11-24T09:00:00Z"), "firing",
        "mon-desk", None,
    ),
    "a prompt changed by a person": ("langfuse", PROMPT, "note", "", None),
    "a prompt made": ("langfuse", changed(PROMPT, "action", "created"), "note", "", None),
    "a prompt deleted": ("langfuse", changed(PROMPT, "action", "deleted"), "note", "", None),
    "the half that lost its label": (
        "langfuse", changed(PROMPT, "prompt.labels", ["latest"]), "ignored", "", None,
    ),
    "a notification of the project": (
        "langfuse", {"id": "n", "type": "project-notification"}, "ignored", "", None,
    ),
    "no type at all": ("langfuse", {}, "ignored", "", None),
    "an alert of LangSmith": ("langsmith", THRESHOLD, "firing", "alert|al-1", ("09:13", "09:28")),
    "one whose template says its window": (
        "langsmith", {**THRESHOLD, "window_minutes": 5}, "firing", "alert|al-1", ("09:23", "09:28"),
    ),
    "one whose template says nonsense": (
        "langsmith", {**THRESHOLD, "window_minutes": -5}, "firing", "alert|al-1",
        ("09:13", "09:28"),
    ),
    "an alert without its time": (
        "langsmith", changed(THRESHOLD, "timestamp", ...), "firing", "alert|al-1", None,
    ),
    "runs that match a rule": ("langsmith", RULE, "firing", "rule|ru-1", ("09:20", "09:25")),
    "an issue's trace": ("langsmith", ISSUE, "firing", "issue|is-1", ("09:10", "09:29")),
    "an issue without a trace": (
        "langsmith", changed({**ISSUE, "type": "issue.created"}, "data.trace", ...), "firing",
        "issue|is-1", None,
    ),
    "a failed scan of Engine": (
        "langsmith", {**ISSUE, "type": "issue.agent_run.failed"}, "ignored", "", None,
    ),
    "an issue closed": ("langsmith", {**ISSUE, "type": "issue.closed"}, "ignored", "", None),
    "a commit": ("langsmith", COMMIT, "note", "", None),
    "a notification of Alertmanager": (
        "alertmanager", NOTIFICATION, "firing", 'group|{}:{alertname="DeskErrors"}',
        ("09:07", "09:30"),
    ),
    "all resolved": (
        "alertmanager", {**NOTIFICATION, "status": "resolved"}, "recovered",
        'group|{}:{alertname="DeskErrors"}', None,
    ),
    "one of two resolved": (
        "alertmanager", changed(NOTIFICATION, "alerts.0.status", "resolved"), "firing",
        'group|{}:{alertname="DeskErrors"}', ("09:15", "09:30"),
    ),
    "alerts that say no start": (
        "alertmanager", {**NOTIFICATION, "alerts": [{"labels": {"a": "b"}}]}, "firing",
        'group|{}:{alertname="DeskErrors"}', None,
    ),
    "a ping": ("generic", PING, "firing", "group|nightly", ("22:00", "06:00")),
    "an empty ping": ("generic", {}, "firing", "", None),
    "a recovery": ("generic", {"status": "recovered", "group": "g"}, "recovered", "group|g", None),
    "a recovery of nothing": ("generic", {"status": "recovered"}, "ignored", "", None),
}  # fmt: skip


@pytest.mark.parametrize("what", TABLE)
def test_a_delivery_is_taken_for_what_it_is(what: str) -> None:
    source, body, becomes, group, window = TABLE[what]
    alert = read(source, body)
    assert (taken(alert), alert.group, minutes(alert)) == (becomes, group, window)
    assert alert.source == source
    assert alert.key
    assert alert.title


# one delivery, one key


@pytest.mark.parametrize(
    ("source", "body", "path", "value"),
    [
        ("langfuse", MONITOR, "id", "another automation"),
        ("langfuse", MONITOR, "timestamp", "2026-11-24T09:29:31.000Z"),
        ("langfuse", MONITOR, "payload.message.title", "the same in other words"),
        ("langfuse", MONITOR, "payload.toTimestamp", "2026-11-24T10:29:00.000+01:00"),
        ("langsmith", THRESHOLD, "triggered_metric_value", 13),
        ("langsmith", RULE, "runs", []),
        ("langsmith", ISSUE, "data.object.name", "asks too often"),
        ("alertmanager", NOTIFICATION, "receiver", "another"),
        ("alertmanager", NOTIFICATION, "alerts", NOTIFICATION["alerts"][::-1]),
        ("generic", PING, "title", "another title"),
    ],
)
def test_what_is_the_same_delivery_has_the_same_key(
    source: HookSource, body: dict[str, Any], path: str, value: Any
) -> None:
    assert read(source, changed(body, path, value)).key == read(source, body).key


@pytest.mark.parametrize(
    ("source", "body", "path", "value"),
    [
        ("langfuse", MONITOR, "payload.toTimestamp", "2026-11-24T09:29:30.000Z"),
        ("langfuse", MONITOR, "payload.monitorId", "mon-other"),
        ("langfuse", MONITOR, "payload.severity", "OK"),
        ("langfuse", PROMPT, "id", "77aa02"),
        ("langsmith", THRESHOLD, "timestamp", "2026-11-24T09:28:01Z"),
        ("langsmith", THRESHOLD, "alert_rule_id", "al-2"),
        ("langsmith", RULE, "start_time", "2026-11-24T09:20:01"),
        ("langsmith", ISSUE, "id", "ev-9"),
        ("alertmanager", NOTIFICATION, "status", "resolved"),
        ("alertmanager", NOTIFICATION, "groupKey", "other"),
        ("alertmanager", NOTIFICATION, "alerts.0.startsAt", "2026-11-24T09:12:01Z"),
        ("alertmanager", NOTIFICATION, "alerts.0.status", "resolved"),
        ("alertmanager", NOTIFICATION, "alerts", NOTIFICATION["alerts"][:1]),
        ("generic", PING, "key", "nightly-2026-11-25"),
        ("generic", PING, "status", "recovered"),
    ],
)
def test_what_is_another_delivery_has_another_key(
    source: HookSource, body: dict[str, Any], path: str, value: Any
) -> None:
    assert read(source, changed(body, path, value)).key != read(source, body).key


def test_alerts_without_fingerprints_are_told_apart_by_their_labels() -> None:
    bare = changed(changed(NOTIFICATION, "alerts.0.fingerprint", ...), "alerts.1.fingerprint", ...)
    other = changed(bare, "alerts.1.labels", {"pod": "c"})
    assert read("alertmanager", bare).key != read("alertmanager", other).key


def test_the_header_names_the_key_before_the_body_does() -> None:
    assert read("generic", PING, said_key="from-the-header").key == "key|firing|from-the-header"
    assert read("generic", PING).key == "key|firing|nightly-2026-11-24"


@pytest.mark.parametrize(
    "one", ["a|b", "sha256:x", "a" * 300, "gr\u00fcn", "a\tb", "kim@example.com"]
)
def test_a_key_is_printable_short_and_its_own(one: str) -> None:
    first, second = read("generic", {"key": one}).key, read("generic", {"key": one + "c"}).key
    assert first != second
    for key in (first, second):
        assert key.isascii()
        assert key.isprintable()
        assert len(key) <= 200
        assert "example.com" not in key


# windows


def test_an_alert_that_fires_for_days_is_read_as_far_as_the_project_looks_back() -> None:
    long_ago = changed(NOTIFICATION, "alerts.0.startsAt", "2026-11-01T00:00:00Z")
    alert = read("alertmanager", long_ago, longest=timedelta(hours=6))
    assert alert.window == (NOW - timedelta(hours=6), NOW)


def test_times_without_a_zone_are_in_utc() -> None:
    alert = read("langsmith", RULE)
    assert alert.window is not None
    assert alert.window[0] == datetime(2026, 11, 24, 9, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    ("source", "body"), [("langfuse", MONITOR), ("langsmith", THRESHOLD), ("langsmith", RULE),
                         ("langsmith", ISSUE)],
)  # fmt: skip
def test_what_is_older_than_deliveries_are_remembered_starts_nothing(
    source: HookSource, body: dict[str, Any]
) -> None:
    assert read(source, body).ignored is None
    later = NOW + timedelta(days=91)
    why = read(source, body, now=later).ignored
    assert why is not None
    assert "retention.alerts" in why


@pytest.mark.parametrize(
    "window",
    [
        {}, {"start": "2026-11-24T09:00:00Z"}, "15m", [1, 2],
        {"start": "2026-11-24T09:00:00Z", "end": "2026-11-24T09:00:00Z"},
        {"start": "2026-11-24T09:00:00Z", "end": "2026-11-24T11:00:00Z"},
        {"start": "2026-09-24T09:00:00Z", "end": "2026-11-24T09:00:00Z"},
        {"start": "yesterday", "end": "today"},
        {"start": "0001-01-01T00:00:00+23:59", "end": "9999-12-31T23:59:59-23:59"},
    ],
)  # fmt: skip
def test_a_window_that_was_asked_for_and_is_none_is_refused(window: Any) -> None:
    with pytest.raises(BadDelivery, match="window: needs start before end"):
        read("generic", {"window": window})


# our own writes and other people's


def test_our_own_label_move_is_no_change_by_a_person() -> None:
    by_api = {**changed(PROMPT, "prompt.commitMessage", "tracemend change p-abc r2"), "user": None}

    def ours(message: str) -> bool:
        return "p-abc r2" in message

    assert taken(read("langfuse", by_api, is_ours=ours)) == "ignored"
    assert taken(read("langfuse", by_api)) == "note"
    assert taken(read("langfuse", {**by_api, "action": "deleted"}, is_ours=ours)) == "note"


def test_a_person_who_moves_a_label_to_our_version_is_noted() -> None:
    named = changed(PROMPT, "prompt.commitMessage", "tracemend change p-abc r2")
    alert = read("langfuse", named, is_ours=lambda _: True)
    assert alert.kind == "note"
    assert alert.ignored == "Noa updated version 4 of the prompt desk/greeting (production)"


def test_a_note_keeps_who_and_which_and_neither_text_nor_address() -> None:
    alert = read("langfuse", PROMPT)
    kept = json.dumps(alert.body)
    assert alert.body["prompt"] == "desk/greeting"
    assert (alert.body["version"], alert.body["by"]) == (4, "Noa")
    for left_out in ("noa@example.com", "Greet"):
        assert left_out not in kept


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ("tracemend change p-21 r1", [("p-21", 1)]),
        ("p-4k7q2m6xza r12 and p-21 r1", [("p-4k7q2m6xza", 12), ("p-21", 1)]),
        ("help-21 r1", []), ("p-21", []), ("", []), ("p-21 r" + "9" * 50, []),
    ],
)  # fmt: skip
def test_changes_are_found_in_a_commit_message(message: str, named: list[tuple[str, int]]) -> None:
    assert changes_named(message) == named


# what is kept


def test_ids_of_a_rules_runs_are_kept_and_their_texts_are_not() -> None:
    alert = read("langsmith", RULE)
    assert alert.body["runs"] == ["run-1", "run-2"]
    assert alert.body["traces"] == ["tr-1"]
    assert "parcel" not in json.dumps(alert.body)


def test_the_filter_of_a_monitor_and_its_id_are_kept() -> None:
    alert = read("langfuse", MONITOR)
    assert alert.body["event"] == "3b1c2f"
    assert alert.body["filters"] == MONITOR["payload"]["filters"]


@pytest.mark.parametrize(
    ("source", "body", "path"),
    [
        ("langfuse", MONITOR, "payload.message.title"), ("langsmith", THRESHOLD, "alert_rule_name"),
        ("langsmith", ISSUE, "data.object.name"), ("langsmith", COMMIT, "data.commit.created_by"),
        ("langfuse", PROMPT, "prompt.name"), ("langfuse", PROMPT, "user.name"),
        ("alertmanager", NOTIFICATION, "commonAnnotations.summary"), ("generic", PING, "title"),
    ],
)  # fmt: skip
def test_a_hostile_name_is_one_clean_masked_line(
    source: HookSource, body: dict[str, Any], path: str
) -> None:
    secret = "sk-ant-api03-" + "Ab3" * 30
    alert = read(source, changed(body, path, f"x\u202e\x1b[2J\r\n{secret} " + "long " * 900))
    for line in (alert.title, alert.ignored or ""):
        assert all(char.isprintable() for char in line)
        assert secret not in line
        assert len(line) <= 400
    assert len(alert.title) <= 200


def test_a_title_that_is_not_there_has_a_stand_in() -> None:
    assert read("langfuse", changed(MONITOR, "payload.message", ...)).title == (
        "Langfuse alert mon-desk"
    )
    assert read("alertmanager", changed(NOTIFICATION, "commonAnnotations", {})).title == (
        "DeskErrors"
    )


@pytest.mark.parametrize(
    ("source", "body", "path", "problem"),
    [
        ("langfuse", MONITOR, "payload.monitorId", "payload.monitorId: missing"),
        ("langsmith", RULE, "start_time", "rule_id, start_time"),
        ("langsmith", ISSUE, "data.object.id", "data.object.id: missing"),
        ("alertmanager", NOTIFICATION, "groupKey", "groupKey, status, alerts"),
        ("alertmanager", NOTIFICATION, "status", "groupKey, status, alerts"),
    ],
)
def test_what_a_delivery_lacks_is_named(
    source: HookSource, body: dict[str, Any], path: str, problem: str
) -> None:
    with pytest.raises(BadDelivery, match=problem):
        read(source, changed(body, path, ...))
