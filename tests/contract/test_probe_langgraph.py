"""What the probe of kind "langgraph" promises: the real SDK, a real graph, HTTP over loopback."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from connectors.probe.company import accompanied
from connectors.probe.hosts import HostSlots
from connectors.probe.http import Service
from connectors.probe.langgraph import Graph, LangGraphProbe
from connectors.traces.inline import trace_of_messages
from contracts.errors import ProbeError
from contracts.gate import Case, CaseId
from contracts.harness import HarnessFile, HarnessSnapshot, Observation
from contracts.json_types import Json
from nodes.gate.outage import outage
from nodes.gate.score import grade
from nodes.insights.detect.all import detect_trace
from tests.fakes.langgraph_server import LangGraphServer
from tests.fakes.serving import Mishaps, serve

HARNESS = HarnessSnapshot(
    files={
        "instructions/main.md": HarnessFile(data=b"Be brief"),
        "skills/run/logo.png": HarnessFile(data=b"\x89PNG\xff"),
    }
)
OTHER = HarnessSnapshot(files={"instructions/main.md": HarnessFile(data=b"Be kind")})


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A server with its mishaps, and where it is."""

    server: LangGraphServer
    mishaps: Mishaps
    url: str

    @asynccontextmanager
    async def probe(self, **changed: Any) -> AsyncIterator[LangGraphProbe]:
        graph: dict[str, Any] = {
            "assistant": "agent", "context_key": "harness", "input_key": None,
            "output_key": "answer",
        }  # fmt: skip
        graph |= {key: changed.pop(key) for key in graph if key in changed}
        service: dict[str, Any] = {
            "url": self.url, "token": None, "token_env": None, "concurrency": 4, "per_host": None,
            "timeout_s": 60.0, "output_cap_bytes": 131_072, **changed,
        }  # fmt: skip
        async with LangGraphProbe(
            service=Service(**service), graph=Graph(**graph), read_messages=trace_of_messages,
            hosts=HostSlots(),
        ) as probe:  # fmt: skip
            yield probe

    async def once(self, word: str, *, deadline_s: float = 60, **changed: Any) -> Observation:
        async with self.probe(**changed) as probe:
            return await probe.run(asked(word), HARNESS, seed=7, deadline_s=deadline_s)


def asked(word: str) -> Json:
    return {"messages": [{"role": "user", "content": word}]}


@contextmanager
def world(**settings: Any) -> Iterator[World]:
    server = LangGraphServer(**settings)
    mishaps = Mishaps(server.app)
    with serve(mishaps) as url:
        yield World(server=server, mishaps=mishaps, url=url)


async def test_the_graph_reads_the_candidate_from_its_context() -> None:
    with world() as it:
        async with it.probe() as probe:
            seen = await probe.run(asked("hi"), HARNESS, seed=7, deadline_s=60)
            other = await probe.run(asked("hi"), OTHER, seed=7, deadline_s=60)
    assert (seen.output, seen.error, seen.missing) == ("Be brief: hi", None, None)
    assert other.output == "Be kind: hi"
    assert 0 < seen.seconds < 60


async def test_tokens_are_summed_over_the_messages_of_the_run() -> None:
    with world() as it:
        seen, dear = await it.once("hi"), await it.once("dear")
    assert (seen.usage.input_tokens, seen.usage.output_tokens) == (19, 7)
    assert (seen.usage.cost_usd, dear.usage.cost_usd) == (None, 0.25)


async def test_one_message_without_a_count_leaves_the_tokens_unknown() -> None:
    with world() as it:
        seen = await it.once("uncounted")
    assert (seen.usage.input_tokens, seen.usage.output_tokens) == (None, None)


async def test_what_earlier_messages_of_the_input_used_is_not_this_runs() -> None:
    counts: Json = {"input_tokens": 500, "output_tokens": 1}
    history: list[Json] = [
        {"role": "user", "content": "hello"},
        {"type": "ai", "content": "yes?", "usage_metadata": counts},
        {"role": "user", "content": "hi"},
    ]  # fmt: skip
    with world() as it:
        async with it.probe() as probe:
            seen = await probe.run({"messages": history}, HARNESS, seed=7, deadline_s=60)
    assert seen.usage.input_tokens == 19


async def test_messages_become_a_trace_that_assertions_about_tools_can_be_asked_of() -> None:
    with world() as it:
        fine, failed = await it.once("hi"), await it.once("tool fails")
    case = Case(
        id=CaseId("c-1"), input=asked("hi"), family="f", tags=frozenset({"target"}),
        origin="file:x",
        assertions=(
            {"tool_called": {"name": "queue_refund", "args": {"order": "A-1"}}},
            {"no_symptom": "tool_error:queue_refund"},
            {"contains": "Be brief"},
        ),
    )  # fmt: skip
    graded = [_graded(case, seen) for seen in (fine, failed)]
    assert [(one.result, one.failed) for one in graded] == [
        ("pass", ()),
        ("fail", ("no_symptom (assertion 2)",)),
    ]
    assert fine.trace is not None
    assert fine.trace.own


