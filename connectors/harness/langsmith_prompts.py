"""A prompt of LangSmith's hub: commits that nobody reads, and the tag that agents read by.

Source: langsmith 0.15.1 (`/commits/{owner}/{repo}[/{commit or tag}]`, `POST` with `parent_commit`)
and LangSmith's published API description (`/repos/{owner}/{repo}/tags/{tag}`, `PATCH` with
`commit_id`). What the server does with a parent that is not its newest commit is not documented, so
a 409 and another parent than the one that was sent are both looked into.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from connectors.harness.langsmith_calls import Conflict, HubCalls, Row, part
from connectors.harness.langsmith_note import base_of, change_of, key_of, note, parent_of
from connectors.harness.langsmith_repos import Moved, RepoChange, RepoState
from connectors.prompts.manifest import ManifestError, manifest_text, with_text
from connectors.prompts.text import prompt_path
from connectors.traces.langsmith.values import as_object
from connectors.traces.raw import as_text
from contracts.harness import TargetChange
from contracts.json_types import Json, canonical_json

LOOKS: Final = 5
"""How often a moved tag is read back before it counts as not in effect yet."""
_WAIT_S: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One commit of a prompt, with what a manifest says of its text."""

    hash: str
    manifest: Json
    path: str
    data: bytes
    description: str


class NoText(Exception):
    """Agents read nothing there that could be edited; says why."""


