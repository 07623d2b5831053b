"""Moves of a label from one version to another, each looked at before and after."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from connectors.harness.langfuse_api import BACKEND, Taken, odd
from connectors.harness.langfuse_items import Item
from connectors.harness.langfuse_versions import Store, Version, holder, message_of, taken_by
from contracts.errors import ConnectorError, ForeignChange
from contracts.harness import Effect

MOST_SEARCHED: Final = 500
CLOCKS_DIFFER: Final = timedelta(days=1)
_WAIT_S: Final = 0.2

_log = logging.getLogger(__name__)


class Overtaken(Exception):
    """Somebody else made a version while ours was made, or moved the label; `args` are paths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """The moves of one effect over open connections."""

    store: Store
    effect: Effect
    target: str
    label: str
    lag_s: float
    """How long the server may go on to answer with what was."""
    name_of: Callable[[str], str]
    moved: dict[str, Version | None] = field(default_factory=dict)
    """What had the label before this call moved it, by name."""

    async def forward(self, item: Item) -> None:
        """Make the item its after.

        Raises:
            Overtaken: it is neither side now, or what the new version was made from has changed.
        """
        now = await holder(self.store, item.name, self.label)
        if item.side(now) == "after":
            return
        if item.side(now) == "foreign":
            raise Overtaken(*item.foreign_paths(now))
        version = await self.prepared(item, now)
        now = await holder(self.store, item.name, self.label)  # as late as can be
        if item.side(now) != "before":
            raise Overtaken(*item.foreign_paths(now))
        if version is not None and now is not None and version.beside != now.beside:
            raise Overtaken(*item.paths)
        self.moved[item.name] = now
        await self._point(item, version, now)

    async def _point(self, item: Item, version: Version | None, now: Version | None) -> None:
        """Move the label, or take it away where there is no version, and see that it is so."""
        if version is not None:
            await self.store.label(version, self.label)
        elif now is not None:
            await self.store.unlabel(now, self.label, instead=taken_by(self.effect))
        await self._seen(item, version, now)

    async def _seen(self, item: Item, version: Version | None, was: Version | None) -> None:
        """Wait until the versions say where the label is, then a while for readers by label.

        Raises:
            Overtaken: another version has the label.
            ConnectorError: `retryable`; the server does not show the move yet.
        """
        until = time.monotonic() + self.lag_s
        while not await self._shown(version, was):
            await self._still(item, version, was)
            if time.monotonic() >= until:
                raise ConnectorError(
                    f"langfuse: {item.name!r}: label {self.label} was moved and does not show "
                    "yet; run `resume`", backend=BACKEND, operation="switch", retryable=True,
                )  # fmt: skip
            await asyncio.sleep(min(_WAIT_S, self.lag_s))
        await self._served(item, version, was, until)

    async def _shown(self, version: Version | None, was: Version | None) -> bool:
        """Whether the version itself has the label, or the one that had it has it no more."""
        if version is None:
            old = await self.store.numbered(was.name, was.number) if was is not None else None
            return old is None or self.label not in old.labels
        fresh = await self.store.numbered(version.name, version.number)
        if fresh is not None and fresh.files != version.files:
            raise odd(f"{version.name}@{version.number}", "changed though versions never do")
        return fresh is not None and self.label in fresh.labels

    async def _still(self, item: Item, version: Version | None, was: Version | None) -> None:
        """Raise `Overtaken` where a third version has the label."""
        there = await holder(self.store, item.name, self.label)
        known = {one.number for one in (version, was) if one is not None}
        if there is not None and there.number not in known:
            raise Overtaken(*item.foreign_paths(there))

    async def _served(
        self, item: Item, version: Version | None, was: Version | None, until: float
    ) -> None:
        """Wait for readers by label; that they lag is said and is no failure of the move.

        Raises:
            Overtaken: another version has the label by now.
        """
        wanted = version.number if version is not None else None
        while True:
            seen = await self.store.labelled(item.name, self.label)
            if (seen.number if seen is not None else None) == wanted:
                return
            await self._still(item, version, was)
            if time.monotonic() >= until:
                break
            await asyncio.sleep(min(_WAIT_S, self.lag_s))
        _log.warning(
            "%s: %r: the label is moved, but reads by label still get the version before; "
            "agents may be served the old text for a while", self.target, item.name,
        )  # fmt: skip

    async def prepared(self, item: Item, now: Version | None) -> Version | None:
        """The version to move the label to, made unless it is there; None: to take it away.

        Raises:
            Overtaken: somebody else made a version at the same time.
        """
        if not item.new:
            return None
        if self.effect.kind == "undo":
            former = await self._former(item, now)
            if former is not None:
                return former
        found = await self._mine(item.name)
        if found is None:
            numbers = await self.store.numbers(item.name)
            base = now.number if now is not None else 0
            message = message_of(self.effect, number=max(numbers, default=0) + 1, base=base)
            try:
                number = await self.store.create(item.name, item.new, now, message)
            except Taken as taken:
                raise Overtaken(*item.paths) from taken
            found = await self._read_back(item.name, number)
        whole = self._made(found) and dict(found.files) == item.new
        next_one = found.mark is not None and found.mark.number == found.number
        if not (whole and next_one):
            raise Overtaken(*item.paths)
        return found

    async def _read_back(self, name: str, number: int) -> Version:
        until = time.monotonic() + self.lag_s
        while True:
            made = await self.store.numbered(name, number)
            if made is not None:
                return made
            if time.monotonic() >= until:
                raise odd(f"version {number} of {name!r}", "was made and cannot be read yet")
            await asyncio.sleep(min(_WAIT_S, self.lag_s))

    async def _mine(self, name: str) -> Version | None:
        """The version that an earlier, cut short call made; of several the first."""
        about = self.effect.about
        since = about.at - CLOCKS_DIFFER if about else None
        found = None
        for number in (await self.store.numbers(name))[:MOST_SEARCHED]:
            version = await self.store.numbered(name, number)
            if version is None:
                continue
            if since is not None and version.at is not None and version.at < since:
                break
            if self._made(version):
                found = version
        return found

    async def _former(self, item: Item, now: Version | None) -> Version | None:
        """The version with exactly the files to go back to, with all else as it is now."""
        mark = now.mark if now is not None else None
        numbers = (await self.store.numbers(item.name))[:MOST_SEARCHED]
        for number in [*([mark.base] if mark is not None and mark.base else []), *numbers]:
            version = await self.store.numbered(item.name, number)
            if version is None or version.problem is not None:
                continue
            same = dict(version.files) == item.new
            if same and (now is None or version.beside == now.beside):
                return version
        return None

    async def stopped(self, items: Sequence[Item], foreign: Sequence[str]) -> ForeignChange:
        """Put back every other text whose label this effect moved, and tell."""
        switched = False
        names = {self.name_of(path) for path in foreign}
        for item in reversed(items):
            now = await holder(self.store, item.name, self.label)
            if item.name in names or item.side(now) != "after":
                continue
            was = self.moved.get(item.name)
            if now is None:  # its label was taken away: by this effect, or by a person
                was = was or await holder(self.store, item.name, taken_by(self.effect))
            if item.name in self.moved or was is not None or self._made(now):
                switched = True
                await self._put_back(item, now, was)
            elif self.effect.kind == "undo":
                # A version of old carries no key of the undo: ours or a person's, it stays.
                switched = True
        listed = ", ".join(foreign)
        return ForeignChange(
            f"{listed}: changed by somebody else since; left as found",
            paths=foreign, switched=switched,
        )  # fmt: skip

    def _made(self, version: Version | None) -> bool:
        mark = version.mark if version is not None else None
        return mark is not None and mark.key == self.effect.key

    async def _put_back(self, item: Item, now: Version | None, was: Version | None) -> None:
        back = Item(name=item.name, old=item.new, new=item.old)
        version = was if was is not None else await self._former(back, now)
        if version is not None or not item.old:
            with contextlib.suppress(Overtaken):  # somebody's newer move stays
                await self._point(back, version if item.old else None, now)
