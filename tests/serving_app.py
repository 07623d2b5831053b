"""The server as an operator runs it, lifespan and all, in a thread of the test's process."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pytest
import uvicorn

from configs.server_settings import ServerSettings
from contracts.people import Role
from graph.server.app import create_app
from memory.database import open_engine
from memory.tokens import Tokens
from memory.workspace import HOME_VARIABLE, ledger_place
from tests.fakes.serving import running


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A server that listens on loopback. Stop it before looking for what a restart would find."""

    url: str
    home: Path
    server: uvicorn.Server = field(repr=False)

    def token(
        self,
        name: str = "ann",
        roles: Sequence[Role] = ("admin",),
        projects: Sequence[str] | None = None,
        expires_at: datetime | None = None,
    ) -> str:
        """A new token's text; `projects` None: all of the installation."""
        return make_token(self.home, name, roles, projects=projects, expires_at=expires_at)

    def headers(
        self,
        name: str = "ann",
        roles: Sequence[Role] = ("admin",),
        projects: Sequence[str] | None = None,
    ) -> dict[str, str]:
        """The header that a caller with such a token sends."""
        return {"Authorization": f"Bearer {self.token(name, roles, projects)}"}


def make_token(
    home: Path,
    name: str,
    roles: Sequence[Role],
    *,
    projects: Sequence[str] | None = None,
    expires_at: datetime | None = None,
) -> str:
    """A token of an installation, whether a server runs on it or not."""
    place = ledger_place(home)
    engine = open_engine(place)
    try:
        made = Tokens(engine).create(name, roles, projects=projects, expires_at=expires_at)
        return made[1]
    finally:
        if isinstance(place, Path):  # on PostgreSQL the process shares one pool
            engine.dispose()


@contextmanager
def serve_app(home: Path, *, settings: ServerSettings | None = None) -> Iterator[Served]:
    """Run our application with its lifespan under uvicorn on a free port of 127.0.0.1.

    On exit the server has stopped as by SIGTERM: its lifespan is over and its socket is closed.
    """
    home = home.resolve()
    with pytest.MonkeyPatch.context() as patch:
        # The server sets it for its nodes; what it was before comes back with the test's end.
        patch.setenv(HOME_VARIABLE, str(home))
        app = create_app(home, settings=settings)
        config = uvicorn.Config(
            app, host="127.0.0.1", port=0, log_level="critical", lifespan="on", ws="none",
            timeout_graceful_shutdown=2,
        )  # fmt: skip
        with running(config, stops_within_s=30) as (url, server):
            yield Served(url=url, home=home, server=server)
