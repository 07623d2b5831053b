"""Promise 3: killed up to the yes, the run goes on to the same card, once."""

import pytest

from tests.story.killing import applied_once, killed
from tests.story.worlds import Waiting, World

pytestmark = [pytest.mark.story, pytest.mark.kill]

STEPS = "memory.incidents:Steps"

START_POINTS = [
    ("before", "graph.drive:LocalDriver.start", "1"),  # bound, not started
    ("before", "nodes.insights.node:analyze", "1"),
    ("after", f"{STEPS}.once", "1"),  # the window is fixed, nothing read
    ("before", f"{STEPS}.once", "2"),  # analysed, not kept
    ("after", f"{STEPS}.once", "2"),  # kept, checkpoint not
    ("after", f"{STEPS}.once", "3"),  # drafted
    ("before", "memory.case_runs:CaseRuns.add", "7"),  # in the precheck
    ("after", f"{STEPS}.once", "4"),  # planned, card written
    ("after", "graph.drive:LocalDriver.start", "1"),  # at the interrupt
]


@pytest.mark.parametrize("killer", START_POINTS, ids="-".join)
def test_killed_before_or_at_the_interrupt(world: World, killer: tuple[str, str, str]) -> None:
    before = world.harness()
    killed(world.run("improve", "--json", killer=killer))
    resumed = world.run("resume", "--json")
    assert resumed.code == 0, resumed.err
    assert [run["state"] for run in resumed.json["runs"]] == ["waiting"]
    assert world.harness() == before
    with world.looking() as ledger:
        assert len(ledger.proposals.all_latest()) == 1
        proposal = ledger.proposals.all_latest()[0].proposal
        assert proposal.revision == 1
        assert ledger.proposals.card(proposal.id, 1, "approve") is not None
        assert ledger.audit.verify().ok


def test_killed_before_the_decision_was_committed(waiting: Waiting) -> None:
    world, before = waiting.world, waiting.world.harness()
    killer = ("after", "memory.proposals:Proposals.decide", "1")
    killed(world.run("approve", waiting.proposal, "--as", "ann", killer=killer))
    resumed = world.run("resume", "--json")
    assert resumed.json["runs"][0]["state"] == "waiting"
    assert world.harness() == before
    approved = world.run("approve", waiting.proposal, "--as", "bob", "--json")
    assert (approved.code, approved.json["decision"]["by"]) == (0, "bob")
    applied_once(world, before)


def test_a_waiting_card_outlives_a_kill_while_it_waits(waiting: Waiting) -> None:
    """The process at the prompt holds nothing: what it showed is what the next one shows."""
    world = waiting.world
    with world.looking() as ledger:
        shown = ledger.proposals.latest(waiting.proposal).proposal.hash
    card = world.run("card", waiting.proposal, "--json")
    assert card.json["proposal_hash"] == shown
