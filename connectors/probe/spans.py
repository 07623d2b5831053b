"""The file with the spans of a run, which a worker names: looked at with care, then read."""

import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from contracts.errors import TracemendError
from contracts.traces import Trace

MAX_BYTES = 64 * 1024 * 1024

ReadSpans = Callable[[Path], Trace | None]


def read_trace(name: str, *, allowed: Sequence[Path], read_spans: ReadSpans) -> Trace | None:
    """The trace in the file; None when the file is not to be read, or cannot be.

    Args:
        name: absolute path, as the worker told it.
        allowed: folders in which such a file may lie.
        read_spans: turns a file of spans into a trace.
    """
    try:
        path = Path(name)
        if not path.is_absolute() or "\0" in name:
            return None
        path = path.resolve(strict=True)
        if not any(path.is_relative_to(folder.resolve()) for folder in allowed):
            return None
        if not _readable(path):
            return None
        return read_spans(path)
    except (OSError, ValueError, RecursionError, TracemendError):
        return None  # the run itself was observed; only its spans were not


def _readable(path: Path) -> bool:
    """A regular file of bounded size; opened without waiting for a writer of a pipe."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        seen = os.fstat(fd)
        return stat.S_ISREG(seen.st_mode) and seen.st_size <= MAX_BYTES
    finally:
        os.close(fd)
