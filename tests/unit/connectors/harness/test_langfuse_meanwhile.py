"""Prompts of Langfuse while people edit them and the server lags, fails or goes away."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from contracts.errors import ConnectorError, ForeignChange
from contracts.harness import HarnessFile, HarnessSnapshot
from contracts.json_types import Json
from tests.contract.harness_suite import change, effect_of
from tests.contract.langfuse_desk import (
    AFTER,
    BEFORE,
    BOTH,
    MAIN,
    TALK,
    Place,
    desk,
)
from tests.contract.langfuse_worlds import Board
from tests.fakes.langfuse_prompts import PUBLIC, SECRET, FakePromptServer
from tests.fakes.serving import serve

CASES = Path(__file__).parents[3] / "data" / "fieldcases"


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Board, str]]:
    board = Board()
    with serve(board) as url:
        yield board, url


@pytest.fixture
def place(served: tuple[Board, str]) -> Place:
    return desk(*served)


async def test_a_config_changed_after_staging_stops_the_switch(place: Place) -> None:
    harness = place.harness()
    effect = effect_of(harness, BEFORE, AFTER)
    await harness.stage(effect, BEFORE, AFTER)
    put = place.fake.prompts.put
    mine = put("desk/main", "Be brief.", labels=["production"], config={"model": "m9"})
    with pytest.raises(ForeignChange, match=r"prompts/desk/main\.md"):
        await harness.switch(effect, BEFORE, AFTER)
    assert place.live() == mine


async def test_a_label_that_a_person_moved_stays_and_no_label_is_touched(place: Place) -> None:
    harness = place.harness()
    effect = effect_of(harness, BEFORE, BOTH)
    await harness.stage(effect, BEFORE, BOTH)
    place.fake.prompts.move("desk/talk", 1, [])
    place.fake.prompts.move("desk/main", 1, ["production"])
    with pytest.raises(ForeignChange) as told:
        await harness.switch(effect, BEFORE, BOTH)
    assert (told.value.paths, told.value.switched) == ((MAIN,), False)
    assert place.fake.faults.calls("PATCH") == []
    assert (place.live(), place.live("desk/talk")) == (1, 1)


@pytest.mark.parametrize("reads", range(9))
async def test_a_move_by_somebody_else_is_seen_up_to_the_last_read_before_ours(
    place: Place, reads: int
) -> None:
    harness = place.harness()
    effect = effect_of(harness, BEFORE, AFTER)
    await harness.stage(effect, BEFORE, AFTER)
    fake = place.fake

    def by_hand() -> None:
        config = {"model": "m1"}  # as it was, so that the text alone tells
        fake.prompts.put("desk/main", "By hand.", labels=["production"], config=config)

    fake.faults.meanwhile("GET", "desk%2Fmain", by_hand, after=reads)
    with pytest.raises(ForeignChange) as told:
        await harness.switch(effect, BEFORE, AFTER)
    assert (told.value.paths, told.value.switched) == ((MAIN,), False)
    assert (place.live(), fake.faults.calls("PATCH")) == (5, [])


@pytest.mark.parametrize("reads", [0, 1])
async def test_a_move_right_after_ours_stays_and_the_other_prompt_is_put_back(
    place: Place, reads: int
) -> None:
    harness = place.harness()
    effect = effect_of(harness, BEFORE, BOTH)
    await harness.stage(effect, BEFORE, BOTH)

    def by_hand() -> None:
        place.fake.prompts.put("desk/talk", [{"role": "user", "content": "Mine."}],
                               labels=["production"])  # fmt: skip

    def after_the_second_move() -> None:
        place.fake.faults.meanwhile("GET", "desk%2Ftalk", by_hand, after=reads)

    place.fake.faults.meanwhile("PATCH", "desk%2Ftalk", after_the_second_move)
    with pytest.raises(ForeignChange) as told:
        await harness.switch(effect, BEFORE, BOTH)
    assert (told.value.paths, told.value.switched) == ((TALK,), True)
    assert (place.live(), place.live("desk/talk")) == (2, 3)


async def test_a_version_that_somebody_makes_at_the_same_moment_is_a_conflict(
    place: Place,
) -> None:
    place.fake.faults.meanwhile(
        "POST", "prompts", lambda: place.fake.prompts.put("desk/main", "Another draft.")
    )
    with pytest.raises(ForeignChange, match=r"prompts/desk/main\.md"):
        await change(place.harness(), BEFORE, AFTER)
    assert place.live() == 2
    with pytest.raises(ForeignChange):  # and it stays one for this effect, whoever asks again
        await change(place.harness(), BEFORE, AFTER)
    assert len(place.fake.prompts.rows["desk/main"]) == 5


@pytest.mark.parametrize("status", [400, 409])
async def test_a_collision_of_numbers_is_a_conflict_and_no_crash(place: Place, status: int) -> None:
    body = json.dumps({"message": "Failed to create prompt due to unique constraint failure."})
    place.fake.faults.refuse("POST", status=status, body=body.encode())
    with pytest.raises(ForeignChange, match="changed by somebody else since"):
        await change(place.harness(), BEFORE, AFTER)
    assert (place.live(), len(place.fake.prompts.rows["desk/main"])) == (2, 3)


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_a_lost_answer_is_looked_up_by_the_next_call(place: Place, method: str) -> None:
    place.fake.faults.lose(method)
    with pytest.raises(ConnectorError, match="whether it was done is looked up") as lost:
        await change(place.harness(), BEFORE, AFTER)
    assert lost.value.retryable
    await change(place.harness(), BEFORE, AFTER)
    assert (place.live(), len(place.fake.prompts.rows["desk/main"])) == (4, 4)
    assert len(place.fake.faults.calls("POST")) == len(place.fake.faults.calls("PATCH")) == 1


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_a_server_that_does_it_after_we_gave_up_is_found_to_have_done_it(
    place: Place, method: str
) -> None:
    place.fake.faults.delay(method)
    with pytest.raises(ConnectorError, match="no answer") as lost:
        await change(place.harness(timeout_s=0.5), BEFORE, AFTER)
    assert lost.value.retryable
    assert place.live() == 2
    place.fake.faults.give_up.set()
    assert place.fake.faults.handled_late.wait(20)
    await change(place.harness(), BEFORE, AFTER)
    assert (place.live(), len(place.fake.prompts.rows["desk/main"])) == (4, 4)
    assert len(place.fake.faults.calls(method)) == 1


async def test_of_two_versions_of_one_effect_the_first_gets_the_label(place: Place) -> None:
    harness = place.harness()
    effect = effect_of(harness, BEFORE, AFTER)
    await harness.stage(effect, BEFORE, AFTER)
    message = place.fake.prompts.messages("desk/main")[-1]
    place.fake.prompts.put(
        "desk/main", "Be brief. Ask.", config={"model": "m1"}, by="API", message=message
    )
    await harness.switch(effect, BEFORE, AFTER)
    assert place.live() == 4


async def test_case_50_an_old_read_by_label_is_waited_for_and_undoes_nothing(
    served: tuple[Board, str], caplog: pytest.LogCaptureFixture
) -> None:
    case = CASES / "50-label-moved-old-text-served"
    exchange = json.loads((case / "exchange.json").read_text())
    expected = json.loads((case / "expected.json").read_text())["release"]
    new, old = exchange[0]["body"], exchange[1]["body"]
    fake = FakePromptServer()
    for _ in range(old["version"]):
        fake.prompts.put("desk/system", old["prompt"])
    fake.prompts.move("desk/system", old["version"], ["production"])
    fake.prompts.stale_reads = 1000
    board, url = served
    place = Place(f"{url}{board.add(fake.faults)}", fake)
    path = "prompts/desk/system.md"
    before = HarnessSnapshot(files={path: HarnessFile(data=old["prompt"].encode())})
    after = HarnessSnapshot(files={path: HarnessFile(data=new["prompt"].encode())})
    harness = place.harness()
    with caplog.at_level(logging.WARNING):
        await change(harness, before, after)
    assert place.live("desk/system") == expected["version"] == 8
    assert len(fake.faults.calls("PATCH")) == expected["patches"] == 1
    assert await harness.standing(before, after) == "after"
    assert "reads by label still get the version before" in caplog.text
    async with httpx.AsyncClient(auth=(PUBLIC, SECRET)) as client:
        asked = await client.get(
            f"{place.url}/api/public/v2/prompts/desk%2Fsystem", params={"label": "production"}
        )
    assert asked.json()["version"] == 7, "the server really went on to answer with the old text"


async def test_a_move_that_never_shows_is_not_taken_for_done(place: Place) -> None:
    place.fake.prompts.stale_reads = place.fake.prompts.stale_versions = 1000
    place.fake.faults.refuse("PATCH", status=200, body=b"{}")  # says yes and does nothing
    with pytest.raises(ConnectorError, match="does not show yet; run `resume`") as hidden:
        await change(place.harness(), BEFORE, AFTER)
    assert hidden.value.retryable


async def test_a_server_that_lags_is_waited_for(place: Place) -> None:
    place.fake.prompts.stale_reads = place.fake.prompts.stale_versions = 2
    await change(place.harness(lag_s=10), BEFORE, AFTER)
    assert (place.live(), len(place.fake.faults.calls("PATCH"))) == (4, 1)
    assert await place.harness().read() == AFTER


async def test_a_prompt_that_became_unreadable_since_is_a_conflict(place: Place) -> None:
    harness = place.harness()
    effect = effect_of(harness, BEFORE, BOTH)
    await harness.stage(effect, BEFORE, BOTH)
    odd: Json = [{"role": "user", "content": ["parts"]}]
    place.fake.prompts.put("desk/talk", odd, labels=["production"])
    with pytest.raises(ForeignChange) as told:
        await harness.switch(effect, BEFORE, BOTH)
    assert told.value.paths == (TALK,)
    assert place.live() == 2


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_write_that_the_server_is_too_busy_for_is_sent_once_and_may_be_tried_again(
    place: Place, status: int
) -> None:
    place.fake.faults.refuse("POST", status=status)
    with pytest.raises(ConnectorError) as busy:
        await change(place.harness(), BEFORE, AFTER)
    assert busy.value.retryable
    assert len(place.fake.faults.calls("POST")) == 1
    await change(place.harness(), BEFORE, AFTER)
    assert place.live() == 4


async def test_a_server_that_answers_with_another_version_is_not_believed(place: Place) -> None:
    rows = place.fake.prompts.rows
    wrong = json.dumps({**rows["desk/main"][0], "version": 1}).encode()
    place.fake.faults.refuse("GET", "desk%2Fmain", status=200, body=wrong, after=1)
    with pytest.raises(ConnectorError, match="asked for version 2 of 'desk/main', answers with 1"):
        await place.harness().read()
