"""What LangSmith's Agent Server would be given. It was not run: its image needs a licence.

The CLI's own validation takes our files, and the image that it would build holds what they name.
"""

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.services import REPOSITORY

pytestmark = [
    pytest.mark.servers,
    pytest.mark.skipif(
        importlib.util.find_spec("langgraph_cli") is None,
        reason="langgraph-cli is not installed: uv run --group servers pytest -m servers",
    ),
]

CONFIG = REPOSITORY / "langgraph.json"


@pytest.fixture(scope="module")
def validated() -> dict[str, Any]:
    config = importlib.import_module("langgraph_cli.config")
    found: dict[str, Any] = dict(config.validate_config_file(CONFIG))
    return found


def test_the_cli_takes_our_file_and_knows_every_key(validated: dict[str, Any]) -> None:
    config = importlib.import_module("langgraph_cli.config")
    assert config.get_unknown_keys(json.loads(CONFIG.read_text("utf-8"))) == []
    assert validated["graphs"] == {"tracemend": "graph.app:graph"}
    assert validated["http"]["app"] == "graph.server.mounted:app"
    assert validated["auth"]["path"] == "graph.server.auth:auth"


def test_nobody_comes_in_as_studio(validated: dict[str, Any]) -> None:
    """`x-auth-scheme: langsmith` would pass without a token otherwise."""
    assert validated["auth"]["disable_studio_auth"] is True


def test_hooks_are_not_asked_for_a_token(validated: dict[str, Any]) -> None:
    """A vendor signs what it sends and has no token of ours; our other routes ask for one."""
    assert not validated["http"].get("enable_custom_route_auth", False)


@pytest.mark.parametrize("named", ["langgraph.json", "deploy/aegra.json"])
def test_what_the_files_name_is_there(named: str) -> None:
    from fastapi import FastAPI
    from langgraph.pregel import Pregel
    from langgraph_sdk import Auth

    config = json.loads((REPOSITORY / named).read_text("utf-8"))
    spec: str = config["graphs"]["tracemend"]
    module = spec if not spec.startswith("..") else spec.removeprefix("../").replace("/", ".", 1)
    assert isinstance(_load(module.replace(".py:", ":")), Pregel)
    assert isinstance(_load(config["http"]["app"]), FastAPI)
    assert isinstance(_load(config["auth"]["path"]), Auth)


def _load(spec: str) -> object:
    module, _, name = spec.partition(":")
    return getattr(importlib.import_module(module), name)


def test_the_image_that_it_would_build_carries_graph_routes_and_auth(tmp_path: Path) -> None:
    file = tmp_path / "Dockerfile"
    quiet = {**os.environ, "LANGGRAPH_CLI_NO_ANALYTICS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "langgraph_cli", "dockerfile", "-c", str(CONFIG), str(file)],
        cwd=tmp_path, env=quiet, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    text = file.read_text("utf-8")
    assert "FROM langchain/langgraph-api:3.11" in text
    assert "psycopg[binary,pool]" in text  # the ledger is in PostgreSQL there
    for said in ("LANGSERVE_GRAPHS", "graph.app:graph", "graph.server.mounted:app"):
        assert said in text
    assert "graph.server.auth:auth" in text
    assert "disable_studio_auth" in text
