"""Tools in the agent's process ask the service, over real HTTP, and are never called by mistake."""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import httpx
import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, ToolException, tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode
from tracemend_runtime.replay import (
    RecordedError,
    ReplayMissing,
    ReplayRefused,
    replayed,
    replayed_function,
    replaying,
)

from connectors.probe.replay_proxy import ReplayProxy
from connectors.probe.replay_recording import Session, record
from contracts.json_types import Json
from tests.trace_worlds import OtlpSpan, root, trace_of
from tests.trace_worlds import tool as recorded

ASKED = {"message": "hi"}


class Busy(Exception):
    """What the tools of this file raise."""


@pytest.fixture(autouse=True)
def in_a_replayed_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACEMEND_REPLAY", "per-run")


@contextmanager
def served(*spans: OtlpSpan, through: tuple[str, ...] = ()) -> Iterator[tuple[str, Session]]:
    """The service with one run on the recording of these calls."""
    recording = record(trace_of(root(), *spans), ASKED, ())
    session = Session(recording, ASKED, fall_through=through, writes=())
    with ReplayProxy() as proxy, proxy.open(session) as url:
        yield url, session


def make_tools(called: list[str]) -> list[BaseTool]:
    @tool
    def find(
        order_id: str, state: Annotated[dict[str, object], InjectedState], limit: int = 3
    ) -> str:
        """Find an order."""
        called.append("find")
        return f"real {order_id} {limit} {sorted(state)}"

    @tool
    async def wait(hours: int) -> str:
        """Wait."""
        called.append("wait")
        return f"real {hours}"

    class Own(BaseTool):
        name: str = "own"
        description: str = "A tool of a class of its own, without a schema."

        def _run(self, number: int) -> dict[str, int]:
            called.append("own")
            return {"number": number}

    return [find, wait, Own()]


CALLS: list[tuple[str, Json]] = [
    ("find", {"order_id": "A-1"}),
    ("wait", {"hours": 2}),
    ("own", {"number": 7}),
]
RECORDED = [recorded(n, name, args, f"recorded {name}") for n, (name, args) in enumerate(CALLS, 1)]


def graph_answers(
    tools: list[BaseTool], *, asynchronous: bool, metadata: dict[str, str] | None = None
) -> list[str]:
    """What a graph's tool node makes of the three calls."""
    builder = StateGraph(MessagesState)
    builder.add_node("tools", ToolNode(tools))
    builder.add_edge(START, "tools")
    builder.add_edge("tools", END)
    calls = [{"name": n, "args": a, "id": n, "type": "tool_call"} for n, a in CALLS]
    state: MessagesState = {"messages": [AIMessage(content="", tool_calls=calls)]}
    graph = builder.compile()
    config: RunnableConfig = {"metadata": dict(metadata or {})}
    if asynchronous:
        done = asyncio.run(graph.ainvoke(state, config))
    else:
        done = graph.invoke(state, config)
    return [str(message.content) for message in done["messages"][1:]]


def test_a_tool_node_gets_recorded_answers_and_calls_no_tool() -> None:
    called: list[str] = []
    tools = replayed(make_tools(called))
    with served(*RECORDED) as (url, session), replaying(url):
        assert graph_answers(tools, asynchronous=True) == [f"recorded {n}" for n, _ in CALLS]
    assert called == []
    assert session.asked.total() == 3
    assert session.missing is None


def test_tools_of_a_langgraph_server_find_their_run_in_its_metadata() -> None:
    called: list[str] = []
    tools = replayed(make_tools(called))
    with served(*RECORDED) as (url, _):
        near, far = {"tracemend.replay": url}, {"tracemend.replay": "http://192.0.2.1:80/replay/x"}
        said = graph_answers(tools, asynchronous=True, metadata=near)
        assert said == [f"recorded {n}" for n, _ in CALLS]
        with pytest.raises(ReplayRefused):
            graph_answers(tools, asynchronous=True, metadata=far)
    assert called == []


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_tool_that_falls_through_is_asked_for_once_and_called_once(asynchronous: bool) -> None:
    called: list[str] = []
    tools = replayed(make_tools(called))
    if not asynchronous:
        tools[1] = tools[1].model_copy(update={"func": lambda hours: f"real {hours}"})
    names = tuple(name for name, _ in CALLS)
    with served(through=names) as (url, session), replaying(url):
        said = graph_answers(tools, asynchronous=asynchronous)
    assert said == ["real A-1 3 ['messages']", "real 2", '{"number": 7}']
    assert dict(session.asked) == dict.fromkeys(names, 1)


def test_a_replayed_tool_is_the_same_tool_to_the_model() -> None:
    for real, fake in zip(make_tools([]), replayed(make_tools([])), strict=True):
        assert (fake.name, fake.description, fake.args) == (real.name, real.description, real.args)
        assert fake.tool_call_schema.model_json_schema() == (  # type: ignore[union-attr]  # a model
            real.tool_call_schema.model_json_schema()  # type: ignore[union-attr]  # a model
        )


