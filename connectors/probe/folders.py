"""A folder of its own for every run: a read-only copy of the harness, and room to work."""

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from connectors.harness.paths import checked_path
from contracts.errors import ProbeError
from contracts.harness import HarnessSnapshot

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_PART_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFolder:
    """What one run is handed. The names are random: they tell neither its case nor its arm."""

    path: Path
    """Holds the other two; removed with all in it after the run."""
    harness: Path
    """Exactly the snapshot's files, read-only."""
    workdir: Path
    """Empty, for whatever the run writes."""
    snapshot: HarnessSnapshot

    def intact(self) -> bool:
        """Whether the harness still has the snapshot's files with their bytes, and no others."""
        return _holds(self.harness, self.snapshot)

    def remove(self) -> None:
        """Remove all of it. What cannot be removed now stays for the next start."""
        remove_tree(self.path)


def lay_out(parent: Path, snapshot: HarnessSnapshot) -> RunFolder:
    """A new folder under `parent`, an absolute path.

    Raises:
        ProbeError: it cannot be written.
        PolicyRefused: a path of the snapshot would leave the folder.
    """
    path = parent / secrets.token_hex(8)
    run = RunFolder(
        path=path, harness=path / "harness", workdir=path / "tmp", snapshot=snapshot
    )  # fmt: skip
    places = {name: run.harness / checked_path(name) for name in snapshot.files}
    try:
        path.mkdir(mode=0o700)
        run.workdir.mkdir()
        _write(run.harness, places, snapshot)
    except OSError as error:
        run.remove()
        message = f"probe: the harness cannot be laid out at {run.harness}: {error.strerror}"
        raise ProbeError(message, backend="probe", operation="run") from None
    return run


def _write(root: Path, places: Mapping[str, Path], snapshot: HarnessSnapshot) -> None:
    root.mkdir()
    made = {root}
    for name, place in places.items():
        if place.parent not in made:
            place.parent.mkdir(parents=True, exist_ok=True)
            made.update(up for up in place.parents if up.is_relative_to(root))
        file = snapshot.files[name]
        mode = file.mode & 0o555 | 0o444
        fd = os.open(place, _NEW, mode)
        try:
            left = memoryview(file.data)
            while left:
                left = left[os.write(fd, left) :]
            if stat.S_IMODE(os.fstat(fd).st_mode) != mode:  # an umask; a change is a write to disk
                os.fchmod(fd, mode)
        finally:
            os.close(fd)
    for folder in made:
        folder.chmod(0o555)


def _holds(root: Path, snapshot: HarnessSnapshot) -> bool:
    """Whether `root` has the snapshot's files with its bytes, and nothing else."""
    if root.is_symlink() or not root.is_dir():
        return False
    found = 0
    start = len(str(root)) + 1
    for folder, folders, files in os.walk(root):
        if any(os.path.islink(f"{folder}/{name}") for name in folders):  # noqa: PTH114  see below
            return False
        for name in files:  # texts instead of paths: this is done after every run
            file = f"{folder}/{name}"
            expected = snapshot.files.get(file[start:])
            if expected is None or not _equal(file, expected.data):
                return False
            found += 1
    return found == len(snapshot.files)


def _equal(file: str, data: bytes) -> bool:
    try:
        fd = os.open(file, _READ)
    except OSError:
        return False
    try:
        seen = os.fstat(fd)
        if not stat.S_ISREG(seen.st_mode) or seen.st_size != len(data):
            return False
        at = 0
        while part := os.read(fd, _PART_BYTES):
            if data[at : at + len(part)] != part:
                return False
            at += len(part)
        return at == len(data)
    except OSError:
        return False
    finally:
        os.close(fd)


def remove_tree(path: Path) -> None:
    """Remove what is at `path`, read-only folders too, without following links.

    What cannot be removed is left there without a word.
    """
    for folder in _bottom_up(path):
        with contextlib.suppress(OSError):
            folder.rmdir()
    with contextlib.suppress(OSError):
        path.unlink()


def _bottom_up(path: Path) -> Iterator[Path]:
    """The folders at and under `path`, inner ones first, each after its files were removed."""
    waiting, order = [path], []
    while waiting:
        folder = waiting.pop()
        if folder.is_symlink() or not folder.is_dir():
            continue
        order.append(folder)
        with contextlib.suppress(OSError):
            folder.chmod(0o700)
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))
                else:
                    with contextlib.suppress(OSError):
                        os.unlink(entry.path)  # noqa: PTH108  an entry
    yield from reversed(order)
