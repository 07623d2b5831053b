"""Reading Phoenix: pages, cursors, what breaks, what is left out. Against a stateful fake."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from connectors.traces.calls import NotThere, Refused, TooMuch, Unreachable
from connectors.traces.phoenix import PhoenixSource
from connectors.traces.phoenix_rows import score_of, span_of
from contracts.errors import UsageError
from contracts.traces import ReadReport, Trace, TraceId, TraceQuery
from tests.fakes.phoenix import FakePhoenix, push
from tests.fakes.serving import Mishaps, serve
from tests.trace_worlds import SECOND, START, OtlpSpan, line, root, span_id, tool, trace_id


def a_trace(number: int, *, start_ns: int = START, more: int = 1) -> list[OtlpSpan]:
    """A root and `more` tool calls with span ids of their own, a second after the trace before."""
    spans = [root(f"request {number}", trace=number)]
    spans += [tool(n, "pay", {"n": n}, {"ok": True}, trace=number) for n in range(1, more + 1)]
    for one in spans:
        for key in ("spanId", "parentSpanId"):
            if key in one:
                one[key] = span_id(number * 1000 + int(str(one[key]), 16) - 1)
        for key in ("startTimeUnixNano", "endTimeUnixNano"):
            one[key] = str(int(str(one[key])) - START + start_ns + number * SECOND)
    return spans


@dataclass
class World:
    fake: FakePhoenix
    mishaps: Mishaps
    url: str

    def fill(self, numbers: Iterable[int], *, more: int = 1) -> None:
        push(self.url, (line(a_trace(n, more=more)) for n in numbers), key=self.fake.key)

    def source(self, **options: Any) -> PhoenixSource:
        return PhoenixSource(base_url=self.url, sleep=at_once, **options)


async def at_once(_: float) -> None:
    return


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[Mishaps, str]]:
    mishaps = Mishaps(FakePhoenix().app())
    with serve(mishaps) as url:
        yield mishaps, url


@pytest.fixture
def world(server: tuple[Mishaps, str]) -> World:
    """A new Phoenix behind the address of the last one."""
    mishaps, url = server
    fake = FakePhoenix()
    mishaps.app = fake.app()
    mishaps.forget()
    return World(fake, mishaps, url)


async def read(
    source: PhoenixSource, query: TraceQuery | None = None
) -> tuple[list[Trace], ReadReport]:
    batches = [batch async for batch in source.window(query or TraceQuery())]
    return [trace for batch in batches for trace in batch.traces], batches[-1].read


async def test_a_window_of_many_pages_comes_whole_earliest_first(world: World) -> None:
    world.fake.empty_pages = True
    world.fill(reversed(range(230)))
    traces, report = await read(world.source())
    assert [t.id for t in traces] == [trace_id(n) for n in range(230)]
    assert all(len(t.spans) == 2 for t in traces)
    assert (report.format, report.status, report.traces, report.spans) == (
        "phoenix-rest", "complete", 230, 460,
    )  # fmt: skip
    assert report.requests == len(world.mishaps.asked("/projects/"))


async def test_a_read_goes_on_from_its_cursor_also_where_traces_start_together(
    world: World,
) -> None:
    lines = []
    for n in range(6):
        spans = a_trace(n)
        for one in spans:
            one["startTimeUnixNano"] = str(START + (n // 3) * SECOND)
        lines.append(line(spans))
    push(world.url, lines)
    source = world.source(batch_traces=2)
    all_of_them = [batch async for batch in source.window(TraceQuery())]
    ids = [t.id for batch in all_of_them for t in batch.traces]
    assert len(set(ids)) == len(ids) == 6
    for at, batch in enumerate(all_of_them):
        given = [t.id for b in all_of_them[: at + 1] for t in b.traces]
        rest, _ = await read(world.source(batch_traces=2), TraceQuery(cursor=batch.cursor))
        assert sorted(given + [t.id for t in rest]) == sorted(ids)


async def test_a_cursor_of_another_read_is_refused(world: World) -> None:
    world.fill(range(2))
    (first, *_) = [batch async for batch in world.source().window(TraceQuery())]
    elsewhere = TraceQuery(start=datetime(2026, 1, 1, tzinfo=UTC), cursor=first.cursor)
    with pytest.raises(UsageError, match="of another source or window"):
        await read(world.source(), elsewhere)
    with pytest.raises(UsageError, match="no cursor that a read gave away"):
        await read(world.source(), TraceQuery(cursor="e30"))


async def test_a_cursor_that_repeats_is_an_error_and_not_an_end(world: World) -> None:
    world.fill(range(3), more=700)
    world.fake.repeats_cursor = True
    with pytest.raises(Exception, match="gives the same cursor again, so its pages never end"):
        await read(world.source())


async def test_what_the_server_cannot_answer_is_asked_for_in_smaller_pages(world: World) -> None:
    world.fill(range(4), more=3)
    world.mishaps.status(422, path="/traces", times=2)
    world.mishaps.status(524, path="/spans", times=3)
    traces, report = await read(world.source())
    assert (len(traces), report.status) == (4, "complete")
    limits = [dict(httpx.QueryParams(seen.query))["limit"] for seen in world.mishaps.asked("/p")]
    assert limits[:3] == ["200", "100", "50"]
    assert "62" in limits


async def test_a_trace_that_cannot_be_had_is_left_out_and_said(world: World) -> None:
    world.fill([0])
    world.mishaps.status(422, path="/spans", times=9)  # 500 halved to 1 spans: nine tries
    world.fill([1])
    source = world.source(batch_traces=1)
    traces, report = await read(source)
    assert [t.id for t in traces] == [trace_id(1)]
    assert report.status == "partial"
    assert [s.why for s in report.skipped] == [
        f"trace {trace_id(0)} was not read: phoenix: GET /v1/projects/default/spans (422): "
        "could not answer; ask for less"
    ]


async def test_many_spans_are_never_held_together(world: World) -> None:
    world.fill(range(8), more=20)
    traces, report = await read(world.source(max_waiting_bytes=30_000))
    assert (len(traces), report.spans, report.status) == (8, 8 * 21, "complete")
    asked = [
        httpx.QueryParams(seen.query).get_list("trace_id") for seen in world.mishaps.asked("/spans")
    ]
    assert len(asked[0]) == 8
    assert len(asked[-1]) <= 2


async def test_a_backend_that_breaks_off_leaves_a_partial_read_with_the_time(world: World) -> None:
    world.fill(range(4))
    world.mishaps.status(503, path="/spans", after=1, times=999)
    source = world.source(batch_traces=2)
    batches = [batch async for batch in source.window(TraceQuery())]
    assert [len(batch.traces) for batch in batches] == [2, 0]
    report = batches[-1].read
    assert report.status == "partial"
    assert report.skipped[0].why.startswith("what starts after 2026-")
    world.mishaps.forget()
    rest, _ = await read(source, TraceQuery(cursor=batches[-1].cursor))
    assert [t.id for t in rest] == [trace_id(2), trace_id(3)]


async def test_a_budget_that_ends_leaves_a_partial_read(world: World) -> None:
    world.fill(range(4))
    world.mishaps.slow(1.2, path="/spans", after=1)
    _, report = await read(world.source(batch_traces=2, budget_s=0.7))
    assert report.status == "partial"
    assert "the 0.7 s of this job are over" in report.skipped[0].why


async def test_a_torn_page_is_asked_for_again(world: World) -> None:
    world.fill(range(2))
    world.mishaps.torn(path="/spans")
    traces, report = await read(world.source())
    assert (len(traces), report.status) == (2, "complete")


async def test_nothing_is_read_where_nothing_answers() -> None:
    source = PhoenixSource(base_url="http://127.0.0.1:9", sleep=at_once)
    with pytest.raises(Unreachable):
        await read(source)
    info = await source.check()
    assert (info.reachable, "cannot be reached" in info.detail) == (False, True)


async def test_a_key_is_sent_and_a_refusal_names_the_variable(world: World) -> None:
    world.fake.key = "pk-1"
    world.fill([0])
    traces, _ = await read(world.source(api_key=SecretStr("pk-1")))
    assert len(traces) == 1
    with pytest.raises(Refused, match="set PHOENIX_API_KEY to a key of this server"):
        await read(world.source(api_key=SecretStr("wrong")))
    assert not (await world.source().check()).reachable


async def test_a_project_that_is_not_there_is_an_error_and_an_empty_one_is_not(
    world: World,
) -> None:
    with pytest.raises(NotThere):
        await read(world.source(project="a/b c"))
    assert await read(world.source()) == (
        [], ReadReport(source="phoenix:default", format="phoenix-rest", requests=1),
    )  # fmt: skip


async def test_a_check_names_reader_newest_trace_and_clock(world: World) -> None:
    assert (await world.source().check()).detail == "no traces in this project"
    world.fill(range(3))
    info = await world.source().check()
    assert (info.reachable, info.reader) == (True, "phoenix-rest")
    assert info.newest == datetime.fromtimestamp((START + 2 * SECOND) / 1e9, UTC)
    assert info.clock_offset_s is not None


async def test_a_trace_whose_root_may_still_come_is_pending(world: World) -> None:
    now = time.time_ns()
    young = a_trace(1, start_ns=now - 30 * SECOND)[1:]
    push(world.url, [line(a_trace(0)[1:]), line(young)])
    traces, report = await read(world.source())
    assert [(t.id, t.orphans) for t in traces] == [(trace_id(0), 1)]
    assert (report.pending, report.status) == (1, "pending")


async def test_our_own_runs_are_left_out_by_what_stands_on_their_spans(world: World) -> None:
    own = a_trace(1)
    own[1]["attributes"] = [
        {"key": "metadata", "value": {"stringValue": '{"tracemend.run_id": "b1"}'}}
    ]
    push(world.url, [line(a_trace(0)), line(own)])
    traces, report = await read(world.source())
    assert [t.id for t in traces] == [trace_id(0)]
    assert report.excluded_own == 1
    assert (await world.source().trace(TraceId(trace_id(1)))).own


async def test_traces_without_an_environment_are_named_when_one_is_asked_for(world: World) -> None:
    push(world.url, [line(a_trace(0), deployment__environment__name="prod")])
    traces, report = await read(world.source(), TraceQuery(environment="prod"))
    assert traces == []
    assert report.skipped[0].why == "1 traces that do not say of which environment they are"


async def test_annotations_become_scores_of_the_trace_and_of_the_span(world: World) -> None:
    world.fill([0, 1])
    judged: dict[str, Any] = {
        "span_id": span_id(1), "name": "correct", "annotator_kind": "LLM",
        "result": {"score": 0.25, "label": "wrong", "explanation": "no refund"},
    }  # fmt: skip
    disliked: dict[str, Any] = {
        "trace_id": trace_id(1), "name": "thumb", "annotator_kind": "HUMAN",
        "result": {"label": "down"},
    }  # fmt: skip
    async with httpx.AsyncClient(base_url=world.url) as client:
        await client.post("/v1/span_annotations", json={"data": [judged]})
        await client.post("/v1/trace_annotations", json={"data": [disliked]})
    traces, _ = await read(world.source())
    (first,), (second,) = traces[0].scores, traces[1].scores
    assert (first.name, first.value, first.source, first.comment, first.span_id) == (
        "correct", 0.25, "eval", "no refund", span_id(1),
    )  # fmt: skip
    assert (second.name, second.value, second.source, second.span_id) == (
        "thumb", "down", "user", None,
    )  # fmt: skip
    assert first.at is not None


async def test_a_server_without_annotations_is_read_all_the_same(world: World) -> None:
    world.fake.knows_annotations = False
    world.fill(range(3))
    traces, report = await read(world.source(batch_traces=1))
    assert (len(traces), report.status) == (3, "complete")
    assert len(report.skipped) == 1
    assert report.skipped[0].why.startswith("annotations were not read: ")


async def test_a_page_that_is_none_is_no_empty_window(world: World) -> None:
    world.mishaps.page(b'{"detail": "hello"}')
    with pytest.raises(Exception, match="answers with JSON that is no page; is this a Phoenix"):
        await read(world.source())


async def test_too_many_traces_that_cannot_be_had_end_the_read(world: World) -> None:
    world.fill(range(5))
    world.mishaps.status(422, path="/spans", times=99)
    with pytest.raises(TooMuch):
        await read(world.source(batch_traces=1))
    assert len(world.mishaps.asked("/spans")) == 9 + 1 + 1  # halved once, then one try a trace


async def test_a_read_goes_on_before_traces_that_were_lost_to_a_broken_server(
    world: World,
) -> None:
    world.fill(range(6))
    world.mishaps.status(422, path="/spans", after=1, times=99)
    source = world.source(batch_traces=2)
    batches = [batch async for batch in source.window(TraceQuery())]
    assert [len(batch.traces) for batch in batches] == [2, 0]
    world.mishaps.forget()
    rest, _ = await read(source, TraceQuery(cursor=batches[-1].cursor))
    assert [t.id for t in rest] == [trace_id(n) for n in range(2, 6)]


@pytest.mark.parametrize(
    "row", [{}, {"context": None}, {"context": {"trace_id": 7, "span_id": []}, "attributes": 3}]
)
def test_a_row_without_ids_is_no_span(row: dict[str, Any]) -> None:
    assert span_of(row) is None
    assert score_of(row) is None
