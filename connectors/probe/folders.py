"""Harness snapshots laid out as folders for the agent, and the check that nobody wrote there."""

import os
import shutil
import stat
import threading
from dataclasses import dataclass
from pathlib import Path

from connectors.harness.paths import checked_path
from contracts.errors import ProbeError
from contracts.harness import HarnessSnapshot, Revision


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A folder with exactly the snapshot's bytes, as handed to one run."""

    path: Path
    snapshot: HarnessSnapshot
    revision: Revision
    build: int
    """Which building of the folder; a later one means that somebody wrote into this one."""


class HarnessFolders:
    """One read-only folder a revision under `work`; a changed one is built anew."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._builds: dict[Revision, int] = {}
        self._lock = threading.Lock()

    def open(self, snapshot: HarnessSnapshot) -> Opened:
        """The snapshot's folder, verified now.

        Raises:
            ProbeError: it cannot be laid out.
            PolicyRefused: a path of the snapshot would leave the folder.
        """
        revision = snapshot.revision
        path = self._work.absolute() / f"harness-{revision[:16]}"
        with self._lock:
            build = self._builds.get(revision, 0)
            if not _holds(path, snapshot):
                try:
                    self._build(path, snapshot)
                except OSError as error:
                    message = f"probe: the harness cannot be laid out at {path}: {error.strerror}"
                    raise ProbeError(message, backend="worker", operation="run") from None
                build += 1
                self._builds[revision] = build
        return Opened(path=path, snapshot=snapshot, revision=revision, build=build)

    def intact(self, opened: Opened) -> bool:
        """Whether the folder still is what the run was handed, and was all the time."""
        with self._lock:
            same = self._builds.get(opened.revision, 0) == opened.build
            return same and _holds(opened.path, opened.snapshot)

    def _build(self, path: Path, snapshot: HarnessSnapshot) -> None:
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        remove_tree(fresh)
        fresh.mkdir(parents=True)
        for name, file in snapshot.files.items():
            target = fresh / checked_path(name)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.data)
            target.chmod(file.mode & 0o555 | 0o444)
        for folder in (fresh, *(p for p in fresh.rglob("*") if p.is_dir())):
            folder.chmod(0o555)
        remove_tree(path)
        fresh.rename(path)


def remove_tree(path: Path) -> None:
    """Remove what is at `path`, read-only folders too, without following links."""
    if path.is_symlink() or path.is_file():
        path.unlink()
        return
    for folder, _, _ in os.walk(path):
        Path(folder).chmod(0o755)
    if path.exists():
        shutil.rmtree(path)


def _holds(path: Path, snapshot: HarnessSnapshot) -> bool:
    """Whether `path` has the snapshot's files with its bytes, and nothing else."""
    if path.is_symlink() or not path.is_dir():
        return False
    found = 0
    for folder, folders, files in os.walk(path):
        if any((Path(folder) / name).is_symlink() for name in folders):
            return False
        for name in files:
            file = Path(folder) / name
            expected = snapshot.files.get(file.relative_to(path).as_posix())
            if expected is None or not _equal(file, expected.data):
                return False
            found += 1
    return found == len(snapshot.files)


def _equal(file: Path, data: bytes) -> bool:
    try:
        seen = file.lstat()
        regular = stat.S_ISREG(seen.st_mode) and seen.st_size == len(data)
        return regular and file.read_bytes() == data
    except OSError:
        return False
