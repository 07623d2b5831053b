"""Where an effect's files wait to be switched, and where the displaced ones stay until the end."""

import contextlib
import errno
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import TypedDict

from connectors.harness.atomic import mend, sync_folder, write_durable
from connectors.harness.tree import look
from contracts.harness import Effect, HarnessFile, HarnessSnapshot
from contracts.json_types import sha256_hex

MANIFEST = "manifest.json"

log = logging.getLogger(__name__)


class _Manifest(TypedDict):
    key: str
    target: str
    before: str
    after: str
    files: dict[str, list[str | None]]
    """Mode and hash of both sides by path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Staging:
    """One effect's folder: a manifest, and a slot for each file that changes.

    A slot holds the new file before the switch and the displaced one after it: what was at the
    target in the very moment of the switch, whoever wrote it.
    """

    folder: Path

    @property
    def complete(self) -> bool:
        """Whether every slot was filled; before that nothing was switched."""
        return (self.folder / MANIFEST).exists()

    def slot(self, path: str) -> Path:
        """Where the file of this path waits."""
        return self.folder / sha256_hex(path.encode())[:32]

    def held(self, path: str) -> HarnessFile | None:
        """What the slot holds now."""
        mend(self.slot(path))
        return look(self.slot(path))

    def aside(self, path: str) -> None:
        """Keep what is in the slot under a name that is never removed: somebody wrote it."""
        slot = self.slot(path)
        name = path.rsplit("/", 1)[-1][-100:]
        kept = (self.folder / f"kept-{slot.name[:8]}-{n}-{name}" for n in range(1_000_000))
        to = next(place for place in kept if not place.exists())
        slot.rename(to)
        log.warning("harness.kept_aside", extra={"path": path, "kept": str(to)})

    def clear(self) -> None:
        """Remove all but what somebody else wrote."""
        files = self._manifest()["files"] if self.complete else {}
        for path, marks in files.items():
            held = self.held(path)
            if held is not None and mark(held) not in marks:
                self.aside(path)
        for left in self.folder.iterdir():
            if not left.name.startswith("kept-"):
                left.unlink()
        if not any(self.folder.iterdir()):
            self.folder.rmdir()
        sync_folder(self.folder.parent)

    def serves(self, target: str, before: HarnessSnapshot, after: HarnessSnapshot) -> bool:
        """Whether it was made for this change of this target."""
        manifest = self._manifest()
        wanted = [target, before.revision, after.revision]
        return [manifest["target"], manifest["before"], manifest["after"]] == wanted

    def displaced(self) -> list[str]:
        """Paths whose slot holds neither side: an edit that the switch displaced."""
        files = self._manifest()["files"]
        held = {path: self.held(path) for path in files}
        return [p for p, file in held.items() if file is not None and mark(file) not in files[p]]

    def _manifest(self) -> _Manifest:
        manifest: _Manifest = json.loads((self.folder / MANIFEST).read_bytes())
        return manifest  # written by `prepare`, whole or not at all


def mark(file: HarnessFile | None) -> str | None:
    """Mode and hash of one side of a change."""
    return None if file is None else f"{file.mode:04o} {file.sha256}"


def prepare(
    work: Path, root: Path, effect: Effect, before: HarnessSnapshot, after: HarnessSnapshot
) -> Staging:
    """The effect's staging with all slots filled; a complete one is left as it is."""
    found = find(work, root, effect.key)
    if found is not None and found.complete:
        return found
    staging = Staging(folder=_place(work, root, effect.key))
    changed = before.changed(after)
    for path in changed:
        new = after.files.get(path)
        if new is not None:
            write_durable(staging.slot(path), new.data, new.mode)
    manifest = _Manifest(
        key=effect.key,
        target=effect.target,
        before=before.revision,
        after=after.revision,
        files={
            path: [mark(before.files.get(path)), mark(after.files.get(path))] for path in changed
        },
    )
    # Last: from here on a slot without its new file means that the file was switched.
    write_durable(staging.folder / MANIFEST, json.dumps(manifest).encode(), 0o600)
    return staging


def find(work: Path, root: Path, key: str) -> Staging | None:
    """The staging of an effect, complete or not, when there is one."""
    folders = [folder for folder in _places(work, root, key) if folder.is_dir()]
    folders.sort(key=lambda folder: (folder / MANIFEST).exists(), reverse=True)
    return Staging(folder=folders[0]) if folders else None


def discard(work: Path, root: Path, key: str) -> None:
    """Remove what was staged for an effect."""
    inside, beside = _places(work, root, key)
    for folder in (inside, beside):
        if folder.is_dir():
            Staging(folder=folder).clear()
    _trial(root, beside).unlink(missing_ok=True)


def every(work: Path, root: Path) -> Iterator[Staging]:
    """All stagings, of any effect."""
    for pattern, folder in (("*", work), (".tracemend-*", root)):
        for manifest in folder.glob(f"{pattern}/{MANIFEST}"):
            yield Staging(folder=manifest.parent)


def _places(work: Path, root: Path, key: str) -> tuple[Path, Path]:
    return work / key, root / f".tracemend-{key[:16]}"


def _place(work: Path, root: Path, key: str) -> Path:
    """Under `work`, unless a file cannot be renamed from there into the root."""
    inside, beside = _places(work, root, key)
    inside.mkdir(mode=0o700, parents=True, exist_ok=True)
    trial, arrival = inside / "trial", _trial(root, beside)
    trial.touch()
    try:
        trial.rename(arrival)
    except OSError as error:
        trial.unlink()
        with contextlib.suppress(OSError):  # an earlier call was cut short in here
            inside.rmdir()
        if error.errno != errno.EXDEV:
            raise
        beside.mkdir(mode=0o700, exist_ok=True)
        sync_folder(root)
        return beside
    arrival.unlink()
    sync_folder(work)
    return inside


def _trial(root: Path, beside: Path) -> Path:
    return root / f"{beside.name}-trial"
