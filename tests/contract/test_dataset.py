"""What every dataset promises: Langfuse and LangSmith over HTTP, and files."""

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from configs.settings import TraceSettings
from connectors.datasets.items import KEPT, vendor_id
from connectors.datasets.opening import open_dataset
from contracts.datasets import Dataset, DatasetItem
from contracts.errors import SourceError
from contracts.json_types import Json
from tests.fakes.langfuse import PUBLIC, SECRET, FakeLangfuse
from tests.fakes.serving import serve
from tests.langsmith_worlds import fake_of, serving

NAME = "regressions/refunds"
RUN = "0b5c9a52-3f0e-4d1c-9a51-9d2f5f2b7a11"
"""An id of a trace that every vendor takes as one of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A dataset, and what its vendor or another person can do behind its back."""

    kind: str
    dataset: Dataset
    stored: Callable[[], list[DatasetItem]]
    """What is really there, archived items too, as the vendor keeps it."""
    break_writing: Callable[[int], None] | None
    """From the n-th write on the server answers 500; None: writes are one step."""
    mend: Callable[[], None]
    archive: Callable[[str], None] | None
    """Put an item aside, by our id."""
    by_hand: Callable[[Json, Json, Json], str]
    """A person makes an item of input, output and metadata: its id there."""
    url: str = ""
    meanwhile: Callable[[Callable[[], None]], None] | None = None
    """Do this once after the first page of items was read."""


def langfuse(stack: ExitStack, tmp_path: Path) -> World:
    fake = FakeLangfuse()
    url = stack.enter_context(serve(fake.app))
    environ = {"A_LANGFUSE_PUBLIC_KEY": PUBLIC, "A_LANGFUSE_SECRET_KEY": SECRET}
    spec = TraceSettings(kind="langfuse", base_url=url, env_prefix="A_")
    held = fake.datasets

    def archive(key: str) -> None:
        at = [row["id"] for row in held.items].index(vendor_id(NAME, key))
        held.items[at] = {**held.items[at], "status": "ARCHIVED"}

    def by_hand(asked: Json, expected: Json, metadata: Json) -> str:
        held.make(NAME)
        made = f"cm{len(held.items)}"
        held.put(NAME, made, input=asked, expectedOutput=expected, metadata=metadata)
        return made

    def break_at(n: int) -> None:
        fake.app.status(500, path="dataset-items", after=n, times=9)

    return World(
        kind="langfuse",
        url=url,
        dataset=open_dataset(f"langfuse:{NAME}", tmp_path, [spec], environ=environ),
        stored=lambda: [DatasetItem(id=str(r["id"]), input=r["input"]) for r in held.items],
        break_writing=break_at,
        mend=fake.app.forget,
        archive=archive,
        by_hand=by_hand,
        meanwhile=lambda act: setattr(held, "between", act),
    )


def langsmith(stack: ExitStack, tmp_path: Path) -> World:
    served = serving(fake_of([]), stack)
    held = served.fake.datasets
    spec = TraceSettings(kind="langsmith", base_url=served.url)
    environ = {"LANGSMITH_API_KEY": served.fake.key}

    def by_hand(asked: Json, expected: Json, metadata: Json) -> str:
        named = [row for row in held.datasets if row["name"] == NAME]
        dataset = str(named[0]["id"]) if named else held.make(NAME)
        return str(held.put(dataset, asked, expected, metadata=metadata)["id"])

    return World(
        kind="langsmith",
        url=served.url,
        dataset=open_dataset(f"langsmith:{NAME}", tmp_path, [spec], environ=environ),
        stored=lambda: [DatasetItem(id=str(r["id"]), input=r["inputs"]) for r in held.examples],
        break_writing=lambda n: served.mishaps.status(
            500, path="/examples/bulk", after=n // 50, times=9
        ),
        mend=served.mishaps.forget,
        archive=None,
        by_hand=by_hand,
        meanwhile=lambda act: setattr(held, "between", act),
    )


