"""A ledger of the first release opens with this one, whole, on both databases; or not at all."""

import gzip
import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, Engine, MetaData, create_engine, event, inspect, text

from contracts.errors import ConfigError
from contracts.proposals import Decision, DecisionId
from memory import migrate
from memory.database import Place, open_engine
from memory.ledger import Ledger, open_ledger
from memory.schema import SCHEMA_VERSION, metadata
from tests.postgres import driver_url, fresh_database, need_postgres, postgres_server

FIRST = Path(__file__).parents[1] / "data" / "ledger_v1.sql.gz"
WAITING, DECIDED = "p-2macn3hu2e", "p-3xodqzz2vj"
Rows = dict[str, list[tuple[object, ...]]]


def first_release(file: Path, *, without: tuple[str, ...] = ()) -> Path:
    """A ledger file as the first release left it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(file, isolation_level=None) as plain:
        plain.executescript(gzip.decompress(FIRST.read_bytes()).decode())
        for table in without:
            plain.execute(f"DROP TABLE {table}")
    plain.close()
    return file


def rows_of(file: Path) -> Rows:
    """All rows of all tables, with the first release's columns only."""
    plain = sqlite3.connect(file)
    tables = plain.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    found = {name: plain.execute(f"SELECT * FROM {name}").fetchall() for (name,) in tables}  # noqa: S608
    plain.close()
    return found


def shapes(engine: Engine) -> dict[str, list[tuple[object, ...]]]:
    """Name, null and default of every column, and every index, of every table."""
    seen = inspect(engine)
    found: dict[str, list[tuple[object, ...]]] = {}
    for table in seen.get_table_names():
        columns = [(c["name"], str(c["type"]), c["nullable"], c["default"]) for c in
                   seen.get_columns(table)]  # fmt: skip
        keys = [("primary", *seen.get_pk_constraint(table)["constrained_columns"])]
        indexes = [(i["name"], i["unique"], *i["column_names"]) for i in seen.get_indexes(table)]
        found[table] = [*columns, *keys, *sorted(indexes, key=repr)]
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with postgres_server(tmp_path_factory.mktemp("postgres")) as url:
        yield url


def _sqlite(tmp_path: Path, _request: pytest.FixtureRequest) -> Place:
    return first_release(tmp_path / "ledger.sqlite")


