"""`langgraph dev` on our `langgraph.json`: its API, our routes and our tokens in one process.

Needs the group `servers`: `uv run --group servers pytest tests/integration -m servers`.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import APIStatusError
from langgraph_sdk.schema import Command

from contracts.errors import ProjectMismatch
from tests.cluster_worlds import Site, recorded_world
from tests.services import foreign, free_port, langgraph_dev, missing_langgraph_dev
from tests.story.worlds import World, copy_world

_missing = missing_langgraph_dev()
pytestmark = [pytest.mark.servers, pytest.mark.skipif(_missing is not None, reason=str(_missing))]

IMPROVE: dict[str, Any] = {"request": {"kind": "improve", "finding": None}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running server and the installation that it works on."""

    url: str
    site: Site

    def client(self, token: str) -> LangGraphClient:
        """The SDK as the owner of a token uses it."""
        return get_client(url=self.url, api_key=None, headers={"Authorization": f"Bearer {token}"})


@contextmanager
def refused(status: int) -> Iterator[None]:
    """The block is answered with this status."""
    with pytest.raises(APIStatusError) as said:
        yield
    assert said.value.status_code == status, said.value


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> World:
    return recorded_world(tmp_path_factory.mktemp("recorded") / "made")


@pytest.fixture(scope="module")
def server(recorded: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Nothing names a foreign server here: clients of the server start and resume the runs."""
    folder = tmp_path_factory.mktemp("dev")
    site = Site(world=copy_world(recorded, folder / "agent"))
    with langgraph_dev(site.environ, folder=folder / "server", port=free_port()) as running:
        yield Server(url=running.url, site=site)


@pytest.fixture(scope="module")
def driving(recorded: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Here our routes know the server that they are mounted into: alerts become its runs."""
    folder = tmp_path_factory.mktemp("driving")
    site, port = Site(world=copy_world(recorded, folder / "agent")), free_port()
    environ = {**site.environ, **foreign(port, site.token("the-server", ["admin"]))}
    with langgraph_dev(environ, folder=folder / "server", port=port) as running:
        yield Server(url=running.url, site=site)


async def test_a_run_pauses_and_is_resumed_through_the_sdk(server: Server) -> None:
    """The decision is the token owner's, whatever name came with the answer."""
    token = server.site.token("ann", ["operator", "reviewer"])
    async with server.client(token) as client:
        await _pause_and_resume(server, client)


async def _pause_and_resume(server: Server, client: LangGraphClient) -> None:
    before = server.site.world.harness()
    thread = (await client.threads.create())["thread_id"]
    await client.runs.wait(thread, "tracemend", input=IMPROVE, context={"project": "refunds"})
    state: Any = await client.threads.get_state(thread)
    assert len(state["interrupts"]) == 1
    interrupt = state["interrupts"][0]
    args = interrupt["value"]["action_requests"][0]["args"]
    assert interrupt["value"]["card"]["risk"] == "low"
    assert interrupt["response_schema"]["required"] == ["decisions"]
    with server.site.looking() as ledger:
        assert ledger.proposals.latest(args["proposal_id"]).state == "waiting"

    # A bad answer comes back as data: the thread stays at an interrupt, nothing is decided.
    bad = Command(resume={interrupt["id"]: {"decisions": []}})
    await client.runs.wait(thread, "tracemend", command=bad)
    state = await client.threads.get_state(thread)
    again = state["interrupts"][0]
    assert again["id"] != interrupt["id"]
    assert "decisions" in again["value"]["problem"]
    with server.site.looking() as ledger:
        assert ledger.proposals.decisions(args["proposal_id"], 1, "approve") == []
    assert server.site.world.harness() == before

    async with server.client(server.site.token("cron", ["operator"])) as pipeline:
        with refused(403):
            await pipeline.runs.create(thread, "tracemend", command=_yes(again["id"], "ann"))
    async with server.client(server.site.token("eve", ["admin"], ["elsewhere"])) as stranger:
        with refused(404):
            await stranger.threads.get_state(thread)
        with refused(404):
            await stranger.runs.create(thread, "tracemend", command=_yes(again["id"], "ann"))

    await client.runs.wait(thread, "tracemend", command=_yes(again["id"], "mallory"))
    state = await client.threads.get_state(thread)
    assert state["next"] == []
    with server.site.looking() as ledger:
        decision = ledger.proposals.decision(args["proposal_id"], 1, "approve")
        assert decision is not None
        assert (decision.by, decision.via, decision.type) == ("ann", "langgraph", "approve")
        assert decision.proposal_hash == args["proposal_hash"]
    await asyncio.to_thread(server.site.applied_once, before)


def _yes(interrupt: str, name: str) -> Command:
    return Command(resume={interrupt: {"decisions": [{"type": "approve"}], "by": name}})


async def test_a_context_that_is_no_project_is_refused(server: Server) -> None:
    """Any caller can send a context: a path is never looked up."""
    async with server.client(server.site.token("root", ["admin"], None)) as client:
        thread = (await client.threads.create())["thread_id"]
        for wrong in ("../../etc", "REFUNDS", "not-there"):
            with refused(404):
                await client.runs.create(
                    thread, "tracemend", input=IMPROVE, context={"project": wrong}
                )
        with server.site.looking() as ledger, pytest.raises(ProjectMismatch):
            ledger.incidents.get(thread)


def test_no_route_answers_without_a_token_but_health(server: Server) -> None:
    """Its own API and ours; a header that says it comes from Studio is no token.

    `/metrics` is the server's own here, and open: numbers of its process and its queue.
    """
    for headers in ({}, {"Authorization": "Bearer tm_no"}, {"x-auth-scheme": "langsmith"}):
        for method, path in (
            ("POST", "/threads"), ("POST", "/threads/search"), ("POST", "/assistants/search"),
            ("POST", "/runs/wait"), ("GET", "/proposals"), ("GET", "/audit/verify"),
        ):  # fmt: skip
            found = httpx.request(
                method, server.url + path, headers=headers,
                json={} if method == "POST" else None, timeout=30,
            )  # fmt: skip
            assert found.status_code == 401, (method, path, headers, found.text)
    assert httpx.get(f"{server.url}/healthz", timeout=30).status_code == 200
    assert httpx.get(f"{server.url}/ok", timeout=30).status_code == 200
    assert "tracemend" not in httpx.get(f"{server.url}/metrics", timeout=30).text


def test_its_store_and_its_crons_are_closed(server: Server) -> None:
    headers = {"Authorization": f"Bearer {server.site.token('root', ['admin'], None)}"}
    put = {"namespace": ["x"], "key": "k", "value": {"a": 1}}
    assert (
        httpx.put(f"{server.url}/store/items", json=put, headers=headers, timeout=30).status_code
        == 403
    )


async def test_an_alert_is_a_run_of_the_server_and_our_api_decides_it(driving: Server) -> None:
    site = driving.site
    before = site.world.harness()
    async with httpx.AsyncClient(timeout=30) as nobody:
        unsigned = await nobody.post(f"{driving.url}/hooks/generic/refunds", json={})
        assert unsigned.status_code == 401
    for _ in range(2):
        accepted = await asyncio.to_thread(site.alert, driving.url, "a-1")
        assert accepted.status_code == 202, accepted.text
    stored = await asyncio.to_thread(site.card)
    thread = stored.proposal.thread
    ann = site.token("ann", ["reviewer", "operator"])
    async with driving.client(ann) as client:
        there = await client.threads.get(thread)
        assert there["status"] == "interrupted"
        waiting = await client.threads.search(status="interrupted", limit=10)
        assert [one["thread_id"] for one in waiting] == [thread]
        decided = await asyncio.to_thread(site.decide, driving.url, ann, stored, "k1")
        assert decided.status_code == 200, decided.text
        await asyncio.to_thread(site.applied_once, before)
        state = await client.threads.get_state(thread)
        assert (state["next"], state["interrupts"]) == ([], [])
        runs = await client.runs.list(thread)
        assert {run["status"] for run in runs} == {"success"}
    with site.looking() as ledger:
        proposal = stored.proposal
        decision = ledger.proposals.decision(proposal.id, proposal.revision, "approve")
        assert decision is not None
        assert (decision.by, decision.via) == ("ann", "api")
        (incident,) = ledger.incidents.listed()
        assert (incident.thread, incident.fired, incident.tries) == (thread, 1, 0)
    assert not (site.world.root / ".tracemend" / "checkpoints.sqlite").exists()
