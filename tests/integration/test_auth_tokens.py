"""Tokens of our own: made and ended on the command line, checked on every request."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.routing import Route
from typer.testing import CliRunner, Result

from configs.server_settings import LimitSettings, ServerSettings
from contracts.errors import UsageError
from graph.cli.main import app
from graph.server.app import create_app
from memory.database import open_engine
from memory.tokens import Tokens
from tests.approval_worlds import Inbox, installation, wait
from tests.serving_app import Served, serve_app

REPOSITORY = Path(__file__).resolve().parents[2]
P = "p-4k7q2m6xza"
FREE = frozenset({"/healthz", "/readyz", "/ok"})
"""What may be asked without a token."""


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    made = installation(tmp_path)
    wait(made)
    return made


@pytest.fixture
def served(inbox: Inbox) -> Iterator[Served]:
    with serve_app(inbox.home) as server:
        yield server


def command(home: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """The command as a process of its own, beside a running server."""
    environ = {**os.environ, "TRACEMEND_HOME": str(home)}
    return subprocess.run(
        [sys.executable, "-m", "graph.cli.main", "token", *words], cwd=REPOSITORY, env=environ,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def inside(home: Path, *words: str) -> Result:
    """The same in this process."""
    return CliRunner().invoke(app, ["token", *words], env={"TRACEMEND_HOME": str(home)})


def get(served: Served, token: str, path: str = f"/proposals/{P}") -> httpx.Response:
    return httpx.get(served.url + path, headers={"Authorization": f"Bearer {token}"}, timeout=30)


def test_a_token_is_shown_once_works_until_it_is_revoked_and_never_is_kept(
    inbox: Inbox, served: Served
) -> None:
    made = command(
        inbox.home, "create", "--name", "ann", "--role", "reviewer", "--project", "refunds",
        "--expires", "30d", "--json",
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    document: dict[str, Any] = orjson.loads(made.stdout)
    token = document.pop("token")
    assert document["roles"] == ["reviewer"]
    assert document["projects"] == ["refunds"]
    assert get(served, token).status_code == 200

    secret = token.partition("_")[2].partition("_")[2]
    kept = b"".join(path.read_bytes() for path in inbox.home.glob("ledger.sqlite*"))
    assert secret.encode() not in kept
    listed = inside(inbox.home, "list", "--json").stdout
    assert secret not in listed
    assert orjson.loads(listed)["tokens"][0]["last_used_at"] is not None

    ended = inside(inbox.home, "revoke", document["id"])
    assert ended.exit_code == 0, ended.stderr
    assert get(served, token).status_code == 401
    assert "revoked" in inside(inbox.home, "list").stdout


def test_without_json_only_the_token_is_on_stdout(inbox: Inbox, served: Served) -> None:
    made = inside(inbox.home, "create", "--name", "ci", "--role", "operator", "--role", "viewer")
    assert made.exit_code == 0, made.stderr
    assert get(served, made.stdout.strip()).status_code == 200
    assert made.stdout.strip() not in made.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--name", "a", "--role", "root"), "--role: got 'root'"),
        (("--name", "a", "--role", "viewer", "--project", "nope"), "--project: no project 'nope'"),
        (("--name", "a", "--role", "viewer", "--expires", "soon"), "--expires: got 'soon'"),
        (("--name", "a", "--role", "viewer", "--expires", "0d"), "--expires:"),
        (("--name", " ", "--role", "viewer"), "--name:"),
        (("--name", "Tracemend", "--role", "reviewer"), "--name:"),
        (("--name", "a\nb", "--role", "reviewer"), "--name:"),
    ],
)
def test_a_token_that_nobody_meant_is_not_made(
    inbox: Inbox, words: tuple[str, ...], said: str
) -> None:
    refused = inside(inbox.home, "create", *words)
    assert isinstance(refused.exception, UsageError)
    assert str(refused.exception).startswith(said)
    assert refused.stdout == ""
    engine = open_engine(inbox.home / "ledger.sqlite")
    assert Tokens(engine).listed() == []
    engine.dispose()


def test_unknown_revoked_and_expired_tokens_are_refused_alike(inbox: Inbox, served: Served) -> None:
    past = datetime.now(UTC) - timedelta(seconds=1)
    expired = served.token("ann", ("admin",), expires_at=past)
    revoked = served.token("ann", ("admin",))
    engine = open_engine(inbox.home / "ledger.sqlite")
    Tokens(engine).revoke(revoked.split("_")[1])
    engine.dispose()
    good = served.token("ann", ("admin",))
    wrong = good[:-1] + ("A" if good[-1] != "A" else "B")
    answers = [
        get(served, token) for token in (expired, revoked, wrong, "tm_", "tm_x_y", "x", good[3:])
    ]
    assert {a.status_code for a in answers} == {401}
    assert len({a.text for a in answers}) == 1
    assert {a.headers["www-authenticate"] for a in answers} == {"Bearer"}
    assert get(served, good).status_code == 200


def test_the_last_use_is_noted_once_a_minute(inbox: Inbox) -> None:
    engine = open_engine(inbox.home / "ledger.sqlite")
    now = [datetime(2026, 3, 10, 9, 0, tzinfo=UTC)]
    tokens = Tokens(engine, clock=lambda: now[0])
    row, text = tokens.create("ann", ["viewer"], projects=None, expires_at=None)
    seen = []
    for seconds in (0, 20, 30, 20):
        now[0] += timedelta(seconds=seconds)
        assert tokens.principal(text) is not None
        seen.append(tokens.get(row.id).last_used_at)
    engine.dispose()
    assert seen[0] == seen[1] == seen[2] == "2026-03-10T09:00:00.000000Z"
    assert seen[3] == "2026-03-10T09:01:10.000000Z"


def test_every_route_but_health_asks_who_calls() -> None:
    """A route that is not in the list must refuse a call without a token, whatever it is."""
    served = create_app(Path("/nowhere"))
    asked = []
    for context in iter_route_contexts(served.routes):
        route = context.original_route
        assert isinstance(route, Route | APIRoute), f"{route!r}: mounted without our checks"
        path = context.path or ""
        if path in FREE or path.startswith("/hooks/"):  # hooks check their sender's signature
            continue
        asked.append(path)
        assert _asks(route), f"{path}: no `PrincipalDep`"
    assert "/proposals/{proposal}/decision" in asked
    assert "/openapi.json" in asked


def _asks(route: Route | APIRoute) -> bool:
    from graph.server.deps import principal_of

    if not isinstance(route, APIRoute):
        return False
    waiting = [route.dependant]
    while waiting:
        one = waiting.pop()
        if one.call is principal_of:
            return True
        waiting += one.dependencies
    return False


def test_a_call_without_a_token_is_refused_on_every_documented_route(inbox: Inbox) -> None:
    settings = ServerSettings(limits=LimitSettings(failed_auth="10000/minute"))
    with serve_app(inbox.home, settings=settings) as served:
        headers = served.headers("vic", ("viewer",))
        document = httpx.get(f"{served.url}/openapi.json", headers=headers, timeout=30).json()
        paths: Mapping[str, Any] = document["paths"]
        asked = [
            (method, path)
            for path, methods in paths.items()
            for method in methods
            if path not in FREE and not path.startswith("/hooks/")
        ]
        with httpx.Client(base_url=served.url, timeout=30) as nobody:
            answers = {
                (method, path): nobody.request(method, path, json={}).status_code
                for method, path in asked
            }
    assert len(asked) > 12
    assert answers == dict.fromkeys(asked, 401)


def test_an_address_that_guesses_is_stopped_before_tokens_are_looked_at(inbox: Inbox) -> None:
    settings = ServerSettings(limits=LimitSettings(failed_auth="5/minute"))
    with serve_app(inbox.home, settings=settings) as served:
        good = served.token("ann", ("viewer",))
        codes = [get(served, "tm_000000000000_guess").status_code for _ in range(8)]
        stopped = get(served, good)
    assert codes == [401] * 5 + [429] * 3
    assert stopped.status_code == 429
    assert 1 <= int(stopped.headers["retry-after"]) <= 60


def test_a_caller_has_a_rate_of_its_own(inbox: Inbox) -> None:
    settings = ServerSettings(limits=LimitSettings(per_token="5/minute"))  # noqa: S106  # a rate
    with serve_app(inbox.home, settings=settings) as served:
        ann, ben = served.token("ann", ("viewer",)), served.token("ben", ("viewer",))
        codes = [get(served, ann).status_code for _ in range(7)]
        other = get(served, ben).status_code
    assert codes == [200] * 5 + [429] * 2
    assert other == 200


def test_the_key_header_of_langgraph_clients_is_taken_as_a_token(served: Served) -> None:
    def ask(key: str, more: Mapping[str, str] | None = None) -> int:
        headers = {"x-api-key": key, **(more or {})}
        return httpx.get(f"{served.url}/proposals/{P}", headers=headers, timeout=30).status_code

    assert ask(served.token()) == 200
    assert ask("tm_no_token") == 401
    assert ask(served.token(), {"authorization": "Bearer tm_no_token"}) == 401
