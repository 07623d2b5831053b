"""Hand-offs reach a real receiver over HTTP at least once, and never stand in the way of a run."""

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from connectors.alerts.proofs import Presented, prove
from connectors.handoffs.webhook import Webhook
from contracts.errors import UsageError
from graph.deliveries import deliver, deliver_due, due, next_try
from graph.dispatch import Dispatcher
from graph.installation import open_installation
from memory.workspace import Workspace
from nodes.handoff import file_ticket, why_text_cannot
from tests.fakes.serving import Mishaps, serve
from tests.finding_worlds import found, keep, quoted
from tests.run_worlds import START, Clock, make_project

SECRET = "whsec-4f1b9c77d0"  # noqa: S105  # of this test alone
REPOSITORY = Path(__file__).parents[2]
PAY = found("tool_error:payment_api:504")
SEARCH = found("tool_error:search:503")


@dataclass(slots=True)
class Receiver:
    """Takes tickets once a key, like a tracker would."""

    calls: list[tuple[Mapping[str, str], bytes]] = field(default_factory=list)
    taken: dict[str, Any] = field(default_factory=dict)

    async def take(self, request: Request) -> Response:
        body = await request.body()
        self.calls.append((dict(request.headers), body))
        self.taken.setdefault(request.headers["idempotency-key"], json.loads(body))
        return Response(status_code=201)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A project whose tickets go to a receiver, and the receiver."""

    ws: Workspace
    receiver: Receiver
    mishaps: Mishaps
    url: str
    waits: list[float]

    def webhook(self, path: str = "/tickets", timeout_s: float = 5.0) -> Webhook:
        async def wait(seconds: float) -> None:
            self.waits.append(seconds)

        return Webhook(url=self.url + path, secret=SECRET.encode(), timeout_s=timeout_s, wait=wait)

    @property
    def clock(self) -> Clock:
        clock = self.ws.ledger.db.clock
        assert isinstance(clock, Clock)
        return clock


@contextmanager
def made(tmp_path: Path, path: str = "/tickets") -> Iterator[World]:
    receiver = Receiver()
    mishaps = Mishaps(Starlette(routes=[Route("/tickets", receiver.take, methods=["POST"])]))
    with serve(mishaps) as url:
        ws = make_project(tmp_path / "home", tmp_path / "agent", handoffs={"webhook": url + path})
        yield World(ws=ws, receiver=receiver, mishaps=mishaps, url=url, waits=[])
        ws.ledger.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with made(tmp_path) as one:
        yield one


def file(world: World, *findings: Any) -> None:
    keep(world.ws.ledger, *findings)
    with world.ws.ledger.db.write() as tx:
        for finding in findings:
            lines = quoted()["evidence"]
            assert isinstance(lines, list)
            quotes = [line for line in lines if isinstance(line, dict)]
            file_ticket(world.ws.ledger, tx, finding, why_text_cannot(finding), quotes)


def kept(world: World, finding: Any = PAY) -> Any:
    ticket = world.ws.ledger.handoffs.get(finding.id)
    assert ticket is not None
    return ticket


async def test_a_ticket_arrives_once_with_evidence_and_a_signature_of_its_bytes(
    world: World,
) -> None:
    file(world, PAY)
    assert [d.problem for d in await deliver_due(world.ws, world.webhook())] == [None]
    ((headers, body),) = world.receiver.calls
    ticket = json.loads(body)
    assert headers["idempotency-key"] == PAY.id == ticket["finding"]
    assert ticket["schema"] == "tracemend.handoff/1"
    assert ticket["ticket"]["where"] == "infrastructure"
    assert ticket["ticket"]["evidence"][0]["span_id"] == "s1"
    assert "nothing was applied" in ticket["text"]
    presented = Presented(raw=body, headers={k: [v] for k, v in headers.items()})
    # By the rule of our own generic hook: whoever can check that can check this.
    assert prove("generic", presented, [SECRET.encode()], START) == "good"
    changed = Presented(raw=body + b" ", headers=presented.headers)
    assert prove("generic", changed, [SECRET.encode()], START) == "bad"
    assert prove("generic", presented, [SECRET.encode()], START + timedelta(hours=1)) == "old"
    assert await deliver_due(world.ws, world.webhook()) == []
    assert len(world.receiver.calls) == 1


async def test_two_failures_are_tried_again_at_once_with_growing_waits(world: World) -> None:
    file(world, PAY)
    world.mishaps.status(500)
    world.mishaps.status(429)
    assert [d.problem for d in await deliver_due(world.ws, world.webhook())] == [None]
    assert len(world.mishaps.seen) == 3
    assert world.waits == [1.0, 4.0]
    assert kept(world).problem is None


async def test_a_receiver_that_stays_down_is_noted_and_tried_again_later(world: World) -> None:
    file(world, PAY)
    world.mishaps.status(503, times=3)
    (failed,) = await deliver_due(world.ws, world.webhook())
    assert failed.problem == "127.0.0.1: answered 503"
    ticket = kept(world)
    assert (ticket.problem, ticket.tries, ticket.sent_at) == ("127.0.0.1: answered 503", 1, None)
    assert due(world.ws) == []  # not at once again
    world.clock.later(seconds=61)
    assert [d.problem for d in await deliver_due(world.ws, world.webhook())] == [None]
    assert kept(world).problem is None


async def test_waits_between_rounds_grow_and_end_at_six_hours(world: World) -> None:
    file(world, PAY)
    waits = []
    for _ in range(7):
        with world.ws.ledger.db.write() as tx:
            world.ws.ledger.handoffs.not_sent(tx, kept(world), "down")
        waits.append((next_try(kept(world)) - world.clock.now).total_seconds())
    assert waits == [60, 240, 960, 3840, 15360, 21600, 21600]


async def test_a_refusal_is_not_asked_again_at_once(world: World) -> None:
    file(world, PAY)
    world.mishaps.status(401)
    (failed,) = await deliver_due(world.ws, world.webhook())
    assert failed.problem == "127.0.0.1: answered 401"
    assert len(world.mishaps.seen) == 1


async def test_a_receiver_that_does_not_answer_is_given_up_on_in_time(world: World) -> None:
    file(world, PAY)
    world.mishaps.slow(30, times=3)
    (failed,) = await deliver_due(world.ws, world.webhook(timeout_s=0.1))
    assert failed.problem == "127.0.0.1: no answer within 0.1 s"


async def test_a_redirect_is_refused_and_nothing_goes_elsewhere(world: World) -> None:
    file(world, PAY)
    world.mishaps.status(307, headers={"location": world.url + "/tickets?elsewhere=1"})
    (failed,) = await deliver_due(world.ws, world.webhook())
    assert failed.problem is not None
    assert "redirect" in failed.problem
    assert len(world.mishaps.seen) == 1
    assert world.receiver.calls == []


async def test_nobody_there_is_a_line_and_not_an_exception(world: World) -> None:
    file(world, PAY)
    away = Webhook(url="http://127.0.0.1:9/x", secret=None, wait=world.webhook().wait)
    (failed,) = await deliver_due(world.ws, away)
    assert failed.problem == "127.0.0.1: not reached (ConnectError)"


async def test_the_first_that_is_not_taken_ends_the_round(world: World) -> None:
    file(world, PAY, SEARCH)
    world.mishaps.status(503, times=3)
    assert len(await deliver_due(world.ws, world.webhook())) == 1
    assert len(world.mishaps.seen) == 3
    assert len(due(world.ws)) == 1


async def test_the_secret_is_in_no_log_and_no_row(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEMEND_HANDOFF_SECRET", SECRET)
    file(world, PAY)
    world.mishaps.status(401)
    with caplog.at_level(logging.DEBUG):
        await deliver_due(world.ws)
    assert world.mishaps.seen[0].headers["x-tracemend-signature"].startswith("t=")
    assert SECRET not in caplog.text
    file_bytes = (world.ws.home / "ledger.sqlite").read_bytes()
    assert SECRET.encode() not in file_bytes


async def test_without_a_secret_it_goes_unsigned_and_an_empty_one_is_said(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRACEMEND_HANDOFF_SECRET", raising=False)
    file(world, PAY)
    await deliver_due(world.ws)
    assert "x-tracemend-signature" not in world.receiver.calls[0][0]
    monkeypatch.setenv("TRACEMEND_HANDOFF_SECRET", " ")
    again = await deliver(world.ws, PAY.id)
    assert again.problem == "handoffs.secret_env: the variable TRACEMEND_HANDOFF_SECRET is empty"


async def test_a_person_sends_one_again_under_the_same_key(world: World) -> None:
    file(world, PAY)
    await deliver_due(world.ws, world.webhook())
    await deliver(world.ws, PAY.id, world.webhook())
    assert len(world.receiver.calls) == 2
    assert list(world.receiver.taken) == [PAY.id]
    with pytest.raises(UsageError, match=r"f-nobody: it has no hand-off"):
        await deliver(world.ws, "f-nobody", world.webhook())


async def test_a_ticket_that_is_filed_again_is_another_one_to_its_receiver(world: World) -> None:
    file(world, PAY)
    await deliver_due(world.ws, world.webhook())
    with world.ws.ledger.db.write() as tx:
        closed = {"units": 0, "units_total": 300, "reason": "rate_fell"}
        body = {**kept(world).body, "closed": closed}
        assert world.ws.ledger.handoffs.close(tx, PAY.id, body, by="tracemend")
    world.clock.later(days=1)
    file(world, PAY)
    assert kept(world).state == "open"
    await deliver_due(world.ws, world.webhook())
    assert list(world.receiver.taken) == [PAY.id, f"{PAY.id}.2"]


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from graph.deliveries import deliver_due
from memory.handoffs import Handoffs
from memory.workspace import open_project

Handoffs.sent = lambda *a: os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(deliver_due(open_project(Path(sys.argv[1]), "refunds")))
"""


