"""Where in a repository a harness is: the repository itself, the folder in it, and its branch."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from connectors.harness.git_run import Git
from contracts.errors import ConfigError

_HOLE = re.compile(r"\{([^{}]*)\}")
_HOLES = ("finding", "proposal")
_AUTHOR = re.compile(r"\s*([^<>\r\n]+?)\s*<([^<>\s]+)>\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class GitPlace:
    """A folder of a repository on a branch."""

    git: Git
    """Runs at the top of the work tree, or in the bare repository."""
    prefix: str
    """What stands before the harness's paths in the repository: empty, or ends in `/`."""
    branch: str
    """Without `refs/heads/`."""

    @property
    def target(self) -> str:
        """Stable name of the place."""
        inside = f":{self.prefix.removesuffix('/')}" if self.prefix else ""
        return f"git:{self.git.folder}#{self.branch}{inside}"


def find_place(
    root: Path, branch: str | None, *, place: str, environ: Mapping[str, str]
) -> GitPlace:
    """The repository that a folder is in.

    Args:
        root: the folder; it need not be there, as long as the repository is.
        branch: the branch; None: the one that is checked out.
        place: key of the settings, for messages.
        environ: what the program gets.

    Raises:
        ConfigError: there is no repository, no such program, or no branch to work on.
    """
    root = root.resolve()
    standing = next(folder for folder in (root, *root.parents) if folder.is_dir())
    git = Git(standing, environ)
    ran = git.run("rev-parse", "--is-bare-repository", "--absolute-git-dir")
    if ran.code != 0:
        raise ConfigError(f"{place}.root: {_why_not(root, ran.said)}")
    bare, _, git_dir = ran.text.partition("\n")
    top = Path(git_dir if bare == "true" else git.must("rev-parse", "--show-toplevel").text)
    top = top.resolve()
    if not root.is_relative_to(top):
        raise ConfigError(f"{place}.root: {root} is inside {top}, which is no folder of files")
    prefix = root.relative_to(top).as_posix()
    git = git.at(top)
    return GitPlace(
        git=git, prefix="" if prefix == "." else f"{prefix}/",
        branch=_branch(git, branch, place=place),
    )  # fmt: skip


def _why_not(root: Path, said: str) -> str:
    if "dubious ownership" in said:
        return (
            f"git does not trust the repository of {root}, since another user owns it; allow it "
            "with `git config --global --add safe.directory FOLDER` as the user of Tracemend"
        )
    if "not a git repository" in said:
        return f"{root} is in no git repository; use kind directory, or `git init` there"
    return f"{root}: {said}"


def _branch(git: Git, branch: str | None, *, place: str) -> str:
    if branch is None:
        ran = git.run("symbolic-ref", "--quiet", "HEAD")
        if ran.code != 0 or not ran.text.startswith("refs/heads/"):
            raise ConfigError(
                f"{place}.branch: not given, and no branch is checked out in {git.folder} "
                "(a detached HEAD); name the branch"
            )
        return ran.text.removeprefix("refs/heads/")
    if not _is_name(git, branch):
        raise ConfigError(f"{place}.branch: {branch!r} is no name of a branch")
    return branch


def _is_name(git: Git, branch: str) -> bool:
    plain = not branch.startswith("-")  # git's own commands would take it for an option
    return plain and git.run("check-ref-format", f"refs/heads/{branch}").code == 0


def checked_new_branch(git: Git, pattern: str, branch: str, *, place: str) -> str:
    """The setting `new_branch`, when names can be made of it.

    Raises:
        ConfigError: an unknown hole, no name of a branch, or the branch itself.
    """
    unknown = [hole for hole in _holes_in(pattern) if hole not in _HOLES]
    if unknown:
        raise ConfigError(
            f"{place}.new_branch: unknown hole {{{unknown[0]}}}; "
            "there are {finding} and {proposal}"
        )
    filled = fill(pattern, finding="f-abc", proposal="p-abc")
    if not _is_name(git, filled):
        raise ConfigError(f"{place}.new_branch: {pattern!r} makes no name of a branch")
    if filled == branch:
        raise ConfigError(f"{place}.new_branch: {pattern!r} is `branch` itself; leave it out")
    return pattern


def _holes_in(pattern: str) -> list[str]:
    return _HOLE.findall(pattern)


def fill(pattern: str, *, finding: str, proposal: str) -> str:
    """The pattern with its holes filled."""
    values = {"finding": finding, "proposal": proposal}
    return _HOLE.sub(lambda hole: values[hole.group(1)], pattern)


def any_of(pattern: str) -> str:
    """A pattern for git that all names made of it match."""
    return _HOLE.sub("*", pattern)


def author_of(text: str, *, place: str) -> tuple[str, str]:
    """Name and address of `Name <address>`.

    Raises:
        ConfigError: it is not of that form.
    """
    found = _AUTHOR.fullmatch(text)
    if found is None:
        raise ConfigError(f"{place}.author: got {text[:80]!r}, needs `Name <address>`")
    return found.group(1), found.group(2)
