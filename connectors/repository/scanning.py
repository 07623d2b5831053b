"""Read the source files of a repository within bounds, and say what was not read."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Final, Literal

from connectors.repository.listing import by_git, by_walking, plain_file
from contracts.traces import Skipped

Language = Literal["python", "text"]
_PYTHON: Final = (".py", ".pyi", ".pyw")
_TEXT: Final = (
    ".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts", ".go", ".rb", ".java", ".kt",
    ".kts", ".scala", ".cs", ".fs", ".php", ".rs", ".swift", ".ex", ".exs", ".clj", ".lua", ".dart",
    ".vue", ".svelte", ".sh", ".bash", ".yaml", ".yml", ".toml", ".json", ".ini", ".cfg",
)  # fmt: skip
_NO_SOURCES: Final = ("package-lock.json", "pnpm-lock.yaml", "composer.lock", "tracemend.yaml")
_MOST_NAMES: Final = 50_000
_MOST_SKIPPED: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The most that a scan looks at."""

    files: int = 5_000
    """Source files that are read."""
    file_bytes: int = 512 << 10
    total_bytes: int = 24 << 20
    depth: int = 12
    """Folders inside each other."""
    seconds: float = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """One source file. What is not UTF-8 in it is replaced."""

    path: str
    """POSIX, from the folder of `tracemend.yaml`."""
    language: Language
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What was read, and what else is there."""

    files: tuple[SourceFile, ...]
    names: frozenset[str]
    """Paths of all files that were seen, sources or not."""
    skipped: tuple[Skipped, ...]
    """At most 20."""
    skipped_total: int

    @property
    def complete(self) -> bool:
        """Whether every source file was read."""
        return self.skipped_total == 0


class _Reading:
    """A scan under way."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.files: list[SourceFile] = []
        self.names: set[str] = set()
        self.skipped: list[Skipped] = []
        self.left_out = 0
        self.bytes = 0
        self.until = monotonic() + bounds.seconds

    def skip(self, path: str, why: str) -> None:
        self.left_out += 1
        if len(self.skipped) < _MOST_SKIPPED:
            self.skipped.append(Skipped(path=path, why=why))

    @property
    def full(self) -> str | None:
        """Why nothing more is read."""
        if len(self.files) >= self.bounds.files:
            return f"more than {self.bounds.files} source files"
        if self.bytes >= self.bounds.total_bytes:
            return f"more than {self.bounds.total_bytes >> 20} MiB of source files"
        return f"took more than {self.bounds.seconds:g} s" if monotonic() > self.until else None


def scan(
    folders: Sequence[str],
    *,
    root: Path,
    leave_out: Sequence[Path] = (),
    bounds: Bounds | None = None,
) -> Scan:
    """Read the source files of some folders. Nothing is written, run or followed.

    Left out: what git ignores where git is there, links, folders of tools and of dependencies,
    binary files, and what is too large.

    Args:
        folders: from `root`.
        root: the folder of `tracemend.yaml`.
        leave_out: folders that are none of the agent's, such as our own home.
        bounds: None: the usual ones.
    """
    reading = _Reading(bounds or Bounds())
    away = [os.path.realpath(path) for path in leave_out]
    for name in folders:
        folder = (root / name).resolve()
        if not folder.is_dir():
            reading.skip(name, "no such folder")
            continue
        _read_folder(reading, folder, os.path.relpath(folder, root.resolve()), away)
    return Scan(
        files=tuple(reading.files), names=frozenset(reading.names),
        skipped=tuple(reading.skipped), skipped_total=reading.left_out,
    )  # fmt: skip


def _read_folder(reading: _Reading, folder: Path, shown: str, away: Sequence[str]) -> None:
    prefix = "" if shown == "." else f"{Path(shown).as_posix()}/"
    for path in _paths(folder, reading.bounds.depth):
        if reading.full is not None or len(reading.names) >= _MOST_NAMES:
            reading.skip(f"{prefix}{path} and what follows", reading.full or "too many files")
            return
        full = f"{prefix}{path}"
        state = plain_file(folder, path, depth=reading.bounds.depth)
        if state is None or full in reading.names or _inside(folder / path, away):
            continue
        reading.names.add(full)
        language = language_of(path)
        if language is not None:
            _read(reading, folder / path, full, language, state.st_size)


def _paths(folder: Path, depth: int) -> Iterator[str]:
    listed = by_git(folder)
    yield from sorted(listed) if listed is not None else by_walking(folder, depth=depth)


def _inside(path: Path, away: Sequence[str]) -> bool:
    return any(os.path.commonpath([str(path), out]) == out for out in away)


def _read(reading: _Reading, file: Path, shown: str, language: Language, size: int) -> None:
    if size > reading.bounds.file_bytes:
        reading.skip(shown, f"larger than {reading.bounds.file_bytes >> 10} KiB")
        return
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as opened:
            data = opened.read(reading.bounds.file_bytes)
    except OSError as error:
        reading.skip(shown, error.strerror or "cannot be read")
        return
    reading.bytes += len(data)
    if b"\0" in data:
        return  # binary, whatever its name says
    text = data.decode("utf-8", "replace")
    reading.files.append(SourceFile(path=shown, language=language, text=text))


def language_of(path: str) -> Language | None:
    """How a file is read; None: it is no source."""
    name = path.rsplit("/", 1)[-1].casefold()
    if name in _NO_SOURCES or name.endswith((".min.js", ".lock.json")):
        return None
    if name.endswith(_PYTHON):
        return "python"
    return "text" if name.endswith(_TEXT) else None
