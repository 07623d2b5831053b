"""What every implementation of `contracts.protocols.Harness` promises, for any place.

A place's tests make a `World` and inherit `HarnessSuite`:

    class TestFolder(HarnessSuite):
        @pytest.fixture
        def worlds(self, tmp_path: Path) -> Worlds: ...
"""

import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Protocol

import pytest

from contracts.errors import ConnectorError, ForeignChange, PolicyRefused, UsageError
from contracts.harness import (
    Effect,
    EffectKind,
    HarnessFile,
    HarnessSnapshot,
    Provenance,
    TargetChange,
    effect_key,
)
from contracts.protocols import Harness

FOLDERS_BEFORE = HarnessSnapshot(
    files={
        "instructions/main.md": HarnessFile(data=b"# Desk\r\nBe brief.\n"),
        "skills/ask/SKILL.md": HarnessFile(data=b"\xef\xbb\xbfAsk.\r", mode=0o755),
        "skills/old/SKILL.md": HarnessFile(data=b"Old.\n"),
        "skills/stays/SKILL.md": HarnessFile(data=b"Stays.\n"),
    }
)
FOLDERS_AFTER = HarnessSnapshot(
    files={
        "instructions/main.md": HarnessFile(data=b"# Desk\r\nBe brief and kind.\n"),
        "skills/ask/SKILL.md": HarnessFile(data=b"\xef\xbb\xbfAsk.\r", mode=0o644),
        "skills/new/notes/a.md": HarnessFile(data=b"New."),
        "skills/stays/SKILL.md": HarnessFile(data=b"Stays.\n"),
    }
)
"""For places that keep modes: a change, a change of the mode alone, a new file and one less."""

UNSAFE_PATHS = (
    "../out.md", "/etc/passwd", "skills/../../x", "skills\\x.md", "skills/\x07.md", "skills/a//b",
    "skills/\0", "skills/.git/config", "skills/.tracemend-x/a", "",
)  # fmt: skip

ABOUT = Provenance(
    title="Say so when the payment tool fails", finding="f-abcdefghij", proposal="p-abcdefghij",
    revision=2, approver="Ada", gate_report="9" * 64, at=datetime(2026, 11, 30, 12, tzinfo=UTC),
)  # fmt: skip


class Broken(BaseException):
    """Ends a call in the middle, as a kill would; for places that are broken off in-process."""


class World(Protocol):
    """A place with a harness in it, a person who edits there by hand, and what it can keep."""

    harness: Harness
    before: HarnessSnapshot
    """What the place holds at first; two files at least."""
    after: HarnessSnapshot
    """Another state that the place can keep; two files at least differ, one stays."""
    extra: str
    """A path that belongs to the harness and is in neither of the two."""
    outside: str
    """A safe path that does not belong to the harness."""
    keeps_modes: bool
    """Whether permission bits are kept; else every file is 0o644."""
    names_states: bool
    """Whether the place calls its states something (`origin`)."""
    remembers: bool
    """Whether the place has a history of its own."""

    def again(self) -> Harness:
        """The same place, as another process opens it."""
        ...

    def put(self, path: str, data: bytes | None) -> None:
        """A person writes a file there, or takes it away."""
        ...

    async def seen(self) -> HarnessSnapshot:
        """All files where changes are made, read by other means than the harness if possible."""
        ...

    def written(self) -> int | None:
        """Changes that the place has recorded so far (commits, versions); None: it counts none."""
        ...

    def breaking(self, step: int) -> AbstractContextManager[Callable[[], bool]]:
        """Break the `step`-th write off, counted from 1: odd ones before it, even ones after it.

        What breaks raises `Broken` or `ConnectorError`. Gives a function that says whether there
        were that many writes.
        """
        ...


Worlds = Callable[[], World]


def effect_of(
    harness: Harness,
    before: HarnessSnapshot,
    after: HarnessSnapshot,
    kind: EffectKind = "apply",
    *,
    decision: str = "d-1",
    about: Provenance | None = ABOUT,
) -> Effect:
    return Effect(
        key=effect_key(kind, "hash", decision, harness.target), kind=kind, project="refunds",
        proposal_hash="hash", decision_id=decision, target=harness.target, before=before.revision,
        after=after.revision, about=about,
    )  # fmt: skip


async def change(
    harness: Harness,
    before: HarnessSnapshot,
    after: HarnessSnapshot,
    kind: EffectKind = "apply",
    *,
    decision: str = "d-1",
) -> Effect:
    """A whole change, as apply makes it."""
    effect = effect_of(harness, before, after, kind, decision=decision)
    await harness.stage(effect, before, after)
    await harness.switch(effect, before, after)
    await harness.discard(effect)
    return effect


