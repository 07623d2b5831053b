"""A skill or an agent of LangSmith's hub: a folder of files, whose newest commit agents read.

Source: langsmith 0.15.1 (`/v1/platform/hub/repos/{owner}/{repo}/directories`, `POST …/commits` with
`files`, None for a path that goes, and `parent_commit`). A commit of such a folder carries no
description and is visible at once: so nothing is staged, and whether a change was made is told by
the files alone.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from connectors.harness.langsmith_calls import Conflict, HubCalls, part
from connectors.harness.langsmith_note import change_of
from connectors.harness.langsmith_repos import Moved, RepoChange, RepoState
from connectors.harness.paths import checked_path
from connectors.traces.langsmith.values import as_object
from connectors.traces.raw import as_text
from contracts.errors import ConnectorError, PolicyRefused
from contracts.harness import TargetChange
from contracts.json_types import Json

FolderKind = Literal["skill", "agent"]
FOLDERS: Final[Mapping[FolderKind, str]] = {"skill": "skills", "agent": "agents"}


def is_text(kind: FolderKind, path: str) -> bool:
    """Whether a file of such a folder is part of the harness: of an agent only its Markdown.

    The rest of an agent (its tools, its model) is no text and stays as it is.
    """
    return kind == "skill" or path.endswith(".md")


class FolderRepo:
    """Implements `langsmith_repos.Repo` for one skill or agent."""

    def __init__(self, name: str, kind: FolderKind) -> None:
        """Take its name without an owner."""
        self.name = name
        self._kind: FolderKind = kind
        self._prefix = f"{FOLDERS[kind]}/{name}/"

    async def read(self, calls: HubCalls) -> RepoState:
        """The newest commit's files; what links to other repositories is left out."""
        answer = as_object(await calls.get(await self._path(calls), {"repo_type": self._kind}))
        files: dict[str, bytes] = {}
        for path, entry in as_object(answer.get("files")).items():
            content = as_object(entry).get("content")
            if as_object(entry).get("type") != "file" or not is_text(self._kind, path):
                continue
            if not isinstance(content, str):
                raise calls.refused(f"{self._kind} {self.name!r}: {path[:80]!r} has no content")
            files[self._checked(path)] = _bytes(content, path)
        commit = as_text(answer.get("commit_hash")) or None
        return RepoState(files=files, commit=commit, kept={})

    async def stage(self, calls: HubCalls, change: RepoChange) -> None:
        """Nothing: a commit would be read at once."""

    async def is_ours(self, calls: HubCalls, change: RepoChange) -> bool:
        """True: a commit of a folder does not say whose it is, so equal files count as ours."""
        del calls, change
        return True

    async def switch(self, calls: HubCalls, change: RepoChange) -> bool:
        """Commit the files that differ, on the commit that was read."""
        now = await self.read(calls)
        if change.done(now.files):
            return False
        if change.foreign(now.files):
            raise Moved(change.foreign(now.files))
        if now.commit is None and not now.files:
            await self._found_repo(calls)
        body: dict[str, Json] = {"files": {
            path.removeprefix(self._prefix): _entry(change.after.get(path))
            for path in change.paths
            if now.files.get(path) != change.after.get(path)
        }}  # fmt: skip
        if now.commit is not None:
            body["parent_commit"] = now.commit
        try:
            await calls.send("POST", f"{await self._path(calls)}/commits", body)
        except Conflict:
            raise Moved(change.paths) from None
        after = await self.read(calls)
        if not change.done(after.files):
            theirs = change.foreign(after.files) or change.paths
            raise Moved(theirs)
        return True

    async def history(self, calls: HubCalls, limit: int) -> Sequence[TargetChange]:
        """Commits as far as the hub lists those of folders; they say nothing of effects."""
        try:
            rows = calls.pages(f"/commits/-/{part(self.name)}", "commits", most=1)
            return [change_of(self.name, row) async for row in rows][:limit]
        except ConnectorError:
            return []

    async def _found_repo(self, calls: HubCalls) -> None:
        """Make the repository, private, unless it is there without a commit."""
        if await calls.get(f"/repos/-/{part(self.name)}") is not None:
            return
        body: Json = {"repo_handle": self.name, "repo_type": self._kind, "is_public": False}
        try:
            await calls.send("POST", "/repos/", body)
        except Conflict:
            return

    async def _path(self, calls: HubCalls) -> str:
        return f"{await calls.hub()}/-/{part(self.name)}/directories"

    def _checked(self, path: str) -> str:
        try:
            return checked_path(f"{self._prefix}{path}")
        except PolicyRefused as refused:
            raise PolicyRefused(f"langsmith: {self._kind} {self.name!r}: {refused}") from None


def _entry(data: bytes | None) -> Json:
    return None if data is None else {"type": "file", "content": data.decode()}


def _bytes(content: str, path: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError:
        raise PolicyRefused(f"langsmith: {path[:80]!r} is not valid Unicode") from None