def lines(stack: ExitStack, tmp_path: Path) -> World:
    del stack
    path = tmp_path / "sets" / "cases.jsonl"

    def rows() -> list[dict[str, Json]]:
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.split("\n") if line]

    def put(values: Sequence[dict[str, Json]]) -> None:
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(json.dumps(value) + "\n" for value in values))

    def archive(key: str) -> None:
        put([{**row, "status": "ARCHIVED"} if row["id"] == key else row for row in rows()])

    def by_hand(asked: Json, expected: Json, metadata: Json) -> str:
        put(
            [
                *rows(),
                {
                    "id": f"hand-{len(rows())}",
                    "input": asked,
                    "expected": expected,
                    "metadata": metadata,
                },
            ]
        )
        return str(rows()[-1]["id"])

    return World(
        kind="file",
        dataset=open_dataset("sets/cases.jsonl", tmp_path),
        stored=lambda: [DatasetItem(id=str(r["id"]), input=r["input"]) for r in rows()],
        break_writing=None,
        mend=lambda: None,
        archive=archive,
        by_hand=by_hand,
    )


@pytest.fixture(params=[langfuse, langsmith, lines], ids=lambda make: make.__name__)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:
        yield request.param(stack, tmp_path)


def item(number: int, **changed: Json) -> DatasetItem:
    made = DatasetItem(
        id=f"c-{number}",
        input={"message": f"Refund order A-{number}"},
        expected={"state": "queued", "order": number},
        metadata={"tracemend": {"id": f"c-{number}", "tags": ["training"]}},
        source_trace=RUN,
    )
    return replace(made, **changed)  # type: ignore[arg-type]  # fields by name


async def read(dataset: Dataset) -> list[DatasetItem]:
    return [one async for one in dataset.read()]


async def test_what_was_added_is_read_back_whole(world: World) -> None:
    items = [item(1), item(2, expected=None, source_trace=None), item(3, metadata={})]
    assert await world.dataset.add(items) == 3
    assert sorted(await read(world.dataset), key=lambda i: i.id) == items


async def test_added_twice_is_once(world: World) -> None:
    await world.dataset.add([item(1), item(2)])
    assert await world.dataset.add([item(2), item(3), item(3)]) == 1
    assert sorted(one.id for one in await read(world.dataset)) == ["c-1", "c-2", "c-3"]
    assert len(world.stored()) == 3


async def test_a_hundred_and_twenty_items_come_over_several_pages(world: World) -> None:
    many = [item(n) for n in range(120)]
    assert await world.dataset.add(many) == 120
    found = await read(world.dataset)
    assert sorted(one.id for one in found) == sorted(one.id for one in many)


async def test_an_archived_item_is_left_out_and_not_written_again(world: World) -> None:
    if world.archive is None:
        pytest.skip("this vendor has no archive: an example that is deleted is gone")
    await world.dataset.add([item(1), item(2)])
    world.archive("c-1")
    assert [one.id for one in await read(world.dataset)] == ["c-2"]
    assert await world.dataset.add([item(1)]) == 0
    assert [one.id for one in await read(world.dataset)] == ["c-2"]


async def test_what_a_person_made_there_is_read_and_not_touched(world: World) -> None:
    made = world.by_hand({"question": "and now?"}, {"answer": "wait"}, {})
    (theirs,) = await read(world.dataset)
    assert (theirs.id, theirs.input, theirs.expected) == (
        made,
        {"question": "and now?"},
        {"answer": "wait"},
    )
    assert await world.dataset.add([replace(theirs, expected={"answer": "ours"}), item(1)]) == 1
    again = {one.id: one for one in await read(world.dataset)}
    assert again[made].expected == {"answer": "wait"}


async def test_a_500_in_the_middle_keeps_what_was_written(world: World) -> None:
    if world.break_writing is None:
        pytest.skip("a file is written as a whole")
    many = [item(n) for n in range(60)]
    world.break_writing(50)
    with pytest.raises(SourceError, match=r"50 of 60 items are written, add them again") as failed:
        await world.dataset.add(many)
    assert "\n" not in str(failed.value)
    assert len(world.stored()) == 50
    world.mend()
    assert await world.dataset.add(many) == 10
    assert len(await read(world.dataset)) == 60


HOSTILE: list[Json] = [
    {"text": "ünïcode 🜁 \u2028 \u202e", "deep": {"a": [{"b": None}, [], {}, "", 0, False, 1.5]}},
    {"tracemend": "x", KEPT: {"id": "c-1"}, "": "", "value": 1},
    "plain text; not an object",
    ["a", {"b": 1}],
    {"value": "only"},
    {"html": "<script>alert(1)</script>", "sql": "'); DROP TABLE cases; --", "json": '{"a":1}'},
    42,
]


async def test_hostile_values_come_back_as_they_were(world: World) -> None:
    items = [
        item(n, input=value, expected=value, metadata={"any": value})
        for n, value in enumerate(HOSTILE)
    ]
    await world.dataset.add(items)
    assert sorted(await read(world.dataset), key=lambda i: i.id) == items


