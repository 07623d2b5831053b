"""A work tree is a person's: clean files follow the branch, and no edit of theirs is touched."""

import logging
import os
from pathlib import Path
from typing import Any

import pytest

from connectors.harness import git_worktree
from connectors.harness.git import GitHarness
from contracts.errors import ConnectorError
from contracts.harness import HarnessFile, HarnessSnapshot
from tests.contract.git_worlds import files_of, git, open_git, repository
from tests.contract.harness_suite import FOLDERS_AFTER, FOLDERS_BEFORE, change, effect_of

MAIN = "instructions/main.md"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return repository(tmp_path / "agent", FOLDERS_BEFORE.files)


def opened(root: Path, **settings: Any) -> GitHarness:
    return open_git(root, root.parent / "work", **settings)


def status(root: Path) -> list[str]:
    return git(root, "status", "--porcelain", "--untracked-files=all").splitlines()


def on_disk(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and ".git" not in path.parts
    }


async def test_a_clean_work_tree_follows_the_branch_and_stays_clean(root: Path) -> None:
    await change(opened(root), FOLDERS_BEFORE, FOLDERS_AFTER)
    assert status(root) == []
    found = on_disk(root)
    assert found.pop("README.md") == b"Beside.\n"
    assert found == {path: file.data for path, file in FOLDERS_AFTER.files.items()}
    assert not os.access(root / "skills/ask/SKILL.md", os.X_OK)
    assert not (root / "skills" / "old").exists()


async def test_other_edits_staged_or_not_are_not_touched(root: Path) -> None:
    (root / "README.md").write_bytes(b"mine\n")
    (root / "skills/stays/SKILL.md").write_bytes(b"mine too\n")
    (root / "new.txt").write_bytes(b"untracked\n")
    (root / "staged.txt").write_bytes(b"staged\n")
    git(root, "add", "staged.txt")
    before, found = status(root), on_disk(root)
    await change(opened(root), FOLDERS_BEFORE, FOLDERS_AFTER)
    assert status(root) == before
    now = on_disk(root)
    untouched = ("README.md", "skills/stays/SKILL.md", "new.txt", "staged.txt")
    assert {path: now[path] for path in untouched} == {path: found[path] for path in untouched}
    assert files_of(root, "main") == FOLDERS_AFTER
    assert now[MAIN] == FOLDERS_AFTER.files[MAIN].data


