"""The harness in a folder: read exactly, switched file by file, never over somebody's edit."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from connectors.harness import staging
from connectors.harness.atomic import locked
from connectors.harness.changes import changed_paths
from connectors.harness.paths import Include
from connectors.harness.swap import ForeignFileError, Swap
from connectors.harness.tree import read_tree
from contracts.errors import ConnectorError, ForeignChange
from contracts.harness import Effect, HarnessSnapshot, Standing, TargetChange
from contracts.json_types import sha256_hex

T = TypeVar("T")

LOCK_WAIT_S = 30.0


class DirectoryHarness:
    """Implements `contracts.protocols.Harness` for the files of a folder that patterns name.

    A reader of the folder can see some files changed and others not yet, for milliseconds; each
    single file is whole at any moment. On Linux a file and its successor change places in one step
    and what was displaced is compared afterwards, so an edit that lands in between is given back.
    Elsewhere that comparison comes first, and an edit within microseconds can be overwritten.

    Attributes:
        target: `directory:` and the resolved root.
    """

    def __init__(
        self, root: Path, include: Sequence[str], work: Path, *, lock_wait_s: float = LOCK_WAIT_S
    ) -> None:
        """Look at nothing but the root's real path.

        Args:
            root: folder that the paths are relative to.
            include: POSIX patterns of the files that belong to the harness.
            work: our folder for staging and locks.
            lock_wait_s: how long another process's switch of the same target is waited for.

        Raises:
            ConfigError: a pattern is no safe relative one.
        """
        self._root = root.resolve()
        self._include = Include(include)
        self._work = work.absolute()
        self._lock_wait_s = lock_wait_s
        self.target = f"directory:{self._root}"

    async def read(self) -> HarnessSnapshot:
        """All files as they are now.

        Raises:
            PolicyRefused: a file is a link, no plain file, or too large.
            ConnectorError: the folder cannot be read.
        """
        return await self._away("read", self._read)

    async def stage(self, effect: Effect, before: HarnessSnapshot, after: HarnessSnapshot) -> None:
        """Write the changed files to the staging folder. Idempotent by `effect.key`.

        Raises:
            PolicyRefused: a changed path is unsafe or no part of this harness.
        """
        await self._away("stage", lambda: self._stage(effect, before, after))

    async def switch(self, effect: Effect, before: HarnessSnapshot, after: HarnessSnapshot) -> None:
        """Make `after` visible; see the protocol. Also gives back what an earlier call displaced.

        Raises:
            ForeignChange: some file, changed by this effect or not, is neither side. `switched`
                tells whether files of this effect were visible and were put back.
        """
        await self._away("switch", lambda: self._switch(effect, before, after))

    async def standing(self, before: HarnessSnapshot, after: HarnessSnapshot) -> Standing:
        """Where all files of both sides stand, and all others that the patterns name.

        "mixed" also when every file is its after but an edit that the switch displaced still
        waits to be given back: `switch` does it.
        """
        return await self._away("standing", lambda: self._standing(before, after))

    async def discard(self, effect: Effect) -> None:
        """Remove the staging folder, but never an edit of somebody else's that ended up there."""
        await self._away("discard", lambda: self._discard(effect))

    async def history(self, limit: int = 50) -> Sequence[TargetChange]:
        """None: a plain folder remembers nothing. The ledger's releases do."""
        del limit
        return ()

    def _read(self) -> HarnessSnapshot:
        return read_tree(self._root, self._include)

    def _stage(self, effect: Effect, before: HarnessSnapshot, after: HarnessSnapshot) -> None:
        self._check(effect, before, after)
        with self._locked():
            staging.prepare(self._work, self._root, effect, before, after)

    def _switch(self, effect: Effect, before: HarnessSnapshot, after: HarnessSnapshot) -> None:
        self._check(effect, before, after)
        changed = before.changed(after)
        with self._locked():
            place = staging.prepare(self._work, self._root, effect, before, after)
            swap = Swap(
                root=self._root, include=self._include, staging=place, before=before, after=after
            )
            self._return_displaced(swap, changed)
            foreign = self._foreign(swap, changed)
            if foreign:
                raise self._stopped(swap, changed, foreign)
            for path in changed:
                if swap.state(path) == "after":
                    continue
                try:
                    swap.forward(path)
                except ForeignFileError:
                    raise self._stopped(swap, changed, [path]) from None
            # A program that had opened a file before the switch may have written to it since.
            self._return_displaced(swap, changed)

    def _return_displaced(self, swap: Swap, changed: Sequence[str]) -> None:
        """Give back what an earlier call, or a moment ago this one, displaced; then stop."""
        displaced = [
            path
            for path in swap.staging.displaced()
            if path in changed and swap.state(path) == "after"
        ]
        for path in displaced:
            swap.give_back(path)
        if displaced:
            raise self._stopped(swap, changed, displaced, switched=True)

    def _foreign(self, swap: Swap, changed: Sequence[str]) -> list[str]:
        now = read_tree(self._root, self._include, lenient=True)
        others = (path for path in now.changed(swap.before) if path not in changed)
        return sorted([*others, *(path for path in changed if swap.state(path) == "foreign")])

    def _stopped(
        self, swap: Swap, changed: Sequence[str], foreign: Sequence[str], *, switched: bool = False
    ) -> ForeignChange:
        """Put back every other file that this effect switched, and tell."""
        ours = [path for path in reversed(changed) if path not in foreign]
        returned = [path for path in ours if swap.back(path)]
        names = ", ".join(foreign)
        return ForeignChange(
            f"{names}: changed by somebody else since; left as found",
            paths=foreign,
            switched=switched or bool(returned),
        )

    def _standing(self, before: HarnessSnapshot, after: HarnessSnapshot) -> Standing:
        with self._locked():
            now = read_tree(self._root, self._include, lenient=True)
            of_before, of_after = set(now.changed(before)), set(now.changed(after))
            if of_before & of_after:
                return "foreign"
            if not of_before:
                return "before"
            mine = (
                place
                for place in staging.every(self._work, self._root)
                if place.serves(self.target, before, after)
            )
            if of_after or any(place.displaced() for place in mine):
                return "mixed"
            return "after"

    def _discard(self, effect: Effect) -> None:
        with self._locked():
            staging.discard(self._work, self._root, effect.key)

    def _check(self, effect: Effect, before: HarnessSnapshot, after: HarnessSnapshot) -> None:
        changed_paths(self.target, effect, before, after, include=self._include)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        name = sha256_hex(self.target.encode("utf-8", "surrogateescape"))
        with locked(self._work / "locks" / f"{name}.lock", wait_s=self._lock_wait_s):
            yield

    async def _away(self, operation: str, work: Callable[[], T]) -> T:
        """Off the event loop, and with the file system's errors in our words."""
        try:
            return await asyncio.to_thread(work)
        except OSError as error:
            where = error.filename2 or error.filename or self._root  # of a rename: to where
            raise ConnectorError(
                f"harness: {operation} failed: {where}: {error.strerror or error}",
                backend="directory",
                operation=operation,
                retryable=True,  # a right, a disk: somebody mends it, and the next call goes on
            ) from error