class PromptRepo:
    """Implements `langsmith_repos.Repo` for one prompt."""

    def __init__(
        self, name: str, tag: str, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        """Take the prompt's name without an owner, and the tag that agents read by."""
        self.name = name
        self._tag = tag
        self._sleep = sleep

    async def read(self, calls: HubCalls) -> RepoState:
        """The commit that the tag points to, or why there is none that could be edited."""
        try:
            now = await self._tagged(calls)
        except NoText as nothing:
            return RepoState(files={}, commit=None, kept={}, left_out=str(nothing))
        return RepoState(files={now.path: now.data}, commit=now.hash, kept={now.path: now.manifest})

    async def stage(self, calls: HubCalls, change: RepoChange) -> None:
        """A commit that no tag points to. Where the prompt is neither side, none is made."""
        now = await self._readable(calls, change)
        if not change.done({now.path: now.data}) and not change.foreign({now.path: now.data}):
            await self._staged(calls, change, now)

    async def is_ours(self, calls: HubCalls, change: RepoChange) -> bool:
        """Whether the tagged commit was made for the effect; one that a person tagged stays."""
        return key_of((await self._readable(calls, change)).description) == change.effect.key

    async def switch(self, calls: HubCalls, change: RepoChange) -> bool:
        """Move the tag to the staged commit, unless it moved since it was read."""
        now = await self._readable(calls, change)
        read = {now.path: now.data}
        if change.done(read):
            return False
        if change.foreign(read):
            raise Moved(change.foreign(read))
        staged = await self._staged(calls, change, now)
        points_to = await self._points_to(calls)
        if points_to not in (now.hash, staged.hash):
            raise Moved(change.paths)
        if points_to != staged.hash:
            await self._move(calls, staged)
        await self._settled(calls, change)
        return True

    async def history(self, calls: HubCalls, limit: int) -> Sequence[TargetChange]:
        """Commits, staged ones that no tag ever pointed to included."""
        found: list[TargetChange] = []
        async for row in self._listed(calls):
            if len(found) == limit:
                break
            found.append(change_of(self.name, row))
        return found

    async def _readable(self, calls: HubCalls, change: RepoChange) -> Commit:
        """What agents read; a prompt that is gone, or is no text any more, was changed."""
        try:
            return await self._tagged(calls)
        except NoText:
            raise Moved(change.paths) from None

    async def _tagged(self, calls: HubCalls) -> Commit:
        commit = await self._commit(calls, self._tag)
        if commit is not None:
            return commit
        if await calls.get(f"/repos/-/{part(self.name)}") is None:
            raise NoText("there is no prompt of this name in the workspace")
        raise NoText(f"no commit of it is tagged {self._tag!r}; tag the one that agents read")

    async def _commit(self, calls: HubCalls, which: str) -> Commit | None:
        """A commit by its hash or a tag, with the model that goes with it; None: there is none.

        Raises:
            NoText: its text could not be written back exactly.
        """
        path = f"/commits/-/{part(self.name)}/{part(which)}"
        answer = await calls.get(path, {"include_model": "true"})
        if answer is None:
            return None
        found = as_object(answer)
        try:
            text = manifest_text(found.get("manifest"))
        except ManifestError as error:
            raise NoText(f"it cannot be edited as text: {error}") from None
        return Commit(
            hash=as_text(found.get("commit_hash")), manifest=found.get("manifest"),
            path=prompt_path(self.name, chat=text.chat), data=text.text.encode(),
            description=as_text(found.get("description")),
        )  # fmt: skip

    async def _older(self, calls: HubCalls, which: str) -> Commit | None:
        """A commit that agents do not read, if it has a text."""
        try:
            return await self._commit(calls, which) if which else None
        except NoText:
            return None

    async def _staged(self, calls: HubCalls, change: RepoChange, now: Commit) -> Commit:
        """The commit to point to: ours from an earlier try, the one before it, or a new one."""
        wanted = self._wanted(calls, change, now)
        rows = [row async for row in self._listed(calls, most=1)]
        mine = [r for r in rows if key_of(r.get("description")) == change.effect.key]
        before = base_of(now.description) or ""
        for which in (*(as_text(row.get("commit_hash")) for row in mine), before):
            found = await self._older(calls, which)
            if found is not None and _same(found.manifest, wanted):
                self._check_parent(mine, which, change)
                return found
        return await self._make(calls, change, now, wanted)

    def _check_parent(self, rows: Sequence[Row], commit: str, change: RepoChange) -> None:
        """Whether a commit of ours stands on the one that it was sent for.

        Raises:
            Moved: it stands on another one, so somebody else's came in between.
        """
        for row in rows:
            if as_text(row.get("commit_hash")) == commit:
                sent = parent_of(row.get("description"))
                above = as_text(row.get("parent_commit_hash"))
                if above and sent and not (above.startswith(sent) or sent.startswith(above)):
                    raise Moved(change.paths)

    def _wanted(self, calls: HubCalls, change: RepoChange, now: Commit) -> Json:
        try:
            return with_text(now.manifest, change.after[now.path].decode())
        except ManifestError as error:
            raise calls.refused(f"{now.path}: cannot be written to the prompt: {error}") from None

    async def _make(self, calls: HubCalls, change: RepoChange, now: Commit, wanted: Json) -> Commit:
        """A new commit on the tagged one; on the newest where that one is ours as well."""
        try:
            return await self._post(calls, change, now, wanted, parent=now.hash)
        except Conflict:
            nothing: Row = {}
            newest = await anext(self._listed(calls, most=1), nothing)
            tip = await self._older(calls, as_text(newest.get("commit_hash")))
            if tip is not None and _same(tip.manifest, wanted):
                return tip  # somebody made the very same commit, and the hub takes none twice
            if (await self._readable(calls, change)).hash != now.hash:
                raise Moved(change.paths) from None
            if tip is not None and key_of(tip.description) is not None:
                return await self._post(calls, change, now, wanted, parent=tip.hash)
            raise calls.refused(
                f"the prompt {self.name!r} has commits after the one tagged {self._tag!r}, and the "
                "hub takes none beside them; tag the newest, or take them back first"
            ) from None

    async def _post(
        self, calls: HubCalls, change: RepoChange, now: Commit, wanted: Json, *, parent: str
    ) -> Commit:
        description = note(change.effect, now.hash, parent)
        answer = await calls.send("POST", f"/commits/-/{part(self.name)}", {
            "manifest": wanted, "parent_commit": parent, "description": description,
            "skip_webhooks": True,
        })  # fmt: skip
        made = as_text(as_object(as_object(answer).get("commit")).get("commit_hash"))
        row = await self._row(calls, made) if made else None
        if row is None:
            raise calls.unsettled(f"a commit of {self.name!r} was made and is not listed yet")
        self._check_parent([row], made, change)
        found = await self._older(calls, made)
        if found is None or not _same(found.manifest, wanted):
            raise calls.refused(
                f"the prompt {self.name!r} did not come back as it was written; it stays untagged"
            )
        return found

    async def _move(self, calls: HubCalls, to: Commit) -> None:
        row = await self._row(calls, to.hash)
        if row is None or not as_text(row.get("id")):
            raise calls.refused(f"the commit {to.hash[:12]} of {self.name!r} is not listed")
        path = f"/repos/-/{part(self.name)}/tags/{part(self._tag)}"
        await calls.send("PATCH", path, {"commit_id": as_text(row.get("id"))})

    async def _points_to(self, calls: HubCalls) -> str:
        """Hash of the commit that the tag points to, by the hub's own list of tags."""
        path = f"/repos/-/{part(self.name)}/tags/{part(self._tag)}"
        found = as_text(as_object(await calls.get(path)).get("commit_hash"))
        if not found:
            raise calls.refused(f"the hub does not say where the tag {self._tag!r} points to")
        return found

    async def _settled(self, calls: HubCalls, change: RepoChange) -> None:
        for look in range(LOOKS):
            now = await self._readable(calls, change)
            read = {now.path: now.data}
            if change.done(read):
                return
            if change.foreign(read):
                raise Moved(change.foreign(read))
            await self._sleep(_WAIT_S * 2**look)
        raise calls.unsettled(
            f"the tag {self._tag!r} of {self.name!r} was moved and agents still read the old commit"
        )

    async def _row(self, calls: HubCalls, commit: str) -> Row | None:
        async for row in self._listed(calls):
            if as_text(row.get("commit_hash")) == commit:
                return row
        return None

    def _listed(self, calls: HubCalls, *, most: int | None = None) -> AsyncGenerator[Row]:
        return calls.pages(f"/commits/-/{part(self.name)}", "commits", most=most)


def _same(one: Json, other: Json) -> bool:
    return canonical_json(one) == canonical_json(other)
