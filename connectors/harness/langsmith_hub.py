"""The harness in LangSmith's hub: prompts by a tag, skills and agents by their newest commit."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Final
from urllib.parse import urlsplit

from configs.harness_settings import LangsmithHubTarget
from connectors.harness.changes import changed_paths
from connectors.harness.langsmith_calls import Access, HubCalls
from connectors.harness.langsmith_folders import FOLDERS, FolderKind, FolderRepo, is_text
from connectors.harness.langsmith_note import SHOWN
from connectors.harness.langsmith_prompts import PromptRepo
from connectors.harness.langsmith_repos import Moved, Repo, RepoChange, RepoState
from connectors.harness.paths import Include, checked_path
from connectors.prompts.heads import Heads
from connectors.prompts.text import PROMPTS, prompt_name
from connectors.traces.langsmith.server import Server, root_of
from connectors.traces.raw import as_text
from contracts.errors import ConnectorError, ForeignChange, PolicyRefused
from contracts.harness import Effect, HarnessFile, HarnessSnapshot, Standing, TargetChange
from contracts.json_types import Json

_log = logging.getLogger(__name__)

MODE: Final = 0o644
"""The hub keeps no modes; every file has this one."""
_AT_ONCE: Final = 8
_WILD: Final = frozenset("*?[")
_HANDLE: Final = re.compile(r"[a-z][a-z0-9_-]*")
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


class LangsmithHubHarness:
    """Implements `contracts.protocols.Harness` for what a workspace has in LangSmith's hub.

    A prompt changes by a commit that no tag points to and then by moving the tag, so an agent reads
    the old commit or the new one. A skill or an agent changes by one commit that is visible at
    once, so nothing of it is staged. Several of them do not change at one moment.

    Attributes:
        target: `langsmith_hub:` and whose hub it is.
        left_out: prompts that the settings name and that `read` could not take, with the reason.
    """

    def __init__(
        self, spec: LangsmithHubTarget, access: Access, *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:  # fmt: skip
        """Nothing is asked yet.

        Args:
            spec: which prompts, skills and agents.
            access: whose hub.
            sleep: how to wait for a tag that moved.
        """
        self._sleep = sleep
        self._spec = spec
        self._access = access
        self._include = Include(spec.mounted)
        self._server: Server | None = None
        self.left_out: dict[str, str] = {}
        whose = access.workspace or spec.env_prefix.rstrip("_").lower()
        of = f"/{whose}" if whose else ""
        self.target = f"langsmith_hub:{_address(root_of(access.api_url))}{of}@{spec.tag}"

    async def read(self) -> HarnessSnapshot:
        """All texts as agents read them now; `origin` names the commits.

        Raises:
            PolicyRefused: a file of a skill or an agent has an unsafe path.
            ConnectorError: the hub cannot be read.
        """
        async with self._calls("read") as calls:
            return _snapshot(await self._read(calls))

    async def heads(self) -> Heads:
        """The manifest of each prompt by its path, and the tag that it is read by.

        Raises:
            ConnectorError: the hub cannot be read.
        """
        async with self._calls("heads") as calls:
            states = await self._read(calls)
        return {
            path: {"manifest": kept, "labels": [self._spec.tag], "latest": False}
            for _, state in states
            for path, kept in state.kept.items()
        }

    async def stage(self, effect: Effect, before: HarnessSnapshot, after: HarnessSnapshot) -> None:
        """A commit of each changed prompt, found again by the effect's key; of folders nothing.

        Raises:
            PolicyRefused: a changed path is none that can be changed here.
            ConnectorError: not `retryable`: the hub refused.
        """
        changes = self._changes(effect, before, after)
        async with self._calls("stage") as calls:
            for repo, change in changes:
                try:
                    await repo.stage(calls, change)
                except Moved:
                    return  # `switch` looks at all of them, and says so

    async def switch(self, effect: Effect, before: HarnessSnapshot, after: HarnessSnapshot) -> None:
        """Move tags and commit folders, one repository after the other; see the protocol."""
        changes = self._changes(effect, before, after)
        made: list[Repo] = []
        async with self._calls("switch") as calls:
            now = _snapshot(await self._read(calls))
            foreign = sorted(set(now.changed(before)) & set(now.changed(after)))
            if foreign:
                raise await self._stopped(calls, changes, made, foreign)
            for repo, change in changes:
                try:
                    if await repo.switch(calls, change):
                        made.append(repo)
                except Moved as moved:
                    raise await self._stopped(calls, changes, made, moved.paths) from None
                except ConnectorError as error:
                    if not error.retryable:  # refused for good: what of ours is visible goes back
                        await self._stopped(calls, changes, made, ())
                    raise

    async def standing(self, before: HarnessSnapshot, after: HarnessSnapshot) -> Standing:
        """Where all texts stand between the two."""
        now = await self.read()
        of_before, of_after = set(now.changed(before)), set(now.changed(after))
        if of_before & of_after:
            return "foreign"
        if not of_before:
            return "before"
        return "mixed" if of_after else "after"

    async def discard(self, effect: Effect) -> None:
        """Nothing: the hub forgets no commit, and one that no tag points to is read by nobody."""
        del effect

    async def history(self, limit: int = 50) -> Sequence[TargetChange]:
        """The newest commits of all, staged ones that were never pointed to included."""
        async with self._calls("history") as calls:
            found = [
                change
                for repo in await self._repos(calls)
                for change in await repo.history(calls, limit)
            ]
        return sorted(found, key=lambda c: c.at or _LONG_AGO, reverse=True)[:limit]

    async def _stopped(
        self, calls: HubCalls, changes: Sequence[tuple[Repo, RepoChange]], made: Sequence[Repo],
        foreign: Iterable[str],
    ) -> ForeignChange:  # fmt: skip
        """Put back what of ours agents read already; the error that says what is foreign.

        Args:
            calls: of this operation.
            changes: all of them.
            made: what this operation switched.
            foreign: paths that are left as they are.
        """
        paths = sorted(set(foreign))
        switched = False
        for repo, change in reversed(changes):
            back = _back(change, (await repo.read(calls)).files)
            if back is None or not (repo in made or await repo.is_ours(calls, change)):
                continue
            switched = True
            try:
                await repo.switch(calls, back)
            except Moved as moved:
                paths = sorted({*paths, *moved.paths})
        return ForeignChange(
            f"{', '.join(paths)}: changed by somebody else since; left as found",
            paths=paths, switched=switched,
        )  # fmt: skip

    async def _read(self, calls: HubCalls) -> Sequence[tuple[str, RepoState]]:
        """The name and state of every repository."""
        repos = await self._repos(calls)
        await calls.hub()  # asked once what answers there, before all of them ask at once
        slots = asyncio.Semaphore(_AT_ONCE)

        async def one(repo: Repo) -> RepoState:
            async with slots:
                return await repo.read(calls)

        states = await asyncio.gather(*(one(repo) for repo in repos))
        found = [(repo.name, state) for repo, state in zip(repos, states, strict=True)]
        self.left_out = {name: state.left_out for name, state in found if state.left_out}
        for name, why in self.left_out.items():
            _log.warning("%s: %r is left out: %s", self.target, name, why)
        return found

    async def _repos(self, calls: HubCalls) -> list[Repo]:
        prompts = await self._names(calls, self._spec.prompts, "prompt")
        found: list[Repo] = [PromptRepo(name, self._spec.tag) for name in prompts]
        found += [
            FolderRepo(n, "skill") for n in await self._names(calls, self._spec.skills, "skill")
        ]
        found += [
            FolderRepo(n, "agent") for n in await self._names(calls, self._spec.agents, "agent")
        ]
        return found

    async def _names(self, calls: HubCalls, patterns: Sequence[str], kind: str) -> list[str]:
        """The names, with patterns replaced by what the workspace has of that kind."""
        names = [name for name in patterns if not set(name) & _WILD]
        wild = [name for name in patterns if set(name) & _WILD]
        if wild:
            own = as_text(_field(await calls.get("/settings"), "id"))
            listed = calls.pages("/repos", "repos", {"repo_type": kind, "is_archived": "false"})
            async for row in listed:
                name = as_text(row.get("repo_handle"))
                mine = as_text(row.get("tenant_id")) == own
                kinds = (kind, *(("",) if kind == "prompt" else ()))
                if mine and as_text(row.get("repo_type")) in kinds and "/" not in name:
                    names += [name for pattern in wild if fnmatchcase(name, pattern)]
        return sorted(set(names))

    def _changes(
        self, effect: Effect, before: HarnessSnapshot, after: HarnessSnapshot
    ) -> list[tuple[Repo, RepoChange]]:
        """The change of each repository, in the order of the paths."""
        by_repo: dict[tuple[str, str], list[str]] = {}
        for path in changed_paths(self.target, effect, before, after):
            place = self._place(path)
            _check_file(path, after.files.get(path))
            by_repo.setdefault(place, []).append(path)
        changes = [
            (self._repo(folder, name), RepoChange(
                effect=effect,
                before={p: before.files[p].data for p in paths if p in before.files},
                after={p: after.files[p].data for p in paths if p in after.files},
            ))
            for (folder, name), paths in sorted(by_repo.items())
        ]  # fmt: skip
        for repo, change in changes:
            if isinstance(repo, PromptRepo) and set(change.before) != set(change.after):
                raise PolicyRefused(
                    f"{', '.join(change.paths)}: a prompt is not added, removed or turned into "
                    "another kind here; do it in LangSmith, then edit its text"
                )
        return changes

    def _place(self, path: str) -> tuple[str, str]:
        """Folder and repository of a path that may be changed here."""
        if not self._include.matches(checked_path(path)):
            raise PolicyRefused(f"path {path!r}: not in the harness; no `prompts`, `skills` or "
                                "`agents` names it")  # fmt: skip
        if path.startswith(PROMPTS):
            return PROMPTS, prompt_name(path)
        folder, name, inside = path.split("/", 2)
        kind: FolderKind = "skill" if folder == FOLDERS["skill"] else "agent"
        if not is_text(kind, inside):
            raise PolicyRefused(f"path {path!r}: of an agent only its Markdown is edited")
        if not _HANDLE.fullmatch(name):
            why = "a name in the hub is of lower-case letters, digits, `-` and `_`"
            raise PolicyRefused(f"path {path!r}: {why}")
        return folder, name

    def _repo(self, folder: str, name: str) -> Repo:
        if folder == PROMPTS:
            return PromptRepo(name, self._spec.tag, sleep=self._sleep)
        return FolderRepo(name, "skill" if folder == FOLDERS["skill"] else "agent")

    @asynccontextmanager
    async def _calls(self, operation: str) -> AsyncIterator[HubCalls]:
        calls = HubCalls(self._access, operation, self._server)
        try:
            yield calls
        finally:
            self._server = calls.server
            await calls.aclose()


def _address(url: str) -> str:
    """The address without a user or a password in it: it stands in cards and logs."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _check_file(path: str, file: HarnessFile | None) -> None:
    """Refuse what the hub cannot hold."""
    if file is None:
        return
    if file.mode != MODE:
        raise PolicyRefused(f"path {path!r}: the hub keeps no file modes")
    try:
        file.data.decode()
    except UnicodeDecodeError:
        raise PolicyRefused(f"path {path!r}: the hub keeps text in UTF-8 alone") from None


def _snapshot(states: Sequence[tuple[str, RepoState]]) -> HarnessSnapshot:
    files = {
        path: HarnessFile(data=data, mode=MODE)
        for _, state in states
        for path, data in state.files.items()
    }
    named = [f"{name}@{state.commit[:SHOWN]}" for name, state in states if state.commit]
    return HarnessSnapshot(files=files, origin=", ".join(named) or None)


def _back(change: RepoChange, now: Mapping[str, bytes]) -> RepoChange | None:
    """The way back for the files that are their after; None: none is."""
    ours = [p for p in change.paths if now.get(p) == change.after.get(p) != change.before.get(p)]
    if not ours:
        return None
    return RepoChange(
        effect=change.effect,
        before={p: change.after[p] for p in ours if p in change.after},
        after={p: change.before[p] for p in ours if p in change.before},
    )


def _field(value: Json, name: str) -> Json:
    return value.get(name) if isinstance(value, dict) else None
