"""`langgraph dev` on our `langgraph.json`: a run reaches the interrupt and is resumed by the SDK.

Needs the group `servers`: `uv run --group servers pytest tests/integration -m servers`.
"""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from contracts.errors import ProjectMismatch
from tests.story.worlds import World, build_world, copy_world

REPOSITORY = Path(__file__).resolve().parents[2]
pytestmark = [
    pytest.mark.servers,
    pytest.mark.skipif(
        importlib.util.find_spec("langgraph_api") is None,
        reason="langgraph-cli[inmem] is not installed: uv run --group servers pytest -m servers",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running server and the world that it works in."""

    url: str
    world: World


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """`langgraph dev` over loopback, started by its pid's group and stopped by it."""
    made = build_world(tmp_path_factory.mktemp("dev") / "made", requests=100)
    world = copy_world(made, made.root.with_name("agent"))
    port, log = _free_port(), made.root.with_name("server.log")
    left_before = (REPOSITORY / ".langgraph_api").exists()
    with log.open("w") as out:
        process = subprocess.Popen(
            [
                sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload",
                "--host", "127.0.0.1", "--port", str(port), "--config", "langgraph.json",
                "--n-jobs-per-worker", "4",
            ],
            cwd=REPOSITORY, env={**world.environ, "LANGSMITH_TRACING": "false"}, stdout=out,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        _wait(f"http://127.0.0.1:{port}/ok", process, log)
        yield Server(url=f"http://127.0.0.1:{port}", world=world)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(20)
        if not left_before:
            shutil.rmtree(REPOSITORY / ".langgraph_api", ignore_errors=True)


def _wait(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    for _ in range(240):
        if process.poll() is not None:
            break
        try:
            if httpx.get(url, timeout=2).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.5)
    raise AssertionError(f"the server did not come up:\n{log.read_text()[-3000:]}")


async def test_a_run_pauses_and_is_resumed_through_the_sdk(server: Server) -> None:
    """The decision that came with a name in `by` is in our ledger, and the edit is applied."""
    from langgraph_sdk import get_client

    async with get_client(url=server.url) as client:
        await _pause_and_resume(server, client)


async def _pause_and_resume(server: Server, client: Any) -> None:
    before = server.world.harness()
    thread = await client.threads.create()
    request: dict[str, Any] = {"request": {"kind": "improve", "finding": None}}
    await client.runs.wait(
        thread["thread_id"], "tracemend", input=request, context={"project": "refunds"}
    )
    state: Any = await client.threads.get_state(thread["thread_id"])
    assert len(state["interrupts"]) == 1
    interrupt = state["interrupts"][0]
    args = interrupt["value"]["action_requests"][0]["args"]
    assert interrupt["value"]["card"]["risk"] == "low"
    assert interrupt["response_schema"]["required"] == ["decisions"]
    with server.world.looking() as ledger:
        assert ledger.proposals.latest(args["proposal_id"]).state == "waiting"

    from langgraph_sdk.schema import Command

    # A bad answer comes back as data: the thread stays at an interrupt, nothing is decided.
    bad = Command(resume={interrupt["id"]: {"decisions": []}})
    await client.runs.wait(thread["thread_id"], "tracemend", command=bad)
    state = await client.threads.get_state(thread["thread_id"])
    again = state["interrupts"][0]
    assert again["id"] != interrupt["id"]
    assert "decisions" in again["value"]["problem"]
    nobody = Command(resume={again["id"]: {"decisions": [{"type": "approve"}]}})
    await client.runs.wait(thread["thread_id"], "tracemend", command=nobody)
    state = await client.threads.get_state(thread["thread_id"])
    assert "needs a name" in state["interrupts"][0]["value"]["problem"]
    with server.world.looking() as ledger:
        assert ledger.proposals.decisions(args["proposal_id"], 1, "approve") == []
    assert server.world.harness() == before

    yes = {"decisions": [{"type": "approve"}], "by": "ann"}
    resume = Command(resume={state["interrupts"][0]["id"]: yes})
    await client.runs.wait(thread["thread_id"], "tracemend", command=resume)
    state = await client.threads.get_state(thread["thread_id"])
    assert state["next"] == []
    with server.world.looking() as ledger:
        decision = ledger.proposals.decision(args["proposal_id"], 1, "approve")
        assert decision is not None
        assert (decision.by, decision.via, decision.type) == ("ann", "langgraph", "approve")
        assert decision.proposal_hash == args["proposal_hash"]
        assert len(ledger.effects.releases()) == 1
        assert ledger.audit.verify().ok
    assert server.world.harness() != before


async def test_a_context_that_is_no_project_is_refused(server: Server) -> None:
    """Any caller can send a context: a path is never looked up."""
    from langgraph_sdk import get_client

    async with get_client(url=server.url) as client:
        thread = await client.threads.create()
        # The server hides the sentence (it is in its log) and shows the class of the error.
        with pytest.raises(Exception, match="UsageError"):
            await client.runs.wait(
                thread["thread_id"], "tracemend", input={"request": {"kind": "improve"}},
                context={"project": "../../etc"},
            )  # fmt: skip
        with server.world.looking() as ledger, pytest.raises(ProjectMismatch):
            ledger.incidents.get(thread["thread_id"])
