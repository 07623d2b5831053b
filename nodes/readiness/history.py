"""Properties that the ledger shows: what people saw, what a no left behind, undo, and cases."""

from collections.abc import Iterator

from contracts.errors import TracemendError
from contracts.harness import HarnessSnapshot
from contracts.proposals import Proposal, Release
from memory.proposals import StoredProposal
from memory.workspace import Workspace
from nodes.readiness.properties import Property, State, by_share, of

REVIEWED = "diff and reasons before apply"
REJECTED = "rejects leave nothing"
ROLLBACK = "rollback path"
CASES = "incidents feed evaluations"

_TURNED_DOWN = frozenset({"rejected", "expired", "gate_rejected"})


def reviewed(ws: Workspace) -> Property:
    """Whether every decision was made on a card with the diff and reasons, by a named person."""
    decided = list(_decided(ws))
    review = ws.settings.review
    second = "never" if review.second_person == "never" else f"from {review.second_person} risk on"
    rules = f"cards expire after {review.expires_days:g} days, a second person {second}"
    if not decided:
        waiting = ws.ledger.proposals.open() is not None
        told = "one proposal is open" if waiting else "no proposal yet"
        return Property(name=REVIEWED, state="unknown", evidence=f"{told}; {rules}")
    shown = sum(_shows_all(ws, proposal) for proposal in decided)
    evidence = f"{of(shown, len(decided))} decided revisions had a card with diff and reasons"
    if shown < len(decided):
        return Property(
            name=REVIEWED, state="no", evidence=f"{evidence}; {rules}",
            advice="look at these decisions with `tracemend status` and `tracemend card`",
        )  # fmt: skip
    alone = review.second_person == "never"
    return Property(
        name=REVIEWED, state="warn" if alone else "ok", evidence=f"{evidence}; {rules}",
        advice="set review.second_person for risky edits" if alone else "",
    )  # fmt: skip


def _revisions(ws: Workspace) -> Iterator[StoredProposal]:
    for latest in ws.ledger.proposals.all_latest():
        yield from ws.ledger.proposals.revisions(latest.proposal.id)


def _decided(ws: Workspace) -> Iterator[Proposal]:
    """Revisions that a person said something to, or that were applied."""
    for stored in _revisions(ws):
        proposal = stored.proposal
        said = ws.ledger.proposals.decisions(proposal.id, proposal.revision, "approve")
        applied = ws.ledger.effects.release_of(proposal.hash) is not None
        if applied or any(decision.type != "expired" for decision in said):
            yield proposal


def _shows_all(ws: Workspace, proposal: Proposal) -> bool:
    card = ws.ledger.proposals.card(proposal.id, proposal.revision, "approve")
    said = ws.ledger.proposals.decisions(proposal.id, proposal.revision, "approve")
    if card is None or not said or not all(decision.by for decision in said):
        return False
    bound = all(d.proposal_hash == card.proposal_hash == proposal.hash for d in said)
    return bound and bool(card.view.get("files")) and bool(card.view.get("why"))


def rejected(ws: Workspace, harness: HarnessSnapshot | None) -> Property:
    """Whether what was turned down left no release, no effect and no byte, and the log is whole."""
    audit = ws.ledger.audit.verify()
    if not audit.ok:
        return Property(
            name=REJECTED, state="no", evidence=f"the audit log is broken: {audit.why}",
            advice="restore the ledger from a backup; nothing in it can be relied on",
        )  # fmt: skip
    whole = f"the audit log of {audit.entries} entries is whole"
    down = [s.proposal for s in _revisions(ws) if s.state in _TURNED_DOWN]
    if not down:
        return Property(
            name=REJECTED, state="unknown", evidence=f"nothing was turned down yet; {whole}"
        )
    left = [proposal.id for proposal in down if _left_something(ws, proposal, harness)]
    evidence = f"{of(len(down) - len(left), len(down))} turned down left nothing; {whole}"
    if left:
        advice = f"compare the harness with what was approved; see {', '.join(left[:3])}"
        return Property(name=REJECTED, state="no", evidence=evidence, advice=advice)
    return Property(name=REJECTED, state="ok", evidence=evidence)


def _left_something(ws: Workspace, proposal: Proposal, harness: HarnessSnapshot | None) -> bool:
    if ws.ledger.effects.find(kind="apply", proposal_hash=proposal.hash) is not None:
        return True
    return harness is not None and harness.revision == proposal.candidate_revision


def rollback(ws: Workspace, harness: HarnessSnapshot | None) -> Property:
    """Whether what stands can be taken back: earlier bytes are kept, nobody changed it since."""
    stands = [r for r in ws.ledger.effects.releases() if r.undoes is None and r.undone_by is None]
    undone = sum(release.undoes is not None for release in ws.ledger.effects.releases())
    if not stands:
        told = f"no release stands; {undone} taken back" if undone else "no release yet"
        return Property(name=ROLLBACK, state="unknown", evidence=told)
    kept = sum(_readable(ws, release) for release in stands)
    newest = stands[-1]
    as_left = harness is not None and harness.revision == newest.after
    now = "is as it was left" if as_left else "was changed since" if harness else "is unreadable"
    evidence = f"{of(kept, len(stands))} releases have their bytes from before; the harness {now}"
    if kept < len(stands):
        return by_share(
            ROLLBACK, 0, len(stands), evidence, "restore the ledger: bytes from before are missing"
        )
    state: State = "ok" if as_left else "warn"
    advice = "" if as_left else f"an undo of {newest.id} would refuse: it never overwrites changes"
    return Property(name=ROLLBACK, state=state, evidence=evidence, advice=advice)


def _readable(ws: Workspace, release: Release) -> bool:
    try:
        return ws.ledger.artifacts.snapshot(release.before).revision == release.before
    except TracemendError:
        return False


def cases(ws: Workspace) -> Property:
    """Share of the findings that were worked on whose failing inputs became cases."""
    worked = [
        stored.finding
        for stored in ws.ledger.knowledge.findings()
        if stored.state != "open" or ws.ledger.proposals.count_for(stored.finding.id)
    ]
    mined = [len(ws.ledger.knowledge.all_cases(finding.id)) for finding in worked]
    fed = sum(count > 0 for count in mined)
    if not worked:
        return Property(name=CASES, state="unknown", evidence="no finding was worked on yet")
    evidence = f"{of(fed, len(worked))} findings that were worked on left {sum(mined)} cases"
    return by_share(
        CASES, fed, len(worked), evidence,
        "record the request as the root span's input: without it a failure makes no case",
    )  # fmt: skip