def _graded(case: Case, seen: Observation) -> Any:
    assert seen.trace is not None
    return grade(case, seen, detect_trace(seen.trace))


async def test_marks_and_seed_reach_the_graphs_metadata_and_the_servers_headers() -> None:
    with world() as it:
        seen = await it.once("hi", output_key="seen")
    assert isinstance(seen.output, dict)
    metadata = seen.output["metadata"]
    assert isinstance(metadata, dict)
    assert metadata["tracemend.seed"] == 7
    assert metadata["tracemend.left_out"] == ["skills/run/logo.png"]
    assert seen.output["files"] == ["instructions/main.md"]
    (thread,) = it.server.deleted
    run_id = metadata["tracemend.run_id"]
    assert thread.metadata["tracemend.run_id"] == run_id
    assert thread.metadata["deployment.environment.name"] == "tracemend-gate"
    assert {headers.get("x-tracemend-run") for headers in it.server.headers} >= {run_id}


async def test_every_run_has_a_thread_of_its_own_that_is_deleted_whatever_happens() -> None:
    with world() as it:
        async with it.probe() as probe:
            for word in ("hi", "boom", "pause"):
                await probe.run(asked(word), HARNESS, seed=7, deadline_s=60)
            await probe.run(asked("hang"), HARNESS, seed=7, deadline_s=0.3)
            hanging = asyncio.create_task(probe.run(asked("hang"), HARNESS, seed=7, deadline_s=60))
            await _until(lambda: _running(it.server))
            hanging.cancel()
            with pytest.raises(asyncio.CancelledError):
                await hanging
        assert it.server.threads == {}
        assert len({thread.id for thread in it.server.deleted}) == 5
        assert all(len(thread.runs) == 1 for thread in it.server.deleted)


def _running(server: LangGraphServer) -> bool:
    return any(run.status == "running" for t in server.threads.values() for run in t.runs)


async def _until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  the server is no task of ours
            await asyncio.sleep(0.01)


async def test_an_error_of_the_graph_is_the_agents_failure() -> None:
    with world() as it:
        seen = await it.once("boom")
    assert (seen.output, seen.error, seen.missing) == (None, "ValueError: no order", None)


async def test_an_error_of_the_models_provider_is_seen_as_an_outage() -> None:
    with world() as it:
        seen = await it.once("limited")
    assert seen.error == "RateLimitError: slow down"
    assert outage(seen) == "provider outage: the answer is a provider's error"


async def test_a_pause_for_a_person_is_the_agents_failure() -> None:
    with world() as it:
        seen = await it.once("pause")
    assert seen.output is None
    assert str(seen.error).startswith("interrupted: ")


async def test_a_pause_that_only_the_thread_tells_of_is_one_too() -> None:
    """Some servers answer with the state alone."""
    with world() as it:
        body = b'{"thread_id": "t", "status": "interrupted"}'
        # POST /threads, POST wait, then the look at the thread
        it.mishaps.page(body, path="/threads/", after=1)
        seen = await it.once("hi")
    assert seen.output is None
    assert str(seen.error).startswith("interrupted: ")


async def test_a_run_over_its_deadline_is_the_agents_timeout_and_is_cancelled() -> None:
    with world() as it:
        seen = await it.once("hang", deadline_s=2)
        assert (seen.output, seen.error, seen.missing) == (None, "timeout", None)
        assert 2 <= seen.seconds < 50
        (thread,) = it.server.deleted
        assert thread.runs[0].status == "interrupted"
        assert it.server.cancelled == 1


async def test_a_run_that_no_worker_took_up_is_missing_not_slow() -> None:
    with world(jobs=1) as it:
        async with it.probe() as probe:
            first = asyncio.create_task(probe.run(asked("hang"), HARNESS, seed=7, deadline_s=60))
            await _until(lambda: _running(it.server))
            seen = await probe.run(asked("hi"), HARNESS, seed=7, deadline_s=0.3)
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
    assert (seen.error, seen.missing) == (None, "queued: no worker of the server was free")


@pytest.mark.parametrize("how", ["deadline", "cancelled", "torn"])
async def test_a_run_that_is_given_up_leaves_its_worker_to_the_next(how: str) -> None:
    with world(jobs=1) as it:
        async with it.probe() as probe:
            deadline_s = 1 if how == "deadline" else 60
            if how == "torn":
                it.mishaps.torn(path="/runs/wait")
            hanging = asyncio.create_task(
                probe.run(asked("hang"), HARNESS, seed=7, deadline_s=deadline_s)
            )
            if how == "cancelled":
                await _until(lambda: _running(it.server))
                hanging.cancel()
            await asyncio.gather(hanging, return_exceptions=True)
            seen = await probe.run(asked("hi"), HARNESS, seed=7, deadline_s=20)
    assert seen.output == "Be brief: hi"


