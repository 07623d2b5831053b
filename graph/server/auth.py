"""`auth` of `langgraph.json`: the same callers and the same rules on a LangGraph server.

A server hands each handler what is asked, and takes from it a yes, a no, or a filter over metadata.
Which project a thread belongs to is the ledger's word first; `metadata.project` is how a server
finds it. What could pass the person by (state written by hand, `goto`) is refused here, and where a
server does not ask, the ledger refuses it.

Source: langgraph_sdk.Auth 0.4.14; langgraph-api 0.16.7 passes headers by name as bytes and a run's
payload under `kwargs`, Aegra 0.11 passes them by position as text and flat.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from langgraph_sdk import Auth

from configs.server_settings import load_server_settings
from contracts.errors import UsageError
from contracts.people import ROLES, Permission, Principal, Role
from graph.server.callers import Callers
from graph.server.oidc import ProviderDown
from memory.database import open_engine
from memory.tokens import Tokens
from memory.workspace import find_home, ledger_place, project_of_thread, read_registry

auth = Auth()

Context = Auth.types.AuthContext
Value = MutableMapping[str, object]
Filter = Auth.types.FilterType

_ROLE, _PROJECT, _ALL = "role:", "project:", "project:*"


@lru_cache(maxsize=4)
def _callers(home: Path) -> Callers:
    return Callers(Tokens(open_engine(ledger_place(home))), load_server_settings(home).oidc)


@auth.authenticate
async def authenticate(headers: Mapping[str | bytes, str | bytes]) -> Auth.types.MinimalUserDict:
    """The caller of a request; what it may do travels as permissions."""
    found = None
    scheme, _, bearer = _header(headers, "authorization").partition(" ")
    bearer = bearer if scheme.lower() == "bearer" else _header(headers, "x-api-key")
    if bearer.strip():
        callers = await asyncio.to_thread(lambda: _callers(find_home()))
        try:
            found = await callers.principal(bearer.strip())
        except ProviderDown:
            raise _refused(503, "the identity provider does not answer; try again") from None
    if found is None:
        raise _refused(401, "send a valid token as `Authorization: Bearer tm_…`")
    return {
        "identity": found.name, "display_name": found.name, "is_authenticated": True,
        "permissions": permissions_of(found),
    }  # fmt: skip


def permissions_of(caller: Principal) -> list[str]:
    """Roles and projects as the only thing that every server passes on to its handlers."""
    projects = (
        [_ALL] if caller.projects is None else [_PROJECT + p for p in sorted(caller.projects)]
    )
    return [_ROLE + role for role in sorted(caller.roles)] + projects


def caller_of(ctx: Context) -> Principal:
    """The other way round; a permission that is none of ours gives nothing."""
    said = [str(one) for one in ctx.permissions]
    roles = {one.removeprefix(_ROLE) for one in said if one.startswith(_ROLE)}
    slugs = {one.removeprefix(_PROJECT) for one in said if one.startswith(_PROJECT)}
    return Principal(
        name=ctx.user.identity,
        roles=frozenset(cast("set[Role]", roles & set(ROLES))),
        projects=None if _ALL in said else frozenset(slugs),
    )


async def create_thread(ctx: Context, value: Value) -> Filter | None:
    """A thread belongs to a project of its caller from the first."""
    caller = caller_of(ctx)
    named = _metadata(value).get("project")
    project = await _project(caller, named, value.get("thread_id"))
    _need(caller, "run", project)
    return _stamped(caller, value, project)


async def create_run(ctx: Context, value: Value) -> Filter | None:
    """Input starts, an answer decides; nothing else is taken."""
    caller, asked = caller_of(ctx), _asked(value)
    project = await _project(caller, _named(asked), value.get("thread_id"))
    command = asked.get("command")
    if isinstance(command, Mapping) and any(v for k, v in command.items() if k != "resume"):
        raise _refused(403, "command: only `resume` is taken; anything else could pass a person by")
    if asked.get("webhook"):
        raise _refused(403, "webhook: not taken; this server calls no URL that a caller names")
    if command:
        _need(caller, "decide", project)
    if not command or asked.get("input") is not None:
        _need(caller, "run", project)
    if project is not None and caller.projects is not None:
        _put(asked, "context", {**_mapping(asked.get("context")), "project": project})
        if "kwargs" not in value:  # a server with flat payloads takes overrides from here
            value["context"] = asked["context"]
    return _stamped(caller, value, project)


async def read_threads(ctx: Context, value: Value) -> Filter | None:
    """Only threads of the caller's projects are there at all."""
    del value
    return _filtered(_reader(ctx))


async def update_thread(ctx: Context, value: Value) -> Filter | None:
    """Metadata and cancelling are the operator's; writing state by hand is nobody's."""
    caller = _reader(ctx)
    written = "values" in value or "as_node" in value
    if written or (value.get("action") is None and "metadata" not in value):
        raise _refused(403, "state cannot be written by hand: it could forge an answer")
    named = _metadata(value).get("project")
    if named is not None:
        await _project(caller, named, value.get("thread_id"))
    _need(caller, "run", None)
    return _filtered(caller)


async def delete_thread(ctx: Context, value: Value) -> Filter | None:
    """An administrator's; decisions and the audit log stay in the ledger."""
    del value
    caller = _reader(ctx)
    _need(caller, "admin", None)
    return _filtered(caller)


