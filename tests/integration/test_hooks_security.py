"""What a stranger, a replay or a hostile sender gets from a hook: a refusal, and no row."""

import asyncio
import gzip
import logging
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request
from sqlalchemy import delete

from configs.server_settings import LimitSettings, ServerSettings
from graph.server.problems import Problem
from graph.server.raw_body import read_raw
from memory.schema import alerts
from tests.fakes.serving import Mishaps, serve
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

NOW = datetime(2026, 11, 24, 9, 30, tzinfo=UTC)
T = int(NOW.timestamp())
LIMIT = 20_000
RAW = b'{"id": "d-1", "type": "monitor-alert", "payload": {"monitorId": "m", "severity": "ALERT"}}'
SIGNED = signature(SECRETS["langfuse"], f"{T}.".encode() + RAW)
NOTIFIED = {
    "groupKey": "g", "status": "firing", "alerts": [{"startsAt": "2026-11-24T09:00:00Z"}],
}  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hooks]:
    settings = ServerSettings(
        limits=LimitSettings(body_bytes=LIMIT, failed_auth="100000/minute")
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        set_secrets(patch)
        home = make_home(tmp_path_factory.mktemp("hooks"))
        with serve_hooks(home, settings=settings) as hooks:
            yield hooks
            hooks.ledger().close()


@pytest.fixture
def hooks(served: Hooks) -> Hooks:
    served.set_clock(NOW)
    with served.ledger().db.write() as tx:
        tx.execute(delete(alerts))
    served.app.state.said_of_hooks = set()
    return served


def exchange(hooks: Hooks, sent: bytes, *, finish: bool = False) -> bytes:
    """What the server answers on a connection of its own; `finish`: nothing more is sent."""
    host, _, port = hooks.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(sent)
        if finish:
            connection.shutdown(socket.SHUT_WR)
        return _until_answered(connection)


def _until_answered(connection: socket.socket) -> bytes:
    got = b""
    while b"\r\n\r\n" not in got:
        part = connection.recv(65_536)
        if not part:
            return got
        got += part
    head, _, rest = got.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    size = int(lengths[0].split(b":")[1]) if lengths else 0
    while len(rest) < size and (part := connection.recv(65_536)):
        rest += part
    return head + b"\r\n\r\n" + rest


def head(path: str, **headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


# who is refused

REFUSED: dict[str, tuple[str, dict[str, str]]] = {
    "unsigned": ("langfuse", {}),
    "empty signature": ("langfuse", {"x-langfuse-signature": ""}),
    "signed with another secret": ("langfuse", proof("langfuse", RAW, T, "another")),
    "the signature of another body": ("langfuse", proof("langfuse", RAW + b" ", T)),
    "a time that was not signed": ("langfuse", {"x-langfuse-signature": f"t={T + 1},v1={SIGNED}"}),
    "no time": ("langfuse", {"x-langfuse-signature": f"v1={SIGNED}"}),
    "two times": ("langfuse", {"x-langfuse-signature": f"t={T},t={T},v1={SIGNED}"}),
    "a time that is no number": ("langfuse", {"x-langfuse-signature": f"t= {T}x,v1={SIGNED}"}),
    "another version of signature": ("langfuse", {"x-langfuse-signature": f"t={T},v0={SIGNED}"}),
    "the secret itself": ("langfuse", {"authorization": f"Bearer {SECRETS['langfuse']}"}),
    "half a signature": ("langfuse", {"x-langfuse-signature": f"t={T},v1={SIGNED[:32]}"}),
    "no secret": ("generic", {}),
    "another scheme": ("generic", {"authorization": f"Basic {SECRETS['generic']}"}),
    "the secret of another source": ("generic", proof("alertmanager", RAW, T)),
    "an empty bearer": ("alertmanager", {"authorization": "Bearer"}),
    "an empty own header": ("alertmanager", {"x-tracemend-secret": ""}),
    "a secret and more": ("generic", {"authorization": f"Bearer {SECRETS['generic']}, x"}),
    "an unsigned Engine message": ("langsmith", {"x-langsmith-signature": "sha256="}),
}


@pytest.mark.parametrize("why", REFUSED)
def test_who_proves_nothing_is_refused_and_leaves_no_row(hooks: Hooks, why: str) -> None:
    source, headers = REFUSED[why]
    answer = hooks.post(source, RAW, headers)
    assert answer.status_code == 401
    assert hooks.rows() == []


@pytest.mark.parametrize(("age", "wanted"), [(0, 202), (300, 202), (301, 401), (-301, 401)])
def test_a_replay_after_five_minutes_is_refused(hooks: Hooks, age: int, wanted: int) -> None:
    assert hooks.post("langfuse", RAW, proof("langfuse", RAW, T - age)).status_code == wanted
    assert len(hooks.rows()) == (wanted == 202)


def test_a_replay_within_five_minutes_starts_nothing_again(hooks: Hooks) -> None:
    headers = proof("langfuse", RAW, T)
    first, second = (hooks.post("langfuse", RAW, headers) for _ in range(2))
    assert first.json() == second.json()
    assert len(hooks.rows()) == 1


def test_one_of_several_signatures_is_enough(hooks: Hooks) -> None:
    headers = {"x-langfuse-signature": f"t={T},v1={'0' * 64},v1={SIGNED}"}
    assert hooks.post("langfuse", RAW, headers).status_code == 202


def test_a_signature_that_is_sent_twice_is_none(hooks: Hooks) -> None:
    sent = f"t={T},v1={SIGNED}"
    twice = head(
        f"/hooks/langfuse/{PROJECT}", x_langfuse_signature=sent, X_Langfuse_Signature=sent,
        Content_Length=str(len(RAW)),
    )  # fmt: skip
    assert status(exchange(hooks, twice + RAW)) == 401


def test_a_secret_in_the_url_counts_for_langsmith_only(hooks: Hooks) -> None:
    for source in ("generic", "alertmanager", "langfuse"):
        answer = hooks.post(source, RAW, query=f"?secret={SECRETS[source]}")
        assert answer.status_code == 401


def test_no_project_no_secret_and_no_proof_are_answered_the_same(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEMEND_HOOK_ALERTMANAGER_REFUNDS", " , ")
    wrong = {"authorization": "Bearer wrong"}
    answers = [
        hooks.post("generic", RAW, wrong), hooks.post("generic", RAW, wrong, project="nobody"),
        hooks.post("generic", RAW, wrong, project=OTHER), hooks.post("alertmanager", RAW, wrong),
        hooks.post("generic", RAW, wrong, project="No Slug"),
    ]  # fmt: skip
    seen = {
        (a.status_code, a.content, tuple(sorted(h for h in a.headers.items() if h[0] != "date")))
        for a in answers
    }
    assert len(seen) == 1
    assert answers[0].status_code == 401


def test_an_alert_for_a_project_that_cannot_be_opened_is_asked_for_again(hooks: Hooks) -> None:
    broken = hooks.home.parent / OTHER / "tracemend.yaml"
    before = broken.read_text("utf-8")
    broken.write_text("version: 1\nprojekt: x\n", "utf-8")
    try:
        answer = hooks.post("generic", RAW, {"authorization": "Bearer wrong"}, project=OTHER)
    finally:
        broken.write_text(before, "utf-8")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "60")
    assert "projekt" not in answer.text


def test_the_secret_of_one_project_does_not_open_another(
    hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEMEND_HOOK_GENERIC_FRONT_DESK", "the-secret-of-the-other")
    answer = hooks.post("generic", RAW, proof("generic", RAW, T), project=OTHER)
    assert answer.status_code == 401
    assert hooks.rows(OTHER) == []


@pytest.mark.parametrize(
    "path",
    [
        "../refunds", "..%2f..%2fetc%2fpasswd", "%2e%2e", "refunds%00", "refunds%2f..%2ffront-desk",
        "REFUNDS", "refunds%20", "-refunds", "r" * 41, "%0d%0aX-Evil:%201", "refunds;x", "~",
    ],
)  # fmt: skip
def test_a_project_that_is_no_slug_is_no_project(hooks: Hooks, path: str) -> None:
    sent = head(
        f"/hooks/generic/{path}", Authorization=f"Bearer {SECRETS['generic']}", Content_Length="2"
    )
    answer = exchange(hooks, sent + b"{}")
    assert status(answer) in (401, 404)
    assert b"x-evil" not in answer.lower()
    assert hooks.rows() == []


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
def test_a_hook_takes_posts_only(hooks: Hooks, method: str) -> None:
    sent = head(f"/hooks/generic/{PROJECT}", Authorization=f"Bearer {SECRETS['generic']}")
    assert status(exchange(hooks, sent.replace(b"POST", method.encode(), 1))) == 405


# order: nothing is read before it is proven


@pytest.mark.parametrize(
    ("body", "kind"), [(b"{", "application/json"), (b"a=1", "text/plain"), (b"", "x/y")]
)
def test_a_stranger_does_not_learn_what_was_wrong_with_the_body(
    hooks: Hooks, body: bytes, kind: str
) -> None:
    assert hooks.post("generic", body, {"content-type": kind}).status_code == 401


# size


def test_a_body_that_is_declared_too_large_is_refused_unread(hooks: Hooks) -> None:
    sent = head(f"/hooks/generic/{PROJECT}", Content_Length=str(LIMIT + 1))
    assert status(exchange(hooks, sent)) == 413  # no byte of the body was sent


def test_a_body_without_a_length_is_refused_at_the_first_byte_too_many(hooks: Hooks) -> None:
    host, _, port = hooks.url.removeprefix("http://").partition(":")
    sent = head(f"/hooks/generic/{PROJECT}", Transfer_Encoding="chunked")
    chunk = b"%x\r\n%b\r\n" % (LIMIT + 1, b"x" * (LIMIT + 1))
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(sent + chunk)  # and never the end of the body
        assert status(_until_answered(connection)) == 413


def test_a_body_of_exactly_the_limit_is_taken(hooks: Hooks) -> None:
    padding = b" " * (LIMIT - 2)
    assert hooks.proven("generic", b"{" + padding + b"}").status_code == 202
    assert hooks.proven("generic", b"{" + padding + b" }").status_code == 413


def test_bytes_beyond_the_declared_length_are_another_request_that_proves_nothing(
    hooks: Hooks,
) -> None:
    raw, hidden = b'{"title": "a"}', b'{"title": "b"}'
    length = str(len(raw))
    proven = head(
        f"/hooks/generic/{PROJECT}", Authorization=f"Bearer {SECRETS['generic']}",
        Content_Length=length,
    )  # fmt: skip
    behind = head(f"/hooks/generic/{PROJECT}", Content_Length=length, Connection="close")
    host, _, port = hooks.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(proven + raw + behind + hidden)
        got = b""
        while part := connection.recv(65_536):
            got += part
    assert [int(line[:3]) for line in got.split(b"HTTP/1.1 ")[1:]] == [202, 401]
    assert len(hooks.rows()) == 1


def test_a_body_that_breaks_off_is_no_delivery(hooks: Hooks) -> None:
    raw = b'{"title": "a"}'
    sent = head(
        f"/hooks/generic/{PROJECT}", Authorization=f"Bearer {SECRETS['generic']}",
        Content_Length=str(len(raw) + 1),
    )  # fmt: skip
    exchange(hooks, sent + raw, finish=True)
    assert hooks.proven("generic", {"title": "next"}).status_code == 202
    assert len(hooks.rows()) == 1


def body_of(*parts: bytes, ends: bool = True) -> tuple[Request, list[bytes]]:
    """A request whose body arrives in these parts, and the parts that nobody asked for yet."""
    waiting = list(parts)

    async def receive() -> dict[str, Any]:
        if not waiting:
            await asyncio.Event().wait()
        part = waiting.pop(0)
        return {"type": "http.request", "body": part, "more_body": bool(waiting) or not ends}

    scope = {"type": "http", "method": "POST", "headers": [], "app": FastAPI()}
    return Request(scope, receive), waiting


async def test_no_more_of_a_body_is_read_than_is_allowed() -> None:
    request, waiting = body_of(*[b"x" * 10] * 100)
    with pytest.raises(Problem) as refused:
        await read_raw(request, 25)
    assert refused.value.status == 413
    assert len(waiting) == 97


async def test_a_body_that_does_not_arrive_is_given_up() -> None:
    request, _ = body_of(b"{", ends=False)
    with pytest.raises(Problem) as refused:
        await asyncio.wait_for(read_raw(request, 25, within_s=0.01), 30)
    assert refused.value.status == 408


async def test_parts_of_a_body_are_joined_as_they_came() -> None:
    request, _ = body_of(b'{"a":', b"", b" 1}")
    assert await read_raw(request, 25) == b'{"a": 1}'


# content


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"}, {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "multipart/form-data; boundary=x"}, {"content-type": ""},
        {"content-type": "application/json-patch+json"}, {"content-type": "text/json"},
        {"content-type": "application/json", "content-encoding": "gzip"},
    ],
)  # fmt: skip
def test_only_plain_json_is_taken(hooks: Hooks, headers: dict[str, str]) -> None:
    raw = gzip.compress(RAW) if "content-encoding" in headers else RAW
    assert hooks.proven("generic", raw, headers=headers).status_code == 415
    assert hooks.rows() == []


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON"])
def test_json_is_json_however_it_is_written(hooks: Hooks, kind: str) -> None:
    assert hooks.proven("generic", {}, headers={"content-type": kind}).status_code == 202


BAD_BODIES: dict[str, tuple[bytes, int]] = {
    "empty": (b"", 400),
    "cut": (b'{"a": 1', 400),
    "two documents": (b"{} {}", 400),
    "not UTF-8": (b'{"a": "\xff"}', 400),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), 400),
    "a byte order mark": (b"\xef\xbb\xbf{}", 400),
    "a list": (b"[1, 2]", 422),
    "a text": (b'"hello"', 422),
    "null": (b"null", 422),
    "NaN": (b'{"a": NaN}', 422),
    "Infinity": (b'{"a": -Infinity}', 422),
    "a float beyond": (b'{"a": 1e999}', 422),
    "an integer beyond": (b'{"a": ' + b"9" * 5_000 + b"}", 422),
    "a little beyond": (b'{"a": 9223372036854775808}', 422),
    "the same key twice": (b'{"a": 1, "a": 2}', 422),
    "the same key twice inside": (b'{"a": [{"b": 1, "b": 1}]}', 422),
    "half a character": (b'{"a": "\\ud800"}', 422),
    "half a character in a key": (b'{"\\udc00": 1}', 422),
    "deep": (b'{"a": ' + b"[" * 40 + b"]" * 40 + b"}", 422),
    "very deep": (b'{"a": ' + b"[" * 9_000 + b"]" * 9_000 + b"}", 422),
    "very deep and open": (b"[" * 19_000, 422),
}


