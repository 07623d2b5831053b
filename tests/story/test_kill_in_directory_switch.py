"""A switch is really killed, before and after each of its steps; the next process finishes it."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.harness.directory import DirectoryHarness
from contracts.codec import to_json
from contracts.errors import ForeignChange
from contracts.harness import Effect, HarnessFile, HarnessSnapshot

pytestmark = [pytest.mark.story, pytest.mark.kill]

REPOSITORY = Path(__file__).parents[2]
INCLUDE = ["*.md", "skills/**"]

BEFORE = HarnessSnapshot(
    files={
        "a.md": HarnessFile(data=b"a\r\n"),
        "skills/o/old.md": HarnessFile(data=b"old\n"),
        "z.md": HarnessFile(data=b"z\n", mode=0o755),
    }
)
AFTER = HarnessSnapshot(
    files={
        "a.md": HarnessFile(data=b"A\r\n"),
        "skills/n/m/new.md": HarnessFile(data=b"new\n"),
        "z.md": HarnessFile(data=b"Z\n", mode=0o755),
    }
)

# Forks one process a step, which kills itself there. A step is a call that changes the file system
# or waits for it, and counts twice: just before and just after it.
VICTIMS = """
import asyncio, json, os, signal, sys
from pathlib import Path
from connectors.harness import atomic, swap
from connectors.harness.directory import DirectoryHarness
from contracts.codec import from_json
from contracts.errors import ForeignChange
from contracts.harness import Effect, HarnessSnapshot

told = json.loads(sys.argv[1])
before, after = (from_json(HarnessSnapshot, told[side]) for side in ("before", "after"))
system = atomic._renameat2() if told["native"] else None
steps = at = 0

def counted(call):
    def step(*args, **kwargs):
        pass_one()
        result = call(*args, **kwargs)
        pass_one()
        return result
    return step

def pass_one():
    global steps
    steps += 1
    if steps == at:
        os.kill(os.getpid(), signal.SIGKILL)

def edits_by_hand(folder):
    # Once, between the switch's look at the file and its exchange.
    def exchange(slot, target):
        if target.name == told["hand"] and not (folder / "edited").exists():
            (folder / "edited").touch()
            target.write_bytes(b"by hand\\n")
        atomic.exchange(slot, target)
    return exchange

async def switch(folder):
    harness = DirectoryHarness(folder / "agent", told["include"], folder / "work")
    effect = from_json(Effect, told["effect"] | {"target": harness.target})
    await harness.stage(effect, before, after)
    try:
        await harness.switch(effect, before, after)
    except ForeignChange:
        assert told["hand"]
    if told["discard"]:
        await harness.discard(effect)

def lay_out(folder):
    for path, file in before.files.items():
        (folder / "agent" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "agent" / path).write_bytes(file.data)
        (folder / "agent" / path).chmod(file.mode)

code = None
while code != 0:
    at += 1
    folder = Path(told["folder"]) / str(at)
    lay_out(folder)
    child = os.fork()
    if child == 0:
        for name in ("rename", "replace", "link", "unlink", "mkdir", "rmdir", "fsync", "fchmod"):
            setattr(os, name, counted(getattr(os, name)))
        step = counted(system) if system else None
        atomic._renameat2 = lambda: step
        if told["hand"]:
            swap.exchange = edits_by_hand(folder)
        asyncio.run(switch(folder))
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL), code
print(at - 1)
"""


def effect_for(target: str) -> Effect:
    return Effect(
        key="5" * 64, kind="apply", project="p", proposal_hash="h",
        decision_id="d", target=target, before=BEFORE.revision, after=AFTER.revision,
    )  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder, in memory where possible: the switch waits for the disk at every step."""
    memory = Path("/dev/shm")  # noqa: S108  only where the system has it
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
        yield Path(folder)


