"""Whatever kills the server between an alert's 202 and the end of its run: started again, it ends.

Real processes: `tracemend serve` kills itself at one point, and is started again without that.
"""

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx
import pytest
import yaml

from memory.ledger import Ledger
from tests.serve_process import ServeProcess, serve_process
from tests.serving_app import make_token
from tests.story.worlds import Waiting, World

pytestmark = [pytest.mark.story, pytest.mark.kill, pytest.mark.servers]

SECRET = "made-up-secret-for-this-story"  # noqa: S105  # not one
HOOK = {"TRACEMEND_HOOK_GENERIC_REFUNDS": SECRET}
PATIENCE_S = 150
STEPS = "memory.incidents:Steps"

ALERT_POINTS = [
    ("after", "memory.alerts:Alerts.receive", "1"),  # kept, not answered: the sender sends again
    ("before", "graph.intake:_Intake.settle", "1"),  # answered, nothing taken in
    ("after", "graph.intake:_Intake.settle", "1"),  # taken in, not committed
    ("before", "graph.drive:LocalDriver.start", "1"),  # an incident, not started
    ("after", f"{STEPS}.once", "2"),  # findings kept, checkpoint not
]


def _settle_at_once(world: World) -> None:
    file = world.root / "tracemend.yaml"
    known = yaml.safe_load(file.read_text("utf-8"))
    file.write_text(yaml.safe_dump({**known, "alerts": {"settle": "0s"}}), "utf-8")


def _until(world: World, what: Callable[[Ledger], object]) -> None:
    end = time.monotonic() + PATIENCE_S
    with world.looking() as ledger:
        while not what(ledger):
            assert time.monotonic() < end, "it did not come to that"
            time.sleep(0.1)


def _send(url: str, path: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> int | None:
    """The status of an answer; None: the server was gone before it answered."""
    with contextlib.suppress(httpx.TransportError):
        return httpx.post(f"{url}{path}", json=body, headers=headers, timeout=30).status_code
    return None


def _alert(url: str) -> int | None:
    proof = {"Authorization": f"Bearer {SECRET}", "Idempotency-Key": "night-7"}
    return _send(url, "/hooks/generic/refunds", {"title": "errors", "group": "r"}, proof)


def _waits(ledger: Ledger) -> bool:
    return [run.state for run in ledger.incidents.listed()] == ["waiting"]


def _killed(served: ServeProcess) -> None:
    assert served.process.wait(PATIENCE_S) == -9, served.log


@pytest.mark.parametrize("killer", ALERT_POINTS, ids="-".join)
def test_an_alert_that_was_accepted_ends_at_its_card(
    world: World, killer: tuple[str, str, str]
) -> None:
    _settle_at_once(world)
    home, before = world.root / ".tracemend", world.harness()
    with serve_process(home, more=HOOK, killer=killer) as served:
        accepted = _alert(served.url)
        _killed(served)
    with serve_process(home, more=HOOK) as served:
        if accepted is None:
            assert _alert(served.url) == 202
        _until(world, _waits)
        assert _alert(served.url) == 202  # the same delivery again: nothing new
    with world.looking() as ledger:
        (run,) = ledger.incidents.listed()
        (delivery,) = ledger.alerts.listed()
        assert (delivery.state, delivery.thread) == ("started", run.thread)
        assert run.fired == 1
        assert len(ledger.proposals.all_latest()) == 1
        assert ledger.audit.verify().ok
    assert world.harness() == before


DECISION_POINTS = [
    ("after", "memory.proposals:Proposals.decide", "1"),  # in the transaction of the decision
    ("before", "graph.drive:LocalDriver.resume", "1"),  # decided, not resumed
]


@pytest.mark.parametrize("killer", DECISION_POINTS, ids="-".join)
def test_a_decision_that_was_accepted_is_applied_once(
    waiting: Waiting, killer: tuple[str, str, str]
) -> None:
    world = waiting.world
    home, before = world.root / ".tracemend", world.harness()
    token = make_token(home, "ann", ["reviewer"])
    with world.looking() as ledger:
        shown = ledger.proposals.latest(waiting.proposal).proposal.hash
    headers = {
        "Authorization": f"Bearer {token}", "If-Match": f'"{shown}"', "Idempotency-Key": "yes-1",
    }  # fmt: skip
    path = f"/proposals/{waiting.proposal}/decision"
    with serve_process(home, killer=killer) as served:
        answered = _send(served.url, path, {"type": "approve"}, headers)
        _killed(served)
    with serve_process(home) as served:
        if answered is None:
            assert _send(served.url, path, {"type": "approve"}, headers) == 200
        _until(world, lambda ledger: ledger.incidents.listed()[0].state == "closed")
    with world.looking() as ledger:
        (release,) = ledger.effects.releases()
        assert release.proposal == waiting.proposal
        (decision,) = ledger.proposals.decisions(waiting.proposal, 1, "approve")
        assert (decision.by, decision.via) == ("ann", "api")
        assert ledger.audit.verify().ok
    assert world.harness() != before
