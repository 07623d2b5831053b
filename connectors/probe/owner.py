"""A probe's own folder under `work`, held by a lock, and the clearing of folders nobody holds."""

import contextlib
import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from connectors.probe.folders import remove_tree
from connectors.probe.tree import kill_marked
from contracts.errors import ProbeError

PREFIX = "probe-"
_NAME = re.compile(rf"{PREFIX}([0-9a-f]{{16}})")
_LOCK = "lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """One probe's hold on a folder. The lock ends with our process, however that ends."""

    id: str
    """Random; the mark of every process of the probe begins with it."""
    folder: Path
    fd: int

    def new_mark(self) -> str:
        """`TRACEMEND_RUN_ID` of one more process: unguessable, and tells whose it is."""
        return f"{self.id}{secrets.token_hex(8)}"

    def release(self) -> None:
        """Kill what is left of the probe's processes and remove its folder."""
        kill_marked(self.id)
        remove_tree(self.folder)
        os.close(self.fd)


def take(work: Path) -> Owner:
    """A new folder under `work`, after those of probes that died were cleared with their strays.

    Raises:
        ProbeError: `work` cannot be written to, or cannot be locked.
    """
    work = work.absolute()
    name = secrets.token_hex(8)
    folder = work / f"{PREFIX}{name}"
    try:
        work.mkdir(parents=True, exist_ok=True)
        with _locked(work / "probes.lock"):
            for other in work.glob(f"{PREFIX}*/"):
                _clear_if_dead(other)
            folder.mkdir(mode=0o700)
            fd = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(fd, fcntl.LOCK_EX)
    except OSError as error:
        message = f"probe: no folder for runs under {work}: {error.strerror}"
        raise ProbeError(message, backend="probe", operation="run") from None
    return Owner(id=name, folder=folder, fd=fd)


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Nobody else makes or clears folders meanwhile: one without a held lock is a dead probe's."""
    fd = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _clear_if_dead(folder: Path) -> None:
    name = _NAME.fullmatch(folder.name)
    if name is None:
        return
    try:
        fd = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        fd = None  # its process died while it made or removed the folder
    except OSError:
        return
    try:
        if fd is not None:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return  # held
    else:
        kill_marked(name[1])
        remove_tree(folder)
    finally:
        if fd is not None:
            os.close(fd)
