"""Which processes serve a story: one on SQLite, two replicas on PostgreSQL, or Aegra."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.faults_aegra import Aegra
from benchmarks.faults_databases import copy_database, drop_database
from benchmarks.faults_server import Start
from benchmarks.faults_world import Embedded, Mode, Site, make_token, serve_start
from benchmarks.server_absent import aegra_absent, postgres_absent
from tests.postgres import fresh_database, postgres_server
from tests.services import redis_server
from tests.story.worlds import copy_world

MODES = ("embedded", "postgres", "aegra")
REPLICAS = 2


class NotHereError(Exception):
    """A service that the mode needs is not installed; the message says which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Postgres:
    """Two replicas of `tracemend serve` on one PostgreSQL database."""

    server: str
    """URL of a database of the server in which others can be made."""
    name: str = "postgres"
    several: bool = True
    own_protocol: bool = True

    def first(self, site: Site) -> Site:
        """The same world with an empty database and a token in it."""
        moved = replace(site, database=fresh_database(self.server))
        return replace(moved, token=make_token(moved.place))

    def copy(self, site: Site, root: Path) -> Site:
        """A copy of the folder and of the database."""
        assert site.database is not None
        made = copy_database(self.server, site.database)
        return replace(site, world=copy_world(site.world, root), database=made)

    def drop(self, site: Site) -> None:
        """Remove the database."""
        assert site.database is not None
        drop_database(self.server, site.database)

    def starts(self, site: Site) -> list[Start]:
        """Both replicas share the folder, as they would share a disk."""
        return [serve_start(site, f"server-{number}.log") for number in range(REPLICAS)]


@contextmanager
def open_mode(name: str, folder: Path) -> Iterator[Mode]:
    """The mode, with the services that it needs running until the end.

    Raises:
        NotHereError: one of them is not installed.
    """
    with ExitStack() as stack:
        if name == "embedded":
            yield Embedded()
            return
        if why := postgres_absent():
            raise NotHereError(why)
        if name == "postgres":
            yield Postgres(server=stack.enter_context(postgres_server(folder)))
            return
        if why := aegra_absent():
            raise NotHereError(why)
        postgres = stack.enter_context(postgres_server(folder))
        yield Aegra(server=postgres, redis=stack.enter_context(redis_server(folder)))
