"""Run to the interrupt, and resume, by `langgraph_sdk` over HTTP: ours beside other servers.

The others run the bare graph of as many nodes; ours does its whole work on a known finding.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

from langgraph_sdk import get_client

from benchmarks import server_bare
from benchmarks.server_absent import aegra_absent
from benchmarks.server_ratio import REJECT, Level, Pair, merge_pairs, plant_slots, timed
from benchmarks.server_worlds import Kit, home_environ, make_token
from tests.postgres import fresh_database, postgres_server
from tests.services import (
    AEGRA_PYTHON,
    REPOSITORY,
    answers,
    free_port,
    redis_server,
    replica,
    running,
)

DEV_PYTHON = REPOSITORY / ".venv-servers" / "bin" / "python"
JOBS = 20
"""Runs at the same time of `langgraph dev`; its own default of 1 would be measured at once."""
UNLIMITED = "1000000/minute"


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """A server, and how each of its runs is asked for: `(assistant, input)`."""

    name: str
    url: str
    token: str | None
    bare: bool


@contextmanager
def ours(home: Path) -> Iterator[Called]:
    """`tracemend serve` with rate limits out of the way."""
    more = {
        "TRACEMEND_SERVER__LIMITS__PER_TOKEN": UNLIMITED,
        "TRACEMEND_SERVER__WORKERS": str(JOBS),
    }
    with replica({**home_environ(home), **more}, cwd=home, log=home / "server.log") as server:
        yield Called(name="tracemend serve", url=server.url, token=make_token(home), bare=False)


@contextmanager
def langgraph_dev(folder: Path) -> Iterator[Called]:
    """`langgraph dev` on the bare graph."""
    config = _bare_config(folder, "langgraph.json")
    port = free_port()
    command = [
        str(DEV_PYTHON), "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload", "--host",
        "127.0.0.1", "--port", str(port), "--n-jobs-per-worker", str(JOBS), "--config", str(config),
    ]  # fmt: skip
    environ = {**home_environ(folder), "LANGSMITH_TRACING": "false"}
    ready = answers(f"http://127.0.0.1:{port}", "/ok")
    log = folder / "dev.log"
    with running(command, cwd=folder, environ=environ, log=log, url=ready) as server:
        yield Called(name="langgraph dev", url=server.url, token=None, bare=True)


@contextmanager
def aegra(folder: Path) -> Iterator[Called]:
    """Aegra with PostgreSQL and Redis workers on the bare graph."""
    config, port = _bare_config(folder, "aegra.json"), free_port()
    with ExitStack() as stack:
        postgres = stack.enter_context(postgres_server(folder))
        redis = stack.enter_context(redis_server(folder))
        own = {
            "AEGRA_CONFIG": str(config), "AUTH_TYPE": "noop", "HOST": "127.0.0.1",
            "DATABASE_URL": fresh_database(postgres), "REDIS_BROKER_ENABLED": "true",
            "REDIS_URL": redis, "PORT": str(port), "LOG_LEVEL": "WARNING",
            "LANGSMITH_TRACING": "false",
        }  # fmt: skip
        command = [
            str(AEGRA_PYTHON), "-m", "uvicorn", "aegra_api.main:app", "--host", "127.0.0.1",
            "--port", str(port),
        ]  # fmt: skip
        server = stack.enter_context(
            running(
                command, cwd=folder, environ={**home_environ(folder), **own},
                log=folder / "aegra.log", url=answers(f"http://127.0.0.1:{port}", "/live"),
            )
        )  # fmt: skip
        yield Called(name="Aegra", url=server.url, token=None, bare=True)


def _bare_config(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(server_bare.__file__), folder / "server_bare.py")
    config = folder / name
    said = {"dependencies": ["."], "graphs": {"bare": "./server_bare.py:graph"}}
    config.write_text(json.dumps(said), "utf-8")
    return config


def others_here() -> tuple[list[str], list[str]]:
    """Other servers that can be started here, and why the rest cannot."""
    here, missing = [], []
    if DEV_PYTHON.exists():
        here.append("dev")
    else:
        missing.append("langgraph dev: .venv-servers is not there (`.ci/run 2` makes it)")
    why = aegra_absent()
    if why is None:
        here.append("aegra")
    else:
        missing.append(f"Aegra: {why}")
    return here, missing


async def http_wave(server: Called, asked: Sequence[tuple[str, Mapping[str, Any]]]) -> Pair:
    """A run for each `(assistant, input)`, all at once: thread and run to the interrupt, resume."""
    headers = {} if server.token is None else {"Authorization": f"Bearer {server.token}"}
    waiting: dict[str, tuple[str, str]] = {}
    async with get_client(url=server.url, headers=headers, api_key=None) as client:

        async def start(assistant: str, given: Mapping[str, Any]) -> None:
            thread = await client.threads.create(thread_id=str(uuid4()))
            id_ = thread["thread_id"]
            said = await client.runs.wait(id_, assistant, input=given)
            pending = cast("Mapping[str, Any]", said)["__interrupt__"]
            waiting[id_] = (assistant, pending[0]["id"])

        async def resume(thread: str, assistant: str, interrupt: str) -> None:
            answer = {"resume": {interrupt: {"decisions": [REJECT]}}}
            said = await client.runs.wait(thread, assistant, command=cast("Any", answer))
            assert "__interrupt__" not in cast("Mapping[str, Any]", said), said

        started = await timed([partial(start, *one) for one in asked], len(asked))
        resumed = await timed([partial(resume, t, *w) for t, w in waiting.items()], len(asked))
    assert len(waiting) == len(asked), "every thread is one of its own"
    return started, resumed


async def measure(server: Called, levels: Sequence[Level], home: Path, kit: Kit) -> list[Pair]:
    """Waves at each level, merged; the first of each level warms up and is not counted.

    The projects of `home` are made here, before the first wave, when the server is ours.
    """
    unused = {} if server.bare else plant_slots(home, kit, levels)
    found = []
    for level in levels:
        waves = []
        for _ in range(level.waves + 1):
            asked: list[tuple[str, Mapping[str, Any]]]
            if server.bare:
                asked = [("bare", {"request": {"kind": "improve"}})] * level.at_once
            else:
                asked = [
                    (slug, {"request": {"kind": "improve", "finding": unused[slug].pop()}})
                    for slug in list(unused)[: level.at_once]
                ]
            waves.append(await http_wave(server, asked))
        found.append(merge_pairs(waves))
    return found