@pytest.mark.parametrize("why", BAD_BODIES)
def test_a_body_that_two_programs_could_read_differently_is_refused_in_a_sentence(
    hooks: Hooks, why: str
) -> None:
    raw, wanted = BAD_BODIES[why]
    answer = hooks.proven("generic", raw)
    assert (answer.status_code, list(answer.json())) == (wanted, ["detail"])
    assert 10 < len(answer.json()["detail"]) < 160
    assert hooks.rows() == []


@pytest.mark.parametrize(
    ("source", "body"),
    [
        ("langfuse", {"type": "monitor-alert", "payload": {}}),
        ("langsmith", {"alert_rule_id": 7}), ("langsmith", {"rule_id": "r"}),
        ("langsmith", {"type": "issue.created", "data": []}),
        ("alertmanager", {}), ("alertmanager", {**NOTIFIED, "alerts": []}),
        ("alertmanager", {**NOTIFIED, "status": "odd"}),
        ("generic", {"window": "now"}), ("generic", {"window": {"start": 1, "end": 2}}),
        ("generic", {"status": "odd"}), ("generic", {"group": ["a"]}), ("generic", {"key": 5}),
    ],
)  # fmt: skip
def test_a_body_without_what_makes_it_an_alert_is_refused(
    hooks: Hooks, source: str, body: dict[str, Any]
) -> None:
    assert hooks.proven(source, body).status_code == 422
    assert hooks.rows() == []