async def test_what_no_database_takes_is_replaced_and_not_refused(world: World) -> None:
    await world.dataset.add([item(1, input={"a\0b": "half \ud800 and \0"})])
    (found,) = await read(world.dataset)
    assert found.input == {"a\ufffdb": "half ? and \ufffd"}


async def test_an_id_that_somebody_claims_in_metadata_takes_nobodys_place(world: World) -> None:
    if world.kind == "file":
        pytest.skip("a file has no ids but those in it")
    await world.dataset.add([item(1, metadata={})])
    made = world.by_hand({"q": 1}, {"a": 1}, {KEPT: {"id": "c-1"}})
    await world.dataset.add([item(2, metadata={KEPT: {"id": "c-1", "source": "spoof"}})])
    assert {one.id for one in await read(world.dataset)} == {"c-1", "c-2", made}


async def test_a_dataset_that_is_not_there_is_an_error_of_one_line(world: World) -> None:
    with pytest.raises(SourceError) as missing:
        await read(world.dataset)
    said = str(missing.value)
    assert "\n" not in said
    assert NAME in said or "cases.jsonl" in said


async def test_items_that_slip_a_page_while_it_is_read_are_not_lost(world: World) -> None:
    if world.meanwhile is None:
        pytest.skip("a file is read in one piece")
    await world.dataset.add([item(n) for n in range(110)])

    def somebody_adds() -> None:
        for number in range(5):
            world.by_hand({"new": number}, {"n": number}, {})

    world.meanwhile(somebody_adds)
    found = await read(world.dataset)
    assert len({one.id for one in found}) == len(found) == 115


@pytest.mark.parametrize("kind", ["langfuse", "langsmith"])
async def test_a_server_that_nobody_reaches_is_an_error_of_one_line(
    kind: str, tmp_path: Path
) -> None:
    environ = {
        "LANGFUSE_PUBLIC_KEY": "pk-lf-1", "LANGFUSE_SECRET_KEY": "sk-lf-hidden",
        "LANGSMITH_API_KEY": "lsv2_hidden",
    }  # fmt: skip
    spec = TraceSettings(kind=kind, base_url="http://127.0.0.1:9")  # type: ignore[arg-type]  # one of them
    dataset = open_dataset(f"{kind}:x", tmp_path, [spec], environ=environ, budget_s=0.5)
    for act in (read(dataset), dataset.add([item(1)])):
        with pytest.raises(SourceError) as failed:
            await act
        assert "\n" not in str(failed.value)
        assert "hidden" not in str(failed.value)
        assert kind in str(failed.value)


@pytest.mark.parametrize("make", [langfuse, langsmith])
async def test_a_refused_key_says_which_variable_to_check(
    make: Callable[[ExitStack, Path], World], tmp_path: Path
) -> None:
    with ExitStack() as stack:
        kind = make.__name__
        url = make(stack, tmp_path).url
        spec = TraceSettings(kind=kind, base_url=url)  # type: ignore[arg-type]  # one of them
        environ = {
            "LANGFUSE_PUBLIC_KEY": "pk-lf-1", "LANGFUSE_SECRET_KEY": "sk-lf-wrong",
            "LANGSMITH_API_KEY": "lsv2_wrong",
        }  # fmt: skip
        dataset = open_dataset(f"{kind}:x", tmp_path, [spec], environ=environ)
        with pytest.raises(SourceError, match=rf"check {kind.upper()}") as refused:
            await read(dataset)
        assert "wrong" not in str(refused.value)


async def test_a_bulk_that_was_stored_and_not_answered_is_no_failure(tmp_path: Path) -> None:
    with ExitStack() as stack:
        served = serving(fake_of([]), stack)
        served.fake.datasets.lose = 1
        dataset = open_dataset(
            "langsmith:x",
            tmp_path,
            [TraceSettings(kind="langsmith", base_url=served.url)],
            environ={"LANGSMITH_API_KEY": served.fake.key},
        )
        assert await dataset.add([item(n) for n in range(3)]) == 3
        assert len(served.fake.datasets.examples) == 3


async def test_a_trace_of_another_vendor_is_kept_beside_the_example(tmp_path: Path) -> None:
    with ExitStack() as stack:
        one = langsmith(stack, tmp_path)
        hexes = uuid.UUID(RUN).hex
        await one.dataset.add([item(1, source_trace=hexes)])
        (found,) = await read(one.dataset)
        assert found.source_trace == hexes
