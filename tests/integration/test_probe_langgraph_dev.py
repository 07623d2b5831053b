"""The probe of kind "langgraph" against `langgraph dev`, with the small agent of the tests.

Needs the group `servers`: `uv run --group servers pytest tests/integration -m servers`.
"""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from connectors.probe.hosts import HostSlots
from connectors.probe.http import Service
from connectors.probe.langgraph import Graph, LangGraphProbe
from connectors.traces.inline import trace_of_messages
from contracts.errors import ProbeError
from contracts.harness import HarnessFile, HarnessSnapshot, Observation
from tests.fakes import langgraph_agent
from tests.services import free_port, langgraph_dev, missing_langgraph_dev

_missing = missing_langgraph_dev()
pytestmark = [pytest.mark.servers, pytest.mark.skipif(_missing is not None, reason=str(_missing))]

HARNESS = HarnessSnapshot(
    files={
        "instructions/main.md": HarnessFile(data=b"Be brief"),
        "skills/run/logo.png": HarnessFile(data=b"\x89PNG\xff"),
    }
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with one worker that takes two jobs at once."""
    folder = tmp_path_factory.mktemp("agent")
    source = Path(langgraph_agent.__file__)
    (folder / "agent.py").write_text(source.read_text())
    config = folder / "langgraph.json"
    config.write_text(json.dumps({"dependencies": ["."], "graphs": {"agent": "./agent.py:graph"}}))
    with langgraph_dev(
        os.environ, folder=folder, port=free_port(), jobs=2, config=config
    ) as running:
        yield running.url


def probe(
    url: str, *, assistant: str = "agent", output_key: str | None = "answer"
) -> LangGraphProbe:
    service = Service(
        url=url, token=None, token_env=None, concurrency=8, per_host=None, timeout_s=120,
        output_cap_bytes=131_072,
    )  # fmt: skip
    graph = Graph(
        assistant=assistant, context_key="harness", input_key="messages", output_key=output_key
    )
    return LangGraphProbe(
        service=service, graph=graph, read_messages=trace_of_messages, hosts=HostSlots()
    )


async def once(opened: LangGraphProbe, word: str, deadline_s: float = 120) -> Observation:
    return await opened.run(word, HARNESS, seed=7, deadline_s=deadline_s)


async def test_context_usage_tools_and_marks_are_as_on_the_fake(url: str) -> None:
    async with probe(url, output_key=None) as opened:
        seen = await once(opened, "dear")
    assert isinstance(seen.output, dict)
    told = seen.output["seen"]
    assert isinstance(told, dict)
    metadata = told["metadata"]
    assert isinstance(metadata, dict)
    assert seen.output["answer"] == "Be brief: dear"
    assert told["files"] == ["instructions/main.md"]
    assert metadata["tracemend.seed"] == 7
    assert metadata["tracemend.left_out"] == ["skills/run/logo.png"]
    assert len(str(metadata["tracemend.run_id"])) == 32
    assert (seen.usage.input_tokens, seen.usage.output_tokens, seen.usage.cost_usd) == (19, 7, 0.25)
    assert seen.trace is not None
    assert [s.tool_name for s in seen.trace.spans if s.kind == "tool"] == ["queue_refund"]


async def test_failures_are_told_apart_as_on_the_fake(url: str) -> None:
    async with probe(url) as opened:
        boom, pause, long = await asyncio.gather(
            once(opened, "boom"), once(opened, "pause"), once(opened, "long")
        )
    assert (boom.error, boom.missing) == ("ValueError: no order", None)
    assert (str(pause.error).partition(":")[0], pause.missing) == ("interrupted", None)
    assert (long.error, long.missing) == ("output limit 0.125 MB", None)


async def test_a_run_over_its_deadline_is_cancelled(url: str) -> None:
    async with probe(url) as opened:
        over = await once(opened, "hang", deadline_s=15)
    assert (over.output, over.error, over.missing) == (None, "timeout", None)
    async with get_client(url=url, api_key=None) as client:
        assert await client.threads.search(status="busy") == []


async def test_a_run_that_no_worker_took_up_is_missing_not_slow(url: str) -> None:
    async with probe(url) as opened, get_client(url=url, api_key=None) as client:
        hanging = [asyncio.create_task(once(opened, "hang")) for _ in range(2)]
        async with asyncio.timeout(100):
            while await _running(client) < 2:  # noqa: ASYNC110  another process sends no event
                await asyncio.sleep(0.2)
        queued = await once(opened, "hi", deadline_s=10)
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
        again = await once(opened, "hi")
    assert (queued.error, queued.missing) == (None, "queued: no worker of the server was free")
    assert again.output == "Be brief: hi"


async def _running(client: LangGraphClient) -> int:
    found = 0
    for thread in await client.threads.search():
        found += len(await client.runs.list(thread["thread_id"], status="running"))
    return found


async def test_an_unknown_assistant_is_one_clear_line(url: str) -> None:
    async with probe(url, assistant="nobody") as opened:
        with pytest.raises(ProbeError, match="no assistant 'nobody'"):
            await once(opened, "hi")


async def test_no_thread_is_left_on_the_server(url: str) -> None:
    async with probe(url) as opened:
        await once(opened, "hi")
        await once(opened, "boom")
    async with get_client(url=url, api_key=None) as client:
        assert await client.threads.search() == []
