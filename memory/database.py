"""One SQL database, one project's rows, short transactions.

A writer waits for the one before it instead of failing, and what is checked inside a write
transaction stays true until its end. On SQLite (WAL mode) that is `BEGIN IMMEDIATE`, on PostgreSQL
an advisory lock of the project that the transaction holds.
"""

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
    create_engine,
    event,
    select,
    text,
)
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DatabaseError

from contracts.errors import ConfigError
from memory.schema import SCHEMA_VERSION, meta, metadata

BUSY_TIMEOUT_MS = 30_000
_READ = "tracemend_read"
_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))")

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
        return _open_postgresql(place)
    engine = create_engine(f"sqlite:///{place}")
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
    engine = create_engine(url, pool_size=5, max_overflow=10, pool_pre_ping=True)
    shown = engine.url.render_as_string(hide_password=True)
    try:
        prepare(engine, shown)
    except DatabaseError as error:
        raise ConfigError(f"{shown}: cannot be opened as a ledger: {error.orig}") from error
    return engine


def prepare(engine: Engine, shown: str) -> None:
    """Make or migrate the tables.

    Raises:
        ConfigError: the schema is newer than this release.
    """
    with engine.begin() as tx:
        metadata.create_all(tx)
        make = postgresql_insert if tx.dialect.name == "postgresql" else sqlite_insert
        insert = make(meta).values(key="schema_version", value=str(SCHEMA_VERSION))
        tx.execute(insert.on_conflict_do_nothing())
        found = tx.execute(select(meta.c.value)).scalar_one()
    if found != str(SCHEMA_VERSION):
        raise ConfigError(
            f"{shown}: schema version {found}, this release reads {SCHEMA_VERSION}; "
            "use the release that wrote it"
        )


def _on_connect(connection: DBAPIConnection, _record: object) -> None:
    # The driver's own transaction handling is off: `_on_begin` says how one starts.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def _on_begin(connection: Connection) -> None:
    reads = connection.get_execution_options().get(_READ, False)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


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
        with self.engine.begin() as tx:
            if tx.dialect.name == "postgresql":
                tx.execute(_LOCK, {"name": f"tracemend|{self.project}"})
            yield tx

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One consistent view."""
        with self.engine.connect() as plain:
            options: dict[str, object] = {_READ: True}
            if plain.dialect.name == "postgresql":
                options["isolation_level"] = "REPEATABLE READ"
            view = plain.execution_options(**options)
            with view.begin():
                yield view

    def now(self) -> str:
        """The clock's time as stored."""
        return rfc3339(self.clock())

    def insert_once(self, tx: Connection, table: Table, values: Mapping[str, object]) -> bool:
        """Insert unless a row with the same unique key is there. True: inserted."""
        make = postgresql_insert if tx.dialect.name == "postgresql" else sqlite_insert
        statement = make(table).values(project=self.project, **values).on_conflict_do_nothing()
        return tx.execute(statement).rowcount == 1

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
        with self.read() as tx:
            return self.rows(tx, self.mine(table, **equals))

    def first(self, table: Table, **equals: object) -> RowMapping | None:
        """The first of `find`."""
        found = self.find(table, **equals)
        return found[0] if found else None
