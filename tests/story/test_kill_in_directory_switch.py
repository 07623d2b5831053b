"""A switch is really killed, before and after each of its steps; the next process finishes it."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from connectors.harness.directory import DirectoryHarness
from contracts.errors import ForeignChange
from contracts.harness import Effect, HarnessFile, HarnessSnapshot, effect_key

pytestmark = [pytest.mark.story, pytest.mark.kill]

REPOSITORY = Path(__file__).parents[2]

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

# Runs in a process of its own: kills itself around the n-th step that changes the file system.
VICTIM = """
import asyncio, os, signal, sys
from tests_story_switch import AFTER, BEFORE, effect_for, harness_at
from connectors.harness import atomic

root, at, native, counter = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "native", sys.argv[4]
steps = 0

def counted(call):
    def step(*args, **kwargs):
        global steps
        for _ in range(2):  # once before it, once after it
            steps += 1
            if steps == at:
                os.kill(os.getpid(), signal.SIGKILL)
            if _ == 0:
                result = call(*args, **kwargs)
        return result
    return step

for name in ("rename", "replace", "link", "unlink", "mkdir", "rmdir", "fsync", "fchmod"):
    setattr(os, name, counted(getattr(os, name)))
system = atomic._renameat2() if native else None
step = counted(system) if system else None
atomic._renameat2 = lambda: step

async def main():
    harness = harness_at(root)
    effect = effect_for(harness)
    await harness.stage(effect, BEFORE, AFTER)
    await harness.switch(effect, BEFORE, AFTER)
    await harness.discard(effect)

asyncio.run(main())
open(counter, "w").write(str(steps))
"""


def harness_at(root: str | Path) -> DirectoryHarness:
    return DirectoryHarness(Path(root), ["*.md", "skills/**"], Path(root).parent / "work")


def effect_for(harness: DirectoryHarness) -> Effect:
    return Effect(
        key=effect_key("apply", "h", "d", harness.target), kind="apply", project="p",
        proposal_hash="h", decision_id="d", target=harness.target, before=BEFORE.revision,
        after=AFTER.revision,
    )  # fmt: skip


def fresh_root(folder: Path) -> Path:
    root = folder / "agent"
    for path, file in BEFORE.files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(file.data)
        (root / path).chmod(file.mode)
    return root


def kill_at(folder: Path, step: int, way: str) -> tuple[Path, bool]:
    """The root after a switch was killed at that step, and whether it was."""
    root = fresh_root(folder)
    (folder / "tests_story_switch.py").write_bytes(Path(__file__).read_bytes())
    victim = subprocess.run(
        [sys.executable, "-c", VICTIM, str(root), str(step), way, str(folder / "steps")],
        env=os.environ | {"PYTHONPATH": f"{REPOSITORY}:{folder}"}, check=False, timeout=60,
    )  # fmt: skip
    assert victim.returncode in (0, -9)
    return root, victim.returncode == -9


async def finish(root: Path) -> HarnessSnapshot:
    harness = harness_at(root)
    effect = effect_for(harness)
    assert await harness.standing(BEFORE, AFTER) in ("before", "mixed", "after")
    await harness.stage(effect, BEFORE, AFTER)
    await harness.switch(effect, BEFORE, AFTER)
    await harness.discard(effect)
    assert await harness.standing(BEFORE, AFTER) == "after"
    return await harness.read()


def every_step(tmp_path: Path, way: str, check: Callable[[Path], None]) -> None:
    whole, killed = kill_at(tmp_path / "whole", 0, way)
    assert not killed
    steps = int((tmp_path / "whole" / "steps").read_text())
    assert steps > 40, "the steps are no longer counted"
    del whole
    for step in range(1, steps + 1):
        root, killed = kill_at(tmp_path / str(step), step, way)
        assert killed, f"step {step} was not reached"
        check(root)


@pytest.mark.parametrize("way", ["native", "portable"])
def test_a_switch_killed_at_any_step_is_finished_by_the_next_process(
    tmp_path: Path, way: str
) -> None:
    def check(root: Path) -> None:
        assert asyncio.run(finish(root)) == AFTER
        left = [
            p for p in root.parent.rglob("*") if p.is_file() and p.suffix not in (".lock", ".py")
        ]
        assert sorted(p.relative_to(root).as_posix() for p in left) == sorted(AFTER.files)

    every_step(tmp_path, way, check)


def test_a_hand_edit_after_the_kill_is_kept_and_the_other_files_go_back(tmp_path: Path) -> None:
    def check(root: Path) -> None:
        (root / "z.md").write_bytes(b"by hand\n")
        harness = harness_at(root)
        effect = effect_for(harness)

        async def again() -> HarnessSnapshot:
            with pytest.raises(ForeignChange, match=r"z\.md: changed by somebody else"):
                await harness.switch(effect, BEFORE, AFTER)
            await harness.discard(effect)
            return await harness.read()

        now = asyncio.run(again())
        assert now.files["z.md"].data == b"by hand\n"
        others = {path: file for path, file in now.files.items() if path != "z.md"}
        assert others in ({p: f for p, f in side.files.items() if p != "z.md"} for side in SIDES)

    every_step(tmp_path, "native", check)


SIDES = (BEFORE, AFTER)
