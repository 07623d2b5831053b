"""Bring a ledger's tables to this release: made when new, migrated when older, refused when newer.

`meta.schema_version` says which release's tables a ledger has; releases before Alembic read it too,
so they refuse a migrated ledger by themselves. `alembic_version` beside it is Alembic's own.
Everything happens in one transaction under a lock: two processes that open a ledger at once migrate
it once, and one that is killed in the middle leaves the old version.
"""

from pathlib import Path

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.exc import OperationalError, ProgrammingError

from contracts.errors import ConfigError
from memory.schema import SCHEMA_VERSION, meta, metadata

READS = "tracemend_read"
"""Execution option: the transaction only reads, so it waits for no writer."""
WAIT_MS = 30_000
"""How long a writer waits for the one before it; then it fails, and may be tried again."""
IDLE_MS = 60_000
"""How long PostgreSQL lets a writer say nothing, before it ends one whose machine may be gone."""
_LOCK = text(
    "SELECT set_config('lock_timeout', :wait, true), "
    "set_config('idle_in_transaction_session_timeout', :idle, true), "
    "pg_advisory_xact_lock(hashtextextended(:name, 0))"
)

# The shape that Alembic gives its table; made here, so that a new ledger needs no Alembic run.
_alembic = Table(
    "alembic_version", MetaData(), Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)  # fmt: skip


def prepare(engine: Engine, shown: str) -> None:
    """Make or migrate the tables; one SELECT where they are of this release already.

    Args:
        engine: on the ledger.
        shown: what messages call it; holds no password.

    Raises:
        ConfigError: the schema is newer than this release, or not ours.
    """
    with engine.connect() as plain:
        view = plain.execution_options(**{READS: True})
        try:
            found = _version(view)
        except (OperationalError, ProgrammingError):  # no such table: most likely it is new
            found = None
    if found == SCHEMA_VERSION:
        return
    with engine.begin() as tx:
        lock(tx, "schema")
        _bring_up(tx, shown)


def lock(tx: Connection, name: str) -> None:
    """Be the only writer of this name until the transaction ends; on SQLite it is so already."""
    if tx.dialect.name == "postgresql":
        said = {"wait": str(WAIT_MS), "idle": str(IDLE_MS), "name": f"tracemend|{name}"}
        tx.execute(_LOCK, said)


def _bring_up(tx: Connection, shown: str) -> None:
    """Under the lock: another process may have been here in the meantime."""
    if not inspect(tx).has_table(meta.name):
        metadata.create_all(tx)
        tx.execute(meta.insert().values(key="schema_version", value=str(SCHEMA_VERSION)))
        _stamp(tx, SCHEMA_VERSION)
        return
    found = _version(tx)
    if found is None:
        raise ConfigError(f"{shown}: its table `meta` is not Tracemend's; name another database")
    if found > SCHEMA_VERSION:
        raise ConfigError(
            f"{shown}: schema version {found}, this release reads {SCHEMA_VERSION}; "
            "use the release that wrote it"
        )
    if found < SCHEMA_VERSION:
        _stamp(tx, found)
        upgrade(tx)
        mine = meta.c.key == "schema_version"
        tx.execute(update(meta).where(mine).values(value=str(SCHEMA_VERSION)))


def upgrade(tx: Connection, to: str = "head") -> None:
    """Run the steps that are missing, in the caller's transaction."""
    from alembic import command  # noqa: PLC0415  # only a ledger that is older pays for it
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    folder = str(Path(__file__).parent / "migrations")
    config.set_main_option("script_location", folder.replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = tx
    command.upgrade(config, to)


def _version(tx: Connection) -> int | None:
    """The schema version; None: there is no such row, or it is no number."""
    statement = select(meta.c.value).where(meta.c.key == "schema_version")
    value: str | None = tx.execute(statement).scalar_one_or_none()
    return int(value) if value is not None and value.isdecimal() else None


def _stamp(tx: Connection, version: int) -> None:
    """Tell Alembic where it stands; `meta` knows, Alembic may not have been here before."""
    _alembic.create(tx, checkfirst=True)
    tx.execute(_alembic.delete())
    tx.execute(_alembic.insert().values(version_num=f"{version:04d}"))
