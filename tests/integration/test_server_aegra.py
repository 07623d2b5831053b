"""Aegra with PostgreSQL and Redis workers: it runs a thread's resumes side by side; we apply once.

Needs `.venv-aegra` (Python 3.12), PostgreSQL and Redis: `.ci/run 2` makes and installs them where
it may.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import APIStatusError
from langgraph_sdk.schema import Command

from memory.ledger import Ledger
from memory.proposals import StoredProposal
from tests.cluster_worlds import Site, recorded_world, until
from tests.postgres import fresh_database, postgres_server
from tests.services import Running, aegra, foreign, free_port, missing_aegra, redis_server
from tests.story.worlds import World, copy_world

_missing = missing_aegra()
pytestmark = [
    pytest.mark.servers, pytest.mark.kill,
    pytest.mark.skipif(_missing is not None, reason=str(_missing)),
]  # fmt: skip

IMPROVE: dict[str, Any] = {"request": {"kind": "improve", "finding": None}}
AT_ONCE = 3
RECOVERED_SECONDS = 240.0
"""Aegra's lease is 30 s, its reaper looks every 15 s, and it has to start again before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running server and the installation that it works on."""

    url: str
    site: Site
    database: str
    """The server's own, where it keeps threads and runs."""

    def client(self, token: str) -> LangGraphClient:
        """The SDK as the owner of a token uses it."""
        return get_client(url=self.url, api_key=None, headers={"Authorization": f"Bearer {token}"})


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with postgres_server(tmp_path_factory.mktemp("postgres")) as url:
        yield url


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> World:
    return recorded_world(tmp_path_factory.mktemp("recorded") / "made")


@pytest.fixture(scope="module")
def server(
    recorded: World, postgres: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """Nothing names a foreign server here: clients of the server start and resume the runs."""
    folder = tmp_path_factory.mktemp("aegra")
    world = copy_world(recorded, folder / "agent")
    site = Site(world=world, database=fresh_database(postgres))
    # A Redis of its own: servers on one Redis share a queue, whatever their databases are.
    database = fresh_database(postgres)
    with (
        redis_server(folder) as redis,
        aegra(
            site.environ, folder=folder, port=free_port(), database=database, redis=redis
        ) as running,
    ):
        yield Server(url=running.url, site=site, database=database)


@contextmanager
def refused(status: int) -> Iterator[None]:
    """The block is answered with this status."""
    with pytest.raises((APIStatusError, httpx.HTTPStatusError)) as said:
        yield
    got = said.value
    found = got.status_code if isinstance(got, APIStatusError) else got.response.status_code
    assert found == status, got


async def test_answers_at_once_make_one_decision_and_one_release(server: Server) -> None:
    """The server may take them all and run what follows each time."""
    site = server.site
    before = site.world.harness()
    token = site.token("ann", ["operator", "reviewer"])  # a thread is its starter's alone there
    async with server.client(token) as client:
        thread = (await client.threads.create())["thread_id"]
        await client.runs.wait(thread, "tracemend", input=IMPROVE, context={"project": "refunds"})
        state: Any = await client.threads.get_state(thread)
        (interrupt,) = state["interrupts"]
        assert site.world.harness() == before
        taken = await _at_once(server, thread, token, interrupt["id"])
        assert taken > 1, "the server refused all but one: nothing was side by side"

        for run in await client.runs.list(thread, limit=50):
            await client.runs.join(thread, run["run_id"])
    await asyncio.to_thread(site.applied_once, before)
    with site.looking() as ledger:
        (stored,) = ledger.proposals.all_latest()
        decision = ledger.proposals.decision(stored.proposal.id, 1, "approve")
        assert decision is not None
        assert (decision.by, decision.via) == ("ann", "langgraph")


async def _at_once(server: Server, thread: str, token: str, interrupt: str) -> int:
    """The same yes several times; how many of them the server took.

    Its row of the thread is held until all of them have been looked at: what a slow moment of its
    database does now and then, is done every time.
    """
    yes = {"decisions": [{"type": "approve"}], "by": "eve"}
    body = {"assistant_id": "tracemend", "command": {"resume": {interrupt: yes}}}
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        await psycopg.AsyncConnection.connect(server.database) as holding,
        await psycopg.AsyncConnection.connect(server.database, autocommit=True) as looking,
        httpx.AsyncClient(base_url=server.url, headers=headers, timeout=120) as caller,
    ):
        held = await holding.execute(
            "SELECT 1 FROM thread WHERE thread_id = %s FOR UPDATE", (thread,)
        )
        assert await held.fetchone() == (1,)
        sent = [
            asyncio.create_task(caller.post(f"/threads/{thread}/runs", json=body))
            for _ in range(AT_ONCE)
        ]
        for _ in range(600):
            if await _blocked(looking) == AT_ONCE:
                break
            await asyncio.sleep(0.1)
        await holding.rollback()
        answers = await asyncio.gather(*sent)
    return sum(answer.status_code == 200 for answer in answers)


