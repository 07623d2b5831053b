"""The whole loop where the agent's text lives in a git repository: a yes, the gate, one commit."""

from pathlib import Path

import pytest

from graph.cli.checks import run_checks
from tests.contract.git_worlds import git
from tests.story.small_worlds import (
    ANN,
    BEFORE,
    GOOD,
    MAIN,
    cases,
    change_settings,
    enter,
    opened,
    write_project,
)

pytestmark = [pytest.mark.story, pytest.mark.servers]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "small"
    monkeypatch.setenv("TRACEMEND_HOME", str(folder / ".tracemend"))
    write_project(folder, cases())
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "Begin")
    return folder


def text_of(root: Path, branch: str) -> str:
    return git(root, "show", f"{branch}:{MAIN}") + "\n"


async def test_an_accepted_edit_is_one_commit_that_names_who_and_why_and_undo_another(
    root: Path,
) -> None:
    change_settings(root, harness={"kind": "git", "branch": "main"})
    (root / "notes.txt").write_text("of a person\n", "utf-8")
    async with opened(enter(root)) as small:
        head = git(root, "rev-parse", "main")
        assert text_of(root, "main") == BEFORE, "nothing before the yes"
        outcome = await small.approve()
        assert small.state() in ("applied", "watching")
        assert outcome.release is not None
        assert git(root, "rev-parse", "main~1") == head
        assert (root / MAIN).read_text("utf-8") == text_of(root, "main") == BEFORE + GOOD
        said = git(root, "log", "-1", "--format=%B").splitlines()
        assert f"Tracemend-Proposal: {small.proposal} r1" in said
        assert "Approved-by: ann" in said
        release = small.ws.ledger.effects.releases()[0]
        assert [one.origin for one in release.targets] == [git(root, "rev-parse", "main")]
        await small.service.undo(release.id, ANN)
        assert text_of(root, "main") == BEFORE
        applied = git(root, "rev-parse", "main~1")
        assert f"This reverts commit {applied}." in git(root, "log", "-1", "--format=%B")
        assert f"Tracemend-Undoes: {release.id}" in git(root, "log", "-1", "--format=%B")
        assert small.ws.ledger.audit.verify().ok
    assert (root / "notes.txt").read_text("utf-8") == "of a person\n"


async def test_a_new_branch_waits_to_be_merged_and_can_be_taken_back_before_that(
    root: Path,
) -> None:
    change_settings(root, harness={"kind": "git", "branch": "main", "new_branch": "t/{proposal}"})
    async with opened(enter(root)) as small:
        head = git(root, "rev-parse", "main")
        await small.approve()
        name = f"t/{small.proposal}"
        assert git(root, "rev-parse", "main", f"{name}~1").splitlines() == [head, head]
        assert text_of(root, name) == BEFORE + GOOD
        release = small.ws.ledger.effects.releases()[0]
        await small.service.undo(release.id, ANN)
        assert text_of(root, name) == BEFORE
        assert git(root, "rev-parse", "main") == head
        undone = small.ws.ledger.effects.release(release.id)
        assert undone.undone_by is not None


def test_doctor_says_branch_head_and_state(root: Path) -> None:
    change_settings(root, harness={"kind": "git", "branch": "main"})
    enter(root)
    line = next(one for one in run_checks("small") if one.name == "harness")
    assert line.ok
    assert f"branch main at {git(root, 'rev-parse', '--short=12', 'main')}, clean" in line.detail
