"""Changes that wait on a branch of their own until somebody merges them."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from connectors.harness.git import GitHarness
from contracts.errors import ConnectorError, ForeignChange
from contracts.harness import HarnessFile, HarnessSnapshot
from tests.contract.git_worlds import commit_by_hand, files_of, git, open_git, repository
from tests.contract.harness_suite import (
    FOLDERS_AFTER,
    FOLDERS_BEFORE,
    change,
    effect_of,
)

NAME = "tracemend/p-abcdefghij"
THIRD = HarnessSnapshot(
    files={**FOLDERS_BEFORE.files, "skills/third/SKILL.md": HarnessFile(data=b"3\n")}
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return repository(tmp_path / "agent", FOLDERS_BEFORE.files)


def opened(root: Path, new_branch: str = "tracemend/{proposal}", **settings: Any) -> GitHarness:
    return open_git(root, root.parent / "work", new_branch=new_branch, **settings)


def branches(root: Path) -> list[str]:
    return git(root, "for-each-ref", "--format=%(refname:short)", "refs/heads").splitlines()


def merge(root: Path, name: str, *how: str) -> None:
    """As the button of a pull request does."""
    git(root, "merge", "-q", *how, name)
    if "--squash" in how:
        git(root, "commit", "-q", "-m", "Squashed by hand")


async def test_the_branch_that_agents_read_never_moves(root: Path) -> None:
    head = git(root, "rev-parse", "main")
    harness = opened(root)
    await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    await change(harness, FOLDERS_AFTER, FOLDERS_BEFORE, kind="undo")
    assert git(root, "rev-parse", "main") == head
    assert await harness.read() == FOLDERS_BEFORE
    assert branches(root) == ["main", NAME]
    assert (
        git(root, "log", "--format=%s", f"main..{NAME}").splitlines()
        == ["Say so when the payment tool fails"] * 2
    )
    assert git(root, "status", "--porcelain") == ""


@pytest.mark.parametrize("how", [("--no-ff", "--no-edit"), ("--ff-only",), ("--squash",)])
@pytest.mark.parametrize("deleted", [True, False], ids=["deleted", "kept"])
async def test_what_was_merged_is_taken_back_on_one_more_branch(
    root: Path, how: tuple[str, ...], deleted: bool
) -> None:
    harness = opened(root)
    await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    merge(root, NAME, *how)
    if deleted:
        git(root, "branch", "-q", "-D", NAME)
    head = git(root, "rev-parse", "main")
    assert await harness.standing(FOLDERS_BEFORE, FOLDERS_AFTER) == "after"
    assert await harness.standing(FOLDERS_AFTER, FOLDERS_BEFORE) == "before"
    await change(opened(root), FOLDERS_AFTER, FOLDERS_BEFORE, kind="undo")
    assert git(root, "rev-parse", "main") == head
    assert git(root, "rev-parse", f"{NAME}-undo~1") == head
    assert files_of(root, f"{NAME}-undo") == FOLDERS_BEFORE
    assert await harness.standing(FOLDERS_AFTER, FOLDERS_BEFORE) == "after"
    merge(root, f"{NAME}-undo", "--no-ff", "--no-edit")
    assert await harness.standing(FOLDERS_AFTER, FOLDERS_BEFORE) == "after"
    assert await harness.read() == FOLDERS_BEFORE


async def test_a_merged_change_that_was_edited_since_is_not_taken_back(root: Path) -> None:
    harness = opened(root)
    await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    merge(root, NAME, "--no-ff", "--no-edit")
    commit_by_hand(root, "main", "instructions/main.md", b"by hand\n")
    found = branches(root)
    with pytest.raises(ForeignChange, match=r"^instructions/main\.md"):
        await change(harness, FOLDERS_AFTER, FOLDERS_BEFORE, kind="undo")
    assert branches(root) == found


async def test_a_waiting_change_is_taken_back_on_its_branch_though_the_other_moved(
    root: Path,
) -> None:
    harness = opened(root)
    await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    commit_by_hand(root, "main", "instructions/main.md", b"by hand\n")
    assert await harness.standing(FOLDERS_AFTER, FOLDERS_BEFORE) == "before"
    await change(harness, FOLDERS_AFTER, FOLDERS_BEFORE, kind="undo")
    assert files_of(root, NAME) == FOLDERS_BEFORE
    assert await harness.standing(FOLDERS_AFTER, FOLDERS_BEFORE) == "after"


async def test_a_change_whose_branch_was_thrown_away_is_taken_back_already(root: Path) -> None:
    harness = opened(root)
    await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    git(root, "branch", "-q", "-D", NAME)
    assert await harness.standing(FOLDERS_AFTER, FOLDERS_BEFORE) == "after"
    await change(harness, FOLDERS_AFTER, FOLDERS_BEFORE, kind="undo")
    assert branches(root) == ["main"]


async def test_a_branch_of_one_name_takes_the_next_change_once_it_is_merged(root: Path) -> None:
    harness = opened(root, new_branch="agents/next")
    await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    effect = effect_of(harness, FOLDERS_BEFORE, THIRD, decision="d-2")
    with pytest.raises(ConnectorError, match=r"agents/next .* holds other changes") as told:
        await harness.switch(effect, FOLDERS_BEFORE, THIRD)
    assert told.value.retryable
    assert files_of(root, "agents/next") == FOLDERS_AFTER
    git(root, "merge", "-q", "--no-ff", "--no-edit", "agents/next")
    git(root, "revert", "--no-edit", "-m", "1", "main")
    await change(harness, FOLDERS_BEFORE, THIRD, decision="d-2")
    assert git(root, "rev-parse", "agents/next~1") == git(root, "rev-parse", "main")
    assert files_of(root, "agents/next") == THIRD


async def test_history_tells_of_changes_that_wait(root: Path) -> None:
    harness = opened(root)
    effect = await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    told = await harness.history()
    assert [(one.origin, one.effect) for one in told] == [
        (git(root, "rev-parse", NAME), effect.key), (git(root, "rev-parse", "main"), None),
    ]  # fmt: skip


async def test_a_name_that_cannot_be_is_said_and_nothing_is_left(root: Path) -> None:
    git(root, "branch", "tracemend")
    harness = opened(root)
    with pytest.raises(ConnectorError, match=r"tracemend/p-.* could not be moved: .*'refs/heads/"):
        await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    assert branches(root) == ["main", "tracemend"]


async def test_two_processes_with_one_effect_make_one_commit(root: Path) -> None:
    first, second = opened(root), opened(root)
    effect = effect_of(first, FOLDERS_BEFORE, FOLDERS_AFTER)
    await asyncio.gather(
        first.switch(effect, FOLDERS_BEFORE, FOLDERS_AFTER),
        second.switch(effect, FOLDERS_BEFORE, FOLDERS_AFTER),
    )
    assert git(root, "rev-list", "--count", NAME) == "2"
