"""A harness of versions that a label points to: a new version first, then the label.

Langfuse has no precondition for a label. So who has it is read right before each move, and between
that answer and the move lie milliseconds in which somebody else's move can be overtaken; a move by
somebody else after ours is seen and left.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from heapq import heapify, heappop, heappush
from typing import Final

from connectors.harness.changes import changed_paths
from connectors.harness.langfuse_items import Item, Look, items_of
from connectors.harness.langfuse_moves import Moves, Overtaken
from connectors.harness.langfuse_versions import LATEST, Store, Version, holder
from connectors.harness.paths import Include, checked_path
from contracts.errors import ConfigError, PolicyRefused
from contracts.harness import Effect, HarnessSnapshot, Standing, TargetChange

LAG_S: Final = 5.0
"""How long a server may go on to answer with what was, before that is said."""
AT_ONCE: Final = 6

_log = logging.getLogger(__name__)


class LabelledHarness:
    """Implements `contracts.protocols.Harness` for prompts, and for skills, of Langfuse.

    Attributes:
        target: kind, server and label.
        left_out: what the settings name and `read` could not take, by name, with the reason.
    """

    kind = ""
    adds = False
    """Whether a prompt or skill may come or go: only where a label can be taken away again."""

    def __init__(self, *, target: str, patterns: Sequence[str], label: str, lag_s: float) -> None:
        """Reach nothing.

        Raises:
            ConfigError: a pattern is unsafe, or the label is one that the server moves itself.
        """
        if label == LATEST:
            raise ConfigError(
                f"harness ({self.kind}): label {LATEST!r} is moved by Langfuse itself; give the "
                "label that your agents read, such as production"
            )
        self.target = target
        self.left_out: dict[str, str] = {}
        self._include = Include(patterns)
        self._label = label
        self._lag_s = lag_s
        self._overtaken: dict[str, list[str]] = {}

    def _open(self) -> AbstractAsyncContextManager[Store]:
        raise NotImplementedError

    def _name_of(self, path: str) -> str:
        """The prompt or skill that a path of the harness belongs to."""
        raise NotImplementedError

    def _wanted(self, name: str) -> bool:
        """Whether the settings mean it."""
        raise NotImplementedError

    def _named(self) -> Sequence[str]:
        """What the settings name without a wildcard."""
        raise NotImplementedError

    def _check_item(self, item: Item) -> None:
        """Refuse what the server cannot hold.

        Raises:
            PolicyRefused: one line that says what and why.
        """
        raise NotImplementedError

    async def read(self) -> HarnessSnapshot:
        """All texts under the label as they are now; `origin` lists their versions."""
        async with self._open() as store:
            look = await self._look(store)
        self.left_out = dict(look.left_out)
        for name, why in self.left_out.items():
            _log.warning("%s: %r is left out: %s", self.target, name, why)
        return look.snapshot

    async def standing(self, before: HarnessSnapshot, after: HarnessSnapshot) -> Standing:
        """Where all texts stand, those that the change does not touch as well."""
        async with self._open() as store:
            now = (await self._look(store)).snapshot
        of_before, of_after = set(now.changed(before)), set(now.changed(after))
        if of_before & of_after:
            return "foreign"
        if not of_before:
            return "before"
        return "mixed" if of_after else "after"

    async def stage(self, effect: Effect, before: HarnessSnapshot, after: HarnessSnapshot) -> None:
        """Make the versions, without the label. Whoever reads `latest` sees them from here on.

        Where somebody else made a version at the same moment, `switch` says so and moves nothing.
        """
        items = self._checked(effect, before, after)
        async with self._open() as store:
            moves = self._moves(store, effect)
            for item in items:
                now = await holder(store, item.name, self._label)
                if item.side(now) == "before":
                    try:
                        await moves.prepared(item, now)
                    except Overtaken as overtaken:
                        self._overtaken[effect.key] = [str(path) for path in overtaken.args]

    async def switch(self, effect: Effect, before: HarnessSnapshot, after: HarnessSnapshot) -> None:
        """Move the label of one text after the other; see the protocol."""
        items = self._checked(effect, before, after)
        overtaken = self._overtaken.pop(effect.key, [])
        async with self._open() as store:
            moves = self._moves(store, effect)
            foreign = self._foreign(await self._look(store), items, before) or overtaken
            if foreign:
                raise await moves.stopped(items, foreign)
            for item in items:
                try:
                    await moves.forward(item)
                except Overtaken as stop:
                    foreign = [str(path) for path in stop.args]
                    raise await moves.stopped(items, foreign) from stop

    async def discard(self, effect: Effect) -> None:
        """Nothing to remove: a version without the label stays, since versions never change."""
        self._overtaken.pop(effect.key, None)

    async def history(self, limit: int = 50) -> Sequence[TargetChange]:
        """The newest versions of all texts under the label, whether the label was on them or not.

        A label's moves are not among them: Langfuse does not tell them.
        """
        found: list[TargetChange] = []
        async with self._open() as store:
            heads: list[tuple[float, str, int]] = []
            newest: dict[tuple[str, int], Version] = {}
            rest = {n: list(await store.numbers(n)) for n in (await self._look(store)).versions}

            async def follow(name: str) -> None:
                while rest[name]:
                    version = await store.numbered(name, rest[name].pop(0))
                    if version is not None:
                        made = version.at.timestamp() if version.at else 0.0
                        newest[name, version.number] = version
                        heads.append((-made, name, version.number))
                        return

            for name in rest:
                await follow(name)
            heapify(heads)
            while heads and len(found) < limit:
                _, name, number = heappop(heads)
                found.append(newest[name, number].change())
                known = len(heads)
                await follow(name)
                if len(heads) > known:
                    heappush(heads, heads.pop())
        return found

    def _moves(self, store: Store, effect: Effect) -> Moves:
        return Moves(
            store=store, effect=effect, target=self.target, label=self._label, lag_s=self._lag_s,
            name_of=self._name_of,
        )  # fmt: skip

    async def _look(self, store: Store) -> Look:
        room = asyncio.Semaphore(AT_ONCE)
        names = [name for name in await store.names() if self._wanted(name)]

        async def one(name: str) -> Version | None:
            async with room:
                return await holder(store, name, self._label)

        found = dict(zip(names, await asyncio.gather(*map(one, names)), strict=True))
        left_out = dict.fromkeys(self._named(), "there is none of this name")
        versions: dict[str, Version] = {}
        unreadable: set[str] = set()
        for name, version in found.items():
            left_out.pop(name, None)
            if version is None:
                if name in self._named():
                    left_out[name] = f"no version of it has the label {self._label}"
            elif why := version.problem or self._unsafe(version):
                left_out[name] = why
                unreadable.add(name)
            else:
                versions[name] = version
        return Look(versions=versions, left_out=left_out, unreadable=frozenset(unreadable))

    def _unsafe(self, version: Version) -> str | None:
        for path in version.files:
            try:
                checked_path(path)
            except PolicyRefused as refused:
                return f"its name is no safe path: {refused}"
            if not self._include.matches(path):
                return f"{path!r} is a hidden or reserved path"
        return None

    def _checked(
        self, effect: Effect, before: HarnessSnapshot, after: HarnessSnapshot
    ) -> Sequence[Item]:
        """The items of the change, once it is sure that it is one of this place."""
        for path in changed_paths(self.target, effect, before, after, include=self._include):
            old, new = before.files.get(path), after.files.get(path)
            if new is not None and new.mode != (old.mode if old is not None else 0o644):
                raise PolicyRefused(f"path {path!r}: Langfuse keeps no modes of files")
        items = items_of(before, after, self._name_of)
        for item in items:
            if not self.adds and not (item.old and item.new):
                what = "removed" if item.old else "added"
                raise PolicyRefused(
                    f"{', '.join(item.paths)}: a prompt cannot be {what} here, since Langfuse has "
                    "no call that takes a label away again; do it in Langfuse, then edit its text"
                )
            if item.new:
                self._check_item(item)
        return items

    def _foreign(self, look: Look, items: Sequence[Item], before: HarnessSnapshot) -> list[str]:
        """Files that are neither side, and others that are not as they were."""
        ours = {item.name for item in items}
        changed = look.snapshot.changed(before)
        others = [path for path in changed if self._name_of(path) not in ours]
        for item in items:
            now = look.versions.get(item.name)
            if item.name in look.unreadable:
                others += item.paths
            elif item.side(now) == "foreign":
                others += item.foreign_paths(now)
        return sorted(set(others))
