"""The mode in which Aegra owns the threads: one process, PostgreSQL, Redis, our routes mounted."""

import socket
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from urllib.parse import urlparse

import httpx

from benchmarks.faults_databases import copy_database, drop_database
from benchmarks.faults_server import Start
from benchmarks.faults_world import Site, make_token
from tests.postgres import fresh_database
from tests.services import AEGRA_PYTHON, REPOSITORY, foreign, free_port
from tests.story.worlds import copy_world

REDIS_DATABASES = 16
STARTS_IN_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What a site has beside its own rows."""

    threads: str
    """URL of the database in which Aegra keeps threads and checkpoints."""
    redis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Aegra:
    """Aegra with Redis workers on `deploy/aegra.json`; started again after a kill, on its port."""

    server: str
    """URL of a database of the PostgreSQL server in which others can be made."""
    redis: str
    name: str = "aegra"
    several: bool = False
    own_protocol: bool = False
    _around: dict[Path, Around] = field(default_factory=dict)
    _numbers: "count[int]" = field(default_factory=count)

    def first(self, site: Site) -> Site:
        """The same world with two empty databases and a token."""
        moved = replace(site, database=fresh_database(self.server))
        self._around[site.world.root] = Around(
            threads=fresh_database(self.server), redis=self._empty_redis()
        )
        return replace(moved, token=make_token(moved.place))

    def copy(self, site: Site, root: Path) -> Site:
        """A copy of the folder and of both databases; Redis holds nothing that is not in them."""
        assert site.database is not None
        threads = copy_database(self.server, self._around[site.world.root].threads)
        self._around[root] = Around(threads=threads, redis=self._empty_redis())
        made = copy_database(self.server, site.database)
        return replace(site, world=copy_world(site.world, root), database=made)

    def drop(self, site: Site) -> None:
        """Remove both databases."""
        assert site.database is not None
        drop_database(self.server, site.database)
        drop_database(self.server, self._around.pop(site.world.root).threads)

    def starts(self, site: Site) -> list[Start]:
        """One process on a port that stays the same, since it calls itself by it."""
        port, around = free_port(), self._around[site.world.root]
        folder = site.world.root.parent
        own = {
            "AEGRA_CONFIG": str(REPOSITORY / "deploy" / "aegra.json"), "AUTH_TYPE": "custom",
            "DATABASE_URL": around.threads, "REDIS_BROKER_ENABLED": "true",
            "REDIS_URL": around.redis, "PORT": str(port), "HOST": "127.0.0.1",
            "LOG_LEVEL": "WARNING", "LANGSMITH_TRACING": "false", "AEGRA_CWD": str(folder),
            "PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        program = [str(AEGRA_PYTHON), str(REPOSITORY / "benchmarks" / "faults_victim.py")]
        return [
            Start(
                command=lambda killer: [*program, *killer, "--", str(port)], cwd=folder,
                environ={**site.environ, **foreign(port, site.token), **own},
                log=folder / "aegra.log", address=lambda _said: _alive(port),
                stops_with=frozenset({0, -15}),
            )
        ]  # fmt: skip

    def _empty_redis(self) -> str:
        """The URL of the next Redis database, emptied."""
        number, where = next(self._numbers) % REDIS_DATABASES, urlparse(self.redis)
        with socket.create_connection((where.hostname or "", where.port or 0), timeout=5) as link:
            link.sendall(f"SELECT {number}\r\nFLUSHDB\r\n".encode())
            link.recv(64)
        return f"{self.redis.rpartition('/')[0]}/{number}"


def _alive(port: int) -> str | None:
    url = f"http://127.0.0.1:{port}"
    try:
        return url if httpx.get(f"{url}/live", timeout=STARTS_IN_S).status_code == 200 else None
    except httpx.HTTPError:
        return None
