"""Databases of PostgreSQL, copied for a story and removed after it."""

from uuid import uuid4


def copy_database(server: str, url: str) -> str:
    """The URL of a copy of a database that nobody is connected to."""
    made = f"c{uuid4().hex[:12]}"
    _administer(server, "CREATE DATABASE {} TEMPLATE {}", made, _name(url))
    return f"{server.rpartition('/')[0]}/{made}"


def drop_database(server: str, url: str) -> None:
    """Remove a database, whoever is connected to it."""
    _administer(server, "DROP DATABASE {} WITH (FORCE)", _name(url))


def _name(url: str) -> str:
    return url.rpartition("/")[2]


def _administer(server: str, statement: str, *names: str) -> None:
    import psycopg  # noqa: PLC0415  # of an extra that may be absent
    from psycopg import sql  # noqa: PLC0415

    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))
