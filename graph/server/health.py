"""Whether the server lives, and whether it can work. The only answers that need no token.

They name what fails and never where it is: no path, no project, no message of a database.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import cast

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from sqlalchemy import select, update
from starlette.datastructures import State
from starlette.requests import Request

from contracts.errors import TracemendError
from contracts.json_types import Json
from graph.installation import Installation
from memory.schema import SCHEMA_VERSION, meta

router = APIRouter()

CHECK_SECONDS = 5.0
"""A check that takes longer has failed."""
CACHE_SECONDS = 2.0
"""However many ask, the checks are made once in this time."""
HEARTBEAT_SECONDS = 30.0
"""The dispatcher looks every second; a look of many projects takes longer."""

_log = logging.getLogger("tracemend.health")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that work needs. `why` is a fixed phrase; None: it is well."""

    why: str | None = None
    needed: bool = True
    """False: it is said, and the server works all the same."""


Readiness = Mapping[str, Check]


@router.get("/healthz", tags=["operations"])
async def healthz() -> dict[str, str]:
    """The process answers. Nothing else is looked at: a restart would not mend it."""
    return {"status": "ok"}


@router.get("/readyz", tags=["operations"], responses={503: {"description": "It cannot work."}})
async def readyz(request: Request) -> JSONResponse:
    """Whether alerts can be taken and runs be driven now; 503 with what fails."""
    state = request.app.state
    checks = dict(await _prober(state).readiness())
    checks["running"] = Check(why="stopping" if getattr(state, "stopping", False) else None)
    ready = all(check.why is None for check in checks.values() if check.needed)
    degraded = any(check.why is not None for check in checks.values())
    body: dict[str, Json] = {
        "ready": ready,
        "degraded": degraded,
        "checks": {name: check.why or "ok" for name, check in sorted(checks.items())},
    }
    return JSONResponse(body, status_code=200 if ready else 503)


class Prober:
    """Makes the checks, one round at a time, and keeps the last round for a moment."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._one = asyncio.Lock()
        self._held: tuple[float, Readiness] | None = None

    async def readiness(self) -> Readiness:
        """The newest round of checks."""
        async with self._one:
            if self._held is None or time.monotonic() - self._held[0] > CACHE_SECONDS:
                found = await _checked(self._state.installation, self._state.dispatcher)
                self._held = (time.monotonic(), found)
            return self._held[1]


def _prober(state: State) -> Prober:
    if getattr(state, "prober", None) is None:
        state.prober = Prober(state)
    return cast("Prober", state.prober)


async def _checked(installation: Installation, dispatcher: object) -> Readiness:
    made = {
        "ledger": lambda: asyncio.to_thread(_ledger, installation),
        "checkpoints": lambda: _checkpoints(installation),
        "projects": lambda: _projects(installation),
    }
    done = await asyncio.gather(*(_bounded(name, check) for name, check in made.items()))
    return {**dict(zip(made, done, strict=True)), "dispatcher": _dispatcher(dispatcher)}


async def _bounded(name: str, check: Callable[[], Awaitable[Check]]) -> Check:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            return await check()
    except TimeoutError:
        return Check(why="does not answer in time")
    except Exception as error:  # noqa: BLE001  # a check that breaks is a check that fails
        _log.warning("readiness check failed", extra={"check": name, "problem": str(error)})
        return Check(why="fails; see the log")


def _ledger(installation: Installation) -> Check:
    """A row is written, as it is: a full disk or a read-only file shows here and not in a hook."""
    mine = meta.c.key == "schema_version"
    with installation.engine.begin() as tx:
        found = tx.execute(select(meta.c.value).where(mine)).scalar_one_or_none()
        tx.execute(update(meta).where(mine).values(value=found))
    if found != str(SCHEMA_VERSION):
        return Check(why="another release migrated the schema; start this one again")
    return Check()


async def _checkpoints(installation: Installation) -> Check:
    if installation.loop is None:
        return Check()  # a foreign server keeps them
    saver = installation.loop.checkpointer
    if saver is None or isinstance(saver, bool):
        return Check(why="there is no checkpointer")
    await saver.aget_tuple({"configurable": {"thread_id": "readyz"}})
    return Check()


async def _projects(installation: Installation) -> Check:
    """One project's mistake does not take the others out of service; only all of them do."""
    projects = installation.projects()
    broken = 0
    for project in projects:
        try:
            await installation.door_of(project)
        except TracemendError as error:
            broken += 1
            _log.warning("project unusable", extra={"project": project, "problem": str(error)})
    if not broken:
        return Check()
    why = f"{broken} of {len(projects)} cannot be opened; see the log"
    return Check(why=why, needed=broken == len(projects))


def _dispatcher(dispatcher: object) -> Check:
    heartbeat = getattr(dispatcher, "heartbeat", None)
    if heartbeat is None or time.monotonic() - heartbeat > HEARTBEAT_SECONDS:
        return Check(why="has not looked for work for too long")
    return Check()