def killed_at_every_step(
    folder: Path, *, native: bool, discard: bool, hand: str | None = None
) -> list[Path]:
    """Folders in each of which a switch was killed, one step later each time.

    `hand` names a file that a person edits in the very moment in which it is switched.
    """
    told = {
        "folder": str(folder), "include": INCLUDE, "native": native, "discard": discard,
        "hand": hand,
        "before": to_json(BEFORE), "after": to_json(AFTER), "effect": to_json(effect_for("t")),
    }  # fmt: skip
    victims = subprocess.run(
        [sys.executable, "-c", VICTIMS, json.dumps(told)], check=True, timeout=120,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)}, stdout=subprocess.PIPE,
    )  # fmt: skip
    killed = int(victims.stdout)
    assert killed > 60, "the steps are no longer counted"
    return [folder / str(step) for step in range(1, killed + 1)]


@pytest.mark.parametrize("native", [True, False], ids=["native", "portable"])
def test_a_switch_killed_at_any_step_is_finished_by_the_next_process(
    place: Path, native: bool
) -> None:
    async def finish(folder: Path) -> HarnessSnapshot:
        harness = DirectoryHarness(folder / "agent", INCLUDE, folder / "work")
        effect = effect_for(harness.target)
        assert await harness.standing(BEFORE, AFTER) in ("before", "mixed", "after")
        await harness.stage(effect, BEFORE, AFTER)
        await harness.switch(effect, BEFORE, AFTER)
        assert await harness.standing(BEFORE, AFTER) == "after"
        await harness.discard(effect)
        return await harness.read()

    for folder in killed_at_every_step(place, native=native, discard=True):
        assert asyncio.run(finish(folder)) == AFTER, folder
        left = [p.relative_to(folder) for p in folder.rglob("*") if p.is_file()]
        names = {path.as_posix() for path in left if path.suffix != ".lock"}
        assert names == {f"agent/{path}" for path in AFTER.files}, folder


@pytest.mark.parametrize("native", [True, False], ids=["native", "portable"])
def test_a_hand_edit_after_the_kill_is_kept_and_our_other_files_go_back(
    place: Path, native: bool
) -> None:
    async def again(folder: Path) -> HarnessSnapshot:
        harness = DirectoryHarness(folder / "agent", INCLUDE, folder / "work")
        with pytest.raises(ForeignChange, match=r"z\.md: changed by somebody else"):
            await harness.switch(effect_for(harness.target), BEFORE, AFTER)
        await harness.discard(effect_for(harness.target))
        return await harness.read()

    expected = HarnessSnapshot(
        files={**BEFORE.files, "z.md": HarnessFile(data=b"by hand\n", mode=0o755)}
    )
    for folder in killed_at_every_step(place, native=native, discard=False):
        (folder / "agent" / "z.md").write_bytes(b"by hand\n")
        assert asyncio.run(again(folder)) == expected, folder


@pytest.mark.parametrize("native", [True, False], ids=["native", "portable"])
def test_a_kill_while_our_files_are_put_back_loses_no_hand_edit(place: Path, native: bool) -> None:
    async def again(folder: Path) -> HarnessSnapshot:
        harness = DirectoryHarness(folder / "agent", INCLUDE, folder / "work")
        effect = effect_for(harness.target)
        edited = (folder / "edited").exists()
        if edited:
            with pytest.raises(ForeignChange, match=r"z\.md: changed by somebody else"):
                await harness.switch(effect, BEFORE, AFTER)
        else:
            await harness.switch(effect, BEFORE, AFTER)
        await harness.discard(effect)
        return await harness.read()

    by_hand = HarnessSnapshot(
        files={**BEFORE.files, "z.md": HarnessFile(data=b"by hand\n", mode=0o755)}
    )
    ends = []
    for folder in killed_at_every_step(place, native=native, discard=False, hand="z.md"):
        expected = by_hand if (folder / "edited").exists() else AFTER
        ends.append(expected)
        assert asyncio.run(again(folder)) == expected, folder
    assert ends.count(by_hand) > 10
    assert ends.count(AFTER) > 10
