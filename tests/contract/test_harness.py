"""What every implementation of `contracts.protocols.Harness` promises."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from connectors.harness.directory import DirectoryHarness
from contracts.errors import ForeignChange, PolicyRefused, UsageError
from contracts.harness import Effect, EffectKind, HarnessFile, HarnessSnapshot, effect_key
from contracts.protocols import Harness

BEFORE = HarnessSnapshot(
    files={
        "instructions/main.md": HarnessFile(data=b"# Desk\r\nBe brief.\n"),
        "skills/ask/SKILL.md": HarnessFile(data=b"\xef\xbb\xbfAsk.\r", mode=0o755),
        "skills/old/SKILL.md": HarnessFile(data=b"Old.\n"),
        "skills/stays/SKILL.md": HarnessFile(data=b"Stays.\n"),
    }
)
AFTER = HarnessSnapshot(
    files={
        "instructions/main.md": HarnessFile(data=b"# Desk\r\nBe brief and kind.\n"),
        "skills/ask/SKILL.md": HarnessFile(data=b"\xef\xbb\xbfAsk.\r", mode=0o644),
        "skills/new/notes/a.md": HarnessFile(data=b"New.\n"),
        "skills/stays/SKILL.md": HarnessFile(data=b"Stays.\n"),
    }
)


class World(Protocol):
    """A place with a harness in it, and a person who edits there by hand."""

    harness: Harness

    def put(self, path: str, data: bytes | None) -> None: ...


@dataclass(slots=True)
class DirectoryWorld:
    root: Path
    harness: Harness

    def put(self, path: str, data: bytes | None) -> None:
        if data is None:
            (self.root / path).unlink()
        else:
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_bytes(data)


def directory_world(folder: Path, files: Mapping[str, HarnessFile]) -> World:
    root = folder / "agent"
    root.mkdir()
    harness = DirectoryHarness(
        root, include=["instructions/*.md", "skills/**"], work=folder / "work"
    )
    world = DirectoryWorld(root, harness)
    for path, file in files.items():
        world.put(path, file.data)
        (root / path).chmod(file.mode)
    return world


@pytest.fixture(params=[directory_world], ids=["directory"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    made: World = request.param(tmp_path, BEFORE.files)
    return made


def effect_of(
    harness: Harness, before: HarnessSnapshot, after: HarnessSnapshot, kind: EffectKind = "apply"
) -> Effect:
    return Effect(
        key=effect_key(kind, "hash", "d-1", harness.target), kind=kind, project="refunds",
        proposal_hash="hash", decision_id="d-1", target=harness.target, before=before.revision,
        after=after.revision,
    )  # fmt: skip


async def change(
    harness: Harness, before: HarnessSnapshot, after: HarnessSnapshot, kind: EffectKind = "apply"
) -> None:
    effect = effect_of(harness, before, after, kind)
    await harness.stage(effect, before, after)
    await harness.switch(effect, before, after)
    await harness.discard(effect)


async def test_read_gives_exact_bytes_and_modes(world: World) -> None:
    assert await world.harness.read() == BEFORE


async def test_nothing_is_visible_before_the_switch(world: World) -> None:
    await world.harness.stage(effect_of(world.harness, BEFORE, AFTER), BEFORE, AFTER)
    assert await world.harness.read() == BEFORE
    assert await world.harness.standing(BEFORE, AFTER) == "before"


async def test_a_switch_makes_exactly_the_after(world: World) -> None:
    await change(world.harness, BEFORE, AFTER)
    assert await world.harness.read() == AFTER
    assert await world.harness.standing(BEFORE, AFTER) == "after"


async def test_an_undo_restores_the_exact_bytes(world: World) -> None:
    await change(world.harness, BEFORE, AFTER)
    await change(world.harness, AFTER, BEFORE, kind="undo")
    assert await world.harness.read() == BEFORE


async def test_every_step_can_be_repeated(world: World) -> None:
    effect = effect_of(world.harness, BEFORE, AFTER)
    for _ in range(2):
        await world.harness.stage(effect, BEFORE, AFTER)
    for _ in range(2):
        await world.harness.switch(effect, BEFORE, AFTER)
    await world.harness.stage(effect, BEFORE, AFTER)
    await world.harness.switch(effect, BEFORE, AFTER)
    for _ in range(2):
        await world.harness.discard(effect)
    assert await world.harness.read() == AFTER


@pytest.mark.parametrize("path", sorted({*BEFORE.files, *AFTER.files}))
async def test_a_hand_edit_of_any_file_stops_the_switch_and_stays(world: World, path: str) -> None:
    effect = effect_of(world.harness, BEFORE, AFTER)
    await world.harness.stage(effect, BEFORE, AFTER)
    world.put(path, b"by hand\n")
    found = await world.harness.read()
    with pytest.raises(
        ForeignChange, match="changed by somebody else since; left as found"
    ) as told:
        await world.harness.switch(effect, BEFORE, AFTER)
    assert (told.value.paths, told.value.switched) == ((path,), False)
    assert await world.harness.read() == found
    assert await world.harness.standing(BEFORE, AFTER) == "foreign"


async def test_a_file_that_somebody_added_stops_the_switch_and_stays(world: World) -> None:
    world.put("skills/extra/SKILL.md", b"by hand\n")
    with pytest.raises(ForeignChange, match=r"skills/extra/SKILL\.md"):
        await change(world.harness, BEFORE, AFTER)
    assert (await world.harness.read()).files["skills/extra/SKILL.md"].data == b"by hand\n"
    assert await world.harness.standing(BEFORE, AFTER) == "foreign"


async def test_a_file_that_somebody_deleted_stops_the_switch(world: World) -> None:
    world.put("instructions/main.md", None)
    with pytest.raises(ForeignChange, match=r"instructions/main\.md"):
        await change(world.harness, BEFORE, AFTER)
    assert "instructions/main.md" not in (await world.harness.read()).files


async def test_a_half_done_switch_is_finished_by_the_next_call(world: World) -> None:
    effect = effect_of(world.harness, BEFORE, AFTER)
    await world.harness.stage(effect, BEFORE, AFTER)
    world.put("instructions/main.md", AFTER.files["instructions/main.md"].data)
    assert await world.harness.standing(BEFORE, AFTER) == "mixed"
    await world.harness.switch(effect, BEFORE, AFTER)
    assert await world.harness.read() == AFTER


async def test_an_undo_of_an_edited_target_changes_nothing(world: World) -> None:
    await change(world.harness, BEFORE, AFTER)
    world.put("skills/stays/SKILL.md", b"by hand\n")
    found = await world.harness.read()
    with pytest.raises(ForeignChange, match=r"skills/stays/SKILL\.md"):
        await change(world.harness, AFTER, BEFORE, kind="undo")
    assert await world.harness.read() == found


@pytest.mark.parametrize(
    "path",
    ["../out.md", "/etc/passwd", "skills/../../x", "skills\\x.md", "skills/\x07.md", "skills/a//b",
     "skills/\0", "skills/.git/config", "skills/.tracemend-x/a", "README.md", ""],
)  # fmt: skip
async def test_a_path_outside_the_harness_is_refused_by_stage_and_switch(
    world: World, path: str
) -> None:
    after = HarnessSnapshot(files={**BEFORE.files, path: HarnessFile(data=b"x")})
    effect = effect_of(world.harness, BEFORE, after)
    with pytest.raises(PolicyRefused, match="path "):
        await world.harness.stage(effect, BEFORE, after)
    with pytest.raises(PolicyRefused, match="path "):
        await world.harness.switch(effect, BEFORE, after)
    assert await world.harness.read() == BEFORE


async def test_an_effect_of_other_snapshots_is_refused(world: World) -> None:
    effect = effect_of(world.harness, AFTER, BEFORE)
    with pytest.raises(UsageError, match="not of this target and these snapshots"):
        await world.harness.switch(effect, BEFORE, AFTER)
