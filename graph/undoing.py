"""Taking a release back: what is checked and decided before a run does it."""

import asyncio
from collections.abc import Callable

from connectors.harness.several import Places
from contracts.errors import PolicyRefused, StaleBase, UsageError
from contracts.harness import HarnessSnapshot
from contracts.json_types import content_id
from contracts.proposals import Decision, DecisionId, Proposal, Release, ReleaseId
from memory.ledger import Ledger
from memory.workspace import Workspace
from nodes.decide import Person
from nodes.ports import open_harness


def undo_there(ledger: Ledger, release_id: str) -> Release | None:
    """The release that took this one back before.

    Raises:
        UsageError: there is no such release, or it is an undo itself.
    """
    release = ledger.effects.release(release_id)
    if release.undoes is not None:
        raise UsageError(f"{release_id} is an undo itself; the edit can be proposed again")
    return ledger.effects.undo_of(release.id)


def undone_release(ledger: Ledger, release_id: str) -> Release:
    """The release that took this one back, after its run.

    Raises:
        StaleBase: it was refused at the last moment, and why.
    """
    release = ledger.effects.release(release_id)
    done = ledger.effects.undo_of(release.id)
    if done is not None:
        return done
    effect = ledger.effects.find(kind="undo", proposal_hash=release.proposal_hash)
    why = effect.reason if effect is not None and effect.reason else "the target changed"
    raise StaleBase(f"{release_id}: not undone: {why}", changed=(why,))


async def decide_undo(
    ws: Workspace, release_id: str, person: Person, thread_of: Callable[[int], str]
) -> int:
    """The attempt that undoes this release now: the one that is under way, or one decided here.

    Args:
        ws: the project.
        release_id: what is taken back.
        person: who says so.
        thread_of: the thread of an attempt. An attempt that was refused at the last moment, since
            somebody changed the files, ended with its thread; the next one has its own.

    Raises:
        UsageError: its proposal is not in the ledger.
        StaleBase: somebody changed the files since; nothing was written, nothing recorded.
    """
    release = await asyncio.to_thread(ws.ledger.effects.release, release_id)
    proposal = await asyncio.to_thread(_proposal_of, ws.ledger, release)
    attempt = await asyncio.to_thread(_attempts, ws.ledger, proposal)
    if attempt and not await asyncio.to_thread(ws.ledger.incidents.closed, thread_of(attempt)):
        return attempt
    await _check_unchanged(ws, release)
    return await asyncio.to_thread(_decide, ws.ledger, release, proposal, person, attempt)


def _proposal_of(ledger: Ledger, release: Release) -> Proposal:
    stored = ledger.proposals.by_hash(release.proposal_hash)
    if stored is None:
        raise UsageError(f"{release.id}: its proposal is not in the ledger")
    return stored.proposal


def _attempts(ledger: Ledger, proposal: Proposal) -> int:
    decided = ledger.proposals.decisions(proposal.id, proposal.revision, "undo")
    return sum(decision.type == "approve" for decision in decided)


async def _check_unchanged(ws: Workspace, release: Release) -> None:
    places = await asyncio.to_thread(open_harness, ws)
    now = await places.read()
    if now.revision == release.after:
        return
    after = await asyncio.to_thread(ws.ledger.artifacts.snapshot, release.after)
    before = await asyncio.to_thread(ws.ledger.artifacts.snapshot, release.before)
    if await _waits_elsewhere(places, before, after):
        return
    changed = after.changed(now)
    raise StaleBase(
        f"{release.id}: not undone, since these files are not what the release left: "
        f"{', '.join(changed)}; nothing was written",
        changed=changed,
    )


async def _waits_elsewhere(places: Places, before: HarnessSnapshot, after: HarnessSnapshot) -> bool:
    """Whether each place has the release, though not where agents read it (an unmerged branch)."""
    try:
        old, new = places.split(before), places.split(after)
    except PolicyRefused:  # a path of the release is of no place any more
        return False
    for place in places.places:
        harness = place.harness
        was, is_now = old[harness.target], new[harness.target]
        if was.revision == is_now.revision:
            unchanged = (await harness.read()).revision == was.revision
        else:
            unchanged = await harness.standing(is_now, was) == "before"
        if not unchanged:
            return False
    return True


def _decide(
    ledger: Ledger, release: Release, proposal: Proposal, person: Person, before: int
) -> int:
    """Enter the decision of the next attempt; of two people at once the first one's stands."""
    with ledger.db.write() as tx:
        there = ledger.proposals.decisions(proposal.id, proposal.revision, "undo")
        made = sum(decision.type == "approve" for decision in there)
        if made > before:
            return made
        seat = len(there) + 1
        decision = Decision(
            id=DecisionId(content_id("d-", proposal.hash, "undo", str(seat))),
            proposal=proposal.id, revision=proposal.revision, proposal_hash=proposal.hash,
            card="undo", seat=seat, type="approve", by=person.name or "", via=person.via,
            at=ledger.db.clock(), binds=ReleaseId(release.id), request_key=person.key,
        )  # fmt: skip
        ledger.proposals.decide(tx, decision)
        return made + 1