# what a sender can make us do


def test_no_address_in_an_alert_is_ever_asked(hooks: Hooks) -> None:
    async def nothing(_scope: Any, _receive: Any, _send: Any) -> None: ...

    canary = Mishaps(nothing)
    with serve(canary) as url:
        for source, body in (
            ("langfuse", {"type": "monitor-alert", "payload": {
                "monitorId": url, "severity": "ALERT", "permalink": url, "dataPermalink": url,
                "message": {"title": url, "body": url},
            }}),
            ("langsmith", {"alert_rule_id": url, "alert_rule_url": url, "runs_url": url}),
            ("langsmith", {"rule_id": "r", "start_time": "2026-11-24T09:20:00Z", "runs": [
                {"id": "a", "inputs_s3_urls": {"ROOT": {"presigned_url": url}}, "share_url": url},
            ]}),
            ("alertmanager", {**NOTIFIED, "externalURL": url, "alerts": [
                {"generatorURL": url, "labels": {"alertname": url}},
            ]}),
            ("generic", {"title": url, "url": url, "callback": url, "webhook": url}),
        ):  # fmt: skip
            assert hooks.proven(source, body).status_code == 202
        assert canary.asked() == []
    assert len(hooks.rows()) == 5


def test_a_header_cannot_write_into_the_answer(hooks: Hooks) -> None:
    for key in ("a\r\nX-Evil: 1", "a\nX-Evil: 1", "a\x00b", "\u00e4", "a" * 4_000, "<script>"):
        sent = head(
            f"/hooks/generic/{PROJECT}", Authorization=f"Bearer {SECRETS['generic']}",
            Content_Length="2", Idempotency_Key=key,
        )  # fmt: skip
        answer = exchange(hooks, sent + b"{}")
        assert status(answer) in (202, 400)
        assert b"x-evil" not in answer.lower().partition(b"\r\n\r\n")[0]
    for row in hooks.rows():
        assert row.key.isprintable()
        assert row.key.isascii()
        assert len(row.key) <= 200


