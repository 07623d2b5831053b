"""A change of a folder, of prompts and of skills in Langfuse is made whole or not at all."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from configs.harness_settings import HarnessSettings
from connectors.harness.opening import open_places
from connectors.harness.several import Places
from contracts.errors import ConnectorError
from contracts.harness import EffectKind, HarnessFile, HarnessSnapshot
from nodes.switching import Outcome, parts_of, switch_all
from tests.contract.harness_suite import effect_of
from tests.contract.langfuse_worlds import skill
from tests.fakes.langfuse_prompts import PUBLIC, SECRET, FakePromptServer
from tests.fakes.serving import serve

KEYS = {"LANGFUSE_PUBLIC_KEY": PUBLIC, "LANGFUSE_SECRET_KEY": SECRET}
MAIN, PROMPT, SKILL = "instructions/main.md", "prompts/desk/main.md", "skills/ask/SKILL.md"


def harness(word: str) -> HarnessSnapshot:
    files = {
        MAIN: HarnessFile(data=f"Be {word}.\n".encode()),
        PROMPT: HarnessFile(data=f"Be {word}.".encode()), SKILL: skill("ask", f"Be {word}.\n"),
    }  # fmt: skip
    return HarnessSnapshot(files=files)


BEFORE, AFTER = harness("brief"), harness("kind")


@dataclass(frozen=True, slots=True)
class World:
    fake: FakePromptServer
    places: Places

    async def change(
        self, before: HarnessSnapshot, after: HarnessSnapshot, kind: EffectKind = "apply"
    ) -> Outcome:
        """As apply makes it."""
        harnesses = {place.harness.target: place.harness for place in self.places.places}
        parts = parts_of(
            self.places, before, after,
            lambda target, old, new: effect_of(harnesses[target], old, new, kind),
        )  # fmt: skip
        return await switch_all(self.places, parts, before)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    fake = FakePromptServer()
    for path, file in BEFORE.files.items():
        if path == PROMPT:
            fake.prompts.put("desk/main", file.data.decode(), labels=["production"])
        elif path == SKILL:
            fake.skills.put("ask", {"SKILL.md": file.data}, labels=["production"])
        else:
            (tmp_path / path).parent.mkdir(parents=True)
            (tmp_path / path).write_bytes(file.data)
    with serve(fake.faults) as url:
        spec = HarnessSettings.model_validate([
            {"kind": "directory", "include": ["instructions/*.md"]},
            {"kind": "langfuse_prompts", "names": ["desk/*"], "base_url": url},
            {"kind": "langfuse_skills", "base_url": url},
        ])  # fmt: skip
        yield World(fake, open_places(spec, root=tmp_path, work=tmp_path / "work", environ=KEYS))


def states(ended: Outcome) -> list[str]:
    return [end.state for end in ended.values()]


async def test_all_places_are_changed_and_taken_back(world: World) -> None:
    assert states(await world.change(BEFORE, AFTER)) == ["done"] * 3
    found = await world.places.read()
    assert found == AFTER
    assert found.origin is not None
    assert "desk/main@2" in found.origin
    assert "ask@2" in found.origin
    assert states(await world.change(AFTER, BEFORE, "undo")) == ["done"] * 3
    assert await world.places.read() == BEFORE


async def test_a_prompt_that_somebody_edits_meanwhile_stops_all_and_stays(world: World) -> None:
    def by_hand() -> None:
        world.fake.prompts.put("desk/main", "By hand.", labels=["production"])

    world.fake.faults.meanwhile("POST", "/skills", by_hand)
    ended = await world.change(BEFORE, AFTER)
    assert sorted(set(states(ended))) == ["aborted"]
    assert any(PROMPT in (end.reason or "") for end in ended.values())
    found = dict((await world.places.read()).files)
    assert found.pop(PROMPT).data == b"By hand."
    assert found == {p: f for p, f in BEFORE.files.items() if p != PROMPT}


async def test_a_move_that_is_refused_puts_the_others_back_and_says_why(world: World) -> None:
    world.fake.faults.refuse("PATCH", "/skills", status=403)
    ended = await world.change(BEFORE, AFTER)
    assert sorted(states(ended)) == ["aborted", "aborted", "stuck"]
    assert any("LANGFUSE_SECRET_KEY" in (end.reason or "") for end in ended.values())
    assert await world.places.read() == BEFORE


@pytest.mark.parametrize("method", ["POST", "PATCH"])
@pytest.mark.parametrize("path", ["/prompts", "/skills"])
async def test_an_answer_that_is_lost_decides_nothing_and_the_next_run_finishes(
    world: World, method: str, path: str
) -> None:
    world.fake.faults.lose(method, path)
    with pytest.raises(ConnectorError) as lost:
        await world.change(BEFORE, AFTER)
    assert lost.value.retryable
    assert states(await world.change(BEFORE, AFTER)) == ["done"] * 3
    assert await world.places.read() == AFTER
    assert len(world.fake.faults.calls("POST")) == len(world.fake.faults.calls("PATCH")) == 2
