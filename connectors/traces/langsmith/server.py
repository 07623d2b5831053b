"""Which LangSmith stands at an address: where its API lives, which generation, which project.

Source: `GET /info` (version, instance_flags) and `GET /sessions`; the base address of the second
generation is derived as langsmith 0.15.1 does (`/api/v1` or `/api` at the end is cut off).
"""

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote

from connectors.traces.calls import BadRequest, Broken, Calls, NotThere
from connectors.traces.langsmith.values import as_object, as_time_ns
from connectors.traces.raw import as_text
from contracts.errors import UsageError
from contracts.json_types import Json

FIRST_V2: Final = (0, 16)
"""The first server version that has the second generation."""

_SUFFIXES: Final = ("/api/v1", "/api")
_VERSION = re.compile(r"v?(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What `/info` says, and what follows from it."""

    prefix: str
    """Path of the first generation under the root."""
    version: str
    flags: Mapping[str, Json]
    v2: bool
    """The second generation is the one to ask."""
    v1: bool
    """The first generation may be asked."""
    v2_alone: bool
    """Nothing can be in the first generation only."""
    why: str

    @property
    def flags_text(self) -> str:
        """The flags that choose the reader, as they stand in the answer."""
        names = ("ch_query_enabled", "sdb_query_enabled")
        return ", ".join(f"{name}={self.flags[name]}" for name in names if name in self.flags)


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A tracing project, which the API calls a session."""

    id: str
    name: str
    newest_ns: int | None = None


def access_of(key: str, workspace: str | None) -> tuple[dict[str, str], str]:
    """(headers of every call, what to check where one is refused)."""
    if workspace:
        return {"x-api-key": key, "x-tenant-id": workspace}, "check LANGSMITH_API_KEY"
    also = "a key of an organization also needs LANGSMITH_WORKSPACE_ID"
    return {"x-api-key": key}, f"check LANGSMITH_API_KEY; {also}"


def root_of(api_url: str) -> str:
    """The address under which `/api/v2` lives."""
    url = api_url.rstrip("/")
    for suffix in _SUFFIXES:
        if url.endswith(suffix):
            return url.removesuffix(suffix)
    return url


async def find_server(calls: Calls, api_url: str) -> Server:
    """Ask `/info` at the address as given, then where self-hosted servers have it.

    Raises:
        CallError: nobody answers, or no LangSmith does.
    """
    given = api_url.rstrip("/").removeprefix(root_of(api_url))
    failed: NotThere | Broken | BadRequest | None = None
    for prefix in dict.fromkeys((given, "/api/v1", "/api", "")):
        try:
            info = await calls.get(f"{prefix}/info")
        except (NotThere, Broken, BadRequest) as error:
            failed = failed or error
            continue
        if isinstance(info, dict):
            return _server(prefix, info)
    if isinstance(failed, NotThere) and not failed.html:
        return replace(_server(given, {}), why="the server has no /info; v2 is tried first")
    if failed is not None:
        raise failed
    return _server(given, {})


def _server(prefix: str, info: Mapping[str, Json]) -> Server:
    version, flags = as_text(info.get("version"))[:32], as_object(info.get("instance_flags"))
    match = _VERSION.match(version)
    old = match is not None and (int(match[1]), int(match[2])) < FIRST_V2
    smith, click = flags.get("sdb_query_enabled"), flags.get("ch_query_enabled")
    shown = f"server {version or 'of unknown version'}"
    if old:
        why = f"{shown} is older than 0.16, which brought v2"
    elif smith is False and click is not False:
        why = f"{shown} says sdb_query_enabled=False: v2 would find nothing"
    else:
        why = f"{shown} has v2"
    v2 = not old and (smith is not False or click is False)
    return Server(
        prefix=prefix,
        version=version,
        flags=flags,
        v2=v2,
        v1=click is not False,
        v2_alone=v2 and (smith is True or click is False),
        why=why,
    )


async def find_project(calls: Calls, server: Server, project: str) -> Project:
    """The project of this name or id.

    Raises:
        UsageError: there is none.
        CallError: see `connectors.traces.answers`.
    """
    if _is_uuid(project):
        try:
            found = [await calls.get(f"{server.prefix}/sessions/{quote(project, safe='')}")]
        except NotThere:
            found = []
    else:
        answer = await calls.get(
            f"{server.prefix}/sessions",
            {"name": project, "limit": 10, "include_stats": "true"},
        )
        found = answer if isinstance(answer, list) else []
    for one in found:
        row = as_object(one)
        name, key = as_text(row.get("name")), as_text(row.get("id"))
        if key and project in (name, key):
            return Project(id=key, name=name, newest_ns=as_time_ns(row.get("last_run_start_time")))
    raise UsageError(f"langsmith: no project {project!r} in this workspace; check its name")


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True