def _postgresql(tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    """The first release's rows in tables that the first step made."""
    need_postgres()
    url = driver_url(fresh_database(request.getfixturevalue("server")))
    source = create_engine(f"sqlite:///{first_release(tmp_path / 'first.sqlite')}")
    target = create_engine(url)
    tables = MetaData()
    with source.connect() as old, target.begin() as new:
        migrate.upgrade(new, "0001")
        tables.reflect(new)
        for table in tables.sorted_tables:
            if table.name != "alembic_version":
                for row in old.execute(text(f'SELECT * FROM "{table.name}"')).mappings():  # noqa: S608
                    new.execute(table.insert().values(**_typed(table.name, dict(row))))
        new.execute(text("DROP TABLE alembic_version"))  # the first release knew no Alembic
    source.dispose()
    target.dispose()
    return url


def _typed(table: str, row: dict[str, object]) -> dict[str, object]:
    """SQLite's JSON text and numbers as values of their columns."""
    for column in metadata.tables[table].columns:
        kind, value = str(column.type), row.get(column.name)
        if kind == "JSON" and isinstance(value, str):
            row[column.name] = json.loads(value)
        if kind == "BOOLEAN" and value is not None:
            row[column.name] = bool(value)
    return row


BOTH = pytest.mark.parametrize(
    "old", [_sqlite, pytest.param(_postgresql, marks=pytest.mark.servers)]
)
Old = Callable[[Path, pytest.FixtureRequest], Place]


def _fresh(tmp_path: Path, request: pytest.FixtureRequest, old: Old) -> Place:
    if old is _sqlite:
        return tmp_path / "fresh.sqlite"
    return driver_url(fresh_database(request.getfixturevalue("server")))


@BOTH
def test_the_migrated_tables_are_those_of_a_new_ledger(
    old: Old, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    migrated = open_engine(old(tmp_path, request))
    fresh = open_engine(_fresh(tmp_path, request, old))
    assert shapes(migrated) == shapes(fresh)
    for engine in (migrated, fresh):
        with engine.connect() as tx:
            options = {"compare_type": True}  # defaults: `shapes` has them
            assert compare_metadata(MigrationContext.configure(tx, opts=options), metadata) == []
            assert tx.execute(text("SELECT version_num FROM alembic_version")).scalars().all() == [
                f"{SCHEMA_VERSION:04d}"
            ]
        engine.dispose()


@BOTH
def test_what_the_first_release_wrote_is_read_and_decided(
    old: Old, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    ledger = open_ledger(old(tmp_path, request), "refunds")
    state = ledger.audit.verify()
    assert (state.ok, state.entries) == (True, 23)
    assert [(p.proposal.id, p.state) for p in ledger.proposals.all_latest()] == [
        (DECIDED, "watching"), (WAITING, "waiting"),
    ]  # fmt: skip
    release = ledger.effects.releases()[0]
    assert ledger.artifacts.snapshot(release.before).revision == release.before
    assert len(ledger.gate.blocks(release.proposal_hash)) == 44
    stored = ledger.proposals.latest(WAITING)
    card = ledger.proposals.card(WAITING, 1, "approve")
    assert card is not None
    assert card.proposal_hash == stored.proposal.hash  # the hash that people decide on is the same
    incident = ledger.incidents.get(stored.proposal.thread)
    assert (incident.state, incident.driver) == ("waiting", "local")
    assert incident.due_at is not None
    assert datetime.fromisoformat(incident.due_at) == card.expires_at
    seen = ledger.protocol.thread(incident.thread)
    assert seen is not None
    assert seen.status == "interrupted"
    assert seen.metadata == {"project": "refunds", "kind": "improve"}
    _decide(ledger)
    assert ledger.incidents.get(incident.thread).state == "running"
    assert ledger.audit.verify().ok
    ledger.close()


def _decide(ledger: Ledger) -> None:
    stored = ledger.proposals.latest(WAITING)
    decision = Decision(
        id=DecisionId("d-now"), proposal=stored.proposal.id, revision=1,
        proposal_hash=stored.proposal.hash, card="approve", seat=1, type="approve", by="bob",
        via="api", at=datetime(2026, 12, 1, tzinfo=UTC),
    )  # fmt: skip
    with ledger.db.write() as tx:
        assert ledger.proposals.decide(tx, decision)


@pytest.mark.parametrize("without", [(), ("reads",)], ids=["last", "before-reads"])
def test_no_row_is_lost(tmp_path: Path, without: tuple[str, ...]) -> None:
    file = first_release(tmp_path / "ledger.sqlite", without=without)
    before = rows_of(file)
    open_engine(file).dispose()
    after = rows_of(file)
    assert before.pop("meta") == [("schema_version", "1")]
    assert after["meta"] == [("schema_version", str(SCHEMA_VERSION))]
    cut = {
        table: [row[: len(rows[0])] for row in after[table]] for table, rows in before.items()
        if rows
    }  # fmt: skip
    assert cut == {table: rows for table, rows in before.items() if rows}
    assert sum(map(len, before.values())) > 100
    assert after["reads"] == []


def test_a_waiting_run_without_a_card_is_looked_at_once(tmp_path: Path) -> None:
    file = first_release(tmp_path / "ledger.sqlite")
    with sqlite3.connect(file) as plain:
        plain.execute("DELETE FROM cards")
    plain.close()
    ledger = open_ledger(file, "refunds")
    thread = ledger.proposals.latest(WAITING).proposal.thread
    assert [run.thread for run in ledger.incidents.due(ledger.db.now())] == [thread]


def test_the_first_release_refuses_a_migrated_file_by_its_own_rule(tmp_path: Path) -> None:
    file = first_release(tmp_path / "ledger.sqlite")
    open_engine(file).dispose()
    with sqlite3.connect(file) as plain:
        # Its rule: the only row of `meta` is the version, and it reads version 1.
        assert plain.execute("SELECT value FROM meta").fetchall() == [(str(SCHEMA_VERSION),)]
    plain.close()


_DIES = """
import os, signal, sys
from pathlib import Path
from memory import migrate
from memory.database import open_engine

def dies(tx, to="head"):
    upgrade(tx, to)
    os.kill(os.getpid(), signal.SIGKILL)

upgrade, migrate.upgrade = migrate.upgrade, dies
open_engine(Path(sys.argv[1]))
"""


def test_a_kill_in_the_middle_leaves_the_old_version(tmp_path: Path) -> None:
    file = first_release(tmp_path / "ledger.sqlite")
    before = _dump(file)
    killed = subprocess.run([sys.executable, "-c", _DIES, str(file)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert _dump(file) == before
    open_engine(file).dispose()
    assert _dump(file) != before


def _dump(file: Path) -> list[str]:
    plain = sqlite3.connect(file)
    try:
        return list(plain.iterdump())
    finally:
        plain.close()


@BOTH
def test_processes_that_open_at_once_migrate_once(
    old: Old, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    place = old(tmp_path, request)
    _all_at_once(place)
    ledger = open_ledger(place, "refunds")
    assert ledger.audit.verify().entries == 23
    ledger.close()


@BOTH
def test_processes_that_make_a_ledger_at_once_make_one(
    old: Old, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    _all_at_once(_fresh(tmp_path, request, old))


_OPEN = """
import sys
from pathlib import Path
from memory.ledger import open_ledger
place = sys.argv[1] if "://" in sys.argv[1] else Path(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
ledger = open_ledger(place, "refunds")
assert ledger.audit.verify().ok
ledger.close()
"""


def _all_at_once(place: Place) -> None:
    openers = [
        subprocess.Popen(
            [sys.executable, "-c", _OPEN, str(place)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(3)
    ]  # fmt: skip
    with ExitStack() as stack:
        for opener in openers:
            stack.enter_context(opener)
            assert opener.stdout is not None
            assert opener.stdout.readline() == "ready\n"
        for opener in openers:
            assert opener.stdin is not None
            opener.stdin.close()  # all have imported what they need: now
    assert [opener.returncode for opener in openers] == [0, 0, 0]


@BOTH
def test_opening_a_ledger_of_this_release_is_one_select(
    old: Old, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_engine(_fresh(tmp_path, request, old))

    def never(_tx: Connection, _shown: str) -> None:
        raise AssertionError("nothing is left to bring up")

    monkeypatch.setattr(migrate, "_bring_up", never)
    asked: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *said: asked.append(said[2]))
    migrate.prepare(engine, "x")
    assert [said.split()[0] for said in asked if said != "BEGIN"] == ["SELECT"]
    engine.dispose()


def test_a_database_of_somebody_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "ledger.sqlite"
    with sqlite3.connect(file) as plain:
        plain.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)")
    plain.close()
    with pytest.raises(ConfigError, match=r"ledger\.sqlite: its table `meta` is not Tracemend's"):
        open_engine(file)


@pytest.mark.servers
def test_a_disposed_engine_works_on(server: str) -> None:
    url = driver_url(fresh_database(server))
    ledger = open_ledger(url, "refunds")
    ledger.close()
    again = open_ledger(url, "refunds")
    with again.db.write() as tx:
        again.audit.append(tx, "after", {})
    assert again.db.engine is ledger.db.engine
    assert again.audit.verify().entries == 1
    again.close()


@pytest.mark.servers
def test_no_message_shows_the_password(server: str) -> None:
    password = server.partition("postgres:")[2].partition("@")[0]
    with pytest.raises(ConfigError) as refused:
        open_engine(driver_url(f"{server}-not-there"))
    assert password not in str(refused.value)
    assert "cannot be opened as a ledger" in str(refused.value)
    assert "\n" not in str(refused.value)
