"""Promise 3: killed between the yes and the switch, the run goes on to the same end, once."""

import pytest

from tests.story.killing import goes_on_after_the_yes
from tests.story.worlds import Waiting

pytestmark = [pytest.mark.story, pytest.mark.kill]

HARNESS = "connectors.harness.directory:DirectoryHarness"

POINTS = [
    ("before", "graph.service:Service._advance", "2"),  # decided, not resumed
    ("before", "memory.gate_ledger:GateLedger.put_block", "12"),  # in the gate
    ("before", "memory.sealed:SealedSet.used", "1"),  # between a block and the use it makes
    ("after", "nodes.gate.node:_conclude", "1"),  # verdict stored, checkpoint not
    ("before", f"{HARNESS}.switch", "1"),  # between intent and effect
]


@pytest.mark.parametrize("killer", POINTS, ids="-".join)
def test_killed_after_the_approval(waiting: Waiting, killer: tuple[str, str, str]) -> None:
    goes_on_after_the_yes(waiting, killer)
