"""What every route asks for: the installation, the caller, and the project it may use."""

import asyncio
import logging
from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from contracts.errors import UsageError
from contracts.people import Permission, Principal
from graph.dispatch import Dispatcher
from graph.installation import Door, Installation
from graph.server.callers import Callers
from graph.server.limits import address_of, limiter_of
from graph.server.oidc import ProviderDown
from graph.server.problems import Problem
from memory.ledger import Ledger

T = TypeVar("T")

_log = logging.getLogger("tracemend.server")
_bearer = HTTPBearer(
    auto_error=False, description="A token of `tracemend token create`, or an OIDC bearer."
)


def installation_of(request: Request) -> Installation:
    """The installation that this server has open."""
    held: Installation = request.app.state.installation
    return held


def dispatcher_of(request: Request) -> Dispatcher:
    """What works after an answer was given; told when there is something to do."""
    held: Dispatcher = request.app.state.dispatcher
    return held


def callers_of(request: Request) -> Callers:
    """The application's way to tell callers apart, made at its first request."""
    state = request.app.state
    if getattr(state, "callers", None) is None:
        installation = installation_of(request)
        state.callers = Callers(installation.tokens, installation.settings.oidc)
    held: Callers = state.callers
    return held


async def principal_of(
    request: Request,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
) -> Principal:
    """The authenticated caller.

    Raises:
        Problem: 401, the same for an unknown, a revoked and an expired token; 429 for an address
            that was refused too often, or a caller that asks too much; 503 for a bearer of an
            identity provider that does not answer.
    """
    limiter, address = limiter_of(request), address_of(request)
    limiter.look("failed_auth", address)
    text = credentials.credentials if credentials is not None else ""
    # `get_client(api_key=…)` of langgraph_sdk, and UIs made for LangGraph servers, send it so.
    text = text or request.headers.get("x-api-key", "")
    try:
        found = await callers_of(request).principal(text)
    except ProviderDown:
        raise Problem(
            503, "the identity provider does not answer; try again, or use a token of ours",
            headers={"Retry-After": "5"},
        ) from None  # fmt: skip
    if found is None:
        limiter.note("failed_auth", address)
        raise Problem(401, "send a valid token as `Authorization: Bearer tm_…`")
    limiter.take("per_token", found.token or f"oidc:{found.name}")
    return found


InstallationDep = Annotated[Installation, Depends(installation_of)]
DispatcherDep = Annotated[Dispatcher, Depends(dispatcher_of)]
PrincipalDep = Annotated[Principal, Depends(principal_of)]


def visible(installation: Installation, caller: Principal) -> list[str]:
    """The projects that the caller may know of."""
    return [project for project in installation.projects() if caller.sees(project)]


async def door_for(
    installation: Installation, caller: Principal, permission: Permission, project: str
) -> Door:
    """The project's door, when the caller may do this there.

    Raises:
        Problem: 404 for a project that the caller does not see (or that is not there: the answer
            is the same), 403 for one that it sees and may not use so.
    """
    if project not in visible(installation, caller):
        raise Problem(404, "no such project, or it is not yours")
    if not caller.may(permission, project):
        raise not_allowed(permission)
    try:
        return await installation.door_of(project)
    except UsageError as error:
        raise Problem(500, f"project {project!r} cannot be opened; see the server's log") from error


async def doors_of(
    installation: Installation, caller: Principal, project: str | None = None
) -> list[Door]:
    """Doors of the caller's projects, or of the one that is named; a broken one is left out.

    Raises:
        Problem: 404, as `door_for`, for a project that is named.
    """
    if project is not None:
        return [await door_for(installation, caller, "read", project)]
    doors = []
    for slug in visible(installation, caller):
        if not caller.may("read", slug):
            continue
        try:
            doors.append(await installation.door_of(slug))
        except UsageError as error:
            _log.warning("project left out", extra={"project": slug, "problem": str(error)})
    return doors


async def door_holding(
    installation: Installation,
    caller: Principal,
    permission: Permission,
    what: str,
    find: Callable[[Ledger], T],
) -> tuple[Door, T]:
    """The door of the project that holds a row, and the row.

    Args:
        installation: the open one.
        caller: whose projects are looked through.
        permission: what the caller is about to do.
        what: the row in words, for the answer.
        find: returns the row, or raises UsageError where this project has none.

    Raises:
        Problem: 404 where no project of the caller has it, 403 where the caller may not do this.
    """
    for door in await doors_of(installation, caller):
        try:
            found = await asyncio.to_thread(find, door.ws.ledger)
        except UsageError:
            continue
        if not caller.may(permission, door.ws.project):
            raise not_allowed(permission)
        return door, found
    raise Problem(404, f"no such {what}, or it is not yours")


def not_allowed(permission: Permission) -> Problem:
    """403: the caller sees it and may not do this."""
    return Problem(403, f"your roles do not allow this: it needs the permission {permission!r}")
