"""Reading a Langfuse project over HTTP: whole traces once, whatever the server does on the way."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs

import pytest
from pydantic import SecretStr

from connectors.traces.langfuse.source import LangfuseSource
from contracts.errors import SourceError, UsageError
from contracts.traces import ReadReport, Score, SpanId, Trace, TraceBatch, TraceId, TraceQuery
from tests.fakes.langfuse import PUBLIC, SECRET, FakeLangfuse
from tests.fakes.serving import serve
from tests.trace_worlds import SECOND, START, root, span, span_id, tool, trace_id, trace_of

OBSERVATIONS = "/api/public/v2/observations"
OTHER = "sk-lf-wrong"
BEGIN = datetime.fromtimestamp(START / 1e9, UTC)
Serving = Callable[[FakeLangfuse], str]


@pytest.fixture
def serving() -> Iterator[Serving]:
    with ExitStack() as stack:
        yield lambda fake: stack.enter_context(serve(fake.app))


def recorded(number: int, *, environment: str = "prod") -> Trace:
    """Root, inner chain, model call and failed tool; begins ten seconds after the one before and
    lasts a minute, so that traces overlap."""
    spans = [
        root(f"request {number}", trace=number),
        span(1, "CHAIN", "inner", trace=number, input__value="state", output__value="state"),
        span(2, "LLM", "model", trace=number, parent=1, at=20, input__value="[]",
             output__value="words", also={"llm.model_name": "m"}),
        tool(30 + number % 7, "pay", {"n": number}, trace=number, parent=1,
             error=("KeyError", "x")),
    ]  # fmt: skip
    for one in spans:
        for key in ("startTimeUnixNano", "endTimeUnixNano"):
            one[key] = str(int(str(one[key])) + number * 10 * SECOND)
    score = Score(name="helpful", value=0.5, source="eval", at=BEGIN)
    return replace(trace_of(*spans), environment=environment, scores=(score,))


def source(
    url: str,
    *,
    batch: int = 4,
    budget_s: float = 60,
    waits: Sequence[float] = (),
    environment: str | None = None,
    sleep: Callable[[float], Awaitable[None]] | None = None,
    secret: str = SECRET,
) -> LangfuseSource:
    made = LangfuseSource(
        base_url=url, public_key=SecretStr(PUBLIC), secret_key=SecretStr(secret),
        batch_traces=batch, budget_s=budget_s, pending_waits_s=waits, environment=environment,
        general_a_minute=1_000_000, deprecated_a_minute=1_000_000,
    )  # fmt: skip
    if sleep is not None:
        made._sleep = sleep
    return made


async def read(
    made: LangfuseSource, query: TraceQuery | None = None
) -> tuple[list[Trace], ReadReport]:
    batches = [batch async for batch in made.window(query or TraceQuery())]
    return [trace for batch in batches for trace in batch.traces], batches[-1].read


def ids(traces: Sequence[Trace]) -> list[str]:
    return sorted(trace.id for trace in traces)


def expected(*numbers: int) -> list[str]:
    return sorted(trace_id(number) for number in numbers)


@pytest.mark.parametrize("generation", ["v2", "v1"])
async def test_every_trace_comes_once_and_whole(serving: Serving, generation: str) -> None:
    fake = FakeLangfuse(map(recorded, range(23)), generation="v2" if generation == "v2" else "v1")
    traces, report = await read(source(serving(fake)))
    assert ids(traces) == expected(*range(23))
    assert all(t.root.name == "agent" and len(t.spans) == 4 for t in traces)
    assert all([(s.name, s.value) for s in t.scores] == [("helpful", 0.5)] for t in traces)
    assert (report.status, report.format, report.traces, report.spans) == (
        "complete", f"langfuse-{generation}", 23, 92,
    )  # fmt: skip
    assert report.requests == len(fake.app.asked())
    assert "observations v2" in report.why


async def test_pages_are_followed_by_their_cursor_although_some_are_empty(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.traces.langfuse.reader_v2.PAGE_ROWS", 5)
    fake = FakeLangfuse(map(recorded, range(9)))
    fake.empty_every = 2
    traces, report = await read(source(serving(fake)))
    assert (ids(traces), report.status) == (expected(*range(9)), "complete")


async def test_a_cursor_that_comes_back_is_an_error_and_not_an_end(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.traces.langfuse.reader_v2.PAGE_ROWS", 5)
    fake = FakeLangfuse(map(recorded, range(9)))
    fake.app.page(b'{"data": [], "meta": {"cursor": "c"}}', path=OBSERVATIONS, after=1, times=2)
    _, report = await read(source(serving(fake)))
    assert report.status == "partial"
    assert "gives the same cursor again" in report.skipped[0].why


async def test_a_window_that_is_too_much_is_read_in_halves(serving: Serving) -> None:
    fake = FakeLangfuse(map(recorded, range(12)))
    fake.widest_s = 90
    query = TraceQuery(start=BEGIN, end=BEGIN + timedelta(minutes=10))
    traces, report = await read(source(serving(fake)), query)
    assert (ids(traces), report.status) == (expected(*range(12)), "complete")


async def test_a_minute_that_is_too_much_is_said_and_the_rest_is_read(serving: Serving) -> None:
    fake = FakeLangfuse(map(recorded, range(3)))
    fake.widest_s = 1
    query = TraceQuery(start=BEGIN, end=BEGIN + timedelta(seconds=100))
    traces, report = await read(source(serving(fake)), query)
    assert (traces, report.status) == ([], "partial")
    assert "2026-11-24T" in report.skipped[0].why
    assert "were not read" in report.skipped[0].why


async def test_inputs_and_outputs_are_asked_for_where_they_are_needed(serving: Serving) -> None:
    fake = FakeLangfuse([recorded(0)])
    (trace,), _ = await read(source(serving(fake)))
    with_io = [parse_qs(one.query) for one in fake.app.asked(OBSERVATIONS) if "io" in one.query]
    asked = [set(json.loads(query["filter"][0])[-1]["value"]) for query in with_io]
    assert asked == [{span_id(0), span_id(2), span_id(30)}]
    by_name = {one.name: one for one in trace.spans}
    assert by_name["inner"].input is None
    assert by_name["pay"].input is not None
    assert by_name["pay"].input.value == {"n": 0}


async def test_inputs_and_outputs_that_are_too_much_come_in_smaller_parts(serving: Serving) -> None:
    fake = FakeLangfuse(map(recorded, range(6)))
    fake.most_io = 2
    traces, report = await read(source(serving(fake)))
    assert report.status == "complete"
    assert all(trace.root.output is not None for trace in traces)


async def test_inputs_and_outputs_that_never_come_are_marked_and_counted(serving: Serving) -> None:
    fake = FakeLangfuse(map(recorded, range(2)))
    fake.most_io = 0
    traces, report = await read(source(serving(fake)))
    assert (ids(traces), report.status, report.marks["io_missing"]) == (
        expected(0, 1), "partial", 6,
    )  # fmt: skip
    assert traces[0].root.attributes["tracemend.io_missing"] is True


async def test_scores_that_fail_lose_no_trace(serving: Serving) -> None:
    fake = FakeLangfuse(map(recorded, range(3)))
    fake.app.status(400, path="/v3/scores", times=9)
    traces, report = await read(source(serving(fake)))
    assert (ids(traces), report.status) == (expected(0, 1, 2), "complete")
    assert [one.path for one in report.skipped] == ["scores"]


async def test_scores_of_spans_and_of_sessions_stand_at_their_trace(serving: Serving) -> None:
    one = replace(
        recorded(0), session_id="s-1",
        scores=(Score(name="thumbs", value=True, source="user", span_id=SpanId(span_id(2))),),
    )  # fmt: skip
    fake = FakeLangfuse([one])
    subject = {"kind": "session", "id": "s-1"}
    fake.scores.append({**fake.scores[0], "id": "x", "name": "solved", "subject": subject})
    (trace,), _ = await read(source(serving(fake)))
    assert [(s.name, s.value, s.source, s.span_id) for s in trace.scores] == [
        ("solved", True, "api", None), ("thumbs", True, "user", span_id(2)),
    ]  # fmt: skip


@pytest.mark.parametrize("generation", ["v2", "v1"])
@pytest.mark.parametrize("stop", [1, 2, 4])
async def test_a_read_goes_on_from_its_cursor_in_another_process(
    serving: Serving, generation: str, stop: int
) -> None:
    fake = FakeLangfuse(map(recorded, range(17)), generation="v2" if generation == "v2" else "v1")
    url = serving(fake)
    query = TraceQuery(start=BEGIN, end=BEGIN + timedelta(hours=1))
    first: list[TraceBatch] = []
    async for batch in opened(source(url), query):
        first.append(batch)
        if len(first) == stop:
            break
    given = [trace for batch in first for trace in batch.traces]
    rest, report = await read(source(url, batch=3), replace(query, cursor=first[-1].cursor))
    assert len(given) == 4 * stop
    assert ids([*given, *rest]) == expected(*range(17))
    assert report.status == "complete"


@pytest.mark.parametrize("generation", ["v2", "v1"])
async def test_traces_of_one_moment_are_told_apart_where_a_read_goes_on(
    serving: Serving, generation: str
) -> None:
    same = [replace(recorded(0), id=TraceId(trace_id(number))) for number in range(9)]
    url = serving(FakeLangfuse(same, generation="v2" if generation == "v2" else "v1"))
    first = await anext(opened(source(url), TraceQuery()))
    rest, _ = await read(source(url), TraceQuery(cursor=first.cursor))
    assert ids([*first.traces, *rest]) == expected(*range(9))


async def opened(made: LangfuseSource, query: TraceQuery) -> AsyncIterator[TraceBatch]:
    """A window that is closed when its reader leaves early."""
    window = made.window(query)
    try:
        async for batch in window:
            yield batch
    finally:
        await window.aclose()  # type: ignore[attr-defined]  # it is a generator


async def test_the_cursor_of_a_whole_read_gives_nothing_more(serving: Serving) -> None:
    url = serving(FakeLangfuse(map(recorded, range(3))))
    batches = [batch async for batch in source(url).window(TraceQuery())]
    again, report = await read(source(url), TraceQuery(cursor=batches[-1].cursor))
    assert (again, report.status) == ([], "complete")


async def test_a_cursor_of_another_window_is_refused(serving: Serving) -> None:
    url = serving(FakeLangfuse(map(recorded, range(3))))
    batches = [batch async for batch in source(url).window(TraceQuery())]
    with pytest.raises(UsageError, match="another source or window"):
        await read(source(url), TraceQuery(start=BEGIN, cursor=batches[-1].cursor))


async def test_time_that_runs_out_leaves_a_partial_read_that_can_go_on(serving: Serving) -> None:
    fake = FakeLangfuse(map(recorded, range(12)))
    url = serving(fake)
    # One call lists; each trace takes two, three traces are under way: by then the first is read.
    fake.app.limited("900", path=OBSERVATIONS, after=9)
    batches = [batch async for batch in source(url, batch=1).window(TraceQuery())]
    report = batches[-1].read
    given = [trace for batch in batches for trace in batch.traces]
    assert report.status == "partial"
    assert "the rate limit asks for a wait of 900 s" in report.skipped[0].why
    assert 0 < len(given) < 12
    rest, _ = await read(replaced_key(source(url)), TraceQuery(cursor=batches[-1].cursor))
    assert ids([*given, *rest]) == expected(*range(12))


def replaced_key(made: LangfuseSource) -> LangfuseSource:
    """The same source in a process that has not heard of the server's wish to be left alone."""
    made._limits = {}
    return made


