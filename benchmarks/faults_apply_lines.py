"""The lines at which an apply is killed, and the lines that make its process a worse place."""

from collections.abc import Iterator

from tests.apply_worlds import Kill

EFFECTS = "memory.effects:Effects"
HARNESS, SWAP = "connectors.harness.directory:DirectoryHarness", "connectors.harness.swap:Swap"

EDIT_AFTER_FIRST_SWITCH = """
from pathlib import Path
from connectors.harness import directory
switch = directory.DirectoryHarness.switch
async def then_edited(self, effect, before, after):
    await switch(self, effect, before, after)
    if effect.kind == "apply":
        Path({file!r}).write_text({text!r}, "utf-8")
directory.DirectoryHarness.switch = then_edited
"""
"""A person's editor saves `file` when the first place was switched."""


def clock(hours: float) -> str:
    """Lines after which every clock of the process is off by so many hours."""
    return f"""
import time
from datetime import timedelta
from memory import database
offset, seconds = timedelta(hours={hours}), time.time
time.time = lambda: seconds() + offset.total_seconds()
made = database.Database.__init__
def off(self, *args, **kwargs):
    made(self, *args, **kwargs)
    right = self.clock
    self.clock = lambda: right() + offset
database.Database.__init__ = off
"""


def kill_points() -> Iterator[tuple[str, Kill]]:
    """Every line of an apply of two places that has an effect, before and after it."""
    for number in (1, 2):
        for name in ("intend", "claim", "finish"):
            yield from _both(f"{name}-of-place-{number}", f"{EFFECTS}.{name}", number)
        for name in ("stage", "switch"):
            yield from _both(f"{name}-of-place-{number}", f"{HARNESS}.{name}", number)
        yield from _both(f"discard-of-place-{number}", f"{HARNESS}.discard", number)
    for number in (1, 2, 3):
        yield from _both(f"file-{number}-switched", f"{SWAP}.forward", number)
    yield from _both("release-kept", f"{EFFECTS}.put_release", 1)
    yield from _both("sealed-set-rotated", "memory.sealed:SealedSet.rotate", 1)
    yield from _both("record", "nodes.apply:_record", 1)
    yield "before-the-last-look-at-a-place", ("before", f"{HARNESS}.read", 1)


def rollback_points() -> Iterator[tuple[str, Kill]]:
    """The lines of putting the first place back."""
    yield "after-the-switch-and-the-edit", ("after", f"{HARNESS}.switch", 1)
    yield from _both("putting-back-begun", "nodes.switching:_back", 1)
    yield "after-the-first-file-was-put-back", ("after", f"{SWAP}.forward", 3)
    yield "after-all-was-put-back", ("after", f"{HARNESS}.switch", 3)
    yield from _both("record", "nodes.apply:_record", 1)


def undo_points() -> Iterator[tuple[str, Kill]]:
    """The lines of an undo of two places."""
    yield from _both("intend", f"{EFFECTS}.intend", 1)
    yield from _both("switch-of-place-1", f"{HARNESS}.switch", 1)
    yield "after-file-2-switched", ("after", f"{SWAP}.forward", 2)
    yield from _both("switch-of-place-2", f"{HARNESS}.switch", 2)
    yield from _both("record", "nodes.apply:_record", 1)


def _both(name: str, place: str, number: int) -> Iterator[tuple[str, Kill]]:
    yield f"before-{name}", ("before", place, number)
    yield f"after-{name}", ("after", place, number)
