"""Read a harness folder: exact bytes and modes, and a refusal of what cannot be handled safely."""

import errno
import os
import stat
from pathlib import Path

from connectors.harness.paths import Include, checked_path
from contracts.errors import PolicyRefused
from contracts.harness import HarnessFile, HarnessSnapshot

MAX_FILE_BYTES = 8 * 1024 * 1024

ODD = HarnessFile(data=b"", mode=-1)
"""Stands for what is there and is no plain file; equal to no file that was read."""


def read_tree(root: Path, include: Include, *, lenient: bool = False) -> HarnessSnapshot:
    """All files that the patterns name.

    Args:
        root: folder that paths are relative to.
        include: the patterns.
        lenient: take what cannot be a harness file as `ODD` instead of refusing it.

    Raises:
        PolicyRefused: one is a link, no plain file, too large, or its name is unsafe.
        OSError: the file system failed.
    """
    files: dict[str, HarnessFile] = {}
    pending = [""]
    while pending:
        folder = pending.pop()
        with os.scandir(root / folder) as entries:
            for entry in entries:
                path = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    if include.leads(path):
                        pending.append(path)
                elif include.matches(path) or (entry.is_symlink() and include.names(path)):
                    full = root / path
                    file = look(full) if lenient else read_file(full, checked_path(path))
                    if file is not None:
                        files[path] = file
    return HarnessSnapshot(files=files)


def read_file(path: Path, shown: str) -> HarnessFile | None:
    """The file as it is now; None when there is none.

    Raises:
        PolicyRefused: a link, no plain file, or too large.
        OSError: the file system failed.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe without a writer would block
    try:
        fd = os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise PolicyRefused(
                f"harness file {shown!r} is a symbolic link: an edit would replace the link or "
                "change a file elsewhere; put the file itself there or leave it out of `include`"
            ) from None
        if error.errno == errno.ENXIO:
            raise _not_plain(shown) from None
        raise
    with os.fdopen(fd, "rb") as stream:
        seen = os.fstat(fd)
        if not stat.S_ISREG(seen.st_mode):
            raise _not_plain(shown)
        data = stream.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise PolicyRefused(f"harness file {shown!r} is larger than {MAX_FILE_BYTES >> 20} MiB")
    return HarnessFile(data=data, mode=stat.S_IMODE(seen.st_mode) & 0o777)


def look(path: Path) -> HarnessFile | None:
    """Like `read_file`, but what is there and cannot be a harness file is `ODD`."""
    try:
        return read_file(path, path.name)
    except PolicyRefused:
        return ODD


def _not_plain(shown: str) -> PolicyRefused:
    return PolicyRefused(f"harness file {shown!r} is not a plain file (a device, pipe or socket)")
