"""What the protocol holds in memory while the server runs: feeds of streams, and who waits."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, FastAPI, Request

from graph.installation import Installation
from graph.server.protocol.events import Hub
from graph.server.protocol.following import Follower


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """Of one server. Nothing in it is the only copy of anything."""

    hub: Hub
    follower: Follower


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Follow runs as long as the server's own lifespan holds its installation open."""
    installation: Installation = app.state.installation
    hub = Hub()
    installation.listener = hub
    follower = Follower(installation, hub)
    app.state.protocol = Live(hub=hub, follower=follower)
    following = asyncio.create_task(follower.run())
    try:
        yield
    finally:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following


def live_of(request: Request) -> Live:
    """What this server holds."""
    held: Live = request.app.state.protocol
    return held


LiveDep = Annotated[Live, Depends(live_of)]
