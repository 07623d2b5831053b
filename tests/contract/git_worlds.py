"""Git repositories with a harness, made by the real program, and a person who commits there."""

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from configs.harness_settings import GitTarget
from connectors.harness.git import GitHarness
from connectors.harness.git_run import Git
from contracts.harness import HarnessFile, HarnessSnapshot
from contracts.protocols import Harness
from tests.contract.breaking import breaking
from tests.contract.harness_suite import FOLDERS_AFTER, FOLDERS_BEFORE

INCLUDE = ("instructions/*.md", "skills/**")
WRITES = ("commit-tree", "update-ref", "restore", "push")
ENVIRON = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
}
"""Nothing of the developer's own configuration."""


def git(
    folder: Path, *words: str, stdin: bytes = b"", more: Mapping[str, str] | None = None
) -> str:
    """What a person runs there."""
    who = ("-c", "user.name=Grace", "-c", "user.email=grace@example.org")
    done = subprocess.run(
        ["git", *who, *words], cwd=folder, env=ENVIRON | dict(more or {}), input=stdin,
        capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (words, done.stderr.decode())
    return done.stdout.decode().strip()


def repository(
    folder: Path, files: Mapping[str, HarnessFile], *options: str, prefix: str = ""
) -> Path:
    """A work tree on the branch `main` whose first commit has these files, and one beside them."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main", *options)
    write(folder, "README.md", HarnessFile(data=b"Beside.\n"))
    for path, file in files.items():
        write(folder, f"{prefix}{path}", file)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "Begin")
    return folder


def write(folder: Path, path: str, file: HarnessFile) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_bytes(file.data)
    (folder / path).chmod(file.mode)


def open_git(root: Path, work: Path, **settings: Any) -> GitHarness:
    """The harness there, as another process opens it."""
    environ = settings.pop("environ", ENVIRON)
    spec = GitTarget.model_validate({"kind": "git", "include": INCLUDE, **settings})
    return GitHarness(root, spec, work, environ=environ)


def commit_by_hand(folder: Path, branch: str, path: str, data: bytes | None) -> str:
    """Grace commits one file to a branch, and looks at no work tree of this repository."""
    index = {"GIT_INDEX_FILE": str(folder.parent / "index-of-grace")}
    git(folder, "read-tree", branch, more=index)
    known = git(folder, "ls-tree", branch, "--", path)
    mode = known.split()[0] if known else "100644"
    line = f"0 {'0' * 40}\t{path}"
    if data is not None:
        blob = git(folder, "hash-object", "-w", "--stdin", "--no-filters", stdin=data)
        line = f"{mode} {blob}\t{path}"
    git(folder, "update-index", "--index-info", stdin=f"{line}\n".encode(), more=index)
    tree = git(folder, "write-tree", more=index)
    new = git(folder, "commit-tree", tree, "-p", branch, "-m", "By hand")
    git(folder, "update-ref", f"refs/heads/{branch}", new)
    return new


def files_of(folder: Path, commit: str, prefix: str = "") -> HarnessSnapshot:
    """The harness files of a commit, by other means than ours."""
    files: dict[str, HarnessFile] = {}
    out = subprocess.run(
        ["git", "archive", "--format=tar", commit], cwd=folder, env=ENVIRON,
        capture_output=True, check=True,
    ).stdout  # fmt: skip
    with tarfile.open(fileobj=io.BytesIO(out)) as archive:
        for member in archive:
            path = member.name.removeprefix(prefix)
            if member.isfile() and path.startswith(("instructions/", "skills/")):
                content = archive.extractfile(member)
                assert content is not None
                mode = 0o755 if member.mode & 0o100 else 0o644
                files[path] = HarnessFile(data=content.read(), mode=mode)
    return HarnessSnapshot(files=files)


class GitWorld:
    """A repository, copied from a template, whose branch Grace moves as well."""

    before, after = FOLDERS_BEFORE, FOLDERS_AFTER
    extra, outside = "skills/extra/SKILL.md", "README.md"
    keeps_modes, names_states, remembers = True, True, True

    def __init__(self, folder: Path, template: Path, **settings: Any) -> None:
        self.folder, self.settings = folder, settings
        self.root = folder / "agent"
        shutil.copytree(template, self.root, symlinks=True)
        self.harness: Harness = self.again()

    def again(self) -> Harness:
        return open_git(self.root, self.folder / "work", branch="main", **self.settings)

    @property
    def branch(self) -> str:
        """The branch that has the newest change."""
        names = git(self.root, "for-each-ref", "--format=%(refname:short)", "refs/heads/tracemend")
        return names.splitlines()[0] if names else "main"

    def put(self, path: str, data: bytes | None) -> None:
        commit_by_hand(self.root, self.branch, path, data)

    async def seen(self) -> HarnessSnapshot:
        return files_of(self.root, self.branch)

    def written(self) -> int | None:
        return int(git(self.root, "rev-list", "--count", "--branches"))

    def breaking(self, step: int) -> AbstractContextManager[Callable[[], bool]]:
        return breaking([(Git, "run")], step, writes=lambda _, word, *__, **___: word in WRITES)
