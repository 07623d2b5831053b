"""Prompts of Langfuse as a harness: what is read, a version and its label, what is refused."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from configs.harness_settings import HarnessSettings
from connectors.alerts.langfuse import changes_named
from connectors.harness.langfuse_prompts import LangfusePromptsHarness
from connectors.harness.opening import open_places
from contracts.errors import ConfigError, ConnectorError, PolicyRefused
from contracts.harness import HarnessFile, HarnessSnapshot
from tests.contract.harness_suite import ABOUT, change, effect_of
from tests.contract.langfuse_desk import (
    AFTER,
    BEFORE,
    MAIN,
    TALK,
    TALK_TEXT,
    Place,
    desk,
    texts,
)
from tests.contract.langfuse_worlds import Board, project
from tests.fakes.serving import serve

WRONG = "sk-lf-wrong"


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Board, str]]:
    board = Board()
    with serve(board) as url:
        yield board, url


@pytest.fixture
def place(served: tuple[Board, str]) -> Place:
    return desk(*served)


async def test_a_name_with_folders_is_sent_as_one_part_and_tags_of_others_stay_raw(
    place: Place,
) -> None:
    tag = "@@@langfusePrompt:name=desk/talk|label=production@@@"
    place.fake.prompts.put("desk/main", f"Begin. {tag}", labels=["production"])
    found = await place.harness().read()
    assert found.files[MAIN].data.decode() == f"Begin. {tag}"
    assert "/api/public/v2/prompts/desk%2Fmain" in place.fake.faults.calls("GET")


async def test_read_names_the_versions_and_is_not_the_draft_that_is_latest(place: Place) -> None:
    found = await place.harness().read()
    assert (found, found.origin) == (BEFORE, "desk/main@2, desk/talk@1")


async def test_a_new_version_keeps_config_and_tags_and_says_which_change_made_it(
    place: Place,
) -> None:
    effect = await change(place.harness(), BEFORE, AFTER)
    row = place.fake.prompts.version("desk/main", 4)
    assert (row["config"], row["tags"], row["type"]) == ({"model": "m1"}, ["desk"], "text")
    message = str(row["commitMessage"])
    assert message.startswith(f"tracemend {effect.key} p-abcdefghij r2 v4 on v2 for f-abcdefghij")
    assert changes_named(message) == [("p-abcdefghij", 2)], "our own webhooks are known by it"
    assert (place.live(), row["labels"]) == (4, ["production", "latest"])
    assert len(place.fake.prompts.rows["desk/talk"]) == 1


async def test_a_long_title_never_makes_the_message_too_long_for_the_server(place: Place) -> None:
    harness = place.harness()
    about = replace(ABOUT, title="x" * 600, approver="Ada\nLovelace\u202e")
    effect = effect_of(harness, BEFORE, AFTER, about=about)
    await harness.stage(effect, BEFORE, AFTER)
    message = place.fake.prompts.messages("desk/main")[-1]
    assert len(message) == 500
    assert message.isprintable()


async def test_undo_moves_the_label_back_makes_no_version_and_leaves_latest(place: Place) -> None:
    await change(place.harness(), BEFORE, AFTER)
    await change(place.harness(), AFTER, BEFORE, kind="undo")
    rows = place.fake.prompts.rows["desk/main"]
    assert (place.live(), len(rows), rows[-1]["labels"]) == (2, 4, ["latest"])


async def test_undo_keeps_a_config_that_a_person_changed_since(place: Place) -> None:
    await change(place.harness(), BEFORE, AFTER)
    put = place.fake.prompts.put
    put("desk/main", "Be brief. Ask.", labels=["production"], config={"model": "m9"})
    await change(place.harness(), AFTER, BEFORE, kind="undo")
    row = place.fake.prompts.version("desk/main", place.live())
    assert (row["prompt"], row["config"]) == ("Be brief.", {"model": "m9"})


async def test_what_cannot_be_written_as_a_text_is_left_out_with_the_reason(place: Place) -> None:
    put = place.fake.prompts.put
    put("desk/call", [{"role": "user", "content": "x", "tool_calls": []}], labels=["production"])
    put("desk/sly.chat", "A text.", labels=["production"])
    put("desk/../up", "x", labels=["production"])
    put("desk/part", "no label")
    harness = LangfusePromptsHarness(
        project(place.url), names=["desk/*", "desk/part", "desk/typo"], label="production"
    )
    assert await harness.read() == BEFORE
    assert harness.left_out == {
        "desk/call": "message 1 has more to it than a role and a text",
        "desk/sly.chat": "its name ends like the file of a chat prompt",
        "desk/part": "no version of it has the label production",
        "desk/typo": "there is none of this name",
    }


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (texts(main="Be brief."), "cannot be removed here"),
        (HarnessSnapshot(files={**BEFORE.files, "prompts/desk/new.md": HarnessFile(data=b"x")}),
         "cannot be added here"),
        (HarnessSnapshot(files={"prompts/desk/main.chat.md": HarnessFile(data=b""),
                                TALK: BEFORE.files[TALK]}), "cannot become a chat prompt"),
        (texts(main="Be\0brief.", talk=TALK_TEXT), "NUL"),
        (texts(main="Be brief.", talk="Be kind.\n"), "a chat prompt begins with"),
        (texts(main="Be brief.", talk="=== system ===\nBe kind."), "one line break"),
        (HarnessSnapshot(files={MAIN: HarnessFile(data=b"\xff"), TALK: BEFORE.files[TALK]}),
         "cannot be a prompt"),
        (HarnessSnapshot(files={MAIN: HarnessFile(data=b"Be brief.", mode=0o755),
                                TALK: BEFORE.files[TALK]}), "keeps no modes"),
    ],
)  # fmt: skip
async def test_what_langfuse_cannot_hold_is_refused_before_anything_is_written(
    place: Place, after: HarnessSnapshot, why: str
) -> None:
    with pytest.raises(PolicyRefused, match=why):
        await change(place.harness(), BEFORE, after)
    assert place.fake.faults.calls("POST") == place.fake.faults.calls("PATCH") == []


async def test_a_text_beyond_five_megabytes_is_refused_here(place: Place) -> None:
    with pytest.raises(PolicyRefused, match="more than 5 MB"):
        await change(place.harness(), BEFORE, texts(main="x" * 5_000_001, talk=TALK_TEXT))
    assert place.fake.faults.calls("POST") == []


async def test_a_refused_key_names_the_variables_and_shows_no_key(place: Place) -> None:
    place.fake.faults.refuse("POST", status=403)
    with pytest.raises(ConnectorError, match="LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY") as no:
        await change(place.harness(), BEFORE, AFTER)
    assert not no.value.retryable
    wrong = LangfusePromptsHarness(
        project(place.url, secret=WRONG), names=["desk/*"], label="production"
    )
    with pytest.raises(ConnectorError, match=r"401.*LANGFUSE_SECRET_KEY") as no:
        await wrong.read()
    assert "sk-lf" not in str(no.value)


async def test_a_refusal_says_the_servers_reason_on_one_line(place: Place) -> None:
    said = json.dumps({"message": "Prompt dependency\nnot found: x\u202e"}).encode()
    place.fake.faults.refuse("POST", status=400, body=said)
    with pytest.raises(ConnectorError, match=r"Prompt dependency not found: x$") as refused:
        await change(place.harness(), BEFORE, AFTER)
    assert not refused.value.retryable


async def test_history_is_of_all_prompts_newest_first(place: Place) -> None:
    place.fake.prompts.put("desk/talk", [{"role": "user", "content": "x"}], message="Mine.")
    effect = await change(place.harness(), BEFORE, AFTER)
    told = await place.harness().history(limit=4)
    assert [one.origin for one in told] == [
        "desk/main@4", "desk/talk@2", "desk/main@3", "desk/talk@1",
    ]  # fmt: skip
    assert (told[0].effect, told[0].by, told[1].message) == (effect.key, "API", "Mine.")
    assert told[1].effect is None


def opened(**keys: object) -> LangfusePromptsHarness:
    spec = HarnessSettings.model_validate({"kind": "langfuse_prompts", "names": ["a"], **keys})
    environ = {"X_LANGFUSE_PUBLIC_KEY": "pk", "X_LANGFUSE_SECRET_KEY": "sk",
               "X_LANGFUSE_BASE_URL": "https://lf.example/"}  # fmt: skip
    places = open_places(spec, root=Path("/"), work=Path("/nowhere"), environ=environ).places
    harness = places[0].harness
    assert isinstance(harness, LangfusePromptsHarness)
    return harness


def test_it_is_opened_from_settings_and_named_without_a_key() -> None:
    target = "langfuse_prompts:https://lf.example/X_#production"
    assert opened(env_prefix="X_").target == target
    assert opened(env_prefix="X_", label="live").target.endswith("#live")


def test_settings_that_cannot_work_are_refused_with_what_to_do() -> None:
    with pytest.raises(ConfigError, match="set LANGFUSE_PUBLIC_KEY in the environment"):
        opened()
    with pytest.raises(ConfigError, match="'latest' is moved by Langfuse itself"):
        opened(env_prefix="X_", label="latest")
    with pytest.raises(ConfigError, match="without a password"):
        opened(env_prefix="X_", base_url="https://a:b@lf.example")
