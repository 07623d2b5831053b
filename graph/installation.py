"""One installation, opened: its projects, and a service with a driver for each."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine

from configs.server_settings import ForeignSettings, ServerSettings, load_server_settings
from contracts.errors import ConfigError, UsageError
from graph.drive import Driver, Listener, LocalDriver, Loop, open_loop
from graph.drive_sdk import SdkDriver
from graph.service import Service
from memory.database import open_engine
from memory.tokens import Tokens
from memory.workspace import (
    HOME_VARIABLE,
    Workspace,
    ledger_place,
    open_project,
    read_registry,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """One project: its things, what its doors do, and how its threads are driven."""

    ws: Workspace
    service: Service
    driver: Driver


@dataclass(slots=True, kw_only=True)
class Installation:
    """Everything that a server holds open.

    Attributes:
        home: the folder of the installation.
        settings: of the server.
        loop: the compiled graph on our checkpointer; None where a foreign server drives.
        tokens: who may call.
        engine: on the ledger, for what belongs to no project.
    """

    home: Path
    settings: ServerSettings
    loop: Loop | None
    tokens: Tokens
    engine: Engine
    listener: Listener | None = None
    """Who follows every run that is driven here."""

    def projects(self) -> list[str]:
        """Slugs of all projects, as the registry is now."""
        return sorted(read_registry(self.home))

    def door(self, project: str) -> Door:
        """One project, opened (blocking: the first time it opens the ledger).

        Raises:
            UsageError: there is no such project.
            ConfigError: its settings are wrong.
        """
        ws = open_project(self.home, project)
        driver = self._driver(ws)
        return Door(ws=ws, service=Service(ws, driver), driver=driver)

    async def door_of(self, project: str) -> Door:
        """`door`, off the event loop's thread."""
        return await asyncio.to_thread(self.door, project)

    def _driver(self, ws: Workspace) -> Driver:
        if self.loop is None:
            foreign = self.settings.foreign
            if foreign is None:
                raise UsageError("nothing can be driven here: no checkpointer and no `foreign`")
            return SdkDriver(foreign.url, _token(foreign), ws.ledger)
        driver = LocalDriver(self.loop, ws.ledger)
        driver.listener = self.listener
        return driver


@asynccontextmanager
async def open_installation(
    home: Path, *, settings: ServerSettings | None = None
) -> AsyncIterator[Installation]:
    """Open the checkpointer and the ledger of an installation; both are closed at the end.

    Raises:
        ConfigError: settings, ledger or checkpointer cannot be opened.
    """
    os.environ[HOME_VARIABLE] = str(home)  # the nodes find the same home by it
    place = ledger_place(home)
    settings = settings or load_server_settings(home)
    async with AsyncExitStack() as stack:
        loop: Loop | None = None
        if settings.foreign is None:
            checkpoints = home / "checkpoints.sqlite" if isinstance(place, Path) else place
            loop = await stack.enter_async_context(open_loop(checkpoints))
        else:
            _token(settings.foreign)  # said now, not at the first run
        engine = await asyncio.to_thread(open_engine, place)
        stack.callback(engine.dispose)
        yield Installation(
            home=home, settings=settings, loop=loop, tokens=Tokens(engine), engine=engine
        )


def _token(foreign: ForeignSettings) -> str | None:
    """The bearer token for the foreign server.

    Raises:
        ConfigError: the variable that is named for it is not set.
    """
    if foreign.token_env is None:
        return None
    token = os.environ.get(foreign.token_env)
    if not token:
        raise ConfigError(f"foreign.token_env: the variable {foreign.token_env} is not set")
    return token
