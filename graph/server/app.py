"""The server as an ASGI application: `create_app` for ours, `app` for a server that mounts it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI

from configs.server_settings import ServerSettings
from graph.dispatch import Dispatcher
from graph.installation import open_installation
from graph.server import approvals, health, hooks, problems
from graph.server.protocol import routes as protocol
from memory.workspace import find_home


def create_app(
    home: Path | None = None, *, settings: ServerSettings | None = None, embedded: bool = True
) -> FastAPI:
    """The application.

    Args:
        home: the installation; None: found when the server starts (`TRACEMEND_HOME`).
        settings: of the server; None: `server.yaml` of the installation.
        embedded: True: ours, which also speaks the Agent Protocol. False: mounted into a LangGraph
            server, which speaks it itself and drives the threads.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_installation(home or find_home(), settings=settings) as installation:
            app.state.installation = installation
            app.state.dispatcher = Dispatcher(installation)
            working = asyncio.create_task(app.state.dispatcher.run())
            try:
                yield
            finally:
                working.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await working

    app = FastAPI(title="Tracemend", version="0.1.0", lifespan=lifespan, docs_url=None)
    problems.install(app)
    app.include_router(health.router)
    app.include_router(hooks.router)
    app.include_router(approvals.router)
    if embedded:
        app.include_router(protocol.router)
    return app
