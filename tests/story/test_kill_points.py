"""Promise 3: whatever is killed and whenever, the run goes on to the same end, once."""

import pytest
from worlds import World

pytestmark = [pytest.mark.story, pytest.mark.kill]

LEDGER, HARNESS = "memory.effects:Effects", "connectors.harness.directory:DirectoryHarness"


def _waiting(world: World) -> str:
    started = world.run("improve", "--json")
    assert started.code == 0, started.err
    proposal: str = started.json["runs"][0]["proposal"]
    return proposal


def _ends_well(world: World, before: dict[str, bytes]) -> None:
    """Applied exactly once, the log is whole, and undo gives back the exact bytes."""
    again = world.run("resume", "--json")
    assert again.code == 0, again.err
    audit = world.run("audit", "verify", "--json")
    assert audit.json["ok"], audit.out
    releases = world.run("status", "--json").json["releases"]
    assert len(releases) == 1, releases
    changed = world.harness()
    assert changed != before
    undone = world.run("undo", releases[0]["id"], "--json")
    assert undone.code == 0, undone.err
    assert world.harness() == before


def _killed(code: int, err: str) -> None:
    assert code == -9, f"the process was to be killed: exit {code}, {err}"


START_POINTS = [
    ("before", "nodes.insights.node:analyze", "1"),
    ("before", "memory.incidents:Steps.once", "1"),
    ("after", "memory.incidents:Steps.once", "1"),
    ("before", "memory.incidents:Steps.once", "2"),
    ("after", "memory.incidents:Steps.once", "3"),
    ("after", "graph.drive:LocalDriver.start", "1"),
]


@pytest.mark.parametrize("killer", START_POINTS, ids=lambda k: "-".join(k))
def test_killed_before_or_at_the_interrupt(world: World, killer: tuple[str, str, str]) -> None:
    before = world.harness()
    died = world.run("improve", "--json", killer=killer)
    _killed(died.code, died.err)
    resumed = world.run("resume", "--json")
    assert resumed.code == 0, resumed.err
    assert [run["state"] for run in resumed.json["runs"]] == ["waiting"]
    assert world.harness() == before
    proposal = resumed.json["runs"][0]["proposal"]
    approved = world.run("approve", proposal, "--as", "ann", "--json")
    assert approved.code == 0, approved.err
    _ends_well(world, before)


APPROVE_POINTS = [
    ("after", "memory.proposals:Proposals.decide", "1"),  # decided, not committed
    ("before", "graph.service:Service._advance", "1"),  # decided, not resumed
    ("before", "memory.gate_ledger:GateLedger.put_block", "12"),  # in the gate
    ("after", "nodes.gate.node:_conclude", "1"),  # verdict stored, checkpoint not
    ("before", f"{HARNESS}.switch", "1"),  # between intent and effect
    ("after", f"{HARNESS}.switch", "1"),  # between effect and record
    ("before", f"{LEDGER}.finish", "1"),
    ("after", "nodes.apply:_record", "1"),  # recorded, checkpoint not
]


@pytest.mark.parametrize("killer", APPROVE_POINTS, ids=lambda k: "-".join(k))
def test_killed_after_the_approval(world: World, killer: tuple[str, str, str]) -> None:
    before = world.harness()
    proposal = _waiting(world)
    died = world.run("approve", proposal, "--as", "ann", "--json", killer=killer)
    _killed(died.code, died.err)
    resumed = world.run("resume", "--json")
    assert resumed.code == 0, resumed.err
    if resumed.json["runs"][0]["state"] == "waiting":  # the decision was not committed
        assert killer[1] == "memory.proposals:Proposals.decide"
        approved = world.run("approve", proposal, "--as", "ann", "--json")
        assert approved.code == 0, approved.err
    _ends_well(world, before)


UNDO_POINTS = [
    ("before", f"{HARNESS}.switch", "1"),
    ("after", f"{HARNESS}.switch", "1"),
    ("after", "nodes.apply:_record", "1"),
]


@pytest.mark.parametrize("killer", UNDO_POINTS, ids=lambda k: "-".join(k))
def test_killed_during_undo(world: World, killer: tuple[str, str, str]) -> None:
    before = world.harness()
    proposal = _waiting(world)
    approved = world.run("approve", proposal, "--as", "ann", "--json")
    assert approved.code == 0, approved.err
    release = approved.json["release"]["id"]
    died = world.run("undo", release, "--json", killer=killer)
    _killed(died.code, died.err)
    resumed = world.run("resume", "--json")
    assert resumed.code == 0, resumed.err
    assert world.harness() == before
    again = world.run("undo", release, "--json")
    assert again.code == 0, again.err
    assert again.json["release"]["undoes"] == release
    assert world.run("audit", "verify", "--json").json["ok"]
    assert len(world.run("status", "--json").json["releases"]) == 2
