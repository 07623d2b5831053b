"""Alembic's entry: runs the steps on the connection, and in the transaction, that it is handed."""

from alembic import context
from sqlalchemy import Connection

from memory.schema import metadata


def run() -> None:
    """Run what was asked for on `config.attributes["connection"]`.

    Raises:
        KeyError: there is no connection: a ledger is migrated by opening it.
    """
    connection: Connection = context.config.attributes["connection"]
    context.configure(connection=connection, target_metadata=metadata)
    with context.begin_transaction():
        context.run_migrations()


run()
