"""Pages of LangSmith are read to their real end, or not taken for it."""

from dataclasses import dataclass, field, replace

import pytest

from connectors.traces.langsmith.asking import (
    MAX_EMPTY_PAGES,
    Ask,
    Page,
    TooMany,
    Unpaged,
    What,
    any_runs,
    in_traces,
    iso,
    page_of,
    read_all,
)
from connectors.traces.langsmith.server import root_of

ASK = Ask(start_ns=1, end_ns=2, what="steps")


@dataclass
class ListedPages:
    """A reader that pages through ids; `quiet` gives no cursor beside a full page."""

    ids: list[str]
    quiet: bool = False
    deaf: bool = False
    sizes: list[int] = field(default_factory=list)
    name: str = "listed"
    page_size: int = 10
    most_ids: int = 10
    listed: What = "steps"

    async def page(self, ask: Ask, *, size: int, cursor: str | None = None) -> Page:
        self.sizes.append(size)
        at = 0 if cursor is None or self.deaf else int(cursor)
        some = self.ids[at : at + size]
        more = at + size < len(self.ids)
        if self.quiet and len(some) == size:
            more = False
        runs = [{"id": one, "start_time": f"2026-11-24T09:00:0{one}Z"} for one in some]
        return Page(runs=list(runs), cursor=str(at + size) if more else None)


@dataclass
class EmptyPages:
    """A reader whose pages are empty for a while, each with another cursor."""

    empty: int
    name: str = "empty"
    page_size: int = 10
    most_ids: int = 10
    listed: What = "steps"

    async def page(self, ask: Ask, *, size: int, cursor: str | None = None) -> Page:
        at = int(cursor or 0)
        if at < self.empty:
            return Page(runs=[], cursor=str(at + 1))
        return Page(runs=[{"id": "x"}], cursor=None)


def numbers(count: int) -> list[str]:
    return [str(number) for number in range(count)]


@pytest.mark.parametrize("count", [0, 1, 4, 5])
async def test_every_page_is_read(count: int) -> None:
    assert list(await read_all(ListedPages(numbers(count)), ASK, size=3)) == numbers(count)


async def test_a_last_page_that_happens_to_be_full_is_proved_by_another_size() -> None:
    reader = ListedPages(numbers(8))
    assert list(await read_all(reader, ASK, size=4)) == numbers(8)
    assert reader.sizes == [4, 4, 3, 3, 3]


async def test_a_full_page_of_all_that_was_named_is_the_end() -> None:
    reader = ListedPages(numbers(4))
    named = replace(ASK, ids=tuple(numbers(4)))
    assert list(await read_all(reader, named, size=4)) == numbers(4)
    assert reader.sizes == [4]


async def test_a_full_page_without_a_cursor_is_no_end() -> None:
    with pytest.raises(Unpaged, match="a full page without a cursor"):
        await read_all(ListedPages(numbers(9), quiet=True), ASK, size=4)


async def test_a_cursor_that_comes_twice_is_no_end() -> None:
    with pytest.raises(Unpaged, match="the same cursor twice"):
        await read_all(ListedPages(numbers(9), deaf=True), ASK, size=4)


async def test_empty_pages_are_passed_but_not_for_ever() -> None:
    assert list(await read_all(EmptyPages(MAX_EMPTY_PAGES), ASK, size=4)) == ["x"]
    assert await any_runs(EmptyPages(3), ASK)
    assert not await any_runs(ListedPages([]), ASK)
    with pytest.raises(Unpaged, match="pages without an end"):
        await read_all(EmptyPages(MAX_EMPTY_PAGES + 5), ASK, size=4)


async def test_more_runs_than_can_be_held_say_how_much_time_they_cover() -> None:
    with pytest.raises(TooMany) as over:
        await read_all(ListedPages(numbers(9)), ASK, size=4, most=4)
    assert over.value.lasting_ns == 7_000_000_000


@pytest.mark.parametrize("answer", [None, [], {}, {"items": None}, {"items": "x"}])
def test_an_answer_that_is_no_page_is_refused(answer: dict[str, str] | None) -> None:
    with pytest.raises(Unpaged, match="no list 'items'"):
        page_of(answer, "items", None, "langsmith-v2")


def test_ids_that_could_be_more_than_ids_never_enter_a_filter() -> None:
    assert in_traces(("ab-1", 'x"], eq(name, "y")', "c")) == 'in(trace_id, ["ab-1", "c"])'


def test_times_are_written_in_utc() -> None:
    assert iso(1_795_510_800_000_000_000) == "2026-11-24T09:00:00Z"


@pytest.mark.parametrize(
    ("given", "root"),
    [
        ("https://api.smith.langchain.com", "https://api.smith.langchain.com"),
        ("https://eu.api.smith.langchain.com/", "https://eu.api.smith.langchain.com"),
        ("https://ls.example/api/v1", "https://ls.example"),
        ("https://ls.example/api/v1/", "https://ls.example"),
        ("https://ls.example/sub/api", "https://ls.example/sub"),
    ],
)
def test_the_address_of_v2_is_derived_as_the_sdk_does(given: str, root: str) -> None:
    assert root_of(given) == root