async def every_break(worlds: Worlds) -> AsyncIterator[World]:
    """Worlds in each of which a change was broken off, one step later each time."""
    for step in itertools.count(1):
        world = worlds()
        with world.breaking(step) as broke, contextlib.suppress(Broken, ConnectorError):
            await change(world.harness, world.before, world.after)
        if not broke():
            assert step > 2, "no write was counted"
            return
        yield world


class HarnessSuite:
    """The promises. A place's class gives `worlds`, each call of which makes a fresh world."""

    @pytest.fixture
    def world(self, worlds: Worlds) -> World:
        return worlds()

    async def test_read_gives_exact_bytes_and_modes(self, world: World) -> None:
        found = await world.harness.read()
        assert found == world.before
        assert (found.origin is not None) == world.names_states
        if not world.keeps_modes:
            assert {file.mode for file in found.files.values()} == {0o644}

    async def test_the_target_has_the_same_name_for_every_process(self, world: World) -> None:
        assert world.again().target == world.harness.target

    async def test_the_name_of_a_state_changes_with_the_state_and_only_then(
        self, world: World
    ) -> None:
        if not world.names_states:
            return
        first = await world.harness.read()
        assert (await world.again().read()).origin == first.origin
        world.put(min(world.before.files), b"by hand\n")
        assert (await world.harness.read()).origin != first.origin

    async def test_nothing_is_visible_before_the_switch(self, world: World) -> None:
        start = await world.harness.read()
        effect = effect_of(world.harness, world.before, world.after)
        for _ in range(2):
            await world.harness.stage(effect, world.before, world.after)
            found = await world.again().read()
            assert (found, found.origin) == (world.before, start.origin)
            assert await world.seen() == world.before
        assert await world.harness.standing(world.before, world.after) == "before"

    async def test_a_staged_change_that_is_discarded_leaves_no_trace(self, world: World) -> None:
        start, told = await world.harness.read(), await world.harness.history()
        effect = effect_of(world.harness, world.before, world.after)
        await world.harness.stage(effect, world.before, world.after)
        for _ in range(2):
            await world.harness.discard(effect)
        found = await world.harness.read()
        assert (found, found.origin) == (world.before, start.origin)
        assert await world.harness.history() == told

    async def test_a_switch_makes_exactly_the_after(self, world: World) -> None:
        await change(world.harness, world.before, world.after)
        assert await world.seen() == world.after
        for harness in (world.harness, world.again()):
            assert await harness.standing(world.before, world.after) == "after"
            assert await harness.standing(world.after, world.before) == "before"

    async def test_an_undo_restores_the_exact_bytes(self, world: World) -> None:
        await change(world.harness, world.before, world.after)
        await change(world.again(), world.after, world.before, kind="undo")
        assert await world.seen() == world.before
        assert await world.harness.standing(world.after, world.before) == "after"

    async def test_what_was_undone_can_be_made_again_by_another_decision(
        self, world: World
    ) -> None:
        await change(world.harness, world.before, world.after)
        await change(world.harness, world.after, world.before, kind="undo")
        await change(world.harness, world.before, world.after, decision="d-2")
        assert await world.seen() == world.after

    async def test_every_step_can_be_repeated_and_writes_nothing_more(self, worlds: Worlds) -> None:
        world, once = worlds(), worlds()
        await change(once.harness, once.before, once.after)
        effect = effect_of(world.harness, world.before, world.after)
        for harness in (world.harness, world.again()):
            for _ in range(2):
                await harness.stage(effect, world.before, world.after)
            for _ in range(2):
                await harness.switch(effect, world.before, world.after)
        for _ in range(2):
            await world.harness.discard(effect)
        await change(world.again(), world.before, world.after)
        assert await world.seen() == world.after
        assert world.written() == once.written()

    async def test_a_change_that_breaks_off_at_any_write_is_finished_by_the_next_call(
        self, worlds: Worlds
    ) -> None:
        once = worlds()
        await change(once.harness, once.before, once.after)
        async for world in every_break(worlds):
            harness = world.again()
            assert await harness.standing(world.before, world.after) != "foreign"
            await change(harness, world.before, world.after)
            assert await harness.standing(world.before, world.after) == "after"
            assert await world.seen() == world.after
            assert world.written() == once.written()

    async def test_a_hand_edit_after_a_break_stays_and_ours_is_there_whole_or_not_at_all(
        self, worlds: Worlds
    ) -> None:
        async for world in every_break(worlds):
            path = min(set(world.before.files) & set(world.after.files))
            world.put(path, b"by hand\n")
            harness = world.again()
            assert await harness.standing(world.before, world.after) == "foreign"
            with pytest.raises(ForeignChange, match=r"by somebody else since; left as found"):
                await change(harness, world.before, world.after)
            found = dict((await world.seen()).files)
            assert found.pop(path).data == b"by hand\n"
            assert found == {p: f for p, f in world.before.files.items() if p != path}

    async def test_a_hand_edit_of_any_file_stops_the_switch_and_stays(self, worlds: Worlds) -> None:
        both = worlds()
        for path in sorted({*both.before.files, *both.after.files}):
            world = worlds()
            effect = effect_of(world.harness, world.before, world.after)
            await world.harness.stage(effect, world.before, world.after)
            world.put(path, b"by hand\n")
            found, written = await world.seen(), world.written()
            with pytest.raises(
                ForeignChange, match="changed by somebody else since; left as found"
            ) as told:
                await world.harness.switch(effect, world.before, world.after)
            assert (told.value.paths, told.value.switched) == ((path,), False)
            assert await world.seen() == found
            assert world.written() == written
            assert await world.harness.standing(world.before, world.after) == "foreign"

    async def test_a_file_that_somebody_added_stops_the_switch_and_stays(
        self, world: World
    ) -> None:
        world.put(world.extra, b"by hand\n")
        with pytest.raises(ForeignChange) as told:
            await change(world.harness, world.before, world.after)
        assert told.value.paths == (world.extra,)
        assert (await world.seen()).files[world.extra].data == b"by hand\n"
        assert await world.harness.standing(world.before, world.after) == "foreign"

    async def test_a_file_that_somebody_deleted_stops_the_switch(self, world: World) -> None:
        path = min(set(world.before.files) & set(world.after.files))
        world.put(path, None)
        with pytest.raises(ForeignChange) as told:
            await change(world.harness, world.before, world.after)
        assert told.value.paths == (path,)
        assert path not in (await world.seen()).files

    async def test_a_half_done_switch_is_finished_by_the_next_call(self, world: World) -> None:
        effect = effect_of(world.harness, world.before, world.after)
        await world.harness.stage(effect, world.before, world.after)
        path = next(p for p, f in world.after.files.items() if world.before.files.get(p) != f)
        world.put(path, world.after.files[path].data)
        assert await world.harness.standing(world.before, world.after) == "mixed"
        await world.harness.switch(effect, world.before, world.after)
        assert await world.seen() == world.after

    async def test_an_undo_of_an_edited_target_changes_nothing_and_names_the_file(
        self, worlds: Worlds
    ) -> None:
        both = worlds()
        for path in sorted(set(both.before.files) & set(both.after.files)):
            world = worlds()
            await change(world.harness, world.before, world.after)
            world.put(path, b"by hand\n")
            found, written = await world.seen(), world.written()
            with pytest.raises(ForeignChange) as told:
                await change(world.again(), world.after, world.before, kind="undo")
            assert (told.value.paths, told.value.switched) == ((path,), False)
            assert await world.seen() == found
            assert world.written() == written

    async def test_history_tells_our_changes_from_those_of_people(self, world: World) -> None:
        if not world.remembers:
            assert await world.harness.history() == ()
            return
        applied = await change(world.harness, world.before, world.after)
        undone = await change(world.harness, world.after, world.before, kind="undo")
        world.put(min(world.before.files), b"by hand\n")
        told: Sequence[TargetChange] = await world.again().history()
        keys = [entry.effect for entry in told]
        assert keys[0] is None, "the newest is a person's"
        ours = [key for key in keys if key is not None]
        assert list(dict.fromkeys(ours)) == [undone.key, applied.key]
        assert all(entry.message for entry in told if entry.effect)
        assert len({entry.origin for entry in told}) == len(told)
        assert len(await world.harness.history(limit=1)) == 1

    @pytest.mark.parametrize("path", UNSAFE_PATHS)
    async def test_an_unsafe_path_is_refused_by_stage_and_switch(
        self, world: World, path: str
    ) -> None:
        await self._refuses(world, path)

    async def test_a_path_outside_the_harness_is_refused_by_stage_and_switch(
        self, world: World
    ) -> None:
        await self._refuses(world, world.outside)

    async def _refuses(self, world: World, path: str) -> None:
        after = HarnessSnapshot(files={**world.before.files, path: HarnessFile(data=b"x")})
        effect = effect_of(world.harness, world.before, after)
        with pytest.raises(PolicyRefused, match="path "):
            await world.harness.stage(effect, world.before, after)
        with pytest.raises(PolicyRefused, match="path "):
            await world.harness.switch(effect, world.before, after)
        assert await world.seen() == world.before

    async def test_an_effect_of_other_snapshots_is_refused(self, world: World) -> None:
        effect = effect_of(world.harness, world.after, world.before)
        with pytest.raises(UsageError, match="not of this target and these snapshots"):
            await world.harness.switch(effect, world.before, world.after)
        assert await world.seen() == world.before
