"""All places of a change or none, whatever a place does. The places are real folders."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connectors.harness.directory import DirectoryHarness
from connectors.harness.paths import Include
from connectors.harness.several import Place, Places
from contracts.errors import ConfigError, ConnectorError, PolicyRefused
from contracts.harness import Effect, HarnessFile, HarnessSnapshot, effect_key
from nodes.switching import Outcome, Part, parts_of, switch_all

NAMES = ("a", "b", "c")
Deed = Callable[[], None]


class Unwilling(DirectoryHarness):
    """A folder that does something else before or after each of its switches."""

    def __init__(self, root: Path, work: Path) -> None:
        super().__init__(root, ["*.md"], work)
        self.refusals: list[ConnectorError] = []
        self.stage_refusals: list[PolicyRefused] = []
        self.after_switch: list[Deed] = []

    async def stage(self, effect: Effect, before: HarnessSnapshot, after: HarnessSnapshot) -> None:
        if self.stage_refusals:
            raise self.stage_refusals.pop(0)
        await super().stage(effect, before, after)

    async def switch(self, effect: Effect, before: HarnessSnapshot, after: HarnessSnapshot) -> None:
        if self.refusals:
            raise self.refusals.pop(0)
        await super().switch(effect, before, after)
        if self.after_switch:
            self.after_switch.pop(0)()


@dataclass(slots=True)
class Several:
    """Three folders with a file each, and a change of the places in `changed`."""

    folder: Path
    changed: Sequence[str] = NAMES
    harnesses: dict[str, Unwilling] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in NAMES:
            (self.folder / name).mkdir(parents=True)
            self.file(name).write_text(f"{name} before\n", "utf-8")
            self.harnesses[name] = Unwilling(self.folder / name, self.folder / "work")

    def file(self, name: str) -> Path:
        return self.folder / name / "main.md"

    def texts(self) -> list[str]:
        return [self.file(name).read_text("utf-8").strip() for name in NAMES]

    @property
    def places(self) -> Places:
        return Places([Place(h, n, Include([f"{n}/*.md"])) for n, h in self.harnesses.items()])

    def side(self, which: str) -> HarnessSnapshot:
        return HarnessSnapshot(
            files={
                f"{n}/main.md": HarnessFile(
                    data=f"{n} {which if n in self.changed else 'before'}\n".encode(), mode=0o644
                )
                for n in NAMES
            }
        )

    def parts(self) -> tuple[Part, ...]:
        def effect(target: str, before: HarnessSnapshot, after: HarnessSnapshot) -> Effect:
            return Effect(
                key=effect_key("apply", "hash", "d-1", target), kind="apply", project="p",
                proposal_hash="hash", decision_id="d-1", target=target, before=before.revision,
                after=after.revision,
            )  # fmt: skip

        return parts_of(self.places, self.side("before"), self.side("after"), effect)

    def switch(self) -> Outcome:
        return asyncio.run(switch_all(self.places, self.parts(), self.side("before")))

    def states(self, outcome: Outcome) -> dict[str, str]:
        return {Path(p.effect.target).name: outcome[p.effect.key].state for p in self.parts()}

    def by_hand(self, name: str) -> None:
        self.file(name).write_text("by hand\n", "utf-8")


def refused(*, retryable: bool) -> ConnectorError:
    return ConnectorError("no", backend="test", operation="switch", retryable=retryable)


def test_every_place_is_switched_in_the_order_of_the_settings(tmp_path: Path) -> None:
    world = Several(tmp_path)
    outcome = world.switch()
    assert list(world.states(outcome).items()) == [(name, "done") for name in NAMES]
    assert world.texts() == ["a after", "b after", "c after"]


def test_a_place_that_the_change_does_not_touch_has_no_part(tmp_path: Path) -> None:
    world = Several(tmp_path, changed=("b",))
    assert world.states(world.switch()) == {"b": "done"}
    assert world.texts() == ["a before", "b after", "c before"]


def test_a_place_that_was_edited_before_stops_all_of_them(tmp_path: Path) -> None:
    world = Several(tmp_path)
    world.by_hand("c")
    seen: list[str] = []
    world.harnesses["a"].after_switch.append(lambda: seen.append("a was switched in vain"))
    outcome = world.switch()
    assert seen == []
    assert set(world.states(outcome).values()) == {"aborted"}
    assert world.texts() == ["a before", "b before", "by hand"]
    assert [end.reason for end in outcome.values() if "base_moved" in (end.reason or "")] == [
        "base_moved: c/main.md changed since"
    ]


def test_an_edit_of_a_place_that_is_not_changed_moves_the_base(tmp_path: Path) -> None:
    world = Several(tmp_path, changed=("b",))
    world.by_hand("a")
    outcome = world.switch()
    assert world.states(outcome) == {"b": "aborted"}
    assert world.texts() == ["by hand", "b before", "c before"]
    assert {end.reason for end in outcome.values()} == {"base_moved: a/main.md changed since"}


def test_an_edit_in_the_middle_puts_the_switched_places_back(tmp_path: Path) -> None:
    world = Several(tmp_path)
    world.harnesses["a"].after_switch.append(lambda: world.by_hand("b"))
    outcome = world.switch()
    assert set(world.states(outcome).values()) == {"aborted"}
    assert world.texts() == ["a before", "by hand", "c before"]


def test_a_place_that_was_edited_after_its_switch_is_not_put_back(tmp_path: Path) -> None:
    world = Several(tmp_path)

    def edit_both() -> None:
        world.by_hand("a")
        world.by_hand("c")

    world.harnesses["b"].after_switch.append(edit_both)
    outcome = world.switch()
    assert world.states(outcome) == {"a": "stuck", "b": "aborted", "c": "aborted"}
    assert world.texts() == ["by hand", "b before", "by hand"]
    assert any("not_rolled_back" in (end.reason or "") for end in outcome.values())


def test_a_place_that_refuses_for_good_puts_the_others_back(tmp_path: Path) -> None:
    world = Several(tmp_path)
    world.harnesses["b"].refusals.append(refused(retryable=False))
    outcome = world.switch()
    assert world.states(outcome) == {"a": "aborted", "b": "stuck", "c": "aborted"}
    assert world.texts() == ["a before", "b before", "c before"]


def test_a_place_that_refuses_to_stage_leaves_every_place_as_it_is(tmp_path: Path) -> None:
    world = Several(tmp_path)
    world.harnesses["b"].stage_refusals.append(PolicyRefused("too large"))
    outcome = world.switch()
    assert world.states(outcome) == {"a": "aborted", "b": "stuck", "c": "aborted"}
    assert world.texts() == ["a before", "b before", "c before"]
    assert "refused: too large" in {end.reason for end in outcome.values()}


def test_a_place_that_cannot_be_reached_decides_nothing_and_the_next_call_goes_on(
    tmp_path: Path,
) -> None:
    world = Several(tmp_path)
    world.harnesses["b"].refusals.append(refused(retryable=True))
    with pytest.raises(ConnectorError):
        world.switch()
    assert world.texts() == ["a after", "b before", "c before"]
    assert set(world.states(world.switch()).values()) == {"done"}
    assert world.texts() == ["a after", "b after", "c after"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.sampled_from(["go", "down", "edit a", "edit b", "edit c"]), max_size=4))
def test_it_ends_with_all_of_them_or_none(
    tmp_path_factory: pytest.TempPathFactory, deeds: list[str]
) -> None:
    """Whatever is done to the places between calls: one side everywhere, hand edits kept."""
    world = Several(tmp_path_factory.mktemp("world") / "x")
    edited: set[str] = set()
    for deed in deeds:
        if deed.startswith("edit"):
            world.by_hand(deed[-1])
            edited.add(deed[-1])
            continue
        if deed == "down":
            world.harnesses["b"].refusals = [refused(retryable=True)]
        try:
            world.switch()
        except ConnectorError:
            continue
        finally:
            world.harnesses["b"].refusals = []
        break
    else:
        world.switch()
    now = dict(zip(NAMES, world.texts(), strict=True))
    assert all(now[name] == "by hand" for name in edited)
    ours = {text.split()[1] for name, text in now.items() if name not in edited}
    assert len(ours) <= 1
    if edited:
        assert ours <= {"before", "after"}


def test_two_places_with_one_path_are_told_apart_or_refused(tmp_path: Path) -> None:
    world = Several(tmp_path)
    both = [Place(world.harnesses[name], "", Include(["*.md"])) for name in ("a", "b")]
    with pytest.raises(PolicyRefused, match=r"main\.md is in two places"):
        asyncio.run(Places(both).read())


def test_one_place_is_given_once(tmp_path: Path) -> None:
    world = Several(tmp_path)
    place = Place(world.harnesses["a"], "", Include(["*.md"]))
    with pytest.raises(ConfigError, match="twice"):
        Places([place, place])


def test_a_path_of_no_place_is_refused(tmp_path: Path) -> None:
    places = Several(tmp_path).places
    stray = HarnessSnapshot(files={"d/main.md": HarnessFile(data=b"x")})
    with pytest.raises(PolicyRefused, match=r"d/main\.md"):
        places.split(stray)


def test_reading_and_splitting_are_inverse(tmp_path: Path) -> None:
    world = Several(tmp_path)
    read: Awaitable[HarnessSnapshot] = world.places.read()
    whole = asyncio.run(_of(read))
    parts = world.places.split(whole)
    for harness in world.harnesses.values():
        assert parts[harness.target] == asyncio.run(harness.read())


async def _of(read: Awaitable[HarnessSnapshot]) -> HarnessSnapshot:
    return await read
