"""The server as an ASGI application: `create_app` for ours, `app` for a server that mounts it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from fastapi import FastAPI

from configs.server_settings import ServerSettings
from graph.dispatch import Dispatcher
from graph.installation import Installation, open_installation
from graph.server import approvals, document, health, hooks, limits, metrics, middleware, problems
from graph.server.metrics import Meters
from graph.server.protocol import routes as protocol
from graph.server.run_watch import watch_runs
from graph.server.schedules import Scheduler
from graph.server.tracing import open_tracer, refuse_own_sources
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
        opening = open_installation(home or find_home(), settings=settings)
        async with opening as installation, _working(app, installation):
            yield

    app = FastAPI(
        title="Tracemend", version="0.1.0", lifespan=lifespan,
        docs_url=None, redoc_url=None, openapi_url=None,  # `document` serves it, to callers only
    )  # fmt: skip
    app.state.meters = Meters()
    app.state.tracer = None
    problems.install(app)
    limits.install(app, settings, embedded=embedded)
    middleware.install(app)
    for part in (health, metrics, hooks, approvals):
        app.include_router(part.router)
    if embedded:
        app.include_router(document.router)
        app.include_router(protocol.router)
    return app


@asynccontextmanager
async def _working(app: FastAPI, installation: Installation) -> AsyncIterator[None]:
    """Dispatcher, schedules and own traces of an open installation; they end in reverse order."""
    await asyncio.to_thread(refuse_own_sources, installation)
    async with AsyncExitStack() as stack:
        tracer = stack.enter_context(open_tracer(installation.settings.observe))
        watch_runs(installation, app.state.meters, tracer)
        dispatcher = Dispatcher(installation)
        app.state.installation, app.state.tracer = installation, tracer
        app.state.dispatcher, app.state.stopping = dispatcher, False
        await stack.enter_async_context(_task(dispatcher.run()))
        await stack.enter_async_context(_task(Scheduler(installation, dispatcher).run()))
        try:
            yield
        finally:
            app.state.stopping = True


@asynccontextmanager
async def _task(work: Coroutine[object, object, None]) -> AsyncIterator[None]:
    """Work beside the block; cancelled, and waited for, at its end."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
