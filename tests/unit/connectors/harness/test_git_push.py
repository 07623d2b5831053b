"""Pushing a change to where others pull it from: never by force, and never half of it."""

import logging
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connectors.harness import git_refs
from connectors.harness.git import GitHarness
from contracts.errors import ConnectorError, ForeignChange
from tests.contract.git_worlds import commit_by_hand, files_of, git, open_git, repository
from tests.contract.harness_suite import FOLDERS_AFTER, FOLDERS_BEFORE, change, effect_of
from tests.fakes.git_server import Door, git_server

PASSWORD = "s3cret-of-grace"  # noqa: S105  of a server of this test


class Remote:
    """A bare repository `origin`, and a clone of it that the agent runs from."""

    def __init__(self, folder: Path) -> None:
        self.bare = folder / "served" / "agent.git"
        self.bare.parent.mkdir()
        begin = repository(folder / "begin", FOLDERS_BEFORE.files)
        git(folder, "clone", "-q", "--bare", str(begin), str(self.bare))
        git(self.bare, "config", "http.receivepack", "true")
        self.root = folder / "agent"
        git(folder, "clone", "-q", f"file://{self.bare}", str(self.root))

    def opened(self, *, url: str | None = None, **settings: Any) -> GitHarness:
        if url is not None:
            git(self.root, "remote", "set-url", "origin", url)
        push = {"remote": "origin", "timeout_s": settings.pop("timeout_s", 60)}
        return open_git(self.root, self.root.parent / "work", push=push, **settings)

    def heads(self) -> tuple[str, str]:
        """Of `main`, here and there."""
        return git(self.root, "rev-parse", "main"), git(self.bare, "rev-parse", "main")


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    return Remote(tmp_path)


@pytest.fixture
def door(remote: Remote) -> Door:
    return Door(root=remote.bare.parent)


@pytest.fixture
def url(door: Door) -> Iterator[str]:
    with git_server(door) as base:
        yield f"{base}/agent.git"


@pytest.mark.parametrize("over", ["file", "http"])
async def test_a_change_and_its_undo_are_there_and_here(
    remote: Remote, url: str, over: str
) -> None:
    harness = remote.opened(url=url if over == "http" else None)
    ok, line = await harness.standing_line()
    assert (ok, line.endswith("clean, origin can be reached")) == (True, True)
    await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    here, there = remote.heads()
    assert here == there
    assert files_of(remote.bare, "main") == FOLDERS_AFTER
    await change(harness, FOLDERS_AFTER, FOLDERS_BEFORE, kind="undo")
    assert len(set(remote.heads())) == 1
    assert git(remote.bare, "rev-list", "--count", "main") == "3"
    assert git(remote.root, "status", "--porcelain") == ""


@pytest.mark.parametrize("over", ["file", "http"])
async def test_a_new_branch_is_pushed_to_open_a_pull_request_from(
    remote: Remote, url: str, over: str
) -> None:
    harness = remote.opened(url=url if over == "http" else None, new_branch="tracemend/{proposal}")
    before = remote.heads()
    await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    assert remote.heads() == before
    assert files_of(remote.bare, "tracemend/p-abcdefghij") == FOLDERS_AFTER


async def test_a_remote_that_moved_is_a_conflict_and_nothing_is_changed(remote: Remote) -> None:
    theirs = commit_by_hand(remote.bare, "main", "src/app.py", b"print()\n")
    harness = remote.opened()
    before = remote.heads()
    with pytest.raises(ConnectorError, match=r"has commits on main that .*: pull") as told:
        await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    assert told.value.retryable
    assert remote.heads() == before
    assert await harness.standing(FOLDERS_BEFORE, FOLDERS_AFTER) == "before"
    git(remote.root, "pull", "-q", "--ff-only")
    await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    assert len(set(remote.heads())) == 1
    assert git(remote.bare, "rev-parse", "main~1") == theirs


async def test_a_remote_that_moved_the_harness_is_a_foreign_change_after_the_pull(
    remote: Remote,
) -> None:
    commit_by_hand(remote.bare, "main", "instructions/main.md", b"by hand\n")
    harness = remote.opened()
    with pytest.raises(ConnectorError, match="pull them there"):
        await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    git(remote.root, "pull", "-q", "--ff-only")
    with pytest.raises(ForeignChange, match=r"instructions/main\.md"):
        await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)


async def test_a_remote_that_refuses_the_branch_is_no_matter_of_trying_again(
    remote: Remote,
) -> None:
    hook = remote.bare / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho main is protected >&2\nexit 1\n")
    hook.chmod(hook.stat().st_mode | stat.S_IXUSR)
    before = remote.heads()
    with pytest.raises(ConnectorError, match=r"refuses main: .*main is protected") as told:
        await change(remote.opened(), FOLDERS_BEFORE, FOLDERS_AFTER)
    assert not told.value.retryable
    assert remote.heads() == before


