"""Which LangSmith server, project and host is asked, and what a check says of it."""

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from connectors.traces.answers import Unreachable
from contracts.errors import SourceError, UsageError
from contracts.json_types import Json
from contracts.traces import TraceId
from tests.fakes.langsmith import FakeLangSmith
from tests.langsmith_worlds import (
    BEGIN,
    HOUR,
    MINUTE,
    Served,
    everything,
    fake_of,
    ids,
    minutes,
    read,
    serving,
    source_at,
)
from tests.trace_worlds import root, tool, trace_id, trace_of


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@pytest.fixture(autouse=True)
def _retries_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.traces.calls.backoff_s", lambda _attempt, _jitter: 0.001)


async def test_a_server_without_v2_is_read_by_v1_and_remembered(stack: ExitStack) -> None:
    served = serving(fake_of(minutes(2), v2=False, flags=None), stack)
    source = source_at(served.url)
    _, report = await read(source, HOUR)
    assert (report.format, report.traces) == ("langsmith-v1", 2)
    assert "v2 answers that it is not there (404)" in report.why
    tried = len(served.mishaps.asked("/v2/"))
    await read(source, HOUR)
    assert (tried, len(served.mishaps.asked("/v2/"))) == (1, 1)
    assert len(served.mishaps.asked("/info")) == 1


async def test_flags_that_say_v2_is_empty_are_believed(stack: ExitStack) -> None:
    flags: dict[str, Json] = {"ch_query_enabled": True, "sdb_query_enabled": False}
    served = serving(fake_of(minutes(2), flags=flags), stack)
    _, report = await read(source_at(served.url), HOUR)
    assert (report.format, served.mishaps.asked("/v2/")) == ("langsmith-v1", [])
    assert "sdb_query_enabled=False" in report.why


async def test_runs_that_only_v1_has_are_found(stack: ExitStack) -> None:
    fake = fake_of(minutes(2), flags=None)
    fake.only_v1 = frozenset(str(run["id"]) for run in fake.runs)
    served = serving(fake, stack)
    traces, report = await read(source_at(served.url), HOUR)
    assert (ids(traces), report.format) == (everything(2), "langsmith-v1")
    assert (await source_at(served.url).trace(TraceId(trace_id(1)))).id == trace_id(1)


@pytest.mark.parametrize("asked_as", ["", "/api", "/api/v1", "/api/v1/"])
async def test_a_self_hosted_address_may_be_written_in_any_way(
    asked_as: str, stack: ExitStack
) -> None:
    served = serving(fake_of(minutes(1), prefixes=("/api/v1",)), stack)
    _, report = await read(source_at(served.url + asked_as), HOUR)
    assert (report.traces, report.format) == (1, "langsmith-v2")


async def test_an_organizations_key_needs_the_workspace(stack: ExitStack) -> None:
    workspace = "00000000-0000-0000-0000-0000000000aa"
    served = serving(fake_of(minutes(1), workspace=workspace), stack)
    with pytest.raises(SourceError, match="LANGSMITH_WORKSPACE_ID") as refused:
        await read(source_at(served.url), HOUR)
    assert "lsv2" not in str(refused.value)
    _, report = await read(source_at(served.url, workspace_id=workspace), HOUR)
    assert report.traces == 1


async def test_a_project_that_is_not_there_is_the_operators_to_mend(stack: ExitStack) -> None:
    served = serving(fake_of(minutes(1)), stack)
    with pytest.raises(UsageError, match="no project 'nope'"):
        await read(source_at(served.url, project="nope"), HOUR)


async def test_a_project_may_be_named_by_its_id(stack: ExitStack) -> None:
    served = serving(fake_of(minutes(1)), stack)
    project = str(served.fake.runs[0]["project_id"])
    assert len((await read(source_at(served.url, project=project), HOUR))[0]) == 1


