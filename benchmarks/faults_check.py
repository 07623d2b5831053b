"""What must hold at the end of a story, read from the ledger and from the disk."""

from collections.abc import Mapping
from typing import Literal

from benchmarks.faults_server import Broken
from benchmarks.faults_world import Site
from contracts.proposals import Decision, Proposal
from memory.ledger import Ledger

Harness = Mapping[str, bytes]


def require(holds: object, promise: str, seen: object = "") -> None:
    """Raise when a promise does not hold.

    Raises:
        Broken: says which promise, and what was seen instead.
    """
    if not holds:
        raise Broken(f"{promise}: {seen}" if seen != "" else promise)


def same_harness(site: Site, before: Harness) -> None:
    """No byte changed."""
    require(site.world.harness() == before, "the harness is byte-identical")


def audited(ledger: Ledger) -> None:
    """The audit chain is whole."""
    state = ledger.audit.verify()
    require(state.ok, "audit verify", state.why)


def one_proposal(ledger: Ledger) -> Proposal:
    """The one proposal of a story."""
    found = ledger.proposals.all_latest()
    require(len(found) == 1, "one proposal", [stored.proposal.id for stored in found])
    return found[0].proposal


def one_incident(ledger: Ledger, key: str) -> str:
    """The alert that was answered 202 is there, and has exactly one incident; its thread."""
    taken = ledger.alerts.listed()
    keys = [alert.key for alert in taken]
    require(keys == [key], "an alert answered 202 is kept, once", keys)
    runs = [run for run in ledger.incidents.listed() if run.kind == "alert"]
    require(len(runs) == 1, "one incident for one alert", [run.thread for run in runs])
    require(taken[0].thread == runs[0].thread, "the alert names its incident", taken[0].thread)
    require(runs[0].fired == 1, "it fired once, however often it was sent", runs[0].fired)
    require(runs[0].problem is None, "no run failed", runs[0].problem)
    return runs[0].thread


def waits(site: Site, ledger: Ledger, before: Harness, *, revision: int = 1) -> Proposal:
    """One card waits, of this revision, and nothing was written."""
    proposal = one_proposal(ledger)
    stored = ledger.proposals.latest(proposal.id)
    require(stored.state == "waiting", "the proposal waits", stored.state)
    require(proposal.revision == revision, "no second draft was made", proposal.revision)
    card = ledger.proposals.card(proposal.id, revision, "approve")
    require(card is not None and card.proposal_hash == proposal.hash, "its card is there")
    require(not ledger.effects.releases(), "nothing was released")
    same_harness(site, before)
    audited(ledger)
    return proposal


def one_decision(
    ledger: Ledger, proposal: Proposal, card: Literal["approve", "undo"], said: Mapping[str, object]
) -> Decision:
    """The answer that a caller was given is the one decision of the card."""
    found = ledger.proposals.decisions(proposal.id, proposal.revision, card)
    require(len(found) == 1, "one decision", [decision.id for decision in found])
    if said:
        require(found[0].id == said["id"], "the decision that was answered stands", said["id"])
    require((found[0].by, found[0].via) == ("ann", "api"), "who and how", found[0])
    return found[0]


def applied_once(site: Site, ledger: Ledger, proposal: Proposal) -> None:
    """One release, one effect that is done, the harness exactly as it was approved."""
    releases = ledger.effects.releases()
    require(len(releases) == 1, "one release", [release.id for release in releases])
    effect = ledger.effects.find(kind="apply", proposal_hash=proposal.hash)
    require(effect is not None and effect.state == "done", "its effect is done", effect)
    require(releases[0].after == proposal.candidate_revision, "what was approved was released")
    candidate = ledger.artifacts.snapshot(proposal.candidate_revision)
    expected = {path: file.data for path, file in candidate.files.items()}
    require(site.world.harness() == expected, "the harness is what was approved")
    audited(ledger)


def undone_once(site: Site, ledger: Ledger, proposal: Proposal, before: Harness) -> None:
    """Two releases, the second takes the first back, and every byte is what it was."""
    releases = ledger.effects.releases()
    require(len(releases) == 2, "one release and one undo", [r.id for r in releases])
    require(releases[1].undoes == releases[0].id, "the second undoes the first")
    stored = ledger.proposals.latest(proposal.id)
    require(stored.state == "undone", "the proposal is undone", stored.state)
    same_harness(site, before)
    audited(ledger)


def closed(ledger: Ledger) -> bool:
    """Whether every run came to its end."""
    runs = ledger.incidents.listed()
    stuck = [run for run in runs if run.state == "quarantined"]
    require(not stuck, "no run is quarantined", [run.problem for run in stuck])
    return all(run.state == "closed" for run in runs)
