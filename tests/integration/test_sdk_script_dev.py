"""The same script on our server and on `langgraph dev`: what differs is known, and documented."""

import json
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from langgraph_sdk import get_client

from memory.workspace import register
from tests.integration.sdk_script import outcomes
from tests.integration.test_agent_protocol import OTHER, add_project
from tests.services import REPOSITORY, answers, free_port, missing_langgraph_dev, running
from tests.serving_app import serve_app
from tests.story.conftest import recorded, world  # noqa: F401
from tests.story.worlds import PROJECT, World

DOCUMENT = REPOSITORY / "docs" / "agent-protocol.md"
_ROW = re.compile(r"^\| `([^`]+)` \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def documented() -> Mapping[str, tuple[str, str]]:
    """Outcomes by call, ours and of `langgraph dev`, as the document has them."""
    rows = _ROW.findall(DOCUMENT.read_text("utf-8"))
    return {name: (ours.strip(), dev.strip()) for name, ours, dev in rows}


@pytest.fixture
def both(world: World, tmp_path: Path) -> World:  # noqa: F811
    """An installation of two projects in which nothing ran."""
    register(world.root / ".tracemend", PROJECT, world.root)
    add_project(world.root / ".tracemend", tmp_path / "orders", world)
    return world


@pytest.mark.servers
async def test_our_outcomes_are_the_documented_ones(both: World) -> None:
    with serve_app(both.root / ".tracemend") as served:
        async with get_client(url=served.url, headers=served.headers()) as client:
            found = await outcomes(client, PROJECT, OTHER)
    assert found == {name: ours for name, (ours, _) in documented().items()}


@pytest.mark.servers
@pytest.mark.skipif(missing_langgraph_dev() is not None, reason=str(missing_langgraph_dev()))
async def test_the_outcomes_of_langgraph_dev_are_the_documented_ones(
    both: World, tmp_path: Path
) -> None:
    """The bare server on our graph, without our auth and routes: what it does by itself."""
    folder = tmp_path / "dev"
    folder.mkdir()
    config = folder / "langgraph.json"
    config.write_text(
        json.dumps({"dependencies": ["."], "graphs": {"tracemend": "graph.app:graph"}})
    )
    port = free_port()
    command = [
        sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload", "--host",
        "127.0.0.1", "--port", str(port), "--n-jobs-per-worker", "4", "--config", str(config),
    ]  # fmt: skip
    quiet = {**both.environ, "LANGSMITH_TRACING": "false", "PYTHONPATH": str(REPOSITORY)}
    url = f"http://127.0.0.1:{port}"
    with running(
        command, cwd=folder, environ=quiet, log=folder / "log", url=answers(url, "/ok")
    ) as server:
        async with get_client(url=server.url) as client:
            found = await outcomes(client, PROJECT, OTHER)
    shutil.rmtree(folder / ".langgraph_api", ignore_errors=True)
    assert found == {name: dev for name, (_, dev) in documented().items()}