@pytest.mark.kill
async def test_killed_after_the_answer_it_is_sent_again_and_the_receiver_has_it_once(
    world: World,
) -> None:
    file(world, PAY)
    environ = {k: v for k, v in os.environ.items() if not k.startswith("TRACEMEND")}
    killed = subprocess.run(  # noqa: ASYNC221  # nothing else runs here
        [sys.executable, "-c", KILLED, str(world.ws.home)], cwd=REPOSITORY, env=environ,
        capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert len(world.receiver.calls) == 1
    assert kept(world).sent_at is None
    assert [d.problem for d in await deliver_due(world.ws, world.webhook())] == [None]
    assert len(world.receiver.calls) == 2
    assert list(world.receiver.taken) == [PAY.id]


async def test_nothing_is_sent_where_no_address_is_set(tmp_path: Path) -> None:
    ws = make_project(tmp_path / "home", tmp_path / "agent")
    keep(ws.ledger, PAY)
    with ws.ledger.db.write() as tx:
        file_ticket(ws.ledger, tx, PAY, "why")
    assert await deliver_due(ws) == []
    with pytest.raises(UsageError, match=r"handoffs\.webhook: needs an address"):
        await deliver(ws, PAY.id)
    assert datetime.fromisoformat(ws.ledger.handoffs.listed()[0].at) == START.astimezone(UTC)
    ws.ledger.close()


async def test_resume_sends_what_was_not_taken_before(world: World) -> None:
    file(world, PAY)
    async with open_installation(world.ws.home) as installation:
        service = installation.door("refunds").service
        world.mishaps.status(401)
        assert await service.reconcile() == []  # nothing to say of runs, and nothing raised
        assert kept(world).problem == "127.0.0.1: answered 401"
        world.clock.later(seconds=61)
        await service.reconcile()
    assert kept(world).sent_at is not None


async def test_a_server_sends_beside_its_runs_without_being_asked(world: World) -> None:
    file(world, PAY)
    async with open_installation(world.ws.home) as installation:
        working = asyncio.create_task(Dispatcher(installation).run())
        async with asyncio.timeout(30):
            while kept(world).sent_at is None:  # noqa: ASYNC110  # a ledger has no event
                await asyncio.sleep(0.02)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    assert list(world.receiver.taken) == [PAY.id]