# secrets and logs


def spoken(caplog: pytest.LogCaptureFixture) -> str:
    """Everything that the server logged, with every field."""
    ours = [r for r in caplog.records if not r.name.startswith(("httpx", "httpcore", "asyncio"))]
    return "\n".join(f"{record.getMessage()} {record.__dict__}" for record in ours)


def test_no_secret_and_no_signature_is_ever_logged_or_answered(
    hooks: Hooks, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    # Another server of this process may have set uvicorn's loggers up for itself.
    caplog.set_level(logging.INFO, logger="uvicorn.access")
    monkeypatch.setattr(logging.getLogger("uvicorn.access"), "propagate", True)
    in_url = f"?secret={SECRETS['langsmith']}"
    body = {"alert_rule_id": "r", "timestamp": "2026-11-24T09:29:00Z"}
    answers = [
        hooks.post("langsmith", body, query=in_url),
        hooks.post("langsmith", b"{", query=in_url),
        hooks.post("langsmith", {}, {"x-tracemend-secret": "a-wrong-guess"}, query="?secret=other"),
        hooks.post("langfuse", RAW, proof("langfuse", RAW, T)),
        hooks.post("langfuse", RAW, proof("langfuse", RAW, T - 900)),
        hooks.post("langfuse", RAW + b" ", proof("langfuse", RAW, T)),
    ]
    assert [answer.status_code for answer in answers] == [202, 400, 401, 202, 401, 401]
    said = spoken(caplog) + "".join(answer.text + str(answer.headers) for answer in answers)
    assert "POST /hooks/langsmith/refunds" in said  # the access log was on
    signed = signature(SECRETS["langfuse"], f"{T}.".encode() + RAW + b" ")
    for secret in (*SECRETS.values(), "a-wrong-guess", "secret=", SIGNED, signed):
        assert secret not in said


def test_a_hook_without_its_variable_says_once_which_one_is_missing(
    hooks: Hooks, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for _ in range(3):
        hooks.post("generic", RAW, {"authorization": "Bearer x"}, project=OTHER)
    assert spoken(caplog).count("TRACEMEND_HOOK_GENERIC_FRONT_DESK") == 1


def test_what_a_stranger_calls_a_project_is_not_logged(
    hooks: Hooks, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="tracemend")
    hooks.post("generic", RAW, project="a%0aFORGED%20LINE")
    ours = [record for record in caplog.records if record.name.startswith("tracemend")]
    assert ours
    assert "FORGED" not in "".join(str(record.__dict__) for record in ours)


# rates


@pytest.fixture
def limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hooks]:
    set_secrets(monkeypatch)
    limits = LimitSettings(per_hook="3/hour", failed_auth="4/hour")
    with serve_hooks(make_home(tmp_path), settings=ServerSettings(limits=limits)) as hooks:
        hooks.set_clock(NOW)
        yield hooks
        hooks.ledger().close()


def test_a_storm_above_the_limit_of_one_hook_is_told_when_to_come_again(limited: Hooks) -> None:
    answers = [limited.proven("generic", {"key": str(n)}) for n in range(5)]
    assert [answer.status_code for answer in answers] == [202, 202, 202, 429, 429]
    assert int(answers[-1].headers["retry-after"]) > 0
    assert len(limited.rows()) == 3
    assert limited.proven("langfuse", RAW).status_code == 202  # each hook has its own limit


def test_strangers_can_neither_use_up_a_hook_nor_lock_its_sender_out(limited: Hooks) -> None:
    with ThreadPoolExecutor(4) as pool:
        refused = list(pool.map(lambda _: limited.post("generic", RAW).status_code, range(12)))
    assert sorted(set(refused)) == [401, 429]
    assert refused.count(401) == 4
    assert limited.proven("generic", {}).status_code == 202
