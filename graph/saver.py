"""Checkpointers: SQLite here, PostgreSQL in a cluster. Both hold JSON types only."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, LiteralString

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from contracts.errors import ConfigError

if TYPE_CHECKING:  # the driver is an extra
    from psycopg import AsyncConnection
    from psycopg.rows import DictRow

REACH_SECONDS = 20.0
"""How long a database may take to answer when a server starts: a restart of it is shorter."""
_SETUP_LOCK = 0x7472636D
"""PostgreSQL's advisory lock of whoever makes or migrates the tables of checkpoints."""


@asynccontextmanager
async def open_saver(place: Path | str) -> AsyncIterator[BaseCheckpointSaver[str]]:
    """A saver on a SQLite file, or on the PostgreSQL database that a URL names.

    Raises:
        ConfigError: PostgreSQL is named, and its driver is not installed or it cannot be reached.
    """
    serde = JsonPlusSerializer(allowed_msgpack_modules=[])
    if isinstance(place, Path):
        async with AsyncSqliteSaver.from_conn_string(str(place)) as saver:
            saver.serde = serde
            await saver.setup()
            yield saver
        return
    async with _on_postgresql(place, serde) as kept:
        yield kept


@asynccontextmanager
async def _on_postgresql(
    url: str, serde: JsonPlusSerializer
) -> AsyncIterator[BaseCheckpointSaver[str]]:
    try:
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver  # noqa: PLC0415
        from psycopg import AsyncConnection  # noqa: PLC0415
        from psycopg.rows import DictRow, dict_row  # noqa: PLC0415
        from psycopg_pool import AsyncConnectionPool, PoolTimeout  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            "PostgreSQL is named and its driver is not installed: add the extra `postgres`"
        ) from error
    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    # Checked when it is taken: after a restart of the database no run fails on an old connection.
    pool: AsyncConnectionPool[AsyncConnection[DictRow]] = AsyncConnectionPool(
        _libpq(url), min_size=1, max_size=10, kwargs=options, open=False,
        check=AsyncConnectionPool.check_connection,
    )  # fmt: skip
    try:
        await pool.open(wait=True, timeout=REACH_SECONDS)
    except PoolTimeout as error:
        raise ConfigError(
            f"the PostgreSQL database at {_host(url)} cannot be reached: no connection within "
            f"{REACH_SECONDS:.0f} s; is it up, and are user, password and name right?"
        ) from error
    try:
        saver = AsyncPostgresSaver(pool, serde=serde)
        # Replicas that start together make the tables one after the other. The lock is asked for
        # again and again: a session that waits for it would stop `CREATE INDEX CONCURRENTLY`.
        async with pool.connection() as held:
            while not await _asked(held, "SELECT pg_try_advisory_lock(%s) AS said"):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            try:
                await saver.setup()
            finally:
                await _asked(held, "SELECT pg_advisory_unlock(%s) AS said")
        yield saver
    finally:
        await pool.close()


async def _asked(connection: "AsyncConnection[DictRow]", question: LiteralString) -> bool:
    row = await (await connection.execute(question, (_SETUP_LOCK,))).fetchone()
    return row is not None and bool(row["said"])


def _libpq(url: str) -> str:
    """The URL without SQLAlchemy's name of the driver."""
    return f"postgresql://{url.partition('://')[2]}"


def _host(url: str) -> str:
    """Host, port and name: what may be shown of a URL that holds a password."""
    return url.partition("://")[2].rpartition("@")[2].partition("?")[0]
