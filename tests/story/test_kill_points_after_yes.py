"""Promise 3: killed after the yes, or in an undo, the run goes on to the same end, once."""

import pytest

from tests.story.killing import applied_once, killed
from tests.story.worlds import Applied, Waiting

pytestmark = [pytest.mark.story, pytest.mark.kill]

EFFECTS, HARNESS = "memory.effects:Effects", "connectors.harness.directory:DirectoryHarness"

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
    killed(world.run("approve", waiting.proposal, "--as", "ann", "--json", killer=killer))
    resumed = world.run("resume", "--json")
    assert resumed.code == 0, resumed.err
    assert resumed.json["runs"][0]["state"] == "watching"
    applied_once(world, before)


UNDO_POINTS = [
    ("before", "graph.service:Service._advance", "1"),
    ("before", f"{HARNESS}.switch", "1"),
    ("after", f"{HARNESS}.switch", "1"),
    ("after", "nodes.apply:_record", "1"),
]


@pytest.mark.parametrize("killer", UNDO_POINTS, ids="-".join)
def test_killed_during_undo(applied: Applied, killer: tuple[str, str, str]) -> None:
    world = applied.world
    killed(world.run("undo", applied.release, "--json", killer=killer))
    resumed = world.run("resume", "--json")
    assert resumed.code == 0, resumed.err
    assert world.harness() == applied.before
    with world.looking() as ledger:
        assert [r.undoes for r in ledger.effects.releases()] == [None, applied.release]
        assert ledger.audit.verify().ok
