"""What an analysis does to findings that are known: reopened, not seen, a ticket closed.

States: open, ready (waits for its turn), watching (after a release), closed (by a person, or put
into another finding), reopened. A window without a finding closes nothing; it is only said.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from contracts.findings import Finding
from contracts.json_types import Json
from memory.handoffs import Ticket
from memory.knowledge import FindingState, StoredFinding
from memory.ledger import Ledger
from nodes.handoff import close_fallen, rose
from nodes.insights.choices import Choices, Closed

RESTING: tuple[FindingState, ...] = ("closed", "watching")
"""States in which a finding is counted and not worked on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Where a finding goes, and why."""

    state: FindingState
    code: str
    """For the audit log: `recurred`, `rose`."""
    why: str
    """For a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Findings of an analysis as they stand after it."""

    resting: frozenset[str]
    """Ids that are counted and not worked on."""
    moves: Mapping[str, Step]
    """By id: only those whose state changes."""


def next_state(state: FindingState, seen: Finding, closed: Closed | None) -> Step | None:
    """Where a known finding goes when an analysis sees it again; None: it stays. Pure.

    Closed by a person: stays closed until its rate is above what it was then (exact test). Closed
    otherwise: any new unit reopens it. Watching: reopened when it is new or risen again. Only
    units seen after it was closed count, so the window in which it was closed changes nothing.
    """
    if state == "watching" and seen.change in ("new", "risen"):
        return Step(
            state="reopened", code="recurred",
            why=f"{seen.change} after a release: {seen.units} of {seen.units_total}",
        )  # fmt: skip
    if state != "closed":
        return None
    if closed is None:
        why = f"seen again: {seen.units} of {seen.units_total}"
        return Step(state="reopened", code="recurred", why=why)
    since = seen.last_seen is None or seen.last_seen > datetime.fromisoformat(closed.at)
    if not since or not rose(closed.units, closed.units_total, seen.units, seen.units_total):
        return None
    return Step(
        state="reopened", code="rose",
        why=(
            f"{seen.units} of {seen.units_total}, more than the {closed.units} of "
            f"{closed.units_total} when {closed.by} closed it"
        ),
    )  # fmt: skip


def standing_after(
    known: Sequence[StoredFinding], seen: Sequence[Finding], choices: Choices
) -> Standing:
    """What an analysis does to the findings that were known before it. Pure."""
    states = {stored.finding.id: stored.state for stored in known}
    moves: dict[str, Step] = {}
    for finding in seen:
        state = states.get(finding.id)
        closed = choices.closed.get(finding.signature)
        step = next_state(state, finding, closed) if state is not None else None
        if step is not None:
            moves[finding.id] = step
    resting = {
        finding.id
        for finding in seen
        if finding.id not in moves and states.get(finding.id) in RESTING
    }
    return Standing(resting=frozenset(resting), moves=moves)


def write_standing(
    ledger: Ledger,
    tx: Connection,
    standing: Standing,
    seen: Sequence[Finding],
    units_total: int,
    *,
    complete: bool,
) -> None:
    """Reopen, note what was not seen, and close tickets whose rate fell.

    From a read that was not complete nothing is concluded about what is absent.
    """
    by_id = {str(finding.id): finding for finding in seen}
    for finding_id, step in standing.moves.items():
        found = by_id[finding_id]
        counts: dict[str, Json] = {"units": found.units, "units_total": found.units_total}
        why = {"why": step.code, **counts}
        ledger.knowledge.set_finding(tx, finding_id, step.state, why=why)
        body = {"reason": step.why, **counts}
        ledger.choices.put(tx, "reopen", found.signature, body, by="tracemend")
    if not complete:
        return
    ledger.knowledge.put_unseen(tx, by_id.keys())
    for known in _open_tickets(ledger, tx):
        units = by_id[known.finding].units if known.finding in by_id else 0
        total = by_id[known.finding].units_total if known.finding in by_id else units_total
        close_fallen(ledger, tx, known, units, total)


def _open_tickets(ledger: Ledger, tx: Connection) -> Sequence[Ticket]:
    return [one for one in ledger.handoffs.listed_in(tx) if one.state == "open"]
