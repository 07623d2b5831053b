"""Which files of a folder may be looked at: what git tracks or would track, else what is there."""

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

GIT_SECONDS: Final = 10.0
GIT_BYTES: Final = 16 << 20
LEFT_OUT: Final = frozenset(
    {".git", ".hg", ".svn", ".tracemend", "node_modules", "bower_components", "vendor", "venv",
     ".venv", "env", ".env", "virtualenv", "site-packages", "__pycache__", ".tox", ".nox",
     ".mypy_cache", ".ruff_cache", ".pytest_cache", ".cache", ".idea", ".vscode", "dist", "build",
     "target", ".next", ".nuxt", "coverage", "htmlcov", ".terraform", ".gradle", "eggs", ".eggs"}
)  # fmt: skip
"""Folders of tools, copies and other people's code."""


def by_git(folder: Path) -> list[str] | None:
    """POSIX paths that git tracks or would track, from `folder`; None: git does not say.

    Nothing that the repository configures is run.
    """
    command = [
        "git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null",
        "-c", "core.quotePath=false", "-C", str(folder),
        "ls-files", "-z", "--cached", "--others", "--exclude-standard",
    ]  # fmt: skip
    environ = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    environ |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(  # noqa: S603 - fixed words and a folder of the settings
            command, capture_output=True, timeout=GIT_SECONDS, check=False, env=environ,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0 or len(done.stdout) > GIT_BYTES:
        return None
    named = done.stdout.decode("utf-8", "surrogateescape").split("\0")
    return [name for name in dict.fromkeys(named) if name]


def by_walking(folder: Path, *, depth: int) -> Iterator[str]:
    """POSIX paths of regular files from `folder`, in order of their names; links are not followed.

    A folder that cannot be opened is passed over.
    """
    stack: list[tuple[str, int]] = [("", 0)]
    while stack:
        inside, level = stack.pop()
        try:
            with os.scandir(folder / inside) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        below: list[tuple[str, int]] = []
        for entry in found:
            path = f"{inside}/{entry.name}" if inside else entry.name
            if entry.is_dir(follow_symlinks=False):
                if level < depth and entry.name not in LEFT_OUT:
                    below.append((path, level + 1))
            elif entry.is_file(follow_symlinks=False):
                yield path
        stack.extend(reversed(below))


def plain_file(folder: Path, path: str, *, depth: int) -> os.stat_result | None:
    """The file's state where it may be read: no link on the way, in no folder that is left out."""
    parts = path.split("/")
    if len(parts) > depth + 1 or any(part in LEFT_OUT or part == ".." for part in parts[:-1]):
        return None
    here = folder
    try:
        for part in parts[:-1]:
            here = here / part
            if not stat.S_ISDIR(here.lstat().st_mode):
                return None
        state = (here / parts[-1]).lstat()
    except (OSError, ValueError):
        return None
    return state if stat.S_ISREG(state.st_mode) else None