async def big_inputs(stack: ExitStack, **settings: Any) -> AsyncIterator[tuple[Served, Any]]:
    trace = trace_of(root("x" * 5000, answer="y" * 5000), tool(1, "pay", {}, "z" * 5000))
    served = serving(fake_of([trace], "v1", blobs_over=1000), stack)
    yield served, await read(source_at(served.url, **settings), HOUR)


async def test_payloads_behind_a_presigned_address_are_fetched_without_our_key(
    stack: ExitStack,
) -> None:
    async for served, (traces, report) in big_inputs(stack):
        assert traces[0].root.input.text == "x" * 5000
        assert (report.truncated, len(served.mishaps.asked("/blobs/"))) == (0, 3)
        assert all("x-api-key" not in seen.headers for seen in served.mishaps.asked("/blobs/"))


async def test_a_host_that_is_not_allowed_is_never_asked(stack: ExitStack) -> None:
    trace = trace_of(root("x" * 5000, answer="short"))
    fake = fake_of([trace], "v1", blobs_over=1000)
    served = serving(fake, stack)
    elsewhere = serving(FakeLangSmith(runs=[]), stack)
    fake.base_url = elsewhere.url.replace("127.0.0.1", "localhost")
    traces, report = await read(source_at(served.url), HOUR)
    assert (traces[0].root.input, report.truncated) == (None, 1)
    assert elsewhere.mishaps.asked() == []
    assert ["'localhost' were not fetched" in one.why for one in report.skipped] == [True]
    assert report.status == "complete"


async def test_an_address_inside_trace_text_is_only_text(stack: ExitStack) -> None:
    served = serving(FakeLangSmith(runs=[]), stack)
    hostile = {"inputs_s3_urls": {"ROOT": {"presigned_url": f"{served.url}/blobs/x"}}}
    trace = trace_of(root(f"see {served.url}/blobs/x"), tool(1, "pay", hostile, "x"))
    reading = serving(fake_of([trace], "v1"), stack)
    await read(source_at(reading.url), HOUR)
    assert served.mishaps.asked() == []


async def test_one_trace_is_asked_for_by_id(stack: ExitStack) -> None:
    served = serving(fake_of(minutes(3)), stack)
    trace = await source_at(served.url).trace(TraceId(trace_id(2)))
    assert [s.name for s in trace.spans] == ["agent", "pay"]
    assert trace.spans[1].output is not None
    unknown = "00000000-0000-0000-0000-00000000ffff"
    with pytest.raises(SourceError, match=f"no trace '{unknown}' in project 'refunds'"):
        await source_at(served.url).trace(TraceId(unknown))


async def test_a_check_tells_reader_newest_trace_and_clock(stack: ExitStack) -> None:
    served = serving(fake_of(minutes(3)), stack)
    source = source_at(served.url)
    info = await source.check()
    assert (info.reachable, info.reader, info.can_write) == (True, "langsmith-v2", None)
    assert info.newest is not None
    assert info.newest >= BEGIN + 2 * MINUTE
    assert "sdb_query_enabled=True" in info.detail
    assert info.clock_offset_s is not None
    assert abs(info.clock_offset_s) < 5
    old = serving(fake_of(minutes(1), "v1"), stack)
    assert (await source_at(old.url).check()).reader == "langsmith-v1"


async def test_a_check_of_nobody_says_so(stack: ExitStack) -> None:
    info = await source_at("http://127.0.0.1:9").check()
    assert (info.reachable, "cannot be reached" in info.detail) == (False, True)
    served = serving(fake_of([]), stack)
    refused = await source_at(served.url, key="wrong").check()
    assert (refused.reachable, "LANGSMITH_API_KEY" in refused.detail) == (False, True)


async def test_a_server_that_is_not_there_is_an_error_and_no_empty_window() -> None:
    with pytest.raises(Unreachable, match="cannot be reached"):
        await read(source_at("http://127.0.0.1:9", budget_s=5))
