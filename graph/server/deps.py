"""What every route asks for: the installation, the caller, and the project it may use."""

import asyncio
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from contracts.errors import UsageError
from contracts.people import Permission, Principal
from graph.dispatch import Dispatcher
from graph.installation import Door, Installation
from graph.server.problems import Problem

_bearer = HTTPBearer(auto_error=False, description="A token of `tracemend token create`.")


def installation_of(request: Request) -> Installation:
    """The installation that this server has open."""
    held: Installation = request.app.state.installation
    return held


def dispatcher_of(request: Request) -> Dispatcher:
    """What works after an answer was given; told when there is something to do."""
    held: Dispatcher = request.app.state.dispatcher
    return held


async def principal_of(
    request: Request,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
) -> Principal:
    """The authenticated caller.

    Raises:
        Problem: 401, the same for an unknown, a revoked and an expired token.
    """
    text = credentials.credentials if credentials is not None else ""
    found = await asyncio.to_thread(installation_of(request).tokens.principal, text)
    if found is None:
        raise Problem(401, "send a valid token as `Authorization: Bearer tm_…`")
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
        raise Problem(403, f"your roles do not allow this: it needs the permission {permission!r}")
    try:
        return await installation.door_of(project)
    except UsageError as error:
        raise Problem(500, f"project {project!r} cannot be opened; see the server's log") from error
