"""Promise 3: whatever is killed and whenever, the run goes on to the same end, once."""

import pytest

from tests.story.worlds import Applied, Finished, Waiting, World

pytestmark = [pytest.mark.story, pytest.mark.kill]

EFFECTS, HARNESS = "memory.effects:Effects", "connectors.harness.directory:DirectoryHarness"
STEPS = "memory.incidents:Steps"


def _killed(done: Finished) -> None:
    assert done.code == -9, f"the process was to be killed: exit {done.code}, {done.err}"


def _applied_once(world: World, before: dict[str, bytes]) -> None:
    """One decision, one release, the harness at its after, the log whole."""
    with world.looking() as ledger:
        releases = ledger.effects.releases()
        assert len(releases) == 1
        assert ledger.audit.verify().ok
        proposal = ledger.proposals.latest(releases[0].proposal).proposal
        assert len(ledger.proposals.decisions(proposal.id, proposal.revision, "approve")) == 1
        assert len(ledger.knowledge.lessons()) == 1
        assert ledger.sealed.epoch() == 2
        ran = {b.case for b in ledger.gate.blocks(proposal.hash) if b.phase == "sealed"}
        assert {line.case for line in ledger.sealed.listed() if line.uses == 1} == ran
        expected = ledger.artifacts.snapshot(proposal.candidate_revision)
    assert world.harness() == {path: file.data for path, file in expected.files.items()}
    assert world.harness() != before


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
    _killed(world.run("improve", "--json", killer=killer))
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


APPROVE_POINTS = [
    ("before", "graph.service:Service._advance", "2"),  # decided, not resumed
    ("before", "memory.gate_ledger:GateLedger.put_block", "12"),  # in the gate
    ("before", "memory.sealed:SealedSet.used", "1"),  # between a block and the use it makes
    ("after", "nodes.gate.node:_conclude", "1"),  # verdict stored, checkpoint not
    ("before", f"{HARNESS}.switch", "1"),  # between intent and effect
    ("after", f"{HARNESS}.switch", "1"),  # between effect and record
    ("after", f"{EFFECTS}.finish", "1"),  # in the transaction of the record
    ("before", "memory.sealed:SealedSet.rotate", "1"),  # the same, before the epoch ends
    ("after", "nodes.apply:_record", "1"),  # recorded, checkpoint not
    ("before", "nodes.learn:_learn", "1"),
    ("after", "nodes.learn:_learn", "1"),  # learned, checkpoint not
]


@pytest.mark.parametrize("killer", APPROVE_POINTS, ids="-".join)
def test_killed_after_the_approval(waiting: Waiting, killer: tuple[str, str, str]) -> None:
    world, before = waiting.world, waiting.world.harness()
    _killed(world.run("approve", waiting.proposal, "--as", "ann", "--json", killer=killer))
    resumed = world.run("resume", "--json")
    assert resumed.code == 0, resumed.err
    assert resumed.json["runs"][0]["state"] == "watching"
    _applied_once(world, before)


def test_killed_before_the_decision_was_committed(waiting: Waiting) -> None:
    world, before = waiting.world, waiting.world.harness()
    killer = ("after", "memory.proposals:Proposals.decide", "1")
    _killed(world.run("approve", waiting.proposal, "--as", "ann", killer=killer))
    resumed = world.run("resume", "--json")
    assert resumed.json["runs"][0]["state"] == "waiting"
    assert world.harness() == before
    approved = world.run("approve", waiting.proposal, "--as", "bob", "--json")
    assert (approved.code, approved.json["decision"]["by"]) == (0, "bob")
    _applied_once(world, before)


UNDO_POINTS = [
    ("before", "graph.service:Service._advance", "1"),
    ("before", f"{HARNESS}.switch", "1"),
    ("after", f"{HARNESS}.switch", "1"),
    ("after", "nodes.apply:_record", "1"),
]


@pytest.mark.parametrize("killer", UNDO_POINTS, ids="-".join)
def test_killed_during_undo(applied: Applied, killer: tuple[str, str, str]) -> None:
    world = applied.world
    _killed(world.run("undo", applied.release, "--json", killer=killer))
    resumed = world.run("resume", "--json")
    assert resumed.code == 0, resumed.err
    assert world.harness() == applied.before
    with world.looking() as ledger:
        assert [r.undoes for r in ledger.effects.releases()] == [None, applied.release]
        assert ledger.audit.verify().ok


def test_a_waiting_card_outlives_a_kill_while_it_waits(waiting: Waiting) -> None:
    """The process at the prompt holds nothing: what it showed is what the next one shows."""
    world = waiting.world
    with world.looking() as ledger:
        shown = ledger.proposals.latest(waiting.proposal).proposal.hash
    card = world.run("card", waiting.proposal, "--json")
    assert card.json["proposal_hash"] == shown