async def write_assistant(ctx: Context, value: Value) -> Filter | None:
    """An administrator's, and only for a project of theirs."""
    caller = _reader(ctx)
    project = await _project(caller, _named(value), None)
    _need(caller, "admin", project)
    return _stamped(caller, value, project)


async def delete_assistant(ctx: Context, value: Value) -> Filter | None:
    """An administrator's."""
    del value
    caller = _reader(ctx)
    _need(caller, "admin", None)
    return _filtered(caller)


async def read_assistants(ctx: Context, value: Value) -> Filter | None:
    """Those of the caller's projects, and the server's own, which names no project."""
    del value
    return _filtered(_reader(ctx), {"created_by": "system"})


Rule = Callable[[Context, Value], Awaitable[Filter | None]]

RULES: Mapping[tuple[str, str], Rule] = {
    ("threads", "create"): create_thread,
    ("threads", "create_run"): create_run,
    ("threads", "read"): read_threads,
    ("threads", "search"): read_threads,
    ("threads", "update"): update_thread,
    ("threads", "delete"): delete_thread,
    ("assistants", "create"): write_assistant,
    ("assistants", "update"): write_assistant,
    ("assistants", "delete"): delete_assistant,
    ("assistants", "read"): read_assistants,
    ("assistants", "search"): read_assistants,
}


@auth.on
async def authorize(ctx: Context, value: dict[str, Any]) -> Filter | None:
    """The rule for what is asked; whatever has none is refused: the store, crons, what is new."""
    rule = RULES.get((ctx.resource, ctx.action))
    if rule is None:
        raise _refused(403, f"{ctx.resource} {ctx.action}: not used by Tracemend")
    return await rule(ctx, value)


def _reader(ctx: Context) -> Principal:
    caller = caller_of(ctx)
    _need(caller, "read", None)
    return caller


def _need(caller: Principal, permission: Permission, project: str | None) -> None:
    """The caller may do this; in this project, when one is known."""
    if project is not None and not caller.sees(project):
        raise _refused(404, "no such project, or it is not yours")
    if not any(permission in ROLES[role] for role in caller.roles):
        raise _refused(403, f"your roles do not allow this: it needs {permission!r}")


async def _project(caller: Principal, named: object, thread: object) -> str | None:
    """The project that is meant: by name, by the ledger, or the caller's only one.

    None: a caller of all projects named none; the graph then asks for one itself.
    """
    home = await asyncio.to_thread(find_home)
    bound = await asyncio.to_thread(_bound, home, thread)
    if named is not None:
        known = await asyncio.to_thread(read_registry, home)
        if not isinstance(named, str) or named not in known or not caller.sees(named):
            raise _refused(404, "no such project, or it is not yours")
    if bound is not None:
        if not caller.sees(bound):
            raise _refused(404, "no such thread, or it is not yours")
        if named is not None and named != bound:
            raise _refused(409, "the thread belongs to another project than `context.project`")
        return bound
    if named is not None:
        return str(named)
    if caller.projects is None:
        return None
    if len(caller.projects) != 1:
        raise _refused(422, 'say which project: context {"project": "<slug>"}')
    return next(iter(caller.projects))


def _bound(home: Path, thread: object) -> str | None:
    if thread is None:
        return None
    try:
        return project_of_thread(home, str(thread))
    except UsageError:
        return None


def _asked(value: Value) -> MutableMapping[str, object]:
    """A run's payload, wherever this server keeps it."""
    kept = value.get("kwargs")
    return cast("Value", kept) if isinstance(kept, MutableMapping) else value


def _named(asked: Mapping[str, object]) -> object:
    """The project that a payload names; a server takes `configurable` for the context as well.

    Two different ones are two projects, which is none.
    """
    configurable = _mapping(_mapping(asked.get("config")).get("configurable"))
    found = [_mapping(asked.get("context")).get("project"), configurable.get("project")]
    said = [one for one in found if one is not None]
    if len(said) == 2 and said[0] != said[1]:
        raise _refused(422, "`context.project` and `config.configurable.project` differ")
    return said[0] if said else None


def _stamped(caller: Principal, value: Value, project: str | None) -> Filter | None:
    """Put the project into the metadata, and hold what is there already to it."""
    if project is None:
        return _filtered(caller)
    _put(value, "metadata", {**_metadata(value), "project": project})
    return None if caller.projects is None else {"project": project}


def _filtered(caller: Principal, *also: dict[str, str]) -> Filter | None:
    if caller.projects is None:
        return None
    groups = [{"project": slug} for slug in sorted(caller.projects)] + list(also)
    if not groups:
        raise _refused(403, "you see no project")
    return groups[0] if len(groups) == 1 else cast("Filter", {"$or": groups})


def _metadata(value: Mapping[str, object]) -> Mapping[str, object]:
    return _mapping(value.get("metadata"))


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def _put(value: Value, key: str, new: dict[str, object]) -> None:
    """Change a mapping in place where there is one: a server may keep a reference to it."""
    held = value.get(key)
    if isinstance(held, MutableMapping):
        cast("Value", held).update(new)
    else:
        value[key] = new


def _header(headers: Mapping[str | bytes, str | bytes], name: str) -> str:
    for key, value in headers.items():
        text = key.decode("latin-1") if isinstance(key, bytes) else key
        if text.lower() == name:
            return value.decode("latin-1") if isinstance(value, bytes) else value
    return ""


def _refused(status: int, detail: str) -> Exception:
    return Auth.exceptions.HTTPException(status_code=status, detail=detail)
