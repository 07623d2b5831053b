"""A server and commands on one installation: whoever decides, one of them drives, once."""

import asyncio
import time
from datetime import timedelta

import httpx
import pytest

from contracts.json_types import JsonObject
from graph.drive import local_driver
from graph.retention import retain
from graph.service import Service
from memory.schema import audit
from memory.workspace import open_project
from tests.serve_process import serve_process
from tests.serving_app import make_token
from tests.story.worlds import PROJECT, Waiting, World

pytestmark = [pytest.mark.story, pytest.mark.servers]


def test_approve_beside_a_running_server_decides_and_tells_the_outcome(waiting: Waiting) -> None:
    world = waiting.world
    before = world.harness()
    with serve_process(world.root / ".tracemend") as served:
        approved = world.run("approve", waiting.proposal, "--as", "ann", "--json")
        assert approved.code == 0, approved.err
        assert approved.json["state"] == "watching"
        assert (approved.json["decision"]["by"], approved.json["decision"]["via"]) == ("ann", "cli")
        assert approved.json["gate"]["verdict"] == "accept"
        again = world.run("approve", waiting.proposal, "--as", "bob", "--json")
        assert (again.code, again.json["first"]) == (4, False)
        assert httpx.get(f"{served.url}/readyz", timeout=30).status_code == 200
        assert served.stop() == 0
    assert world.harness() != before
    with world.looking() as ledger:
        assert len(ledger.effects.releases()) == 1
        assert ledger.audit.verify().ok
        assert [run.state for run in ledger.incidents.listed()] == ["closed"]


def test_a_stop_in_the_middle_of_a_gate_loses_nothing(waiting: Waiting) -> None:
    world, home = waiting.world, waiting.world.root / ".tracemend"
    with world.looking() as ledger:
        digest = ledger.proposals.latest(waiting.proposal).proposal.hash
        with serve_process(home) as served:
            headers = {
                "Authorization": f"Bearer {make_token(home, 'ann', ['reviewer'])}",
                "If-Match": f'"{digest}"',
            }  # fmt: skip
            answer = httpx.post(
                f"{served.url}/proposals/{waiting.proposal}/decision",
                json={"type": "approve"}, headers=headers, timeout=60,
            )  # fmt: skip
            assert answer.status_code == 200, answer.text
            deadline = time.monotonic() + 120
            while not ledger.gate.blocks(digest):
                assert time.monotonic() < deadline, served.log
                time.sleep(0.02)
            assert served.stop() == 0
        with serve_process(home) as served:
            deadline = time.monotonic() + 240
            while not ledger.effects.releases():
                assert time.monotonic() < deadline, served.log
                time.sleep(0.1)
            assert served.stop() == 0
        assert len(ledger.effects.releases()) == 1
        assert ledger.audit.verify().ok


def test_after_retention_an_equal_request_changes_nothing(waiting: Waiting) -> None:
    world = waiting.world
    rejected = world.run("reject", waiting.proposal, "--reason", "risky", "--as", "ann", "--json")
    assert rejected.code == 0, rejected.err
    with world.looking() as ledger:
        decided = ledger.audit.verify().head
    removed = asyncio.run(_retained_and_asked_again(world))
    assert removed == 1
    with world.looking() as ledger:
        assert [p.state for p in ledger.proposals.all_latest()] == ["rejected"]
        assert [run.state for run in ledger.incidents.listed()] == ["closed"]
        assert len(ledger.knowledge.lessons()) == 1
        entries = ledger.db.find(audit)
        assert [e["event"] for e in entries if e["previous"] == decided] == ["retention.removed"]
        assert entries[-1]["previous"] == decided, "something was done again"
    with world.looking() as ledger:
        assert ledger.audit.verify().ok
    once_more = world.run("approve", waiting.proposal, "--as", "bob", "--json")
    assert (once_more.code, once_more.json["decision"]["by"]) == (4, "ann")


async def _retained_and_asked_again(world: World) -> int:
    """Retention of a month later, then the run is driven again as if it had just begun."""
    home = world.root / ".tracemend"
    ws = open_project(home, PROJECT)
    real = ws.ledger.db.clock
    async with local_driver(home / "checkpoints.sqlite", ws.ledger) as driver:
        ws.ledger.db.clock = lambda: real() + timedelta(days=40)
        try:
            removed = await retain(ws, driver.loop)
        finally:
            ws.ledger.db.clock = real
        (incident,) = ws.ledger.incidents.listed()
        assert not (await driver.standing(incident.thread)).started
        request: JsonObject = incident.request
        assert request["kind"] == "improve"
        await Service(ws, driver).advance(incident.thread)
        return removed.threads
