"""Deliveries through the real route: what is answered, and the one row that is left."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import delete

from contracts.json_types import sha256_hex
from contracts.proposals import ProposalId
from graph.intake import take_in
from memory.schema import alerts, proposals
from memory.workspace import open_project
from tests import card_worlds
from tests.hook_worlds import (
    OTHER,
    PROJECT,
    SECRETS,
    Hooks,
    make_home,
    proof,
    serve_hooks,
    set_secrets,
    signature,
)
from tests.serving_app import serve_app

FIELDCASES = Path(__file__).parents[1] / "data" / "fieldcases"
NOW = datetime(2026, 11, 24, 9, 30, tzinfo=UTC)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hooks]:
    with pytest.MonkeyPatch.context() as patch:
        set_secrets(patch)
        with serve_hooks(make_home(tmp_path_factory.mktemp("hooks"))) as hooks:
            yield hooks
            hooks.ledger().close()


@pytest.fixture
def hooks(served: Hooks) -> Hooks:
    """The server with no delivery in it, at a quiet time."""
    for project in (PROJECT, OTHER):
        served.set_clock(NOW, project)
        with served.ledger(project).db.write() as tx:
            tx.execute(delete(alerts))
    return served


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def monitor(severity: str = "ALERT", **payload: Any) -> dict[str, Any]:
    return {
        "id": payload.pop("id", "d-1"), "type": "monitor-alert", "payload": {
            "monitorId": "mon-7", "severity": severity, "message": {"title": "[ALERT] slow"},
            "fromTimestamp": "2026-11-24T09:20:00.000Z", "toTimestamp": "2026-11-24T09:25:00.000Z",
            **payload,
        },
    }  # fmt: skip


def test_an_accepted_alert_is_one_new_row_with_its_window(hooks: Hooks) -> None:
    answer = hooks.proven("langfuse", monitor())
    assert answer.status_code == 202
    (row,) = hooks.rows()
    assert answer.json() == {"accepted": True, "key": row.key}
    assert (row.state, row.kind, row.group) == ("new", "firing", "langfuse|mon-7")
    alert = row.request["alert"]
    assert isinstance(alert, dict)
    assert alert["window"] == {
        "start": "2026-11-24T09:20:00+00:00", "end": "2026-11-24T09:25:00+00:00",
    }  # fmt: skip


def test_a_fan_out_over_automations_is_one_row_and_both_are_answered_alike(hooks: Hooks) -> None:
    first = hooks.proven("langfuse", monitor(id="d-1"))
    second = hooks.proven("langfuse", monitor(id="d-2"))
    assert first.json() == second.json()
    assert len(hooks.rows()) == 1


def test_the_next_evaluation_of_a_monitor_is_another_row_of_its_group(hooks: Hooks) -> None:
    hooks.proven("langfuse", monitor())
    hooks.proven("langfuse", monitor(toTimestamp="2026-11-24T09:30:00.000Z"))
    first, second = hooks.rows()
    assert first.key != second.key
    assert first.group == second.group


def test_a_recovery_at_the_same_moment_is_not_swallowed_by_its_alert(hooks: Hooks) -> None:
    hooks.proven("langfuse", monitor())
    hooks.proven("langfuse", monitor("OK"))
    assert {row.kind for row in hooks.rows()} == {"firing", "recovered"}


@pytest.mark.parametrize("severity", ["NO_DATA", "PAUSED", "UNKNOWN", "SOMETHING_NEW", ""])
def test_other_severities_start_nothing_and_say_why(hooks: Hooks, severity: str) -> None:
    assert hooks.proven("langfuse", monitor(severity)).status_code == 202
    (row,) = hooks.rows()
    assert row.state == "ignored"
    assert row.note
    assert "severity" in row.note


def test_twenty_equal_deliveries_at_once_leave_one_row(hooks: Hooks) -> None:
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: hooks.proven("langfuse", monitor()), range(20)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.text for answer in answers}) == 1
    assert len(hooks.rows()) == 1


def test_a_new_delivery_wakes_the_dispatcher_and_a_repeat_does_not(hooks: Hooks) -> None:
    woken = hooks.app.state.dispatcher._wake
    woken.clear()
    hooks.proven("generic", {"key": "once"})
    assert woken.is_set()
    woken.clear()
    hooks.proven("generic", {"key": "once"})
    assert not woken.is_set()


def test_one_project_never_gets_what_was_sent_to_another(hooks: Hooks) -> None:
    hooks.proven("generic", {"title": "for one"})
    assert len(hooks.rows()) == 1
    assert hooks.rows(OTHER) == []


def test_secrets_and_personal_data_of_a_body_are_masked_in_the_row(hooks: Hooks) -> None:
    key = "sk-ant-api03-" + "Ab3" * 30
    body = {"title": f"see {key}", "password": "hunter2hunter2", "note": "mail kim@example.com"}
    assert hooks.proven("generic", body).status_code == 202
    (row,) = hooks.rows()
    stored = json.dumps(row.request)
    for secret in (key, "hunter2hunter2", "kim@example.com"):
        assert secret not in stored


def test_the_names_that_a_project_masks_are_masked_in_the_row(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEMEND_HOOK_GENERIC_FRONT_DESK", "a-secret-of-the-other")
    headers = {"authorization": "Bearer a-secret-of-the-other"}
    file = hooks.home.parent / OTHER / "tracemend.yaml"
    before = file.read_text("utf-8")
    file.write_text(before + "redaction: {names: [Quillonia]}\n", "utf-8")
    try:
        answer = hooks.post("generic", {"title": "at Quillonia"}, headers, project=OTHER)
        stored = json.dumps([row.request for row in hooks.rows(OTHER)])
    finally:
        file.write_text(before, "utf-8")
    assert answer.status_code == 202
    assert "at [" in stored
    assert "Quillonia" not in stored


def test_what_is_kept_of_a_large_body_is_small(hooks: Hooks) -> None:
    body = {f"part-{n}": "word " * 1_500 for n in range(90)}
    assert hooks.proven("generic", body).status_code == 202
    (row,) = hooks.rows()
    assert len(json.dumps(row.request)) < 70_000


def test_a_title_is_one_clean_line(hooks: Hooks) -> None:
    hooks.proven("generic", {"title": "a\u202eb\r\nX-Injected: 1\x1b[31m" + "c" * 5_000})
    (row,) = hooks.rows()
    alert = row.request["alert"]
    assert isinstance(alert, dict)
    title = alert["body"]["title"]
    assert isinstance(title, str)
    assert title.isprintable()
    assert len(title) <= 200
    assert "\u202e" not in title


def test_in_the_whole_application_an_answered_alert_becomes_an_incident_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_secrets(monkeypatch)
    home = make_home(tmp_path)
    raw = json.dumps({"title": "desk is slow", "group": "desk"}).encode()
    with serve_app(home) as served:
        ledger = open_project(home, PROJECT).ledger
        url = f"{served.url}/hooks/generic/{PROJECT}"
        sent = {"content-type": "application/json", **proof("generic", raw, 0)}
        answer = httpx.post(url, content=raw, headers=sent, timeout=30)
        assert answer.status_code == 202
        patience = time.monotonic() + 60
        while (row := ledger.alerts.listed()[0]).state == "new":
            assert time.monotonic() < patience, "the alert was not taken in"
            time.sleep(0.05)
        assert row.state == "started"
        assert [incident.thread for incident in ledger.incidents.listed()] == [row.thread]
        ledger.close()


# field case 54


def case_54() -> tuple[Path, dict[str, Any]]:
    folder = FIELDCASES / "54-one-label-move-two-calls"
    return folder, json.loads((folder / "deliveries.json").read_text("utf-8"))


def test_field_case_54_one_label_move_starts_nothing_and_a_persons_change_is_noted(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, case = case_54()
    monkeypatch.setenv("TRACEMEND_HOOK_LANGFUSE_REFUNDS", case["secret"])
    made_by_us(hooks, *case["known_changes"])
    statuses = []
    for sent in case["deliveries"]:
        hooks.set_clock(at(sent["arrives_at"]))
        raw = (folder / sent["file"]).read_bytes()
        statuses.append(hooks.post("langfuse", raw, sent["headers"]).status_code)
    expected = json.loads((folder / "expected.json").read_text("utf-8"))
    assert statuses == [each["status"] for each in expected["per_delivery"]]
    losing, ours, person = hooks.rows()  # the third was the second again
    assert [row.state for row in (losing, ours, person)] == ["ignored", "ignored", "noted"]
    assert "lost a label" in (losing.note or "")
    assert "our own change" in (ours.note or "")
    assert person.kind == "note"
    assert person.note == "Kim updated version 7 of the prompt desk/system (production)"
    assert "kim@example.com" not in json.dumps(person.request)


@pytest.mark.parametrize("made", ["p-22 r1", "p-21 r2"])
def test_a_message_that_names_a_change_we_never_made_is_no_change_of_ours(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch, made: str
) -> None:
    folder, case = case_54()
    monkeypatch.setenv("TRACEMEND_HOOK_LANGFUSE_REFUNDS", case["secret"])
    made_by_us(hooks, made)
    sent = case["deliveries"][1]
    hooks.set_clock(at(sent["arrives_at"]))
    hooks.post("langfuse", (folder / sent["file"]).read_bytes(), sent["headers"])
    (row,) = hooks.rows()
    assert row.state == "noted"


def made_by_us(hooks: Hooks, *changes: str) -> None:
    """Put these revisions into the ledger, and no others."""
    ledger = hooks.ledger()
    with ledger.db.write() as tx:
        tx.execute(delete(proposals))
        for change in changes:
            name, _, revision = change.partition(" r")
            draft = card_worlds.edit(
                card_worlds.replacing("skills/desk/SKILL.md", "Be brief.", "Be kind.")
            )
            made, _ = card_worlds.proposal(card_worlds.harness(desk="Be brief.\n"), draft)
            made = replace(made, id=ProposalId(name), revision=int(revision), project=PROJECT)
            ledger.proposals.insert(tx, made, state="waiting")


# field case 56


def test_field_case_56_the_signature_is_over_the_bytes(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = FIELDCASES / "56-signature-over-the-bytes"
    case = json.loads((folder / "calls.json").read_text("utf-8"))
    expected = json.loads((folder / "expected.json").read_text("utf-8"))["answers"]
    monkeypatch.setenv("TRACEMEND_HOOK_LANGFUSE_REFUNDS", case["secret"])
    hooks.set_clock(at(case["now"]))
    answers = {}
    for call in case["calls"]:
        signed = call["x-langfuse-signature"]
        headers = {"x-langfuse-signature": signed} if signed else {}
        answer = hooks.post("langfuse", (folder / call["body"]).read_bytes(), headers)
        answers[call["name"]] = answer.status_code
        assert case["secret"] not in answer.text
        assert "e0daabec" not in answer.text
    assert answers == expected
    (row,) = hooks.rows()
    assert row.group == "langfuse|mon-1"


# field case 55


def test_field_case_55_an_alert_that_fires_again_joins_and_a_ping_is_never_swallowed(
    hooks: Hooks,
) -> None:
    folder = FIELDCASES / "55-alert-again-and-ping-again"
    case = json.loads((folder / "deliveries.json").read_text("utf-8"))
    expected = json.loads((folder / "expected.json").read_text("utf-8"))
    ws = open_project(hooks.home, PROJECT)
    before = {incident.thread for incident in ws.ledger.incidents.listed()}
    opened: list[str] = []
    became: list[str] = []
    for sent in case["deliveries"]:
        hooks.set_clock(at(sent.get("at") or sent["body"]["timestamp"]))
        known = {row.key: row.thread for row in hooks.rows()}
        answer = hooks.proven(sent["source"], sent["body"], headers=sent.get("headers", {}))
        assert answer.status_code == 202
        take_in(ws)
        row = {row.key: row for row in hooks.rows()}[answer.json()["key"]]
        if row.thread is not None and row.thread not in [*before, *opened]:
            opened.append(row.thread)
        number = opened.index(row.thread) + 1 if row.thread else 0
        became.append(f"again {number}" if row.key in known else f"{row.state} {number}")
    assert became == [
        "started 1", "joined 1", "joined 1", "started 2", "recovered 1", "ignored 0", "started 3",
        "started 4", "started 5", "again 5",
    ]  # fmt: skip
    assert len(opened) == expected["incidents"]
    assert ws.ledger.incidents.get(opened[0]).fired == 3


# retries of pings without a key


@pytest.mark.parametrize("second", [0, 1, 29, 30, 31, 59])
def test_an_equal_body_within_a_minute_is_one_ping_wherever_the_minute_begins(
    hooks: Hooks, second: int
) -> None:
    start = NOW + timedelta(seconds=second)
    for after_s, rows in ((0, 1), (0.2, 1), (31, 1), (59.9, 1), (60.1, 2), (119, 2), (121, 3)):
        hooks.set_clock(start + timedelta(seconds=after_s))
        assert hooks.proven("generic", {"ask": "analyze"}).status_code == 202
        assert len(hooks.rows()) == rows, f"{after_s} s after the first"


def test_other_bodies_within_a_minute_are_pings_of_their_own(hooks: Hooks) -> None:
    hooks.proven("generic", {"ask": "one"})
    hooks.proven("generic", {"ask": "two"})
    assert len(hooks.rows()) == 2


def test_equal_pings_at_once_on_both_sides_of_a_minutes_edge_are_one(hooks: Hooks) -> None:
    edge = NOW + timedelta(seconds=30)
    times = cycle([edge - timedelta(milliseconds=5), edge + timedelta(milliseconds=5)])
    hooks.ledger().db.clock = lambda: next(times)
    raw = b'{"ask": "analyze"}'
    headers = proof("generic", raw, 0)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: hooks.post("generic", raw, headers), range(24)))
    assert len(hooks.rows()) == 1


def test_a_recovery_with_the_key_of_its_alert_is_not_taken_for_a_repeat(hooks: Hooks) -> None:
    hooks.proven("generic", {"key": "disk-7", "group": "disk"})
    hooks.proven("generic", {"key": "disk-7", "group": "disk", "status": "recovered"})
    assert [row.kind for row in hooks.rows()] == ["firing", "recovered"]


def test_the_key_of_an_answer_is_stable_and_hides_what_could_not_be_shown(hooks: Hooks) -> None:
    hostile = "sk-ant-api03-" + "Ab3" * 30
    answer = hooks.proven("generic", {}, headers={"Idempotency-Key": hostile})
    assert answer.status_code == 202
    assert hostile not in answer.text
    (row,) = hooks.rows()
    assert hostile not in row.key
    assert row.key.startswith("sha256:")


# the other senders, through their own proofs


def test_langsmith_takes_its_signature_a_header_or_the_url(hooks: Hooks) -> None:
    secret = SECRETS["langsmith"]
    fired = {
        "alert_rule_id": "r-1",
        "alert_rule_name": "errors",
        "timestamp": "2026-11-24T09:25:00Z",
    }
    raw = json.dumps(fired).encode()
    signed = {"x-langsmith-signature": "sha256=" + signature(secret, raw)}
    ways: list[tuple[dict[str, str], str]] = [
        (signed, ""), ({"authorization": f"Bearer {secret}"}, ""),
        ({"x-tracemend-secret": secret}, ""), ({}, f"?secret={secret}"),
    ]  # fmt: skip
    for headers, query in ways:
        assert hooks.post("langsmith", raw, headers, query=query).status_code == 202
    (row,) = hooks.rows()
    assert row.group == "langsmith|alert|r-1"
    wrong = {**signed, "x-langsmith-signature": "sha256=" + sha256_hex(raw)}
    assert hooks.post("langsmith", raw, wrong, query=f"?secret={secret}").status_code == 401


def test_generic_takes_a_signature_and_one_with_its_time(hooks: Hooks) -> None:
    secret, now = SECRETS["generic"], int(NOW.timestamp())
    raw = b'{"title": "x"}'
    plain = {"x-tracemend-signature": "sha256=" + signature(secret, raw)}
    timed = {
        moment: {"x-tracemend-signature": (
            f"t={moment},sha256=" + signature(secret, f"{moment}.".encode() + raw)
        )}
        for moment in (now, now - 299, now - 301, now + 301)
    }  # fmt: skip
    assert hooks.post("generic", raw, plain).status_code == 202
    statuses = [hooks.post("generic", raw, headers).status_code for headers in timed.values()]
    assert statuses == [202, 202, 401, 401]


def test_while_a_secret_is_replaced_both_are_taken(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "TRACEMEND_HOOK_LANGFUSE_REFUNDS", "the-new-secret-0001, the-old-secret-0001"
    )
    now = int(NOW.timestamp())
    for number, secret in enumerate(("the-old-secret-0001", "the-new-secret-0001")):
        raw = json.dumps({"id": f"d-{number}", "type": "prompt-version"}).encode()
        assert hooks.post("langfuse", raw, proof("langfuse", raw, now, secret)).status_code == 202
    raw = b"{}"
    headers = proof("langfuse", raw, now, "the-old-secret-0001, the-new-secret-0001")
    assert hooks.post("langfuse", raw, headers).status_code == 401


def test_the_variable_of_a_secret_has_a_usual_name_and_can_be_named_in_the_settings(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEMEND_HOOK_GENERIC_FRONT_DESK", "by-the-usual-name")
    monkeypatch.setenv("DESK_HOOK", "by-its-own-name")
    ways = [{"authorization": f"Bearer by-{name}-name"} for name in ("the-usual", "its-own")]

    def statuses() -> list[int]:
        return [hooks.post("generic", {}, way, project=OTHER).status_code for way in ways]

    assert statuses() == [202, 401]
    file = hooks.home.parent / OTHER / "tracemend.yaml"
    before = file.read_text("utf-8")
    file.write_text(before + "hooks: {generic: {secret_env: DESK_HOOK}}\n", "utf-8")
    try:
        assert statuses() == [401, 202]
    finally:
        file.write_text(before, "utf-8")


@pytest.mark.parametrize(
    ("source", "project", "status"),
    [("zabbix", PROJECT, 404), ("Langfuse", PROJECT, 404), ("generic", "nobody", 401)],
)
def test_an_unknown_source_is_404_and_an_unknown_project_is_401(
    hooks: Hooks, source: str, project: str, status: int
) -> None:
    assert hooks.post(source, {}, project=project).status_code == status


def test_recorded_shapes_of_the_senders_are_understood(hooks: Hooks, shared_data: Path) -> None:
    folder = shared_data.parent / "specs" / "webhooks"
    if not folder.is_dir():
        pytest.skip(f"the recorded webhooks are not here: {folder}")
    hooks.set_clock(at("2026-11-30T10:01:00Z"))
    kinds = {}
    for file in sorted(folder.glob("*.json")):
        source = file.name.partition("_")[0]
        assert hooks.proven(source, json.loads(file.read_text("utf-8"))["body"]).status_code == 202
    for row in hooks.rows():
        alert = row.request["alert"]
        assert isinstance(alert, dict)
        kinds[row.group or row.note] = (row.kind, row.state, alert["window"] is not None)
    assert kinds == {
        "langfuse|mon-1": ("firing", "new", True),
        "A updated version 3 of the prompt agent/system (production)": ("note", "noted", False),
        "langsmith|alert|00000000-0000-4000-8000-000000000003": ("firing", "new", True),
        "user committed to the skill my-skill": ("note", "noted", False),
        "langsmith|issue|00000000-0000-4000-8000-00000000000a": ("firing", "new", True),
        "langsmith|rule|00000000-0000-4000-8000-000000000004": ("firing", "new", True),
    }
