"""Work trees in which a moved branch is checked out: their clean files follow, others stay.

A work tree and its index are the person's. Only files that a change touches are looked at, and only
those that the person has not changed are written, through the repository's own filters, as
`git pull` would. What the person has changed stays as it is, in the index too.
"""

import logging
import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from connectors.harness.git_run import Git, failed
from connectors.harness.git_tree import Entry

LOCK_TRIES = 10
LOCK_RETRY_S = 0.2
_ODD: Entry = ("", "")
"""Stands for what is there and is no plain file."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """One path in a work tree."""

    index: Entry | None
    work: frozenset[Entry | None]
    """What the file is to git: through its filters, and as it is. A clean one is either."""


def work_trees(git: Git, ref: str) -> list[Path]:
    """Folders in which the branch is checked out."""
    found: list[Path] = []
    folder: Path | None = None
    for line in git.must("worktree", "list", "--porcelain").text.splitlines():
        word, _, rest = line.partition(" ")
        if word == "worktree":
            folder = Path(rest)
        elif word == "branch" and rest == ref and folder is not None and folder.is_dir():
            found.append(folder)
    return found


def follow(git: Git, ref: str, old: str, new: str, paths: Sequence[str]) -> list[str]:
    """Let every work tree of the branch follow from one commit to the next, for these paths.

    Idempotent: what a killed call wrote is recognised.

    Returns:
        The files that a person has changed, with their folder; they were left.

    Raises:
        ConnectorError: another git program holds the index of a work tree.
    """
    left: list[str] = []
    for folder in work_trees(git, ref) if paths else ():
        tree = git.at(folder)
        before, after = _entries(tree, old, paths), _entries(tree, new, paths)
        seen = _look(tree, folder, paths)
        clean = [path for path in paths if _is_clean(seen[path], before.get(path), after.get(path))]
        due = [path for path in clean if _is_due(seen[path], after.get(path))]
        _restore(tree, folder, new, due)
        left += [str(folder / path) for path in paths if path not in clean]
    if left:
        log.warning("harness.work_tree_left", extra={"branch": ref, "files": left})
    return left


def changed_by_hand(git: Git, ref: str, commit: str, paths: Sequence[str]) -> list[str]:
    """Files of these paths that are not what the branch has, with their folder."""
    found: list[str] = []
    for folder in work_trees(git, ref) if paths else ():
        tree = git.at(folder)
        there, seen = _entries(tree, commit, paths), _look(tree, folder, paths)
        found += [
            str(folder / path)
            for path in paths
            if not _is_clean(seen[path], there.get(path), there.get(path))
        ]
    return found


def _is_clean(seen: _Seen, old: Entry | None, new: Entry | None) -> bool:
    ours = {old, new}
    return seen.index in ours and bool(seen.work & ours)


def _is_due(seen: _Seen, new: Entry | None) -> bool:
    # A file that is no longer in the index and lies there again is the person's own.
    return seen.index != new or (new is not None and new not in seen.work)


def _entries(tree: Git, commit: str, paths: Sequence[str]) -> Mapping[str, Entry]:
    out = tree.must("ls-tree", "-z", "--full-tree", commit, "--", *paths).out
    return {path: (words[0], words[2]) for path, words in _lines(out)}


def _index(tree: Git, paths: Sequence[str]) -> Mapping[str, Entry]:
    out = tree.must("ls-files", "-s", "-z", "--", *paths).out
    # A path in a conflict has other stages than 0: never clean.
    return {path: (words[0], words[1]) if words[2] == "0" else _ODD for path, words in _lines(out)}


def _lines(out: bytes) -> Iterator[tuple[str, list[str]]]:
    for line in out.split(b"\0"):
        head, tab, path = line.partition(b"\t")
        if tab:
            yield path.decode("utf-8", "surrogateescape"), head.decode().split()


def _look(tree: Git, folder: Path, paths: Sequence[str]) -> Mapping[str, _Seen]:
    index = _index(tree, paths)
    there = {path: mode for path in paths if (mode := _mode(folder, path)) is not None}
    plain = [path for path, mode in there.items() if mode]
    ids: dict[str, set[str]] = {path: set() for path in plain}
    if plain:
        stdin = "".join(f"{path}\n" for path in plain).encode()
        for how in ((), ("--no-filters",)):
            out = tree.must("hash-object", *how, "--stdin-paths", stdin=stdin).text.split()
            for path, blob in zip(plain, out, strict=True):
                ids[path].add(blob)
    told = tree.run("config", "--type=bool", "core.fileMode").text != "false"
    work: dict[str, frozenset[Entry | None]] = {}
    for path in paths:
        if path not in there:
            work[path] = frozenset({None})
        elif path not in ids:
            work[path] = frozenset({_ODD})
        else:
            known = index.get(path)
            mode = there[path] if told or known is None else known[0]
            work[path] = frozenset((mode, blob) for blob in ids[path])
    return {path: _Seen(index=index.get(path), work=work[path]) for path in paths}


def _mode(folder: Path, path: str) -> str | None:
    """Mode of the file as git names it; empty: no plain file, or reached by a link; None: none."""
    place = folder
    for part in path.split("/"):
        if place != folder and not stat.S_ISDIR(place.lstat().st_mode):
            return ""
        place /= part
        if not os.path.lexists(place):
            return None
    mode = place.lstat().st_mode
    if not stat.S_ISREG(mode):
        return ""
    return "100755" if mode & stat.S_IXUSR else "100644"


def _restore(tree: Git, folder: Path, commit: str, paths: Sequence[str]) -> None:
    if not paths:
        return
    stdin = "".join(f"{path}\0" for path in paths).encode()
    where = ("--staged", "--worktree", "--pathspec-from-file=-", "--pathspec-file-nul")
    for _ in range(LOCK_TRIES):
        ran = tree.run("restore", f"--source={commit}", *where, stdin=stdin)
        if ran.code == 0:
            return
        if "index.lock" not in ran.said:
            break
        time.sleep(LOCK_RETRY_S)
    raise failed(
        "switch",
        f"the branch has the change, but the work tree {folder} does not follow: {ran.said}; "
        "when no git program runs there, remove that lock and run `tracemend resume`",
        retryable=True,
    )