async def _blocked(looking: "psycopg.AsyncConnection[tuple[int]]") -> int:
    found = await looking.execute(
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    row = await found.fetchone()
    return 0 if row is None else row[0]


def test_no_route_answers_without_a_token_but_health(server: Server) -> None:
    """Its own API and ours."""
    for headers in ({}, {"Authorization": "Bearer tm_no"}):
        for method, path in (
            ("POST", "/threads"), ("POST", "/threads/search"), ("POST", "/assistants/search"),
            ("POST", "/runs/wait"), ("GET", "/proposals"), ("GET", "/audit/verify"),
            ("GET", "/metrics"),
        ):  # fmt: skip
            found = httpx.request(
                method, server.url + path, headers=headers,
                json={} if method == "POST" else None, timeout=30,
            )  # fmt: skip
            assert found.status_code == 401, (method, path, found.text)
    assert httpx.get(f"{server.url}/healthz", timeout=30).status_code == 200


async def test_roles_and_projects_hold_on_its_own_api(server: Server) -> None:
    site = server.site
    async with server.client(site.token("owner", ["operator"])) as client:
        thread = (await client.threads.create())["thread_id"]
        with refused(404):
            await client.runs.create(
                thread, "tracemend", input=IMPROVE, context={"project": "../../etc"}
            )
        with refused(403):
            resume = Command(resume={"0" * 32: {"decisions": [{"type": "approve"}]}})
            await client.runs.create(thread, "tracemend", command=resume)
        with refused(403):
            await client.threads.update_state(thread, {"answer": {}}, as_node="review")
        with refused(403):
            await client.store.put_item(("x",), "k", {"a": 1})
    async with server.client(site.token("looker", ["viewer"])) as viewer:
        with refused(403):
            await viewer.threads.create()
    async with server.client(site.token("eve", ["admin"], ["elsewhere"])) as stranger:
        with refused(404):
            await stranger.threads.get_state(thread)
        with refused(404):
            await stranger.runs.create(
                thread, "tracemend", input=IMPROVE, context={"project": "refunds"}
            )


def _in_the_gate(ledger: Ledger, stored: StoredProposal) -> bool:
    proposal = stored.proposal
    blocks = ledger.gate.blocks(proposal.hash)
    return len(blocks) >= 4 and ledger.gate.report(proposal.hash) is None


def test_killed_in_the_gate_it_goes_on_after_its_restart(
    recorded: World, postgres: str, tmp_path: Path
) -> None:
    """An alert by our hook is a run of the server; our API decides; SIGKILL; once in the end."""
    port, database = free_port(), fresh_database(postgres)
    world = copy_world(recorded, tmp_path / "agent")
    site = Site(world=world, database=fresh_database(postgres))
    environ = {**site.environ, **foreign(port, site.token("the-server", ["admin"]))}
    before = world.harness()
    with redis_server(tmp_path) as redis:

        def started() -> AbstractContextManager[Running]:
            return aegra(environ, folder=tmp_path, port=port, database=database, redis=redis)

        _killed_and_started(started, site, before)


def _killed_and_started(
    started: Callable[[], AbstractContextManager[Running]], site: Site, before: dict[str, bytes]
) -> None:
    with started() as first:
        assert site.alert(first.url, "a-1").status_code == 202
        stored = site.card()
        ann = site.token("ann", ["reviewer"])
        decided = site.decide(first.url, ann, stored, "k1")
        assert decided.status_code == 200, decided.text
        with site.looking() as ledger:
            until(lambda: _in_the_gate(ledger, stored), "a run in its gate")
        first.kill()
    with site.looking() as ledger:
        assert ledger.effects.releases() == []
    assert site.world.harness() == before
    with started() as second:
        again = site.decide(second.url, ann, stored, "k1")
        assert again.status_code == 200, again.text
        assert again.json()["decision"] == decided.json()["decision"]
        site.applied_once(before, within=RECOVERED_SECONDS)
    with site.looking() as ledger:
        (incident,) = ledger.incidents.listed()
        assert incident.fired == 1