@pytest.mark.parametrize(
    ("path", "after", "why"),
    [("/threads", 0, "http_503"), ("/runs/wait", 0, "http_503"), ("/threads/", 1, "http_503")],
    ids=["no thread", "no run", "no look at the thread"],
)
async def test_a_failing_server_is_missing(path: str, after: int, why: str) -> None:
    with world() as it:
        it.mishaps.status(503, path=path, after=after)
        seen = await it.once("hi")
    assert (seen.output, seen.error, seen.missing) == (None, None, why)


async def test_a_torn_or_foreign_answer_is_missing() -> None:
    with world() as it:
        it.mishaps.page(b"<html>", path="/runs/wait")
        foreign = await it.once("hi")
        it.mishaps.page(b"[" * 3000 + b"]" * 3000, path="/runs/wait")
        deep = await it.once("hi")
        it.mishaps.page(b'{"answer": ' + b"[" * 300 + b"]" * 300 + b"}", path="/runs/wait")
        nested = await it.once("hi")
        it.mishaps.torn(path="/threads")
        torn = await it.once("hi")
    for seen in (foreign, deep, nested):
        assert (seen.output, seen.error) == (None, None)
        assert str(seen.missing).startswith("protocol: ")
    assert (torn.error, str(torn.missing).partition(":")[0]) == (None, "disconnected")


ODD = [b"[]", b"7", b"null", b'""', b'{"thread_id": 7}', b'{"status": []}', b"[[]]", b'["x"]']


@pytest.mark.parametrize(
    ("path", "after"), [("/threads", 0), ("/runs/wait", 0), ("/threads/", 1), ("/runs", 1)],
    ids=["the thread", "the run", "the thread at the end", "the runs at the deadline"],
)  # fmt: skip
async def test_no_json_whatever_of_a_server_breaks_the_probe(path: str, after: int) -> None:
    """Whatever stands there, it is one of: an answer, a failure, missing; never a crash."""
    with world() as it:
        for body in ODD:
            it.mishaps.forget()
            it.mishaps.page(body, path=path, after=after)
            seen = await it.once("hang" if path == "/runs" else "hi", deadline_s=0.4)
            assert (seen.output, seen.error).count(None) >= 1
            assert seen.missing is None or (seen.output, seen.error) == (None, None)
        assert it.server.threads == {}


async def test_a_run_is_told_the_address_of_what_accompanies_it() -> None:
    with world() as it, accompanied("replay", "http://127.0.0.1:1/x"):
        seen = await it.once("hi", output_key="seen.metadata")
    assert isinstance(seen.output, dict)
    assert seen.output["tracemend.replay"] == "http://127.0.0.1:1/x"


async def test_a_server_that_is_not_there_is_missing() -> None:
    with world() as it:
        pass
    seen = await it.once("hi")
    assert (seen.error, seen.missing) == (None, "unreachable: the service takes no connection")


async def test_a_state_over_its_limit_is_the_agents_failure() -> None:
    with world() as it:
        seen = await it.once("long")
    assert (seen.output, seen.missing) == (None, None)
    assert seen.error == "output limit 0.125 MB"
    assert it.server.threads == {}


async def test_a_refused_token_is_one_line_that_names_the_variable() -> None:
    with world(token="right") as it:  # noqa: S106  of a test
        fine = await it.once("hi", token="right", token_env="AGENT_TOKEN")  # noqa: S106
        with pytest.raises(ProbeError, match="answered 401: the variable AGENT_TOKEN") as told:
            await it.once("hi", token="wr0ng", token_env="AGENT_TOKEN")  # noqa: S106
    assert fine.output == "Be brief: hi"
    assert "wr0ng" not in str(told.value)


async def test_no_key_of_our_own_environment_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANGSMITH_API_KEY", "ours")
    with world() as it:
        await it.once("hi")
    assert not any("x-api-key" in headers for headers in it.server.headers)


async def test_an_unknown_assistant_is_one_clear_line() -> None:
    with world() as it:
        with pytest.raises(ProbeError, match="no assistant 'nobody'; name a graph"):
            await it.once("hi", assistant="nobody")
        assert it.server.threads == {}


async def test_input_and_output_are_put_where_the_settings_say() -> None:
    with world() as it:
        async with it.probe(input_key="messages", output_key="messages.-1.content") as probe:
            seen = await probe.run("hi", HARNESS, seed=7, deadline_s=60)
        nothing = await it.once("hi", output_key="messages.9.content")
        whole = await it.once("hi", output_key=None)
    assert seen.output == "Be brief: hi"
    assert (nothing.output, nothing.error, nothing.missing) == (None, None, None)
    assert isinstance(whole.output, dict)
    assert {"messages", "answer", "seen"} == set(whole.output)
