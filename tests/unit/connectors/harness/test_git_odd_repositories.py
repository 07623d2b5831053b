"""Repositories that are not a fresh work tree on a branch, and settings that fit none."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from connectors.harness.git import GitHarness
from contracts.errors import ConfigError, ConnectorError, PolicyRefused
from contracts.harness import HarnessFile, HarnessSnapshot
from tests.contract.git_worlds import ENVIRON, files_of, git, open_git, repository, write
from tests.contract.harness_suite import FOLDERS_AFTER, FOLDERS_BEFORE, change


def opened(root: Path, work: Path, **settings: Any) -> GitHarness:
    return open_git(root, work, **settings)


async def test_a_shallow_clone_takes_a_change(tmp_path: Path) -> None:
    origin = repository(tmp_path / "origin", FOLDERS_BEFORE.files)
    git(origin, "commit", "-q", "--allow-empty", "-m", "Second")
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{origin}", "agent")
    harness = opened(tmp_path / "agent", tmp_path / "work")
    await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    await change(harness, FOLDERS_AFTER, FOLDERS_BEFORE, kind="undo")
    assert await harness.read() == FOLDERS_BEFORE
    assert git(tmp_path / "agent", "rev-parse", "--is-shallow-repository") == "true"
    assert len(await harness.history()) == 3


async def test_a_bare_repository_takes_a_change(tmp_path: Path) -> None:
    origin = repository(tmp_path / "origin", FOLDERS_BEFORE.files)
    git(tmp_path, "clone", "-q", "--bare", str(origin), "agent.git")
    bare = tmp_path / "agent.git"
    harness = opened(bare, tmp_path / "work")
    assert harness.target == f"git:{bare}#main"
    await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    assert files_of(bare, "main") == FOLDERS_AFTER
    head = git(bare, "rev-parse", "--short=12", "main")
    assert await harness.standing_line() == (True, f"branch main at {head}, clean")


async def test_a_repository_with_long_ids_takes_a_change_and_an_undo(tmp_path: Path) -> None:
    root = repository(tmp_path / "agent", FOLDERS_BEFORE.files, "--object-format=sha256")
    harness = opened(root, tmp_path / "work", new_branch="tracemend/{finding}-{proposal}")
    await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    name = "tracemend/f-abcdefghij-p-abcdefghij"
    assert files_of(root, name) == FOLDERS_AFTER
    assert len(git(root, "rev-parse", name)) == 64
    await change(harness, FOLDERS_AFTER, FOLDERS_BEFORE, kind="undo")
    assert files_of(root, name) == FOLDERS_BEFORE


@pytest.mark.parametrize("prefix", ["agents/desk/", "an agent [1]*/ü/"])
async def test_a_root_below_the_top_changes_files_there_alone(tmp_path: Path, prefix: str) -> None:
    root = repository(tmp_path / "repo", FOLDERS_BEFORE.files, prefix=prefix)
    write(root, "instructions/main.md", HarnessFile(data=b"of the top\n"))
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "Beside")
    harness = opened(root / prefix, tmp_path / "work")
    assert harness.target == f"git:{root}#main:{prefix[:-1]}"
    assert await harness.read() == FOLDERS_BEFORE
    await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    assert files_of(root, "main", prefix).files == {
        **FOLDERS_AFTER.files, "instructions/main.md": HarnessFile(data=b"of the top\n"),
    }  # fmt: skip
    assert await harness.read() == FOLDERS_AFTER
    assert git(root, "status", "--porcelain") == ""
    assert [entry.effect is not None for entry in await harness.history()] == [True, False]


async def test_a_root_that_only_another_branch_has_is_read_from_that_branch(tmp_path: Path) -> None:
    root = repository(tmp_path / "repo", FOLDERS_BEFORE.files, prefix="agent/")
    git(root, "checkout", "-q", "--orphan", "docs")
    git(root, "rm", "-q", "-r", "-f", ".")
    assert not (root / "agent").exists()
    harness = opened(root / "agent", tmp_path / "work", branch="main")
    assert await harness.read() == FOLDERS_BEFORE


async def test_names_with_spaces_and_other_letters_are_kept_exactly(tmp_path: Path) -> None:
    odd = {
        "skills/größe prüfen/SKILL.md": HarnessFile(data=b"1\n"),
        'skills/a "quoted" name/日本.md': HarnessFile(data=b"2"),
        "skills/-n/:(glob)x*.md": HarnessFile(data=b""),
    }
    before = HarnessSnapshot(files=odd)
    after = HarnessSnapshot(files={p: HarnessFile(data=f.data + b"!") for p, f in odd.items()})
    root = repository(tmp_path / "agent", odd)
    harness = opened(root, tmp_path / "work")
    assert await harness.read() == before
    await change(harness, before, after)
    assert await harness.read() == after
    assert git(root, "status", "--porcelain") == ""
    assert {p: (root / p).read_bytes() for p in odd} == {p: f.data for p, f in after.files.items()}


async def test_a_name_with_a_line_end_is_refused(tmp_path: Path) -> None:
    root = repository(tmp_path / "agent", {"skills/a\nb.md": HarnessFile(data=b"x")})
    with pytest.raises(PolicyRefused, match=r"'skills/a\\nb\.md': a control character"):
        await opened(root, tmp_path / "work").read()


async def test_a_link_and_a_submodule_are_refused_and_never_followed(tmp_path: Path) -> None:
    root = repository(tmp_path / "agent", FOLDERS_BEFORE.files)
    (root / "skills/link.md").symlink_to("/etc/hostname")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "Link")
    harness = opened(root, tmp_path / "work")
    with pytest.raises(PolicyRefused, match=r"'skills/link\.md' is a symbolic link in the reposi"):
        await harness.read()
    assert await harness.standing(FOLDERS_BEFORE, FOLDERS_AFTER) == "foreign"
    git(root, "rm", "-q", "-f", "skills/link.md")
    git(root, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},skills/sub")
    git(root, "commit", "-q", "-m", "Submodule")
    with pytest.raises(PolicyRefused, match="'skills/sub' is a submodule"):
        await harness.read()


async def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path) -> None:
    files = {"skills/big.md": HarnessFile(data=b"x" * (8 * 1024 * 1024 + 1))}
    root = repository(tmp_path / "agent", files)
    with pytest.raises(PolicyRefused, match=r"skills/big\.md' is larger than 8 MiB"):
        await opened(root, tmp_path / "work").read()


async def test_only_the_branch_counts_not_what_lies_in_the_work_tree(tmp_path: Path) -> None:
    root = repository(tmp_path / "agent", FOLDERS_BEFORE.files)
    (root / "instructions/main.md").write_bytes(b"not committed\n")
    harness = opened(root, tmp_path / "work")
    found = await harness.read()
    assert found == FOLDERS_BEFORE
    assert found.origin == git(root, "rev-parse", "main")


async def test_a_replaced_object_is_read_as_the_commit_has_it(tmp_path: Path) -> None:
    root = repository(tmp_path / "agent", FOLDERS_BEFORE.files)
    other = git(root, "hash-object", "-w", "--stdin", stdin=b"other\n")
    git(root, "replace", git(root, "rev-parse", "main:instructions/main.md"), other)
    assert await opened(root, tmp_path / "work").read() == FOLDERS_BEFORE


def test_a_detached_head_needs_a_named_branch(tmp_path: Path) -> None:
    root = repository(tmp_path / "agent", FOLDERS_BEFORE.files)
    git(root, "checkout", "-q", "--detach")
    with pytest.raises(ConfigError, match=r"^harness\.branch: not given, and no branch is checked"):
        opened(root, tmp_path / "work")
    assert opened(root, tmp_path / "work", branch="main").target == f"git:{root}#main"


async def test_a_branch_without_a_commit_says_so(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main", "agent")
    harness = opened(tmp_path / "agent", tmp_path / "work")
    with pytest.raises(ConnectorError, match="has no commit on the branch main; make a first one"):
        await harness.read()
    with pytest.raises(ConnectorError, match="has no commit on the branch main"):
        await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"branch": "a..b"}, r"harness\.branch: 'a\.\.b' is no name of a branch"),
        ({"branch": "--all"}, r"harness\.branch: '--all' is no name"),
        ({"new_branch": "x/{team}"}, r"harness\.new_branch: unknown hole \{team\}"),
        ({"new_branch": "x y"}, r"harness\.new_branch: 'x y' makes no name of a branch"),
        ({"new_branch": "main"}, r"harness\.new_branch: 'main' is `branch` itself"),
        ({"author": "nobody"}, r"harness\.author: got 'nobody', needs `Name <address>`"),
    ],
)  # fmt: skip
def test_a_setting_that_git_cannot_take_is_named(
    tmp_path: Path, settings: dict[str, str], said: str
) -> None:
    root = repository(tmp_path / "agent", FOLDERS_BEFORE.files)
    with pytest.raises(ConfigError, match=said):
        opened(root, tmp_path / "work", **settings)


def test_a_folder_outside_any_repository_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"harness\.root: .* is in no git repository; use kind"):
        opened(tmp_path, tmp_path / "work")


def test_the_inside_of_git_s_own_folder_is_no_root(tmp_path: Path) -> None:
    root = repository(tmp_path / "agent", FOLDERS_BEFORE.files)
    with pytest.raises((ConfigError, ConnectorError)):
        opened(root / ".git" / "refs", tmp_path / "work")


def test_a_repository_of_another_user_is_said_with_the_way_out(tmp_path: Path) -> None:
    root = repository(tmp_path / "agent", FOLDERS_BEFORE.files)
    foreign = ENVIRON | {"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}
    with pytest.raises(ConfigError, match=r"git does not trust .* safe\.directory"):
        opened(root, tmp_path / "work", environ=foreign)


def test_a_machine_without_git_is_told_to_install_it(tmp_path: Path) -> None:
    root = repository(tmp_path / "agent", FOLDERS_BEFORE.files)
    with pytest.raises(ConfigError, match="needs the program `git`"):
        opened(root, tmp_path / "work", environ=ENVIRON | {"PATH": str(tmp_path)})


def test_a_git_that_hangs_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = repository(tmp_path / "agent", FOLDERS_BEFORE.files)
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\nsleep 300 & echo $! > {tmp_path}/pid\nwait\n")
    fake.chmod(0o755)
    monkeypatch.setattr("connectors.harness.git_run.TIMEOUT_S", 1.0)
    slow = ENVIRON | {"PATH": f"{fake.parent}{os.pathsep}{ENVIRON['PATH']}"}
    with pytest.raises(ConnectorError, match="no answer within 1 s") as told:
        opened(root, tmp_path / "work", environ=slow)
    assert told.value.retryable
    pid = int((tmp_path / "pid").read_text())
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, check=False)
    assert state.stdout.strip()[:1] in (b"", b"Z"), "the child goes on"


async def test_variables_of_a_calling_git_name_no_other_repository(
    tmp_path: Path,
) -> None:
    root = repository(tmp_path / "agent", FOLDERS_BEFORE.files)
    other = repository(tmp_path / "other", {})
    hook = ENVIRON | {
        "GIT_DIR": str(other / ".git"), "GIT_INDEX_FILE": str(other / ".git/index"),
        "GIT_WORK_TREE": str(other), "GIT_AUTHOR_NAME": "Somebody",
    }  # fmt: skip
    head = git(other, "rev-parse", "main")
    await change(opened(root, tmp_path / "work", environ=hook), FOLDERS_BEFORE, FOLDERS_AFTER)
    assert git(other, "rev-parse", "main") == head
    assert git(root, "log", "-1", "--format=%an") == "Tracemend"