def test_a_recorded_error_is_raised_under_its_own_type() -> None:
    @tool
    def pay() -> str:
        """Pay."""
        raise AssertionError

    spans = [
        recorded(1, "pay", {}, error=("app.tools.Busy", "504")),
        recorded(2, "pay", {}, error=("TimeoutError", "slow")),
        recorded(3, "pay", {}, error=("langchain_core.tools.base.ToolException", "no")),
        recorded(4, "pay", {}, error=("elsewhere.Odd", "odd")),
    ]
    with served(*spans) as (url, _), replaying(url):
        replay = replayed([pay])[0]
        for kind in (Busy, TimeoutError, ToolException):
            with pytest.raises(kind, match=r"504|slow|no"):
                replay.invoke({})
        with pytest.raises(RecordedError, match="odd") as raised:
            replay.invoke({})
    assert raised.value.type == "elsewhere.Odd"


def test_a_call_without_a_recording_raises_and_marks_the_run() -> None:
    called: list[str] = []
    own = replayed(make_tools(called))[2]
    with served(*RECORDED) as (url, session), replaying(url):
        with pytest.raises(ReplayMissing, match="no recording of own"):
            own.invoke({"number": 8})
        assert session.missing == "replay: no recording of own"
    assert called == []


def test_a_tool_that_cannot_tell_its_run_is_refused_not_called() -> None:
    called: list[str] = []
    own = replayed(make_tools(called))[2]
    refused: list[Exception] = []

    def lost() -> None:
        try:
            own.invoke({"number": 7})
        except ReplayRefused as error:
            refused.append(error)

    with served(*RECORDED) as (url, _), replaying(url):
        thread = threading.Thread(target=lost)  # a bare thread has no context of the run
        thread.start()
        thread.join()
    assert len(refused) == 1
    assert called == []


def test_a_service_that_is_gone_is_missing_not_a_call_of_the_tool() -> None:
    called: list[str] = []
    own = replayed(make_tools(called))[2]
    with served(*RECORDED) as (url, _):
        pass
    with replaying(url), pytest.raises(ReplayMissing, match="cannot be reached"):
        own.invoke({"number": 7})
    assert called == []


def test_an_address_ends_with_its_run() -> None:
    with ReplayProxy() as proxy:
        session = Session(record(trace_of(root(), *RECORDED), ASKED, ()), ASKED,
                          fall_through=(), writes=())  # fmt: skip
        with proxy.open(session) as url:
            assert post(url, {"tool": "own", "args": {"number": 7}}).status_code == 200
        assert post(url, {"tool": "own", "args": {"number": 7}}).status_code == 404
    assert session.asked.total() == 1


def test_outside_of_a_replay_tools_and_functions_are_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TRACEMEND_REPLAY")
    tools = make_tools([])
    assert all(a is b for a, b in zip(replayed(tools), tools, strict=True))

    def plain() -> str:
        return "real"

    assert replayed_function(plain) is plain


def test_functions_sync_and_async_are_replayed_by_a_decorator() -> None:
    @replayed_function(name="stock")
    def stock_of(item: str, *, town: str = "Ulm") -> dict[str, int]:
        raise AssertionError

    @replayed_function
    async def label(order_id: str) -> str:
        raise AssertionError

    spans = [
        recorded(1, "stock", {"item": "lamp", "town": "Ulm"}, '{"left": 3}'),
        recorded(2, "label", {"order_id": "A-1"}, '{"url": "x"}'),
    ]
    with served(*spans) as (url, _), replaying(url):
        assert stock_of("lamp", town="Ulm") == {"left": 3}
        assert asyncio.run(label("A-1")) == '{"url": "x"}'


def post(url: str, body: object) -> httpx.Response:
    return httpx.post(f"{url}/call", json=body, trust_env=False)


def test_any_language_can_ask_over_http() -> None:
    spans = [
        recorded(1, "find", {"id": 1}, "found"),
        recorded(2, "pay", {}, error=("Busy", "504")),
    ]
    with served(*spans, through=("look",)) as (url, _):
        assert post(url, {"tool": "find", "args": {"id": 1}}).json() == {"result": "found"}
        assert post(url, {"tool": "pay"}).json() == {"error": {"type": "Busy", "message": "504"}}
        assert post(url, {"tool": "look", "args": {}}).json() == {"call": True}
        why = {"missing": "replay: no recording of refund"}
        assert post(url, {"tool": "refund", "args": {}}).json() == why
        assert post(url, []).status_code == 400
        assert post(url, {"args": {}}).status_code == 400
        assert httpx.post(f"{url}/call", content=b"\xff{", trust_env=False).status_code == 400
        assert httpx.get(f"{url}/call", trust_env=False).status_code == 404
        assert post(f"{url}x", {"tool": "find", "args": {"id": 1}}).status_code == 404


def test_the_runtime_needs_nothing_but_python_until_it_is_asked_for_langchain(
    tmp_path: Path,
) -> None:
    script = "import sys, json, tracemend_runtime, tracemend_runtime.replay\n"
    script += "print(json.dumps(sorted({m.partition('.')[0] for m in sys.modules})))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, cwd=tmp_path
    )
    loaded = set(json.loads(done.stdout))
    assert not loaded & {"langchain_core", "langgraph", "httpx", "pydantic"}
