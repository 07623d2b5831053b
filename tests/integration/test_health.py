"""`/healthz` and `/readyz` over loopback: they tell the truth, and nothing else, to anybody."""

import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from graph.cli.project import settings_text
from graph.server import health
from memory.workspace import register
from tests.serving_app import Served, serve_app


def enter(home: Path, root: Path, slug: str) -> Path:
    """A project whose settings load; nothing more of it is needed here."""
    folder = root / slug
    folder.mkdir(parents=True)
    (folder / "tracemend.yaml").write_text(settings_text(slug), "utf-8")
    register(home, slug, folder)
    return folder


@pytest.fixture
def served(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    enter(home, tmp_path, "shop")
    enter(home, tmp_path, "bank")
    monkeypatch.setattr(health, "CACHE_SECONDS", 0.0)
    with serve_app(home) as running:
        yield running


def ready(served: Served) -> tuple[int, dict[str, Any]]:
    answer = httpx.get(f"{served.url}/readyz", timeout=30)
    return answer.status_code, answer.json()


def until(served: Served, holds: Callable[[int, dict[str, Any]], bool]) -> dict[str, Any]:
    """The first answer for which it holds."""
    for _ in range(200):
        status, body = ready(served)
        if holds(status, body):
            return body
        time.sleep(0.05)
    raise AssertionError(f"never: {status} {body}")


def test_a_server_that_can_work_says_so_to_anybody(served: Served) -> None:
    assert httpx.get(f"{served.url}/healthz").json() == {"status": "ok"}
    body = until(served, lambda status, _: status == 200)
    assert body == {
        "ready": True,
        "degraded": False,
        "checks": dict.fromkeys(
            ("checkpoints", "dispatcher", "ledger", "projects", "running"), "ok"
        ),
    }


def test_one_broken_project_is_said_and_does_not_stop_the_others(
    served: Served, tmp_path: Path
) -> None:
    (tmp_path / "shop" / "tracemend.yaml").write_text("version: 1\nproject: shop\nnonsense: 1\n")
    body = until(served, lambda _, body: body["degraded"])
    assert (body["ready"], body["checks"]["projects"]) == (
        True, "1 of 2 cannot be opened; see the log",
    )  # fmt: skip


def test_no_project_that_loads_is_not_ready_and_no_name_or_path_is_told(
    served: Served, tmp_path: Path
) -> None:
    for slug in ("shop", "bank"):
        (tmp_path / slug / "tracemend.yaml").write_text("version: [")
    until(served, lambda status, _: status == 503)
    said = httpx.get(f"{served.url}/readyz").text
    assert not [word for word in ("shop", "bank", str(tmp_path), "yaml") if word in said]


def test_a_ledger_of_another_release_is_not_ready(served: Served) -> None:
    until(served, lambda status, _: status == 200)
    with sqlite3.connect(served.home / "ledger.sqlite") as ledger:
        ledger.execute("UPDATE meta SET value = '999' WHERE key = 'schema_version'")
    ledger.close()
    status, body = ready(served)
    assert (status, body["checks"]["ledger"]) == (
        503, "another release migrated the schema; start this one again",
    )  # fmt: skip


def test_a_ledger_whose_rows_cannot_be_written_is_not_ready_and_nothing_of_it_is_told(
    served: Served,
) -> None:
    until(served, lambda status, _: status == 200)
    with sqlite3.connect(served.home / "ledger.sqlite") as ledger:
        ledger.execute(
            "CREATE TRIGGER full BEFORE UPDATE ON meta "
            "BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
        )
    ledger.close()
    status, body = ready(served)
    assert (status, body["checks"]["ledger"]) == (503, "fails; see the log")


def test_a_ledger_whose_writers_wait_is_not_ready(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    until(served, lambda status, _: status == 200)
    monkeypatch.setattr(health, "CHECK_SECONDS", 0.3)
    other = sqlite3.connect(served.home / "ledger.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")  # somebody holds the one writer's place and does not go on
    try:
        status, body = ready(served)
        assert (status, body["checks"]["ledger"]) == (503, "does not answer in time")
    finally:
        other.execute("ROLLBACK")
        other.close()
    until(served, lambda status, _: status == 200)


def test_a_dispatcher_that_stands_still_is_not_ready(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    until(served, lambda status, _: status == 200)
    monkeypatch.setattr(health, "HEARTBEAT_SECONDS", -1.0)
    status, body = ready(served)
    assert (status, body["checks"]["dispatcher"]) == (
        503, "has not looked for work for too long",
    )  # fmt: skip


def test_a_server_that_stops_is_not_ready(served: Served) -> None:
    until(served, lambda status, _: status == 200)
    app: Any = served.server.config.app
    app.state.stopping = True
    status, body = ready(served)
    assert (status, body["checks"]["running"]) == (503, "stopping")
    assert httpx.get(f"{served.url}/healthz").status_code == 200
