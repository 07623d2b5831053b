"""What the tests that kill a run for real say of its end."""

from tests.story.worlds import Finished, Waiting, World


def killed(done: Finished) -> None:
    assert done.code == -9, f"the process was to be killed: exit {done.code}, {done.err}"


def applied_once(world: World, before: dict[str, bytes]) -> None:
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


def goes_on_after_the_yes(waiting: Waiting, killer: tuple[str, str, str]) -> None:
    """Approve in a process that dies at the point; `resume` reaches the same end."""
    world, before = waiting.world, waiting.world.harness()
    killed(world.run("approve", waiting.proposal, "--as", "ann", "--json", killer=killer))
    resumed = world.run("resume", "--json")
    assert resumed.code == 0, resumed.err
    assert resumed.json["runs"][0]["state"] == "watching"
    applied_once(world, before)