async def test_429_is_waited_for_and_a_torn_answer_asked_for_again(serving: Serving) -> None:
    fake = FakeLangfuse(map(recorded, range(3)))
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    made = replaced_key(source(serving(fake), sleep=sleep))
    fake.app.limited("2", path=OBSERVATIONS)
    fake.app.torn(path=OBSERVATIONS, after=1)
    traces, report = await read(made)
    assert (ids(traces), report.status) == (expected(0, 1, 2), "complete")
    assert waits[0] == 2


async def test_a_refused_key_says_where_to_look_and_never_the_key(serving: Serving) -> None:
    url = serving(FakeLangfuse())
    with pytest.raises(SourceError, match="LANGFUSE_PUBLIC_KEY") as caught:
        await read(source(url, secret=OTHER))
    assert "sk-lf" not in str(caught.value)


async def test_nobody_at_the_address_is_an_error() -> None:
    with pytest.raises(SourceError, match="cannot be reached"):
        await read(source("http://127.0.0.1:9", sleep=_no_wait))


async def _no_wait(_: float) -> None:
    return None


async def test_a_server_without_either_generation_is_said_to_be_none(serving: Serving) -> None:
    fake = FakeLangfuse()
    fake.app.status(404, times=9, body=b"<html>")
    with pytest.raises(SourceError, match="is the base URL that of Langfuse"):
        await read(source(serving(fake)))


