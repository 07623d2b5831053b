"""Checkpointers: SQLite here, PostgreSQL in a cluster. Both hold JSON types only."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from contracts.errors import ConfigError


@asynccontextmanager
async def open_saver(place: Path | str) -> AsyncIterator[BaseCheckpointSaver[str]]:
    """A saver on a SQLite file, or on the PostgreSQL database that a URL names.

    Raises:
        ConfigError: PostgreSQL is named and its driver is not installed.
    """
    serde = JsonPlusSerializer(allowed_msgpack_modules=[])
    if isinstance(place, Path):
        async with AsyncSqliteSaver.from_conn_string(str(place)) as saver:
            saver.serde = serde
            await saver.setup()
            yield saver
        return
    try:
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver  # noqa: PLC0415
        from psycopg import AsyncConnection  # noqa: PLC0415
        from psycopg.rows import DictRow, dict_row  # noqa: PLC0415
        from psycopg_pool import AsyncConnectionPool  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            "PostgreSQL is named and its driver is not installed: add the extra `postgres`"
        ) from error
    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    pool: AsyncConnectionPool[AsyncConnection[DictRow]] = AsyncConnectionPool(
        _libpq(place), min_size=1, max_size=10, kwargs=options, open=False
    )
    async with pool:
        kept = AsyncPostgresSaver(pool, serde=serde)
        await kept.setup()
        yield kept


def _libpq(url: str) -> str:
    """The URL without SQLAlchemy's name of the driver."""
    return f"postgresql://{url.partition('://')[2]}"
