"""Change files of a folder one by one, each compared with what it replaces, and take them back."""

import contextlib
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from connectors.harness.atomic import exchange, move_new, sync_folder, write_durable
from connectors.harness.paths import Include
from connectors.harness.staging import Staging
from connectors.harness.tree import look
from contracts.harness import HarnessFile, HarnessSnapshot

State = Literal["before", "after", "foreign"]


class ForeignFileError(Exception):
    """Somebody else wrote this file; it is as they left it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """The switch of one effect. Each call first looks at what is there: it may be a repeat."""

    root: Path
    include: Include
    staging: Staging
    before: HarnessSnapshot
    after: HarnessSnapshot

    def state(self, path: str) -> State:
        """Which side of the change the file is."""
        now = look(self.root / path)
        if now == self.before.files.get(path):
            return "before"
        return "after" if now == self.after.files.get(path) else "foreign"

    def forward(self, path: str) -> None:
        """Make the file its after.

        Raises:
            ForeignFileError: it was neither before nor after at that moment.
        """
        self._change(path, self.before.files.get(path), self.after.files.get(path))

    def back(self, path: str) -> bool:
        """Make a file that this effect switched its before; False: it did not, or it is foreign."""
        if not self._ours(path):
            return False
        with contextlib.suppress(ForeignFileError):
            self._change(path, self.after.files.get(path), self.before.files.get(path))
            return True
        return False

    def give_back(self, path: str) -> None:
        """Return what the slot holds, somebody's edit, to its place."""
        slot, target = self.staging.slot(path), self.root / path
        ours = (self.before.files.get(path), self.after.files.get(path))
        try:
            if look(target) is None:
                move_new(slot, target)
            else:
                exchange(slot, target)
        except OSError:  # the name was taken or given up meanwhile; what is newest stays
            self.staging.aside(path)
        else:
            held = self.staging.held(path)
            if held is not None and held not in ours:
                # A still newer edit landed on our file: that one stays, the older is kept.
                exchange(slot, target)
                self.staging.aside(path)
        self._sync(target)

    def _ours(self, path: str) -> bool:
        """Whether the file is its after through this effect: the slot tells."""
        if self.state(path) != "after":
            return False
        held = self.staging.held(path)
        old = self.before.files.get(path)
        if old is not None:
            return held == old
        slot = self.staging.slot(path)
        return held is None or (slot.exists() and slot.samefile(self.root / path))

    def _change(self, path: str, old: HarnessFile | None, new: HarnessFile | None) -> None:
        target = self.root / path
        if not self._parents(target, make=old is None):
            raise ForeignFileError(path)
        try:
            if new is None:
                self._take_away(path, old)
            elif old is None:
                self._ready(path, new)
                move_new(self.staging.slot(path), target)
            else:
                self._ready(path, new)
                exchange(self.staging.slot(path), target)
                self._confirm(path, old)
        except (FileExistsError, FileNotFoundError, NotADirectoryError):
            # The file, or a folder above it, came or went since it was looked at.
            if look(target) != new:
                self._drop_empty_parents(target)
                raise ForeignFileError(path) from None
        self._sync(target)
        if new is None:
            self._drop_empty_parents(target)

    def _take_away(self, path: str, old: HarnessFile | None) -> None:
        if self.staging.held(path) is not None:
            self._vacate(path)
        move_new(self.root / path, self.staging.slot(path))
        self._confirm(path, old)

    def _ready(self, path: str, new: HarnessFile) -> None:
        """Make the slot hold `new`."""
        held = self.staging.held(path)
        if held == new:
            return
        if held is not None:
            self._vacate(path)
        write_durable(self.staging.slot(path), new.data, new.mode)

    def _vacate(self, path: str) -> None:
        if self.staging.held(path) in (self.before.files.get(path), self.after.files.get(path)):
            self.staging.slot(path).unlink()
        else:
            self.staging.aside(path)

    def _confirm(self, path: str, old: HarnessFile | None) -> None:
        """What was displaced must be what was expected; else it goes back at once."""
        if self.staging.held(path) != old:
            self.give_back(path)
            raise ForeignFileError(path)

    def _parents(self, target: Path, *, make: bool) -> bool:
        """Whether all folders above are folders, not links; missing ones are made on request."""
        for folder in reversed(target.relative_to(self.root).parents):
            place = self.root / folder
            try:
                if not stat.S_ISDIR(place.lstat().st_mode):
                    return False
            except FileNotFoundError:
                if not make:
                    return False
                place.mkdir(exist_ok=True)
                sync_folder(place.parent)
        return True

    def _sync(self, target: Path) -> None:
        sync_folder(self.staging.folder)
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            sync_folder(target.parent)

    def _drop_empty_parents(self, target: Path) -> None:
        """Remove folders that became empty, but none that a pattern writes out."""
        for folder in target.relative_to(self.root).parents:
            path = folder.as_posix()
            if path == "." or self.include.names(path):
                return
            try:
                (self.root / folder).rmdir()
            except OSError:  # not empty, or gone
                return
            sync_folder((self.root / folder).parent)