async def test_which_generation_the_server_has_is_asked_once(serving: Serving) -> None:
    fake = FakeLangfuse(map(recorded, range(3)), generation="v1")
    made = source(serving(fake))
    for _ in range(3):
        await read(made)
    await made.trace(TraceId(trace_id(1)))
    assert len(fake.app.asked(OBSERVATIONS)) == 1


async def test_our_own_runs_and_open_traces_are_left_out_and_counted(serving: Serving) -> None:
    still = trace_of(span(0, "AGENT", "agent", trace=7, parent=None, seconds=None))
    own = recorded(5, environment="tracemend-gate")
    fake = FakeLangfuse([recorded(0), recorded(1, environment="test"), own,
                         replace(still, environment="prod")])  # fmt: skip
    traces, report = await read(source(serving(fake), environment="prod"))
    assert ids(traces) == expected(0)
    assert (report.excluded_own, report.pending, report.status) == (1, 1, "pending")


async def test_traces_that_cross_the_windows_edges_come_by_their_first_span(
    serving: Serving,
) -> None:
    fake = FakeLangfuse(map(recorded, range(12)))
    query = TraceQuery(start=BEGIN + timedelta(seconds=30), end=BEGIN + timedelta(seconds=60))
    traces, report = await read(source(serving(fake)), query)
    assert ids(traces) == expected(3, 4, 5)
    assert all(len(trace.spans) == 4 for trace in traces)
    assert report.orphans == 0


