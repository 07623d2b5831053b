"""Streams of runs: what the graph says arrives in order, and no reader ever holds a run up."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from langchain_core.messages import AIMessageChunk
from langgraph_sdk import get_client
from langgraph_sdk.schema import Command

from graph.installation import open_installation
from graph.server.protocol import events, streaming
from graph.server.protocol.events import Feed, Hub
from graph.server.protocol.shapes import dumps
from tests.integration.test_agent_protocol import IMPROVE, REFUSED, YES, client_of, waiting_thread
from tests.serving_app import Served, serve_app
from tests.story.conftest import made_waiting, recorded, waiting, world  # noqa: F401
from tests.story.worlds import PROJECT, Waiting, World

pytestmark = pytest.mark.servers

MODES = ["values", "updates", "custom", "debug", "tasks", "checkpoints", "messages-tuple"]


@pytest.fixture
def fresh(world: World) -> Iterator[Served]:  # noqa: F811
    """A server on an installation in which nothing ran."""
    with serve_app(world.root / ".tracemend") as running:
        yield running


@pytest.fixture
def served(waiting: Waiting) -> Iterator[Served]:  # noqa: F811
    """A server on an installation in which a card waits."""
    with serve_app(waiting.world.root / ".tracemend") as running:
        yield running


async def test_a_stream_says_every_step_in_order_and_ends(fresh: Served) -> None:
    async with client_of(fresh) as client:
        thread = (await client.threads.create())["thread_id"]
        about: list[dict[str, Any]] = []
        stream = client.runs.stream(
            thread, PROJECT, input=IMPROVE, stream_mode=MODES, on_run_created=about.append
        )
        parts = [part async for part in stream]
        names = [part.event for part in parts]
        assert (names[0], names[-1]) == ("metadata", "end")
        assert parts[0].data["run_id"] == about[0]["run_id"]
        assert parts[-1].data == {"status": "interrupted"}
        assert {"values", "updates", "debug", "tasks", "checkpoints"} <= set(names)
        updates = [next(iter(part.data)) for part in parts if part.event == "updates"]
        assert updates == ["router", "insights", "evolution", "plan", "__interrupt__"]
        values = [part.data for part in parts if part.event == "values"]
        assert values[0] == IMPROVE
        state = await client.threads.get_state(thread)
        assert values[-1] == {**state["values"], "__interrupt__": state["interrupts"]}
        assert sum("__interrupt__" in one for one in values) == 1
        ids = [part.id for part in parts if part.event not in ("metadata", "end")]
        assert len(set(ids)) == len(ids)


async def test_only_the_modes_asked_for_arrive(fresh: Served) -> None:
    async with client_of(fresh) as client:
        stream = client.runs.stream(None, PROJECT, input=IMPROVE, stream_mode="updates")
        names = {part.event async for part in stream}
        assert names == {"metadata", "updates", "end"}
        for mode in ("events", "tools", "lifecycle"):
            with pytest.raises(REFUSED) as refused:
                async for _ in client.runs.stream(None, PROJECT, input=IMPROVE, stream_mode=mode):
                    pass
            assert refused.value.response.status_code == 501


async def test_a_resume_streams_to_its_end(served: Served) -> None:
    async with client_of(served) as client:
        thread, card = await waiting_thread(client)
        stream = client.runs.stream(
            thread, PROJECT, command=Command(resume={card["id"]: YES}),
            stream_mode=["updates", "values"], version="v2",
        )  # fmt: skip
        parts = [part async for part in stream]
        nodes = [next(iter(part["data"])) for part in parts if part["type"] == "updates"]
        assert nodes[:2] == ["review", "decide"]
        assert nodes[-2:] == ["apply", "learn"]
        assert parts[-1]["type"] == "values"
        assert parts[-1]["interrupts"] == []
        assert parts[-1]["data"]["applied"]
        run = (await client.runs.list(thread))[0]
        assert run["status"] == "success"
        # Who joins afterwards gets what it came to, and the end.
        late = [part async for part in client.runs.join_stream(thread, run["run_id"])]
        assert [part.event for part in late] == ["metadata", "values", "end"]
        assert late[1].data == parts[-1]["data"]


async def test_a_refused_resume_streams_nothing(served: Served) -> None:
    async with client_of(served) as client:
        thread, _ = await waiting_thread(client)
        with pytest.raises(REFUSED) as refused:
            async for _ in client.runs.stream(
                thread, PROJECT, command=Command(resume={"0" * 32: YES})
            ):
                pass
        assert refused.value.response.status_code == 409
        assert await client.runs.list(thread) == []


async def test_a_closed_connection_stops_no_run(fresh: Served) -> None:
    async with client_of(fresh) as client:
        thread = (await client.threads.create())["thread_id"]
        run = ""
        async with get_client(url=fresh.url, headers=fresh.headers()) as leaving:
            stream: Any = leaving.runs.stream(
                thread, PROJECT, input=IMPROVE, on_disconnect="cancel"
            )
            async for part in stream:
                run = part.data["run_id"]
                break
            await stream.aclose()
        values = await client.runs.join(thread, run)
        assert values["__interrupt__"]


async def _parts(response: httpx.Response) -> AsyncIterator[tuple[str, str, Any]]:
    """(id, event, data) of a raw stream."""
    fields: dict[str, str] = {}
    async for line in response.aiter_lines():
        name, _, value = line.partition(": ")
        if line:
            fields[name] = value
            continue
        if "event" in fields:
            yield fields.get("id", ""), fields["event"], json.loads(fields["data"])
        fields = {}


async def test_a_reader_that_comes_back_misses_nothing_and_reads_nothing_twice(
    fresh: Served,
) -> None:
    headers = fresh.headers()
    body = {"assistant_id": PROJECT, "input": IMPROVE, "stream_mode": ["updates", "tasks"]}
    async with httpx.AsyncClient(base_url=fresh.url, headers=headers, timeout=60) as http:
        thread = (await http.post("/threads", json={})).json()["thread_id"]
        got: list[tuple[str, str, Any]] = []
        async with http.stream("POST", f"/threads/{thread}/runs/stream", json=body) as response:
            place = response.headers["location"]
            async for part in _parts(response):
                got.append(part)
                if part[1] == "updates":
                    break
        again = {"Last-Event-ID": got[-1][0]}
        async with http.stream(
            "GET", place, headers=again, params={"stream_mode": "updates,tasks"}
        ) as response:
            got += [part async for part in _parts(response) if part[1] != "metadata"]
        # The whole of it, from the first event on.
        async with http.stream(
            "GET", place, headers={"Last-Event-ID": "-1"}, params={"stream_mode": "updates,tasks"}
        ) as response:
            whole = [part async for part in _parts(response)]
        assert got == whole
        assert [name for _, name, _ in got].count("end") == 1
        assert sum(name == "updates" for _, name, _ in got) == 5
        # An id of another life of the server: what it missed is not known, so the state is sent.
        async with http.stream("GET", place, headers={"Last-Event-ID": "dead-7"}) as response:
            names = [name async for _, name, _ in _parts(response)]
        assert names == ["metadata", "values", "end"]


async def test_a_run_that_another_process_drives_is_followed_by_its_state(
    world: World,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home = world.root / ".tracemend"
    monkeypatch.setattr(streaming, "LOOK_SECONDS", 0.02)
    with serve_app(home) as served:
        async with client_of(served) as client:
            thread = (await client.threads.create())["thread_id"]
            # Not due for an hour, so that this server leaves it to the other one.
            run = await client.runs.create(thread, PROJECT, input=IMPROVE, after_seconds=3600)
            reading = asyncio.create_task(_read(client, thread, run["run_id"]))
            async with open_installation(home) as other:
                await (await other.door_of(PROJECT)).service.advance(thread)
            parts = await asyncio.wait_for(reading, 60)
            assert [part.event for part in parts][-1] == "end"
            values = [part.data for part in parts if part.event == "values"]
            assert "__interrupt__" not in values[0]
            assert values[-1]["__interrupt__"][0]["value"]["card"]["kind"] == "approve"


async def _read(client: Any, thread: str, run: str) -> list[Any]:
    return [part async for part in client.runs.join_stream(thread, run)]


async def test_a_slow_reader_gets_the_state_instead_of_what_it_missed(
    fresh: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "READER_BYTES", 2000)
    monkeypatch.setattr(streaming, "LOOK_SECONDS", 0.05)
    async with client_of(fresh) as client:
        stream = client.runs.stream(None, PROJECT, input=IMPROVE, stream_mode=["debug", "values"])
        parts = [part async for part in stream]
        # More than 2 kB are said at once at the interrupt: they are dropped, the state is not.
        assert [part.event for part in parts][-2:] == ["values", "end"]
        thread = (await client.threads.search())[0]["thread_id"]
        state = await client.threads.get_state(thread)
        assert parts[-2].data == {**state["values"], "__interrupt__": state["interrupts"]}


def test_a_reader_that_never_fetches_keeps_a_bounded_queue() -> None:
    hub = Hub()
    feed = hub.open("run", "thread", frozenset({"updates"}))
    reader = feed.read(frozenset({"updates"}), None)
    for number in range(5000):
        hub.heard("thread", "updates", {"node": {"n": number, "text": "x" * 2000}})
    assert reader.dropped
    assert reader.size <= events.READER_BYTES
    assert sum(len(part.data) for part in feed.read(frozenset({"updates"}), "-1").fetch()) <= (
        events.FEED_BYTES
    )


def test_feeds_that_nobody_reads_are_forgotten_oldest_first() -> None:
    hub = Hub()
    read = hub.open("read", "t", frozenset({"values"}))
    read.read(frozenset({"values"}), None)
    for number in range(events.FEEDS + 10):
        hub.open(f"run-{number}", f"t-{number}", frozenset({"values"}))
    assert hub.feed("read") is read
    assert hub.feed("run-0") is None
    assert hub.feed(f"run-{events.FEEDS + 9}") is not None
    assert hub.modes("t-0") == []


def test_tokens_of_a_model_arrive_as_what_was_said_so_far() -> None:
    feed = Feed("run", "thread", frozenset({"messages", "messages-tuple"}))
    reader = feed.read(frozenset({"messages", "messages-tuple"}), None)
    for text in ("Refunds ", "failed"):
        feed.heard("messages", (AIMessageChunk(content=text, id="m1"), {"langgraph_node": "a"}))
    said = [(part.event, json.loads(part.data)) for part in reader.fetch()]
    partial = [data[0]["content"] for name, data in said if name == "messages/partial"]
    assert partial == ["Refunds ", "Refunds failed"]
    tuples = [data[0]["content"] for name, data in said if name == "messages"]
    assert tuples == ["Refunds ", "failed"]
    assert [name for name, _ in said].count("messages/metadata") == 1


def test_hostile_text_is_one_line_of_ascii() -> None:
    text = "a\n\nevent: end\ndata: {}\u2028\u0085\ud800\x00"
    sent = streaming.event("values", dumps({text: [text, float("nan")]}), "1")
    lines = sent.split(b"\n")
    assert [line.partition(b":")[0] for line in lines] == [b"id", b"event", b"data", b"", b""]
    assert sent.isascii()
    assert json.loads(lines[2].removeprefix(b"data: ")) == {
        text.replace("\ud800", "?"): [text.replace("\ud800", "?"), None]
    }
