"""What a change leaves in a repository: one commit that says why, on top of what was there."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from connectors.harness import git_refs
from connectors.harness.git import GitHarness
from contracts.errors import ConnectorError, ForeignChange, PolicyRefused
from contracts.harness import HarnessFile, HarnessSnapshot
from tests.contract.git_worlds import (
    commit_by_hand,
    files_of,
    git,
    open_git,
    repository,
    write,
)
from tests.contract.harness_suite import (
    ABOUT,
    FOLDERS_AFTER,
    FOLDERS_BEFORE,
    change,
    effect_of,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return repository(tmp_path / "agent", FOLDERS_BEFORE.files)


def opened(root: Path, **settings: Any) -> GitHarness:
    return open_git(root, root.parent / "work", **settings)


async def test_the_commit_names_finding_proposal_decision_approver_and_gate_report(
    root: Path,
) -> None:
    old = git(root, "rev-parse", "main")
    effect = await change(opened(root), FOLDERS_BEFORE, FOLDERS_AFTER)
    assert git(root, "log", "-1", "--format=%P|%an|%ae|%cn|%aI|%cI") == (
        f"{old}|Tracemend|tracemend@localhost|Tracemend|2026-11-30T12:00:00+00:00|"
        "2026-11-30T12:00:00+00:00"
    )
    assert git(root, "log", "-1", "--format=%B").splitlines() == [
        "Say so when the payment tool fails",
        "",
        "Applied by Tracemend after Ada approved it.",
        "",
        f"Tracemend-Effect: {effect.key}",
        "Tracemend-Finding: f-abcdefghij",
        "Tracemend-Proposal: p-abcdefghij r2",
        "Tracemend-Decision: d-1",
        "Approved-by: Ada",
        f"Tracemend-Gate-Report: {'9' * 64}",
        f"Tracemend-Base: {FOLDERS_BEFORE.revision}",
        f"Tracemend-Result: {FOLDERS_AFTER.revision}",
    ]
    shown = git(root, "log", "-1", "--format=%(trailers:key=Approved-by,valueonly)")
    assert shown == "Ada", "git itself reads the last paragraph as trailers"


async def test_an_undo_is_a_commit_on_top_that_names_what_it_reverts(root: Path) -> None:
    harness = opened(root, author="Robot <robot@example.org>")
    await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    applied = git(root, "rev-parse", "main")
    about = replace(ABOUT, title="Take back: x", gate_report=None, undoes="r-abc", approver="Bo")
    effect = replace(effect_of(harness, FOLDERS_AFTER, FOLDERS_BEFORE, "undo"), about=about)
    await harness.stage(effect, FOLDERS_AFTER, FOLDERS_BEFORE)
    await harness.switch(effect, FOLDERS_AFTER, FOLDERS_BEFORE)
    assert git(root, "rev-parse", "main~1") == applied
    said = git(root, "log", "-1", "--format=%B")
    assert said.startswith("Take back: x\n\nTaken back by Tracemend for Bo.\n")
    assert f"This reverts commit {applied}.\n" in said
    assert "\nTracemend-Undoes: r-abc\n" in said
    assert "Gate-Report" not in said
    assert git(root, "diff", "--stat", "main~2", "main") == ""
    assert git(root, "log", "-1", "--format=%an <%ae>") == "Robot <robot@example.org>"


async def test_a_hostile_approver_or_title_adds_no_line_to_the_message(root: Path) -> None:
    harness = opened(root)
    about = replace(ABOUT, title="A\n\nTracemend-Effect: x\u202e", approver=f"B\nC: {'d' * 999}")
    effect = replace(effect_of(harness, FOLDERS_BEFORE, FOLDERS_AFTER), about=about)
    await harness.switch(effect, FOLDERS_BEFORE, FOLDERS_AFTER)
    lines = git(root, "log", "-1", "--format=%B").splitlines()
    assert lines[0] == "A Tracemend-Effect: x⟨U+202E⟩"
    assert len(lines) == 12
    approved = next(line for line in lines if line.startswith("Approved-by: "))
    assert approved.startswith("Approved-by: B C: ddd")
    assert len(approved) < 150
    assert (await harness.history(1))[0].effect == effect.key


async def test_without_knowing_why_the_commit_carries_the_keys_alone(root: Path) -> None:
    harness = opened(root)
    effect = effect_of(harness, FOLDERS_BEFORE, FOLDERS_AFTER, about=None)
    await harness.switch(effect, FOLDERS_BEFORE, FOLDERS_AFTER)
    said = git(root, "log", "-1", "--format=%B")
    assert said.startswith("Change the harness\n\n")
    assert f"\nTracemend-Effect: {effect.key}\nTracemend-Decision: d-1\nTracemend-Base" in said
    ours, theirs = git(root, "log", "-2", "--format=%ct").splitlines()
    assert ours == theirs


async def test_everything_else_of_the_repository_stays_as_it_was(root: Path) -> None:
    git(root, "branch", "other")
    before = git(root, "ls-tree", "-r", "main")
    refs = git(root, "for-each-ref")
    await change(opened(root), FOLDERS_BEFORE, FOLDERS_AFTER)
    kept = [line for line in before.splitlines() if "README.md" in line or "stays" in line]
    assert len(kept) == 2
    assert set(kept) < set(git(root, "ls-tree", "-r", "main").splitlines())
    moved = set(git(root, "for-each-ref").splitlines()) ^ set(refs.splitlines())
    assert {line.split("\t")[1] for line in moved} == {"refs/heads/main"}, "no name of ours is left"


async def test_a_staged_commit_outlives_git_gc_and_a_discarded_one_does_not(root: Path) -> None:
    harness = opened(root)
    effect = effect_of(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    await harness.stage(effect, FOLDERS_BEFORE, FOLDERS_AFTER)
    name = f"refs/tracemend/{effect.key[:32]}"
    staged = git(root, "rev-parse", name)
    git(root, "gc", "-q", "--prune=now")
    assert git(root, "cat-file", "-t", staged) == "commit"
    assert git(root, "branch", "--contains", staged) == "", "no branch has it"
    await harness.switch(effect, FOLDERS_BEFORE, FOLDERS_AFTER)
    assert git(root, "rev-parse", "main") == staged
    assert git(root, "for-each-ref", "refs/tracemend") == ""


async def test_a_commit_beside_the_harness_is_no_conflict_and_is_kept(root: Path) -> None:
    harness = opened(root)
    effect = effect_of(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    await harness.stage(effect, FOLDERS_BEFORE, FOLDERS_AFTER)
    theirs = commit_by_hand(root, "main", "src/app.py", b"print()\n")
    await harness.switch(effect, FOLDERS_BEFORE, FOLDERS_AFTER)
    assert git(root, "rev-parse", "main~1") == theirs
    assert git(root, "show", "main:src/app.py") == "print()"
    assert files_of(root, "main") == FOLDERS_AFTER


@pytest.mark.parametrize("path", ["src/app.py", "instructions/main.md"])
async def test_a_commit_in_the_moment_of_the_switch_is_never_lost(
    root: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    harness, real = opened(root), git_refs.move
    theirs: list[str] = []

    def late(*args: Any, **kwargs: Any) -> bool:
        if not theirs:
            theirs.append(commit_by_hand(root, "main", path, b"by hand\n"))
        return real(*args, **kwargs)

    monkeypatch.setattr("connectors.harness.git.move", late)
    if path.startswith("instructions"):
        with pytest.raises(ForeignChange, match=r"instructions/main\.md"):
            await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
        assert git(root, "rev-parse", "main") == theirs[0]
    else:
        await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
        assert git(root, "rev-parse", "main~1") == theirs[0]
    assert git(root, "show", f"main:{path}") == "by hand"


async def test_a_change_that_a_person_reverted_is_not_made_again(root: Path) -> None:
    harness = opened(root)
    effect = await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    git(root, "revert", "--no-edit", "main")
    head = git(root, "rev-parse", "main")
    with pytest.raises(ForeignChange) as told:
        await harness.switch(effect, FOLDERS_BEFORE, FOLDERS_AFTER)
    assert told.value.switched
    assert git(root, "rev-parse", "main") == head


async def test_our_own_rest_is_put_back_once_when_a_person_edits_on_top(root: Path) -> None:
    harness = opened(root)
    effect = await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    commit_by_hand(root, "main", "instructions/main.md", b"by hand\n")
    for _ in range(2):
        with pytest.raises(ForeignChange, match=r"^instructions/main\.md: changed by somebody"):
            await harness.switch(effect, FOLDERS_BEFORE, FOLDERS_AFTER)
    assert git(root, "rev-list", "--count", "main") == "4"
    newest = (await harness.history(1))[0]
    assert newest.effect == effect.key
    assert newest.message.startswith("Put back 3 file(s)")
    expected = dict(FOLDERS_BEFORE.files)
    expected["instructions/main.md"] = HarnessFile(data=b"by hand\n")
    assert files_of(root, "main").files == expected


async def test_exactly_this_change_by_a_person_needs_no_commit_of_ours(root: Path) -> None:
    git(root, "rm", "-q", "-r", "skills/old")
    for path, file in FOLDERS_AFTER.files.items():
        write(root, path, file)
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "The same by hand")
    head = git(root, "rev-parse", "main")
    harness = opened(root)
    await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    assert git(root, "rev-parse", "main") == head
    assert await harness.standing(FOLDERS_BEFORE, FOLDERS_AFTER) == "after"


async def test_history_leaves_out_commits_that_touch_no_file_of_the_harness(root: Path) -> None:
    commit_by_hand(root, "main", "src/app.py", b"print()\n")
    mine = commit_by_hand(root, "main", "skills/a b/ü.md", b"x\n")
    told = await opened(root).history()
    assert (told[0].origin, told[0].by, told[0].effect) == (mine, "Grace", None)
    assert [one.message for one in told] == ["By hand", "Begin"]


async def test_a_mode_that_git_does_not_keep_is_refused(root: Path) -> None:
    harness = opened(root)
    after = HarnessSnapshot(
        files={**FOLDERS_BEFORE.files, "skills/x/a.md": HarnessFile(data=b"x", mode=0o600)}
    )
    with pytest.raises(PolicyRefused, match="git keeps the modes 0644 and 0755 alone"):
        await harness.stage(effect_of(harness, FOLDERS_BEFORE, after), FOLDERS_BEFORE, after)


async def test_a_file_in_the_place_of_a_new_folder_is_a_foreign_one(root: Path) -> None:
    harness = open_git(root, root.parent / "work", include=["instructions/*.md", "notes/*/*.md"])
    path = "instructions/main.md"
    before = HarnessSnapshot(files={path: FOLDERS_BEFORE.files[path]})
    after = HarnessSnapshot(files={**before.files, "notes/new/a.md": HarnessFile(data=b"x")})
    head = commit_by_hand(root, "main", "notes/new", b"a file\n")
    with pytest.raises(ForeignChange, match=r"^notes/new: "):
        await change(harness, before, after)
    assert git(root, "rev-parse", "main") == head


@pytest.mark.parametrize("name", ["refs/heads/main", "refs/tracemend"])
async def test_a_name_that_another_git_holds_is_said_and_the_next_call_goes_on(
    root: Path, name: str
) -> None:
    harness = opened(root)
    effect = effect_of(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    name = f"{name}/{effect.key[:32]}" if name == "refs/tracemend" else name
    lock = root / ".git" / f"{name}.lock"
    lock.parent.mkdir(exist_ok=True)
    lock.touch()
    head = git(root, "rev-parse", "main")
    with pytest.raises(ConnectorError, match=r"\.lock.*File exists") as told:
        await harness.switch(effect, FOLDERS_BEFORE, FOLDERS_AFTER)
    assert told.value.retryable
    assert git(root, "rev-parse", "main") == head
    lock.unlink()
    await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    assert git(root, "rev-list", "--count", "main") == "2"


async def test_an_object_that_cannot_be_written_changes_nothing(root: Path) -> None:
    objects = root / ".git" / "objects"
    harness = opened(root)
    kept = {folder.name: folder for folder in objects.iterdir() if len(folder.name) == 2}
    for number in range(256):
        if f"{number:02x}" not in kept:
            (objects / f"{number:02x}").write_bytes(b"a file where git needs a folder")
    with pytest.raises(ConnectorError, match=r"git [a-z-]+ in .*: (error|fatal): ") as told:
        await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    assert told.value.retryable
    assert await harness.read() == FOLDERS_BEFORE
    for number in range(256):
        if f"{number:02x}" not in kept:
            (objects / f"{number:02x}").unlink()
    await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    assert files_of(root, "main") == FOLDERS_AFTER


async def test_a_missing_object_is_said_and_never_read_as_an_empty_file(root: Path) -> None:
    blob = git(root, "rev-parse", "main:instructions/main.md")
    (root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(ConnectorError, match=r"lacks the object|could not get object info"):
        await opened(root).read()
