"""What the contract tests of the ledger share: an empty database of each kind."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from memory.database import Place, open_engine
from memory.ledger import Ledger, open_ledger
from memory.schema import metadata
from tests.postgres import driver_url, fresh_database, need_postgres, postgres_server


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server for all tests of a worker."""
    need_postgres()
    with postgres_server(tmp_path_factory.mktemp("postgres")) as url:
        yield url


@pytest.fixture(scope="session")
def database(postgres_url: str) -> str:
    """One database for all tests: each begins with empty tables."""
    return driver_url(fresh_database(postgres_url))


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.servers)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Where an empty ledger is, or can be made."""
    if request.param == "sqlite":
        yield tmp_path / "ledger.sqlite"
        return
    url: str = request.getfixturevalue("database")
    yield url
    engine = open_engine(url)
    with engine.begin() as tx:
        names = ", ".join(t.name for t in metadata.sorted_tables if t.name != "meta")
        tx.execute(text(f"TRUNCATE {names}"))
    engine.dispose()


@pytest.fixture
def ledger(place: Place) -> Iterator[Ledger]:
    """The ledger of one project there."""
    opened = open_ledger(place, "refunds")
    yield opened
    opened.close()