async def test_a_file_that_the_person_edited_is_left_with_its_index_entry_and_said(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (root / MAIN).write_bytes(b"half a thought")
    entry = git(root, "ls-files", "-s", MAIN)
    harness = opened(root)
    with caplog.at_level(logging.WARNING):
        await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    assert await harness.standing(FOLDERS_BEFORE, FOLDERS_AFTER) == "after"
    assert (root / MAIN).read_bytes() == b"half a thought"
    assert git(root, "ls-files", "-s", MAIN) == entry
    assert status(root) == [f"MM {MAIN}"], "all other files follow"
    left = [r for r in caplog.records if r.getMessage() == "harness.work_tree_left"]
    assert [r.__dict__["files"] for r in left] == [[str(root / MAIN)]]
    head = git(root, "rev-parse", "--short=12", "main")
    assert await harness.standing_line() == (
        True, f"branch main at {head}, changed by hand and not committed: {root / MAIN}",
    )  # fmt: skip


async def test_a_staged_edit_is_left_though_the_file_is_back_to_before(root: Path) -> None:
    (root / MAIN).write_bytes(b"staged thought")
    git(root, "add", MAIN)
    (root / MAIN).write_bytes(FOLDERS_BEFORE.files[MAIN].data)
    entry = git(root, "ls-files", "-s", MAIN)
    await change(opened(root), FOLDERS_BEFORE, FOLDERS_AFTER)
    assert git(root, "ls-files", "-s", MAIN) == entry
    assert (root / MAIN).read_bytes() == FOLDERS_BEFORE.files[MAIN].data


async def test_an_untracked_file_where_a_new_one_comes_is_left(root: Path) -> None:
    place = root / "skills/new/notes/a.md"
    place.parent.mkdir(parents=True)
    place.write_bytes(b"draft of mine\n")
    await change(opened(root), FOLDERS_BEFORE, FOLDERS_AFTER)
    assert place.read_bytes() == b"draft of mine\n"
    assert files_of(root, "main") == FOLDERS_AFTER


async def test_a_name_with_a_wildcard_is_that_file_alone(tmp_path: Path) -> None:
    files = {"skills/x*.md": HarnessFile(data=b"1\n"), "skills/x1.md": HarnessFile(data=b"2\n")}
    after = HarnessSnapshot(files={path: HarnessFile(data=b"3\n") for path in files})
    root = repository(tmp_path / "agent", files)
    (root / "skills/x1.md").write_bytes(b"half a thought")
    await change(opened(root), HarnessSnapshot(files=files), after)
    assert (root / "skills/x*.md").read_bytes() == b"3\n"
    assert (root / "skills/x1.md").read_bytes() == b"half a thought"
    assert status(root) == ["MM skills/x1.md"]


async def test_nothing_is_written_through_a_link_of_the_work_tree(
    root: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    (root / "instructions").rename(elsewhere)
    (root / "instructions").symlink_to(elsewhere)
    await change(opened(root), FOLDERS_BEFORE, FOLDERS_AFTER)
    assert (root / "instructions").is_symlink()
    assert (elsewhere / "main.md").read_bytes() == FOLDERS_BEFORE.files[MAIN].data


async def test_a_work_tree_of_another_branch_stays_and_a_linked_one_follows(
    root: Path, tmp_path: Path
) -> None:
    git(root, "checkout", "-q", "-b", "feature")
    linked = tmp_path / "linked tree"
    git(root, "worktree", "add", "-q", str(linked), "main")
    found = on_disk(root)
    await change(opened(root, branch="main"), FOLDERS_BEFORE, FOLDERS_AFTER)
    assert on_disk(root) == found
    assert status(root) == []
    assert git(root, "rev-parse", "feature") == git(root, "rev-parse", "main~1")
    assert (linked / MAIN).read_bytes() == FOLDERS_AFTER.files[MAIN].data
    assert status(linked) == []


async def test_a_linked_work_tree_is_a_root_too(root: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    git(root, "worktree", "add", "-q", "-b", "mine", str(linked))
    harness = opened(linked)
    assert harness.target == f"git:{linked}#mine"
    await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    assert status(linked) == status(root) == []
    assert files_of(root, "mine") == FOLDERS_AFTER
    assert files_of(root, "main") == FOLDERS_BEFORE


@pytest.mark.parametrize("committed", [b"one\ntwo\n", b"one\r\ntwo\r\n"], ids=["lf", "crlf"])
async def test_line_ends_that_git_converts_are_no_edit(tmp_path: Path, committed: bytes) -> None:
    before = HarnessSnapshot(files={MAIN: HarnessFile(data=committed)})
    after = HarnessSnapshot(files={MAIN: HarnessFile(data=committed.replace(b"two", b"2"))})
    root = repository(tmp_path / "agent", before.files)
    git(root, "config", "core.autocrlf", "true")
    (root / MAIN).unlink()
    git(root, "checkout", "--", MAIN)
    assert (root / MAIN).read_bytes() == b"one\r\ntwo\r\n"
    harness = opened(root)
    assert await harness.read() == before, "what the commit has, not the work tree"
    await change(harness, before, after)
    assert await harness.read() == after
    assert (root / MAIN).read_bytes() == b"one\r\n2\r\n"
    assert status(root) == []


async def test_a_call_that_was_killed_before_the_work_tree_followed_is_finished_by_the_next(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    effect = effect_of(opened(root), FOLDERS_BEFORE, FOLDERS_AFTER)
    with monkeypatch.context() as patch:
        patch.setattr("connectors.harness.git.follow", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await opened(root).switch(effect, FOLDERS_BEFORE, FOLDERS_AFTER)
    assert (root / MAIN).read_bytes() == FOLDERS_BEFORE.files[MAIN].data
    harness = opened(root)
    assert await harness.standing(FOLDERS_BEFORE, FOLDERS_AFTER) == "mixed"
    await harness.stage(effect, FOLDERS_BEFORE, FOLDERS_AFTER)
    await harness.switch(effect, FOLDERS_BEFORE, FOLDERS_AFTER)
    assert await harness.standing(FOLDERS_BEFORE, FOLDERS_AFTER) == "after"
    assert status(root) == []
    assert git(root, "rev-list", "--count", "main") == "2"


async def test_files_that_a_killed_call_wrote_already_are_recognised(root: Path) -> None:
    harness = opened(root)
    effect = effect_of(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    await harness.stage(effect, FOLDERS_BEFORE, FOLDERS_AFTER)
    (root / MAIN).write_bytes(FOLDERS_AFTER.files[MAIN].data)
    (root / "skills/old/SKILL.md").unlink()
    await harness.switch(effect, FOLDERS_BEFORE, FOLDERS_AFTER)
    assert status(root) == []


async def test_an_index_that_another_git_holds_is_said_and_the_next_call_finishes(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git_worktree, "LOCK_RETRY_S", 0.0)
    lock = root / ".git" / "index.lock"
    lock.touch()
    harness = opened(root)
    with pytest.raises(ConnectorError, match=r"does not follow: .*index\.lock") as told:
        await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    assert told.value.retryable
    assert await harness.standing(FOLDERS_BEFORE, FOLDERS_AFTER) == "mixed"
    lock.unlink()
    await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    assert status(root) == []
    assert git(root, "rev-list", "--count", "main") == "2"


async def test_no_hook_of_the_repository_runs(root: Path, tmp_path: Path) -> None:
    for name in ("post-checkout", "reference-transaction", "post-index-change", "pre-push"):
        hook = root / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran-{name}\n")
        hook.chmod(0o755)
    await change(opened(root), FOLDERS_BEFORE, FOLDERS_AFTER)
    assert "ran-" not in " ".join(on_disk(tmp_path))
    assert files_of(root, "main") == FOLDERS_AFTER