async def test_refused_credentials_are_said_without_them(
    remote: Remote, door: Door, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    door.login = ("grace", PASSWORD)
    harness = remote.opened(url=url.replace("http://", f"http://grace:wrong{PASSWORD}@"))
    before = remote.heads()
    with caplog.at_level(logging.DEBUG), pytest.raises(ConnectorError) as told:
        await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    said = str(told.value)
    assert said == (
        f"harness: origin ({url}) takes no credentials of this user; give git a key or a "
        "credential helper that needs no prompt, then run `tracemend resume`"
    )
    assert told.value.retryable
    assert PASSWORD not in f"{told.value.__cause__!r}{told.value.__context__!r}{caplog.text}"
    assert remote.heads() == before
    ok, line = await harness.standing_line()
    assert (ok, line.endswith(f"clean, origin {said}")) == (False, True)


async def test_credentials_come_from_the_helper_that_git_knows(
    remote: Remote, door: Door, url: str
) -> None:
    door.login = ("grace", PASSWORD)
    with pytest.raises(ConnectorError, match="takes no credentials"):
        await change(remote.opened(url=url), FOLDERS_BEFORE, FOLDERS_AFTER)
    helper = f"!f() {{ echo username=grace; echo password={PASSWORD}; }}; f"
    git(remote.root, "config", "credential.helper", helper)
    await change(remote.opened(), FOLDERS_BEFORE, FOLDERS_AFTER)
    assert len(set(remote.heads())) == 1


async def test_a_remote_that_hangs_is_given_up_and_asked_again_later(
    remote: Remote, door: Door, url: str
) -> None:
    door.hangs = True
    before = remote.heads()
    with pytest.raises(ConnectorError, match=r"no answer within 0\.5 s") as told:
        await change(remote.opened(url=url, timeout_s=0.5), FOLDERS_BEFORE, FOLDERS_AFTER)
    assert told.value.retryable
    assert remote.heads() == before
    door.hangs = False
    await change(remote.opened(), FOLDERS_BEFORE, FOLDERS_AFTER)
    assert len(set(remote.heads())) == 1


async def test_a_remote_that_is_not_there_is_asked_again_later(remote: Remote) -> None:
    harness = remote.opened(url="http://127.0.0.1:9/agent.git")
    with pytest.raises(ConnectorError, match=r"origin \(http://.*/agent\.git\) cannot be") as told:
        await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    assert told.value.retryable


async def test_a_remote_without_a_name_is_an_address(remote: Remote) -> None:
    harness = open_git(
        remote.root, remote.root.parent / "work", push={"remote": f"file://{remote.bare}"}
    )
    await change(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    assert len(set(remote.heads())) == 1


async def test_what_a_killed_call_pushed_is_finished_here_by_the_next(
    remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    effect = effect_of(remote.opened(), FOLDERS_BEFORE, FOLDERS_AFTER)
    with monkeypatch.context() as patch:
        patch.setattr("connectors.harness.git.move", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            await remote.opened().switch(effect, FOLDERS_BEFORE, FOLDERS_AFTER)
    here, there = remote.heads()
    assert git(remote.bare, "rev-parse", "main~1") == here
    await remote.opened().switch(effect, FOLDERS_BEFORE, FOLDERS_AFTER)
    assert remote.heads() == (there, there)


async def test_a_commit_here_after_a_killed_push_needs_a_pull_and_then_nothing_is_made_twice(
    remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = remote.opened()
    effect = effect_of(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
    real = git_refs.move
    late: list[str] = []

    def moved(*args: Any, **kwargs: Any) -> bool:
        if not late:
            late.append(commit_by_hand(remote.root, "main", "src/app.py", b"print()\n"))
            git(remote.root, "reset", "-q", "--hard")
        return real(*args, **kwargs)

    monkeypatch.setattr("connectors.harness.git.move", moved)
    with pytest.raises(ConnectorError, match="pull them there") as told:
        await harness.switch(effect, FOLDERS_BEFORE, FOLDERS_AFTER)
    assert told.value.retryable
    assert git(remote.root, "rev-parse", "main") == late[0]
    git(remote.root, "pull", "-q", "--no-rebase", "--no-edit")
    await harness.switch(effect, FOLDERS_BEFORE, FOLDERS_AFTER)
    assert files_of(remote.root, "main") == FOLDERS_AFTER
    found = git(remote.root, "log", "--format=%H", f"--grep={effect.key}", "main")
    assert len(found.splitlines()) == 1


async def test_other_branches_and_tags_are_not_pushed(remote: Remote) -> None:
    git(remote.root, "config", "push.followTags", "true")
    git(remote.root, "branch", "private")
    git(remote.root, "tag", "-a", "-m", "x", "v1")
    before = set(git(remote.bare, "for-each-ref", "--format=%(refname)").splitlines())
    await change(remote.opened(), FOLDERS_BEFORE, FOLDERS_AFTER)
    assert set(git(remote.bare, "for-each-ref", "--format=%(refname)").splitlines()) == before