async def test_a_trace_with_a_root_before_the_window_is_not_of_the_window(
    serving: Serving,
) -> None:
    early = span(5, "AGENT", "before", trace=0, parent=None, at=-100)
    fake = FakeLangfuse([trace_of(early, root("later", trace=0)), recorded(1)])
    traces, _ = await read(source(serving(fake)), TraceQuery(start=BEGIN))
    assert ids(traces) == expected(1)


async def test_a_trace_is_waited_for_right_after_it_was_recorded(serving: Serving) -> None:
    fake = FakeLangfuse()
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            fake.add(recorded(1))

    made = source(serving(fake), waits=(2, 5, 15), sleep=sleep)
    assert len((await made.trace(TraceId(trace_id(1)))).spans) == 4
    assert waits == [2, 5]


@pytest.mark.parametrize("generation", ["v2", "v1"])
async def test_a_trace_under_a_hyphenated_id_is_found_by_the_plain_one(
    serving: Serving, generation: str
) -> None:
    plain = "8b2e6c1f4a5d4e7b9c3d2f1a0b9c8d7e"
    hyphens = TraceId("8b2e6c1f-4a5d-4e7b-9c3d-2f1a0b9c8d7e")
    one = replace(recorded(0), id=hyphens)
    fake = FakeLangfuse([one], generation="v2" if generation == "v2" else "v1")
    made = source(serving(fake))
    assert (await made.trace(TraceId(plain))).id == plain
    assert ids((await read(made))[0]) == [plain]


async def test_an_older_server_with_a_full_page_that_names_no_next_one_is_partial(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.traces.langfuse.reader_v1.PAGE_ROWS", 1)
    fake = FakeLangfuse(map(recorded, range(3)), generation="v1")
    row = json.dumps({"id": trace_id(0), "timestamp": BEGIN.isoformat()})
    body = f'{{"data": [{row}], "meta": {{}}}}'.encode()
    fake.app.page(body, path="/api/public/traces")
    traces, report = await read(source(serving(fake)))
    assert (ids(traces), report.status) == (expected(0), "partial")
    assert "does not say what follows" in report.skipped[0].why


async def test_a_trace_that_is_too_much_for_an_older_server_is_read_in_parts(
    serving: Serving,
) -> None:
    fake = FakeLangfuse([recorded(0)], generation="v1")
    fake.most_io = 2
    traces, report = await read(source(serving(fake)))
    assert [len(trace.spans) for trace in traces] == [4]
    assert [score.name for score in traces[0].scores] == ["helpful"]
    assert report.status == "complete"


@pytest.mark.parametrize("generation", ["v2", "v1"])
async def test_a_check_says_what_it_found(serving: Serving, generation: str) -> None:
    fake = FakeLangfuse(map(recorded, range(3)), generation="v2" if generation == "v2" else "v1")
    fake.per_window = 30
    info = await source(serving(fake)).check()
    assert (info.reachable, info.reader, info.can_write) == (True, f"langfuse-{generation}", True)
    assert info.limits == "the server says 30 calls in its window, 29 left"
    assert info.newest is not None
    assert info.newest >= BEGIN
    assert info.clock_offset_s is not None
    assert abs(info.clock_offset_s) < 5
    assert ("it has no v2" in info.detail) == (generation == "v1")


async def test_a_check_never_raises(serving: Serving) -> None:
    refused = await source(serving(FakeLangfuse()), secret=OTHER).check()
    gone = await source("http://127.0.0.1:9", sleep=_no_wait).check()
    assert (refused.reachable, "refuses the key" in refused.detail) == (False, True)
    assert (gone.reachable, "cannot be reached" in gone.detail) == (False, True)
