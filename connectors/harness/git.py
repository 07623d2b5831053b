"""The harness in a git repository: read from a branch, changed by commits, never by force."""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from configs.harness_settings import GitTarget
from connectors.harness.atomic import locked
from connectors.harness.changes import changed_paths
from connectors.harness.git_branches import Line, Lines, NewBranch, OneBranch, side, tip
from connectors.harness.git_log import (
    change_of,
    commit_that_made,
    log,
    message_of,
    message_of_return,
)
from connectors.harness.git_place import author_of, checked_new_branch, find_place
from connectors.harness.git_push import push, reachable
from connectors.harness.git_refs import move, pin, unpin
from connectors.harness.git_run import failed
from connectors.harness.git_tree import PLAIN, blocked, read_commit, tree_with
from connectors.harness.git_worktree import changed_by_hand, follow
from connectors.harness.paths import Include
from contracts.errors import ConnectorError, ForeignChange, PolicyRefused
from contracts.harness import Effect, HarnessFile, HarnessSnapshot, Standing, TargetChange
from contracts.json_types import sha256_hex

T = TypeVar("T")

LOCK_WAIT_S = 30.0
MOVES = 5
"""How often a branch may be moved by others under one switch before that is a failure."""


class GitHarness:
    """Implements `contracts.protocols.Harness` for files that a branch has.

    The branch is what counts, not the work tree: what is read is its head's files, and a switch is
    one commit, with the branch moved by compare-and-swap. A work tree in which the branch is
    checked out follows where its files are clean; see `git_worktree`.

    Attributes:
        target: `git:`, the top of the repository, `#`, the branch, and `:` the folder, if any.
    """

    def __init__(
        self,
        root: Path,
        spec: GitTarget,
        work: Path,
        *,
        place: str = "harness",
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Find the repository and the branch. Nothing is written.

        Args:
            root: folder that the paths are relative to, in a repository.
            spec: the settings.
            work: our folder for locks and temporary files.
            place: key of the settings, for messages.
            environ: what the git program gets; None: the environment.

        Raises:
            ConfigError: there is no repository, branch or program, or a setting is wrong.
        """
        found = find_place(
            root, spec.branch, place=place, environ=os.environ if environ is None else environ
        )
        self._git, self._prefix = found.git, found.prefix
        self._include = Include(spec.include)
        self._push = spec.push
        self._work = work.absolute()
        self._name, self._address = author_of(spec.author, place=place)
        self.target = found.target
        ref = f"refs/heads/{found.branch}"
        self._lines: Lines
        if spec.new_branch is None:
            self._lines = OneBranch(git=self._git, ref=ref, read=self._lenient)
        else:
            pattern = checked_new_branch(self._git, spec.new_branch, found.branch, place=place)
            self._lines = NewBranch(git=self._git, ref=ref, read=self._lenient, pattern=pattern)
        self._seen: tuple[str, HarnessSnapshot] | None = None

    async def read(self) -> HarnessSnapshot:
        """All files of the branch's head; its id is the origin.

        Raises:
            PolicyRefused: a file is a link, a submodule, or too large.
            ConnectorError: the branch has no commit, or git failed.
        """
        return await self._away("read", self._read)

    async def stage(self, effect: Effect, before: HarnessSnapshot, after: HarnessSnapshot) -> None:
        """Make the commit, which no branch has yet. Idempotent: the same one each time.

        Raises:
            PolicyRefused: a changed path is unsafe, no part of this harness, or of another mode
                than git keeps.
        """
        await self._away("stage", lambda: self._stage(effect, before, after))

    async def switch(self, effect: Effect, before: HarnessSnapshot, after: HarnessSnapshot) -> None:
        """Push the commit (where configured), move the branch to it, let work trees follow.

        A branch that others moved meanwhile is no conflict while the harness's files are `before`:
        the commit is then made on the new head.

        Raises:
            ForeignChange: some file is neither side. Where the commit was made before that, the
                files that still are its after are put back by one more commit.
            ConnectorError: not retryable: the remote refuses such a push. Retryable: whoever calls
                again finishes what is left.
        """
        await self._away("switch", lambda: self._switch(effect, before, after))

    async def standing(self, before: HarnessSnapshot, after: HarnessSnapshot) -> Standing:
        """Where the branch is; "mixed" also while work trees have to follow: `switch` does it."""
        return await self._away("standing", lambda: self._lines.standing(before, after))

    async def discard(self, effect: Effect) -> None:
        """Let go of a commit that no branch has; `git gc` removes it in time."""
        await self._away("discard", lambda: self._discard(effect))

    async def history(self, limit: int = 50) -> Sequence[TargetChange]:
        """The newest commits that touch files of the harness, merged or on branches of ours."""
        return await self._away("history", lambda: self._history(limit))

    async def standing_line(self) -> tuple[bool, str]:
        """For `doctor`: branch and head, what is changed by hand, and whether the remote is there.

        Returns:
            False where a push would fail already at its beginning; and the line.
        """
        return await self._away("check", self._line)

    def _read(self) -> HarnessSnapshot:
        head = tip(self._git, self._lines.ref)
        return read_commit(self._git, head, self._prefix, self._include)

    def _lenient(self, commit: str) -> HarnessSnapshot:
        if self._seen is None or self._seen[0] != commit:
            read = read_commit(self._git, commit, self._prefix, self._include, lenient=True)
            self._seen = (commit, read)
        return self._seen[1]

    def _stage(self, effect: Effect, before: HarnessSnapshot, after: HarnessSnapshot) -> None:
        self._check(effect, before, after)
        with self._locked():
            line = self._lines.line(effect, before, after)
            now = self._lenient(line.head)
            if line.mine is None and side(now, before, after) in ("before", "mixed"):
                pin(self._git, effect, self._commit(effect, line.head, before, after))

    def _switch(self, effect: Effect, before: HarnessSnapshot, after: HarnessSnapshot) -> None:
        self._check(effect, before, after)
        with self._locked():
            for _ in range(MOVES):
                line = self._lines.line(effect, before, after)
                if self._forward(line, effect, before, after):
                    unpin(self._git, effect)
                    return
        raise failed("switch", f"{line.ref} of {self._git.folder} keeps moving", retryable=True)

    def _forward(
        self, line: Line, effect: Effect, before: HarnessSnapshot, after: HarnessSnapshot
    ) -> bool:
        """Whether the branch has the change; False: others moved it meanwhile."""
        now = self._lenient(line.head)
        changed = before.changed(after)
        if line.mine is not None:
            self._keep(line, effect, before, after)
            self._follow(line.ref, line.mine.parent or line.head, line.head, changed)
            return True
        foreign = sorted(set(now.changed(before)) & set(now.changed(after)))
        new = [path for path in changed if path in after.files and path not in now.files]
        foreign += self._blocked(line.head, new)
        if foreign:
            raise _stopped(foreign, switched=False)
        if not now.changed(after):
            return True  # somebody else made exactly this change
        commit = self._commit(effect, line.head, before, after)
        pin(self._git, effect, commit)
        return self._advance(line, commit, changed)

    def _advance(self, line: Line, commit: str, changed: Sequence[str]) -> bool:
        """Move the branch of the remote, the branch, and the work trees to a commit, in order."""
        if self._push is not None:
            push(self._git, self._push, commit, line.ref)
        if not move(self._git, line.ref, commit, line.old, why="tracemend: change of the harness"):
            return False
        self._follow(line.ref, line.head, commit, changed)
        return True

    def _keep(
        self, line: Line, effect: Effect, before: HarnessSnapshot, after: HarnessSnapshot
    ) -> None:
        """See that what the effect's commit made is still there; else take the rest of it back."""
        now = self._lenient(line.head)
        wrong = now.changed(after)
        if not wrong:
            return
        ours = [path for path in before.changed(after) if path not in wrong]
        if ours:
            files = {path: before.files.get(path) for path in ours}
            message = message_of_return(effect, ours)
            commit = self._made(line.head, files, message, effect)
            if not self._advance(line, commit, ours):
                raise failed("switch", f"{line.ref} moved meanwhile", retryable=True)
        neither = sorted(set(wrong) & set(now.changed(before)))
        raise _stopped(neither or wrong, switched=True)

    def _commit(
        self, effect: Effect, head: str, before: HarnessSnapshot, after: HarnessSnapshot
    ) -> str:
        """The commit that makes `head`'s files the after: the same one each time."""
        made = commit_that_made(self._git, head, after, before) if effect.kind == "undo" else None
        message = message_of(effect, reverts=made.commit if made is not None else None)
        files = {path: after.files.get(path) for path in before.changed(after)}
        return self._made(head, files, message, effect)

    def _made(
        self, head: str, files: Mapping[str, HarnessFile | None], message: str, effect: Effect
    ) -> str:
        placed = {f"{self._prefix}{path}": file for path, file in files.items()}
        tree = tree_with(self._git, head, placed, work=self._work)
        if effect.about is not None:
            at = int(effect.about.at.timestamp())
        else:
            at = int(self._git.must("show", "-s", "--format=%ct", head, "--").text)
        who = {
            f"GIT_{role}_{what}": value
            for role in ("AUTHOR", "COMMITTER")
            for what, value in (
                ("NAME", self._name), ("EMAIL", self._address), ("DATE", f"@{at} +0000"),
            )
        }  # fmt: skip
        return self._git.must("commit-tree", tree, "-p", head, stdin=message.encode(), env=who).text

    def _follow(self, ref: str, old: str, new: str, paths: Sequence[str]) -> None:
        follow(self._git, ref, old, new, [f"{self._prefix}{path}" for path in paths])

    def _blocked(self, commit: str, paths: Sequence[str]) -> list[str]:
        found = blocked(self._git, commit, [f"{self._prefix}{path}" for path in paths])
        return [path.removeprefix(self._prefix) for path in found]

    def _discard(self, effect: Effect) -> None:
        with self._locked():
            unpin(self._git, effect)

    def _history(self, limit: int) -> Sequence[TargetChange]:
        start = "".join(f"\\{c}" if c in "*?[\\" else c for c in self._prefix)
        where = [f":(top,glob){start}{pattern}" for pattern in self._include.patterns()]
        newest = ("--topo-order", f"--max-count={limit}")
        told = log(self._git, *newest, *self._lines.tips(), "--", *where, literal=False)
        return tuple(change_of(one) for one in told)

    def _line(self) -> tuple[bool, str]:
        ref = self._lines.ref
        head = tip(self._git, ref)
        paths = [f"{self._prefix}{path}" for path in self._lenient(head).files]
        dirty = changed_by_hand(self._git, ref, head, paths)
        state = f"changed by hand and not committed: {', '.join(dirty[:5])}" if dirty else "clean"
        line = f"branch {ref.removeprefix('refs/heads/')} at {head[:12]}, {state}"
        if self._push is None:
            return True, line
        why = reachable(self._git, self._push, ref)
        return why is None, f"{line}, {self._push.remote} {why or 'can be reached'}"

    def _check(self, effect: Effect, before: HarnessSnapshot, after: HarnessSnapshot) -> None:
        for path in changed_paths(self.target, effect, before, after, include=self._include):
            file = after.files.get(path)
            if file is not None and file.mode not in PLAIN.values():
                raise PolicyRefused(f"path {path!r}: git keeps the modes 0644 and 0755 alone")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        name = sha256_hex(self.target.encode("utf-8", "surrogateescape"))
        with locked(self._work / "locks" / f"{name}.lock", wait_s=LOCK_WAIT_S):
            yield

    async def _away(self, operation: str, work: Callable[[], T]) -> T:
        """Off the event loop, and with the file system's errors in our words."""
        try:
            return await asyncio.to_thread(work)
        except OSError as error:
            where = error.filename or self._git.folder
            raise ConnectorError(
                f"harness: {operation} failed: {where}: {error.strerror or error}",
                backend="git",
                operation=operation,
                retryable=isinstance(error, TimeoutError),
            ) from error


def _stopped(paths: Sequence[str], *, switched: bool) -> ForeignChange:
    return ForeignChange(
        f"{', '.join(paths)}: changed by somebody else since; left as found",
        paths=paths,
        switched=switched,
    )
