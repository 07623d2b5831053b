"""Skills of Langfuse as a harness: labels that are set as a whole, files that are sent by hash."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from configs.harness_settings import HarnessSettings
from connectors.harness.langfuse_skills import LangfuseSkillsHarness
from connectors.harness.opening import open_places
from contracts.errors import ConnectorError, ForeignChange, PolicyRefused
from contracts.harness import HarnessFile, HarnessSnapshot
from tests.contract.harness_suite import change, effect_of
from tests.contract.langfuse_worlds import Board, project, skill
from tests.fakes.langfuse_prompts import FakePromptServer
from tests.fakes.serving import serve

ASK, NOTE, NEW = "skills/ask/SKILL.md", "skills/ask/notes/a.md", "skills/new/SKILL.md"
PICTURE = b"\x89PNG\r\n\x1a\n\xff"
WITH_MARK = b"\xef\xbb\xbfmarked\n"


@dataclass(frozen=True, slots=True)
class Place:
    url: str
    fake: FakePromptServer

    def harness(self) -> LangfuseSkillsHarness:
        return LangfuseSkillsHarness(
            project(self.url), names=["*"], label="production", lag_s=0.3
        )  # fmt: skip

    def live(self, name: str = "ask") -> int | None:
        row = self.fake.skills.labelled(name, "production")
        return int(str(row["version"])) if row is not None else None

    def labels(self, number: int, name: str = "ask") -> set[object]:
        labels = self.fake.skills.version(name, number)["labels"]
        assert isinstance(labels, list)
        return set(labels)


@pytest.fixture(scope="module")
def served() -> Iterator[Callable[[FakePromptServer], str]]:
    board = Board()
    with serve(board) as url:
        yield lambda fake: f"{url}{board.add(fake.faults)}"


@pytest.fixture
def place(served: Callable[[FakePromptServer], str]) -> Place:
    """A skill under two labels, with a text, and with files that no text edit can hold."""
    fake = FakePromptServer()
    files = {"SKILL.md": skill("ask", "Ask.\n").data, "notes/a.md": b"A",
             "pic.md": PICTURE, "marked.md": WITH_MARK, ".hidden/x.md": b"x"}  # fmt: skip
    fake.skills.put("ask", files, labels=["production", "staging"])
    return Place(served(fake), fake)


def snapshot(**files: HarnessFile) -> HarnessSnapshot:
    paths = {"ask": ASK, "note": NOTE, "new": NEW}
    return HarnessSnapshot(files={paths[name]: file for name, file in files.items()})


OLD = skill("ask", "Ask.\n")
NOTE_FILE = HarnessFile(data=b"A")
BEFORE = snapshot(ask=OLD, note=NOTE_FILE)
AFTER = snapshot(ask=skill("ask", "Ask twice.\n"), note=NOTE_FILE)
ADDED = snapshot(ask=OLD, note=NOTE_FILE, new=skill("new", "New.\n"))


async def test_what_no_text_edit_can_hold_is_no_part_of_the_harness_and_is_carried_along(
    place: Place,
) -> None:
    found = await place.harness().read()
    assert (found, found.origin) == (BEFORE, "ask@1")
    await change(place.harness(), BEFORE, AFTER)
    texts = place.fake.skills.texts(place.fake.skills.version("ask", 2))
    assert texts == {
        "SKILL.md": AFTER.files[ASK].data, "notes/a.md": b"A", "pic.md": PICTURE,
        "marked.md": WITH_MARK, ".hidden/x.md": b"x",
    }  # fmt: skip


async def test_what_did_not_change_is_sent_by_its_hash(place: Place) -> None:
    await change(place.harness(), BEFORE, AFTER)
    [body] = place.fake.faults.bodies("POST")
    sent = {one["path"]: set(one) - {"path"} for one in json.loads(body)["files"]}
    assert sent == {
        "SKILL.md": {"content"}, "notes/a.md": {"sha256Hash"}, "pic.md": {"sha256Hash"},
        "marked.md": {"sha256Hash"}, ".hidden/x.md": {"sha256Hash"},
    }  # fmt: skip


async def test_moving_a_label_keeps_the_other_labels_of_both_versions(place: Place) -> None:
    harness = place.harness()
    effect = effect_of(harness, BEFORE, AFTER)
    await harness.stage(effect, BEFORE, AFTER)
    place.fake.skills.set_labels("ask", 2, ["canary"])
    await harness.switch(effect, BEFORE, AFTER)
    assert place.labels(2) == {"production", "canary", "latest"}
    assert place.labels(1) == {"staging"}
    await change(harness, AFTER, BEFORE, kind="undo")
    assert place.labels(1) == {"production", "staging"}
    assert place.labels(2) == {"canary", "latest"}


async def test_a_new_skill_is_made_without_a_label_and_its_undo_takes_the_label_away(
    place: Place,
) -> None:
    harness = place.harness()
    effect = effect_of(harness, BEFORE, ADDED)
    await harness.stage(effect, BEFORE, ADDED)
    assert (place.live("new"), place.labels(1, "new")) == (None, {"latest"})
    await harness.switch(effect, BEFORE, ADDED)
    assert place.live("new") == 1
    undone = await change(harness, ADDED, BEFORE, kind="undo")
    assert await harness.read() == BEFORE
    assert place.labels(1, "new") == {"latest", f"tracemend-{undone.key[:16]}"}
    assert len(f"tracemend-{undone.key[:16]}") <= 36


async def test_a_skill_that_is_taken_away_comes_back_with_the_undo(place: Place) -> None:
    empty = HarnessSnapshot(files={})
    await change(place.harness(), BEFORE, empty)
    assert (await place.harness().read()).files == {}
    assert place.labels(1) >= {"staging", "latest"}
    await change(place.harness(), empty, BEFORE, kind="undo")
    assert place.labels(1) == {"production", "staging", "latest"}
    assert len(place.fake.skills.rows["ask"]) == 1


async def test_a_hand_edit_of_one_file_names_that_file(place: Place) -> None:
    harness = place.harness()
    effect = effect_of(harness, BEFORE, AFTER)
    await harness.stage(effect, BEFORE, AFTER)
    files = place.fake.skills.texts(place.fake.skills.version("ask", 1))
    place.fake.skills.put("ask", {**files, "notes/a.md": b"By hand."}, labels=["production"])
    with pytest.raises(ForeignChange) as told:
        await harness.switch(effect, BEFORE, AFTER)
    assert (told.value.paths, place.live()) == ((NOTE,), 3)


async def test_a_picture_that_somebody_changed_since_staging_stops_the_switch(
    place: Place,
) -> None:
    harness = place.harness()
    effect = effect_of(harness, BEFORE, AFTER)
    await harness.stage(effect, BEFORE, AFTER)
    files = place.fake.skills.texts(place.fake.skills.version("ask", 1))
    place.fake.skills.put("ask", {**files, "pic.md": PICTURE + b"2"}, labels=["production"])
    with pytest.raises(ForeignChange, match=r"skills/ask/SKILL\.md"):
        await harness.switch(effect, BEFORE, AFTER)
    assert place.live() == 3


async def test_a_skill_that_is_half_its_after_is_finished(place: Place) -> None:
    after = snapshot(ask=AFTER.files[ASK], note=HarnessFile(data=b"B"))
    files = place.fake.skills.texts(place.fake.skills.version("ask", 1))
    place.fake.skills.put("ask", {**files, "notes/a.md": b"B"}, labels=["production"])
    harness = place.harness()
    assert await harness.standing(BEFORE, after) == "mixed"
    await change(harness, BEFORE, after)
    assert await harness.read() == after


async def test_a_lost_answer_to_a_move_is_looked_up(place: Place) -> None:
    place.fake.faults.lose("PATCH")
    with pytest.raises(ConnectorError) as lost:
        await change(place.harness(), BEFORE, AFTER)
    assert lost.value.retryable
    await change(place.harness(), BEFORE, AFTER)
    assert (place.live(), len(place.fake.faults.calls("PATCH"))) == (2, 1)
    assert len(place.fake.skills.rows["ask"]) == 2


async def test_a_read_by_label_that_lags_is_no_failure(place: Place) -> None:
    place.fake.skills.stale_reads = 1000
    harness = place.harness()
    await change(harness, BEFORE, AFTER)
    assert await harness.standing(BEFORE, AFTER) == "after"
    assert len(place.fake.faults.calls("PATCH")) == 1


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (snapshot(note=NOTE_FILE), "a skill needs a SKILL.md"),
        (snapshot(ask=skill("other", "x"), note=NOTE_FILE), "its front matter names 'other'"),
        (snapshot(ask=HarnessFile(data=b"no front"), note=NOTE_FILE), "names None"),
        (snapshot(ask=OLD, note=HarnessFile(data=WITH_MARK)), "byte order mark"),
        (snapshot(ask=OLD, note=HarnessFile(data=PICTURE)), "is not UTF-8"),
        (snapshot(ask=OLD, note=HarnessFile(data=b"a\0")), "NUL"),
        (snapshot(ask=OLD, note=HarnessFile(data=b"A", mode=0o755)), "keeps no modes"),
    ],
)  # fmt: skip
async def test_what_langfuse_cannot_hold_is_refused_before_anything_is_written(
    place: Place, after: HarnessSnapshot, why: str
) -> None:
    with pytest.raises(PolicyRefused, match=why):
        await change(place.harness(), BEFORE, after)
    assert place.fake.faults.calls("POST") == place.fake.faults.calls("PATCH") == []


async def test_a_server_without_skills_says_so_in_one_line(
    served: Callable[[FakePromptServer], str],
) -> None:
    spec = HarnessSettings.model_validate({
        "kind": "langfuse_skills", "base_url": served(FakePromptServer(skills=False)),
    })  # fmt: skip
    environ = {"LANGFUSE_PUBLIC_KEY": "pk-lf-fake", "LANGFUSE_SECRET_KEY": "sk-lf-fake"}
    places = open_places(spec, root=Path("/"), work=Path("/nowhere"), environ=environ)
    with pytest.raises(ConnectorError) as told:
        await places.read()
    assert str(told.value) == (
        "langfuse: this Langfuse server has no skills; keep them in a place of kind directory or "
        "git"
    )
    assert not told.value.retryable


async def test_history_skips_versions_that_are_gone(place: Place) -> None:
    effect = await change(place.harness(), BEFORE, AFTER)
    files = place.fake.skills.texts(place.fake.skills.version("ask", 1))
    place.fake.skills.put("ask", files, message="Mine.")
    del place.fake.skills.rows["ask"][0]
    told = await place.harness().history()
    assert [(one.origin, one.effect) for one in told] == [("ask@3", None), ("ask@2", effect.key)]
    assert json.dumps([one.message for one in told]).count("tracemend") == 1
