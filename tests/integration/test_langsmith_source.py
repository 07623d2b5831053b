"""A LangSmith project read over loopback: traps, mishaps, resuming, and what is said of it."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from connectors.traces.langsmith.source import LangSmithSource
from contracts.errors import UsageError
from contracts.traces import Score, TraceId, TraceQuery
from tests.fakes.langsmith import by_hash
from tests.langsmith_worlds import (
    BEGIN,
    COUNT,
    GENERATIONS,
    HOUR,
    MINUTE,
    batches_of,
    everything,
    fake_of,
    ids,
    minutes,
    read,
    serving,
    source_at,
)
from tests.trace_worlds import root, span, tool, trace_id, trace_of


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@pytest.fixture(autouse=True)
def _retries_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.traces.calls.backoff_s", lambda _attempt, _jitter: 0.001)


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize(
    "traps", [{}, {"empty_pages": True}, {"order": by_hash}, {"last_page_has_cursor": False}]
)
async def test_every_trace_is_read_whole_once_and_oldest_first(
    generation: str, traps: dict[str, Any], stack: ExitStack
) -> None:
    served = serving(fake_of(minutes(COUNT), generation, **traps), stack)
    traces, report = await read(source_at(served.url), HOUR)
    assert ids(traces) == everything()
    assert all([s.name for s in t.spans] == ["agent", "pay"] for t in traces)
    assert (report.format, report.status, report.spans) == (
        f"langsmith-{generation}",
        "complete",
        12,
    )
    assert report.requests == len(served.mishaps.asked())


async def test_windows_and_fields_are_always_named(stack: ExitStack) -> None:
    served = serving(fake_of(minutes(2)), stack)
    await read(source_at(served.url))
    assert served.fake.asked
    for path, body in served.fake.asked:
        assert path == "/api/v2/runs/query"
        assert {"min_start_time", "max_start_time", "selects", "page_size"} <= body.keys()


async def test_payloads_of_inner_chains_are_not_fetched(stack: ExitStack) -> None:
    inner = [
        root("help"),
        span(1, "CHAIN", "plan", input__value="state", output__value="state"),
        tool(2, "pay", {"n": 1}, "paid", parent=1),
    ]
    served = serving(fake_of([trace_of(*inner)]), stack)
    traces, _ = await read(source_at(served.url), HOUR)
    inputs = [s.input.text if s.input else None for s in traces[0].spans]
    assert inputs == ["help", None, '{"n":1}']
    asked = [body["ids"] for _, body in served.fake.asked if "ids" in body]
    assert [len(some) for some in asked if isinstance(some, list)] == [2]


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_an_interrupted_read_goes_on_in_another_source(
    generation: str, stack: ExitStack
) -> None:
    served = serving(fake_of(minutes(COUNT), generation), stack)
    got: list[str] = []
    cursor: str | None = None
    for _ in range(COUNT):
        source = source_at(served.url, batch_traces=2)
        batches = source.window(replace(HOUR, cursor=cursor))
        batch = await anext(aiter(batches))
        await batches.aclose()  # type: ignore[attr-defined]  # a generator behind the protocol
        got += ids(list(batch.traces))
        cursor = batch.cursor
    assert got == everything()


async def test_a_cursor_of_another_window_is_refused(stack: ExitStack) -> None:
    served = serving(fake_of(minutes(2)), stack)
    batches = await batches_of(source_at(served.url), HOUR)
    other = TraceQuery(start=BEGIN, cursor=batches[-1].cursor)
    with pytest.raises(UsageError, match="another source or window"):
        await read(source_at(served.url), other)


async def test_a_failure_half_way_is_partial_and_says_from_when(stack: ExitStack) -> None:
    served = serving(fake_of(minutes(COUNT)), stack)
    served.mishaps.status(403, path="/v2/runs/query", after=3, times=1000)
    source = source_at(served.url, batch_traces=2)
    batches = await batches_of(source, HOUR)
    report = batches[-1].read
    given = [t for batch in batches for t in batch.traces]
    assert 0 < len(given) < COUNT
    assert report.status == "partial"
    missing = (BEGIN + len(given) * MINUTE).isoformat().replace("+00:00", "Z")
    assert f"traces that start at {missing} or later are missing" in report.skipped[-1].why
    rest, _ = await read(source_at(serving(served.fake, stack).url),
                         replace(HOUR, cursor=batches[-1].cursor))  # fmt: skip
    assert ids(given) + ids(rest) == everything()


@pytest.mark.parametrize("status", [422, 500, 524])
async def test_too_much_at_once_is_asked_for_in_halves(status: int, stack: ExitStack) -> None:
    served = serving(fake_of(minutes(COUNT)), stack)
    served.mishaps.status(status, path="/v2/runs/query", times=2)
    served.fake.heavy = 3
    traces, report = await read(source_at(served.url), HOUR)
    assert (ids(traces), report.status) == (everything(), "complete")
    assert all(s.input is not None for t in traces for s in t.spans)
    windows = [(b["min_start_time"], b["max_start_time"]) for _, b in served.fake.asked]
    assert len(set(map(str, windows))) > 2


async def test_a_run_too_large_to_be_read_is_marked_and_the_rest_is_read(stack: ExitStack) -> None:
    served = serving(fake_of(minutes(2)), stack)
    served.fake.heavy = 0
    served.fake.runs = served.fake.runs[:4]
    traces, report = await read(source_at(served.url), HOUR)
    assert ids(traces) == everything(2)
    assert report.truncated == 4
    marks = [s.attributes.get("tracemend.payload_missing") for t in traces for s in t.spans]
    assert marks == [True] * 4


async def test_a_cursor_that_repeats_is_no_end(stack: ExitStack) -> None:
    served = serving(fake_of(minutes(2), stuck=True), stack)
    traces, report = await read(source_at(served.url), HOUR)
    assert (traces, report.status) == ([], "partial")
    assert "the same cursor twice" in report.skipped[0].why


async def test_retry_after_is_heeded(stack: ExitStack) -> None:
    served = serving(fake_of(minutes(2)), stack)
    served.mishaps.limited("0", path="/v2/runs/query")
    traces, report = await read(source_at(served.url), HOUR)
    assert (len(traces), report.status) == (2, "complete")


async def test_a_torn_answer_is_asked_for_again(stack: ExitStack) -> None:
    served = serving(fake_of(minutes(2)), stack)
    served.mishaps.torn(path="/v2/runs/query")
    traces, _ = await read(source_at(served.url), HOUR)
    assert len(traces) == 2


@pytest.mark.parametrize("knows_in", [True, False])
@pytest.mark.parametrize("generation", GENERATIONS)
async def test_a_trace_that_outlasts_the_window_is_read_to_its_end(
    generation: str, knows_in: bool, stack: ExitStack
) -> None:
    traces = []
    for number in range(3):
        steps = [
            root(f"r{number}", trace=number, seconds=600),
            tool(1, "a", {}, "x", trace=number),
            span(2, "TOOL", "late", trace=number, at=500.0, output__value="y"),
        ]
        traces.append(trace_of(*steps))
    served = serving(fake_of(traces, generation, knows_in=knows_in), stack)
    window = TraceQuery(start=BEGIN, end=BEGIN + MINUTE)
    got, report = await read(source_at(served.url), window)
    assert [[s.name for s in t.spans] for t in got] == [["agent", "a", "late"]] * 3
    assert (report.orphans, report.status) == (0, "complete")
    later = TraceQuery(start=BEGIN + MINUTE, end=BEGIN + 20 * MINUTE)
    assert (await read(source_at(served.url), later))[0] == []


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_a_trace_that_began_days_before_the_window_is_not_of_it(
    generation: str, stack: ExitStack
) -> None:
    day = 86_400.0
    steps = [root("r", seconds=3 * day), span(1, "TOOL", "late", at=2 * day, output__value="x")]
    served = serving(fake_of([trace_of(*steps)], generation), stack)
    begin = BEGIN + timedelta(days=2) - MINUTE
    window = TraceQuery(start=begin, end=begin + 60 * MINUTE)
    traces, report = await read(source_at(served.url), window)
    assert (traces, report.status) == ([], "complete")


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_orphans_are_kept_in_the_window_of_their_first_run(
    generation: str, stack: ExitStack
) -> None:
    fake = fake_of(minutes(2), generation)
    fake.runs = [run for run in fake.runs if run["id"] != trace_id(1)]
    served = serving(fake, stack)
    traces, report = await read(source_at(served.url), HOUR)
    assert ids(traces) == everything(2)
    assert (traces[1].orphans, report.orphans) == (1, 1)
    assert traces[1].root.virtual


async def test_a_child_with_a_fast_clock_does_not_make_its_trace_come_twice(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.traces.langsmith.job.MAX_RUNS", {"steps": 1})
    steps = [root("r", seconds=30), span(1, "TOOL", "early", at=-20.0, output__value="x")]
    served = serving(fake_of([trace_of(*steps)]), stack)
    traces, report = await read(source_at(served.url), replace(HOUR, end=BEGIN + MINUTE))
    assert [len(trace.spans) for trace in traces] == [2]
    assert (report.traces, report.orphans) == (1, 0)


class CountedBudget:
    """Time that is over after so many looks at the clock."""

    def __init__(self, looks: int) -> None:
        self.seconds, self._looks = 600.0, looks

    def left(self) -> float:
        self._looks -= 1
        return 600.0 if self._looks > 0 else 0.0


async def test_a_read_whose_time_is_over_gives_what_is_whole(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serving(fake_of(minutes(COUNT)), stack)
    monkeypatch.setattr(
        "connectors.traces.langsmith.source.Budget", lambda _seconds: CountedBudget(12)
    )
    traces, report = await read(source_at(served.url, batch_traces=1), HOUR)
    assert 0 < len(traces) < COUNT
    assert report.status == "partial"
    assert "or later are missing" in report.skipped[0].why
    assert "are over" in report.skipped[0].why


@pytest.mark.parametrize("generation", GENERATIONS)
async def test_an_open_trace_is_left_out_and_counted(generation: str, stack: ExitStack) -> None:
    open_one = trace_of(root("r", trace=7, seconds=None), tool(1, "pay", {}, "x", trace=7))
    served = serving(fake_of([*minutes(1), open_one], generation), stack)
    traces, report = await read(source_at(served.url), HOUR)
    assert (ids(traces), report.pending, report.status) == (everything(1), 1, "pending")
    assert (await source_at(served.url).trace(TraceId(trace_id(7)))).pending


async def test_feedback_comes_along_as_scores(stack: ExitStack) -> None:
    liked = Score(name="user_score", value=1.0, source="user", comment="nice")
    served = serving(fake_of([replace(trace, scores=(liked,)) for trace in minutes(1)]), stack)
    traces, _ = await read(source_at(served.url), HOUR)
    assert [(s.name, s.value, s.comment) for s in traces[0].scores] == [("user_score", 1.0, "nice")]


async def test_many_traces_come_in_bounded_slices(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.traces.langsmith.job.MAX_RUNS", {"steps": 30, "all": 30})
    served = serving(fake_of(minutes(40)), stack)
    traces, report = await read(source_at(served.url))
    assert (ids(traces), report.status) == (everything(40), "complete")
    assert report.requests < 120


def test_a_source_serves_several_event_loops(stack: ExitStack) -> None:
    source: LangSmithSource = source_at(serving(fake_of(minutes(1)), stack).url)
    assert [len(asyncio.run(read(source, HOUR))[0]) for _ in range(2)] == [1, 1]
