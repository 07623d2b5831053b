"""A change of a git target is really killed before and after each of its effects; the next process
finishes it: one commit here, the same one at the remote, and a clean work tree; or none at all."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contracts.codec import to_json
from contracts.errors import ForeignChange
from contracts.harness import HarnessFile
from tests.contract.git_worlds import (
    ENVIRON,
    commit_by_hand,
    files_of,
    git,
    open_git,
    repository,
)
from tests.contract.harness_suite import FOLDERS_AFTER, FOLDERS_BEFORE, effect_of

pytestmark = [pytest.mark.story, pytest.mark.kill]

REPOSITORY = Path(__file__).parents[2]
NAME = "tracemend/p-abcdefghij"
# The remote is relative, so that each copy has its own.
ONE_BRANCH = {"branch": "main", "push": {"remote": "../origin.git"}}
NEW_BRANCH = {**ONE_BRANCH, "new_branch": "tracemend/{proposal}"}
CASES = pytest.mark.parametrize(
    ("settings", "branch"), [(ONE_BRANCH, "main"), (NEW_BRANCH, NAME)], ids=["branch", "new"]
)

# Forks one process a step, which kills itself there. A step is a command of git that writes: an
# object, a name, a file of the work tree, the remote. It counts twice: before it and after it.
VICTIMS = """
import asyncio, json, os, signal, sys
from pathlib import Path
from connectors.harness.git_run import Git
from contracts.codec import from_json
from contracts.harness import HarnessSnapshot
from tests.contract.git_worlds import open_git
from tests.contract.harness_suite import effect_of

told = json.loads(sys.argv[1])
before, after = (from_json(HarnessSnapshot, told[side]) for side in ("before", "after"))
WRITES = ("commit-tree", "update-ref", "push", "restore")
steps = at = 0
run = Git.run

def pass_one(word):
    global steps
    steps += 1
    if steps == at:
        print(word, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

def counted(self, word, *args, **kwargs):
    if word in WRITES:
        pass_one("before " + word)
    ran = run(self, word, *args, **kwargs)
    if word in WRITES:
        pass_one("after " + word)
    return ran

async def change(folder):
    harness = open_git(folder / "agent", folder / "work", **told["settings"])
    effect = effect_of(harness, before, after)
    await harness.stage(effect, before, after)
    await harness.switch(effect, before, after)
    await harness.discard(effect)

Git.run = counted
for at in range(1, told["steps"] + 1):
    pid = os.fork()
    if pid == 0:
        asyncio.run(change(Path(told["folder"]) / str(at)))
        os._exit(0)
    if os.waitpid(pid, 0)[1] == 0:
        break
"""
STEPS = 24
"""Folders that are made ready; fewer are needed."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A work tree and the bare repository that it is pushed to."""
    folder = tmp_path_factory.mktemp("template")
    repository(folder / "agent", FOLDERS_BEFORE.files)
    git(folder, "clone", "-q", "--bare", str(folder / "agent"), str(folder / "origin.git"))
    return folder


def killed_at_every_step(
    folder: Path, template: Path, settings: dict[str, Any]
) -> Iterator[tuple[str, Path]]:
    """Where each process was killed, and its folder."""
    for step in range(1, STEPS + 1):
        shutil.copytree(template, folder / str(step), symlinks=True)
    told = {
        "folder": str(folder), "settings": settings, "steps": STEPS,
        "before": to_json(FOLDERS_BEFORE), "after": to_json(FOLDERS_AFTER),
    }  # fmt: skip
    victims = subprocess.run(
        [sys.executable, "-c", VICTIMS, json.dumps(told)], check=True, timeout=240,
        env=os.environ | ENVIRON | {"PYTHONPATH": str(REPOSITORY)}, stdout=subprocess.PIPE,
    )  # fmt: skip
    places = victims.stdout.decode().split("\n")[:-1]
    assert 8 <= len(places) < STEPS, places
    for step, place in enumerate(places, 1):
        yield place, folder / str(step)


def commits(folder: Path, branch: str, key: str) -> list[str]:
    return git(folder, "log", "--format=%H", f"--grep=Effect: {key}", branch, "--").splitlines()


@CASES
def test_a_change_killed_at_any_effect_is_finished_once_by_the_next_process(
    tmp_path: Path, template: Path, settings: dict[str, Any], branch: str
) -> None:
    async def finish(folder: Path) -> str:
        harness = open_git(folder / "agent", folder / "work", **settings)
        effect = effect_of(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
        if await harness.standing(FOLDERS_BEFORE, FOLDERS_AFTER) != "after":
            await harness.stage(effect, FOLDERS_BEFORE, FOLDERS_AFTER)
            await harness.switch(effect, FOLDERS_BEFORE, FOLDERS_AFTER)
        assert await harness.standing(FOLDERS_BEFORE, FOLDERS_AFTER) == "after"
        await harness.discard(effect)
        return effect.key

    places = []
    for place, folder in killed_at_every_step(tmp_path, template, settings):
        places.append(place)
        key = asyncio.run(finish(folder))
        found = commits(folder / "agent", branch, key)
        assert len(found) == 1, place
        assert commits(folder / "origin.git", branch, key) == found, place
        assert files_of(folder / "agent", branch) == FOLDERS_AFTER, place
        assert git(folder / "agent", "status", "--porcelain") == "", place
        assert git(folder / "agent", "for-each-ref", "refs/tracemend") == "", place
        assert git(folder / "agent", "rev-list", "--count", "--branches") == "2", place
    follows = ["restore"] if branch == "main" else []
    for word in ("commit-tree", "update-ref", "push", *follows):
        assert {f"before {word}", f"after {word}"} <= set(places)


@pytest.mark.servers
@CASES
def test_a_hand_edit_after_the_kill_is_kept_and_nothing_of_ours_stays_beside_it(
    tmp_path: Path, template: Path, settings: dict[str, Any], branch: str
) -> None:
    async def again(folder: Path) -> None:
        harness = open_git(folder / "agent", folder / "work", **settings)
        effect = effect_of(harness, FOLDERS_BEFORE, FOLDERS_AFTER)
        with pytest.raises(ForeignChange, match=r"^instructions/main\.md: changed by somebody"):
            await harness.switch(effect, FOLDERS_BEFORE, FOLDERS_AFTER)
        await harness.discard(effect)

    expected = dict(FOLDERS_BEFORE.files)
    expected["instructions/main.md"] = HarnessFile(data=b"by hand\n")
    for place, folder in killed_at_every_step(tmp_path, template, settings):
        root = folder / "agent"
        there = branch in git(root, "for-each-ref", "--format=%(refname:short)").splitlines()
        edited = branch if there else "main"
        git(root, "checkout", "-q", "--detach")
        if edited in git(folder / "origin.git", "for-each-ref", "--format=%(refname:short)"):
            git(root, "fetch", "-q", "../origin.git", f"{edited}:{edited}")
        commit_by_hand(root, edited, "instructions/main.md", b"by hand\n")
        asyncio.run(again(folder))
        assert files_of(root, edited).files == expected, place
