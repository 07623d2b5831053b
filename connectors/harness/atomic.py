"""Single steps on a file system that are atomic, durable, or exclude another process."""

import contextlib
import ctypes
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Protocol

AT_FDCWD = -100
NOREPLACE = 1
EXCHANGE = 2
LOCK_RETRY_S = 0.05


class _RenameAt2(Protocol):
    def __call__(self, old: Path, new: Path, flags: int) -> bool: ...


def exchange(first: Path, second: Path) -> None:
    """Let two existing files change places; a reader of either sees one or the other, whole.

    Where the system has no such call, `second` is kept beside `first` under another name while
    `first` takes its place; `mend` finishes that after a kill.

    Raises:
        OSError: one of the two is not there, or the file system failed.
    """
    if _rename(first, second, EXCHANGE):
        return
    kept = _kept(first)
    mend(first)
    kept.hardlink_to(second)
    first.replace(second)
    kept.rename(first)


def mend(first: Path) -> None:
    """Finish or forget an `exchange` without the system's call that a kill cut short."""
    kept = _kept(first)
    if not os.path.lexists(kept):
        return
    if os.path.lexists(first):
        kept.unlink()  # the second file is still in its place
    else:
        kept.rename(first)


def _kept(first: Path) -> Path:
    return first.with_name(f"{first.name}.displaced")


def move_new(source: Path, target: Path) -> None:
    """Move a file to a name that nothing has.

    Raises:
        FileExistsError: something has the name; nothing was moved.
        OSError: the file system failed.
    """
    if _rename(source, target, NOREPLACE):
        return
    target.hardlink_to(source)
    source.unlink()


def _rename(source: Path, target: Path, flags: int) -> bool:
    """Whether the system's call did it; False where there is none."""
    call = _renameat2()
    return call is not None and call(source, target, flags)


@cache
def _renameat2() -> _RenameAt2 | None:
    """`renameat2` of the C library (Linux 3.15, glibc 2.28), or None."""
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is None:
        return None
    function.argtypes = (
        ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint,
    )  # fmt: skip

    def rename(old: Path, new: Path, flags: int) -> bool:
        if function(AT_FDCWD, os.fsencode(old), AT_FDCWD, os.fsencode(new), flags) == 0:
            return True
        code = ctypes.get_errno()
        if code in (errno.ENOSYS, errno.EINVAL):  # the kernel or this file system has none
            return False
        raise OSError(code, os.strerror(code), str(old), None, str(new))

    return rename


def write_durable(path: Path, data: bytes, mode: int) -> None:
    """Write a file so that after a crash it is there whole or not at all."""
    fresh = path.with_name(f"{path.name}.fresh")
    fresh.unlink(missing_ok=True)
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fchmod(fd, mode)
        os.fsync(fd)
    fresh.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def locked(path: Path, *, wait_s: float) -> Iterator[None]:
    """Hold the lock file; the system lets go of it when the process ends.

    Raises:
        TimeoutError: another process held it for all of `wait_s`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + wait_s
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        while not _try_lock(fd):
            if time.monotonic() >= until:
                raise TimeoutError(errno.ETIMEDOUT, "another process holds the lock", str(path))
            time.sleep(LOCK_RETRY_S)
        yield
    finally:
        os.close(fd)


def _try_lock(fd: int) -> bool:
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
