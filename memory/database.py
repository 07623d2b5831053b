"""One SQL database, one project's rows, short transactions.

A writer waits for the one before it instead of failing, and what is checked inside a write
transaction stays true until its end. On SQLite (WAL mode) that is `BEGIN IMMEDIATE`, on PostgreSQL
an advisory lock of the project that the transaction holds.
"""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    RowMapping,
    Select,
    Table,
    bindparam,
    create_engine,
    event,
    select,
)
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor
from sqlalchemy.exc import DatabaseError, OperationalError

from contracts.errors import ConfigError, LedgerError
from memory.columns import dump_json
from memory.migrate import READS, WAIT_MS, lock, prepare

_opening = threading.Lock()
"""Threads that open one database at once get one pool."""

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The wall clock; everything that needs a time takes a clock, so tests can hand in theirs."""
    return datetime.now(UTC)


def rfc3339(moment: datetime) -> str:
    """Aware time as RFC 3339 UTC text with microseconds; sorts as text."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


Place = Path | str
"""Where a ledger is: a SQLite file, or the URL of a PostgreSQL database."""


def open_engine(place: Place) -> Engine:
    """An engine on a ledger, which is made when it is new and migrated when it is older.

    Raises:
        ConfigError: it is of a newer schema, or no database, or cannot be reached.
    """
    if isinstance(place, str):
        with _opening:
            return _open_postgresql(place)
    engine = create_engine(f"sqlite:///{place}", json_serializer=dump_json)
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _on_begin)
    try:
        prepare(engine, str(place))
    except DatabaseError as error:
        raise ConfigError(f"{place}: cannot be opened as a ledger: {error.orig}") from error
    return engine


@lru_cache(maxsize=8)
def _open_postgresql(url: str) -> Engine:
    """One pool a process: every project of an installation shares it."""
    engine = create_engine(
        url, pool_size=5, max_overflow=10, pool_pre_ping=True, json_serializer=dump_json
    )
    shown = engine.url.render_as_string(hide_password=True)
    try:
        prepare(engine, shown)
    except DatabaseError as error:
        raise ConfigError(f"{shown}: cannot be opened as a ledger: {error.orig}") from error
    return engine


def _on_connect(connection: DBAPIConnection, _record: object) -> None:
    # The driver's own transaction handling is off: `_on_begin` says how one starts.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={WAIT_MS}")
    _use_wal(cursor)
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def _use_wal(cursor: DBAPICursor) -> None:
    """WAL mode; the first process to open a file sets it, and the file keeps it.

    SQLite does not wait for others here, whatever the busy timeout is: so this does.
    """
    until = time.monotonic() + WAIT_MS / 1000
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.01)
        else:
            return


def _on_begin(connection: Connection) -> None:
    reads = connection.get_execution_options().get(READS, False)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


@lru_cache(maxsize=512)
def _matching(
    table: Table, equal: tuple[str, ...], absent: tuple[str, ...]
) -> Select[tuple[object, ...]]:
    """A select by project and these columns. Made once: making one costs more than running it."""
    statement = select(table)
    for name in ("project", *equal):
        column: Column[object] = table.c[name]
        statement = statement.where(column == bindparam(name))
    for name in absent:
        statement = statement.where(table.c[name].is_(None))
    return statement


def refusal(error: OperationalError) -> str | None:
    """Why the disk or the server refused, and what to do; None: the statement was wrong."""
    cause = error.orig
    if not isinstance(cause, sqlite3.OperationalError):
        return f"{one_line_of(cause)}; {_AGAIN}"
    return _SQLITE.get(cause.sqlite_errorcode & 0xFF)


def one_line_of(error: BaseException | None) -> str:
    """The first line of what a driver said."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


_AGAIN = "then run it again, or `tracemend resume` for a run that was under way"
_SQLITE: Mapping[int, str] = {
    sqlite3.SQLITE_FULL: f"the disk is full; free some space, {_AGAIN}",
    sqlite3.SQLITE_IOERR: f"the disk is full, or failed; see to it, {_AGAIN}",
    sqlite3.SQLITE_READONLY: f"it cannot be written; give this user the right, {_AGAIN}",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; is its folder there, and may this user write?",
    sqlite3.SQLITE_BUSY: f"another process has been writing for too long; wait, {_AGAIN}",
}
"""By SQLite's primary result codes, https://www.sqlite.org/rescode.html."""


class Database:
    """Transactions on one project's rows.

    Attributes:
        project: the only project whose rows the stores on top read or write.
        clock: where times come from.
    """

    def __init__(self, engine: Engine, *, project: str, clock: Clock = utc_now) -> None:
        self.engine = engine
        self.project = project
        self.clock = clock

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """One write transaction: committed at the end, rolled back on any exception."""
        with self._in_our_words("write"), self.engine.begin() as tx:
            lock(tx, self.project)
            yield tx

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One consistent view."""
        with self._in_our_words("read"), self.engine.connect() as plain:
            options: dict[str, object] = {READS: True}
            if plain.dialect.name == "postgresql":
                options["isolation_level"] = "REPEATABLE READ"
            view = plain.execution_options(**options)
            with view.begin():
                yield view

    @contextmanager
    def _in_our_words(self, operation: str) -> Iterator[None]:
        """What the disk or the server refused, in one line; mistakes of ours stay as they are."""
        try:
            yield
        except OperationalError as error:
            why = refusal(error)
            if why is None:
                raise
            shown = self.engine.url.render_as_string(hide_password=True)
            raise LedgerError(
                f"ledger: {operation} failed: {shown}: {why}",
                backend="ledger", operation=operation, retryable=True,
            ) from error  # fmt: skip

    def now(self) -> str:
        """The clock's time as stored."""
        return rfc3339(self.clock())

    def insert_once(self, tx: Connection, table: Table, values: Mapping[str, object]) -> bool:
        """Insert unless a row with the same unique key is there. True: inserted."""
        make = postgresql_insert if tx.dialect.name == "postgresql" else sqlite_insert
        statement = make(table).values(project=self.project, **values).on_conflict_do_nothing()
        # Asked for a row and not counted: psycopg counts nothing of an INSERT through SQLAlchemy.
        return tx.execute(statement.returning(table.c.project)).first() is not None

    def rows(self, tx: Connection, statement: Select[tuple[object, ...]]) -> Sequence[RowMapping]:
        """All rows of a select as mappings."""
        return tx.execute(statement).mappings().all()

    def mine(self, table: Table, **equals: object) -> Select[tuple[object, ...]]:
        """A select of this project's rows whose columns equal the values given."""
        statement = select(table).where(table.c.project == self.project)
        for name, value in equals.items():
            column: Column[object] = table.c[name]
            statement = statement.where(column == value)
        return statement

    def find(self, table: Table, **equals: object) -> Sequence[RowMapping]:
        """Rows of this project that match, in a read transaction of their own."""
        wanted = {name: value for name, value in equals.items() if value is not None}
        statement = _matching(table, tuple(wanted), tuple(sorted(equals.keys() - wanted.keys())))
        with self.read() as tx:
            return tx.execute(statement, {**wanted, "project": self.project}).mappings().all()

    def first(self, table: Table, **equals: object) -> RowMapping | None:
        """The first of `find`."""
        found = self.find(table, **equals)
        return found[0] if found else None
