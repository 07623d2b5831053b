"""One installation, opened: its projects, and a service with a driver for each."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from configs.server_settings import ServerSettings, load_server_settings
from contracts.errors import UsageError
from graph.drive import Driver, LocalDriver, Loop, OnEvent, open_loop
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
    """

    home: Path
    settings: ServerSettings
    loop: Loop | None
    tokens: Tokens
    on_event: dict[str, OnEvent] = field(default_factory=dict)
    """By thread: who listens to the progress of a run that is driven here."""

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
            raise UsageError("no driver: a foreign server drives the threads of this installation")
        return LocalDriver(self.loop, ws.ledger)


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
    async with AsyncExitStack() as stack:
        checkpoints = home / "checkpoints.sqlite" if isinstance(place, Path) else place
        loop = await stack.enter_async_context(open_loop(checkpoints))
        engine = await asyncio.to_thread(open_engine, place)
        stack.callback(engine.dispose)
        yield Installation(
            home=home, settings=settings or load_server_settings(home), loop=loop,
            tokens=Tokens(engine),
        )  # fmt: skip
