"""Log lines of a running server: one JSON object each, without secrets, whoever logged."""

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from graph.server import logs
from graph.server.middleware import request_id_of
from tests.approval_worlds import installation
from tests.serving_app import Served, serve_app

KEY = "sk-proj-" + "a1B2c3D4e5F6" * 4
AWS = "AKIA" + "QWERTYUIOPASDFGH"


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    """What is logged, as one stream; the process logs as before afterwards."""
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    stream = io.StringIO()
    logs.configure(stream, human=False)
    yield stream
    root.setLevel(before[0])
    root.handlers[:] = before[1]
    for name in logs.QUIET:
        logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.fixture
def served(out: io.StringIO, tmp_path: Path) -> Iterator[Served]:
    with serve_app(installation(tmp_path).home) as running:
        yield running


def lines(out: io.StringIO, event: str | None = None) -> list[dict[str, Any]]:
    every = [json.loads(line) for line in out.getvalue().splitlines()]
    return [line for line in every if event is None or line["event"] == event]


def test_a_line_is_one_object_with_its_time_level_and_place(out: io.StringIO) -> None:
    logging.getLogger("tracemend.somewhere").warning("run failed", extra={"run": "t-1", "tries": 3})
    (line,) = lines(out)
    assert line.pop("at").endswith("Z")
    assert line == {
        "event": "run failed", "level": "warning", "logger": "tracemend.somewhere", "run": "t-1",
        "tries": 3,
    }  # fmt: skip


def test_secrets_are_masked_in_every_place_of_a_line(out: io.StringIO) -> None:
    log = logging.getLogger("tracemend.somewhere")
    log.error(
        "cannot reach %s", f"https://u:{KEY}@host", exc_info=RuntimeError(f"refused for {KEY}"),
        extra={"headers": {"x": [KEY, {"y": AWS}]}, "deep": [[[[[KEY]]]]], "problem": AWS},
    )  # fmt: skip
    assert "RuntimeError" in out.getvalue()
    assert [secret for secret in (KEY, AWS) if secret in out.getvalue()] == []


def test_tokens_and_bodies_are_not_written_whatever_they_hold(out: io.StringIO) -> None:
    said = {"token": "short", "Authorization": "plain", "nested": {"Cookie": "c=1", "ok": 1}}
    logging.getLogger("tracemend.x").info("e", extra={**said, "body": {"text": "hello"}})
    (line,) = lines(out)
    hidden = "[not logged]"
    assert (line["token"], line["Authorization"], line["body"]) == (hidden, hidden, hidden)
    assert line["nested"] == {"Cookie": hidden, "ok": 1}


@given(st.text(), st.dictionaries(st.text(min_size=1), st.text(), max_size=3))
def test_any_text_is_one_printable_line(text: str, more: dict[str, str]) -> None:
    stream = io.StringIO()
    formatter = logs._formatter(human=False)
    record = logging.LogRecord("tracemend.x", logging.INFO, "", 0, "%s", (text,), None)
    record.__dict__["more"] = more
    stream.write(formatter.format(record))
    line = stream.getvalue()
    assert all(c.isprintable() for c in json.loads(line)["event"])
    assert "\n" not in line


def test_a_terminal_gets_no_control_characters_of_a_trace() -> None:
    formatter = logs._formatter(human=True)
    hostile = "\x1b[2J\x1b]0;owned\x07\r\nfake line"
    record = logging.LogRecord("tracemend.x", logging.INFO, "", 0, "title: %s", (hostile,), None)
    shown = formatter.format(record)
    assert "\x1b[2J" not in shown
    assert "\x07" not in shown
    assert len(shown.splitlines()) == 1


def test_what_libraries_chatter_is_not_written(out: io.StringIO) -> None:
    logging.getLogger("httpx").info("HTTP Request: GET http://x?key=1")
    logging.getLogger("apscheduler.scheduler").info("Added job")
    logging.getLogger("apscheduler.executors").warning("missed")
    assert [line["event"] for line in lines(out)] == ["missed"]


def test_a_request_is_one_line_with_its_id_and_not_its_query(
    served: Served, out: io.StringIO
) -> None:
    sent = {**served.headers(), "X-Request-Id": "proxy-1"}
    answer = httpx.post(f"{served.url}/nowhere?secret={KEY}", json={"a": KEY}, headers=sent)
    assert answer.headers["x-request-id"] == "proxy-1"
    (line,) = [one for one in lines(out, "request") if one["request_id"] == "proxy-1"]
    assert set(line) == {
        "event", "request_id", "level", "logger", "method", "route", "path", "status", "ms", "at",
    }  # fmt: skip
    assert (line["method"], line["path"], line["status"]) == ("POST", "/nowhere", 404)
    assert KEY not in out.getvalue()
    assert sent["Authorization"].split("_", 2)[2] not in out.getvalue()


def test_polls_are_not_logged_while_they_are_well(served: Served, out: io.StringIO) -> None:
    for path in ("/healthz", "/readyz"):
        httpx.get(f"{served.url}{path}")
    assert [line for line in lines(out, "request") if line["status"] == 200] == []


def test_an_error_that_nobody_foresaw_is_found_by_its_request(
    served: Served, out: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError(f"a bug near {KEY}")

    monkeypatch.setattr("graph.server.metrics.visible", broken)
    answer = httpx.get(
        f"{served.url}/metrics", headers={**served.headers(), "X-Request-Id": "it-broke"}
    )
    assert (answer.status_code, answer.json()) == (
        500, {"detail": "internal error; it is in the server's log"},
    )  # fmt: skip
    (line,) = lines(out, "unforeseen error")
    assert line["request_id"] == "it-broke"
    assert "a bug near [" in line["exception"]
    assert KEY not in out.getvalue()


@pytest.mark.parametrize(
    "given_id", ["", "a b", "x" * 65, "-a", "a\nb", "../a", "é", "a;b", 'a"b', None]
)
def test_an_id_that_is_not_well_formed_is_replaced(given_id: str | None) -> None:
    made = request_id_of(given_id)
    assert made != given_id
    assert len(made) == 32


def test_a_request_leaves_nothing_of_itself_to_the_next(served: Served, out: io.StringIO) -> None:
    with httpx.Client(headers=served.headers()) as client:  # one connection
        client.get(f"{served.url}/first", headers={"X-Request-Id": "one"})
        client.get(f"{served.url}/second")
    first, second = [line for line in lines(out, "request") if line.get("path")]
    assert first["request_id"] == "one"
    assert second["request_id"] != "one"
    assert structlog.contextvars.get_contextvars() == {}
