"""The inbox of a person: proposals over several projects, newest first, and one in full."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from typing import Literal, get_args

from contracts.errors import UsageError
from contracts.proposals import CardKind, DecisionType, ProposalState
from graph.installation import Door
from graph.server.alternative_views import alternative_summary
from graph.server.views import (
    ProposalDetail,
    ProposalSummary,
    card_texts,
    decision_view,
    incident_view,
    release_view,
    remark_view,
    revision_view,
    summary,
)
from memory.inbox import Beside, beside, decisions_on
from memory.incidents import Incident
from memory.proposals import OPEN_STATES, StoredCard, StoredProposal
from memory.workspace import Workspace
from nodes.decide import seats_needed
from nodes.showing import newest_card

Status = Literal[
    "drafting", "waiting", "approved", "gating", "applied", "watching", "settled",
    "rejected", "expired", "stale", "gate_rejected", "inconclusive", "invalid", "stuck", "undone",
    "open", "deferred", "decided",
]  # fmt: skip
"""A proposal's state; or `open` (the harness's one open proposal), `deferred` (put off, and its
time has not come), `decided` (a person or the clock has spoken)."""

_ALL: frozenset[ProposalState] = frozenset(get_args(ProposalState))
STATUSES: Mapping[str, frozenset[ProposalState]] = {
    **{state: frozenset({state}) for state in _ALL},
    "open": OPEN_STATES,
    "deferred": frozenset({"waiting", "inconclusive"}),
    "decided": (_ALL - OPEN_STATES) | {"approved", "gating"},
}

BATCH = 50

Found = tuple[str, ProposalSummary]
"""When the revision was written, and how it is listed."""


def newest_first(
    doors: Sequence[Door], *, status: Status | None, finding: str | None, limit: int,
    before: tuple[str, str] | None,
) -> list[Found]:  # fmt: skip
    """Proposals of these projects, `limit` at most; `before`: (at, id) of the last one seen."""
    batch = min(limit, BATCH)
    each = [_of_project(door.ws, status, finding, batch, before) for door in doors]
    newest = merge(*each, key=lambda found: (found[0], found[1].id), reverse=True)
    return list(islice(newest, limit))


def _of_project(
    ws: Workspace, status: Status | None, finding: str | None, batch: int,
    before: tuple[str, str] | None,
) -> Iterator[Found]:  # fmt: skip
    states = None if status is None else STATUSES[status]
    now = ws.ledger.db.now()
    titles: dict[str, str] = {}
    while True:
        page = ws.ledger.proposals.page(states=states, finding=finding, limit=batch, before=before)
        around = beside(ws.ledger.db, [stored.proposal.id for stored in page])
        for stored in page:
            found = around.get((stored.proposal.id, stored.proposal.revision))
            put_off = found is not None and (found.deferred_until or "") > now
            if status in ("waiting", "deferred") and put_off != (status == "deferred"):
                continue
            yield stored.at, _summary(ws, stored, found, titles)
        if len(page) < batch:
            return
        before = page[-1].at, page[-1].proposal.id


def _summary(
    ws: Workspace, stored: StoredProposal, found: Beside | None, titles: dict[str, str]
) -> ProposalSummary:
    finding = stored.proposal.finding_id
    if finding not in titles:
        titles[finding] = _title(ws, finding)
    needed = seats_needed(stored.proposal.risk, ws.settings.review.second_person)
    return summary(stored, found, title=titles[finding], needed=needed)


def _title(ws: Workspace, finding: str) -> str:
    try:
        return ws.ledger.knowledge.finding(finding).finding.title
    except UsageError:  # a proposal that was entered without one, as tests and imports do
        return finding


def detail(door: Door, stored: StoredProposal) -> ProposalDetail:
    """One proposal with its card, texts, and everything that was said to it."""
    ws, proposal = door.ws, stored.proposal
    around = beside(ws.ledger.db, [proposal.id]).get((proposal.id, proposal.revision))
    listed = _summary(ws, stored, around, {})
    card = _card(ws, proposal.id)
    release = ws.ledger.effects.release_of(proposal.hash)
    revisions = ws.ledger.proposals.revisions(proposal.id)
    threads = dict.fromkeys([one.proposal.thread for one in revisions])
    return ProposalDetail(
        **listed.model_dump(), risk_reasons=list(proposal.risk_reasons), why=proposal.draft.why,
        card=None if card is None else dict(card.view),
        allowed=_allowed(listed.waits.card if listed.waits is not None else None),
        texts=card_texts(card if card is not None and card.kind == "approve" else None),
        alternatives=[alternative_summary(one) for one in proposal.alternatives],
        revisions=[revision_view(one) for one in revisions],
        decisions=[decision_view(one) for one in decisions_on(ws.ledger.db, proposal.id)],
        remarks=[remark_view(one) for one in ws.ledger.trail.of(proposal.id)],
        runs=[incident_view(run) for run in _runs(ws, threads)],
        release=None if release is None else release_view(release, ws.project),
    )  # fmt: skip


def _card(ws: Workspace, proposal: str) -> StoredCard | None:
    try:
        return newest_card(ws, proposal)
    except UsageError:
        return None


def _allowed(card: CardKind | None) -> list[DecisionType]:
    if card is None:
        return []
    return ["approve", "edit", "reject"] if card == "approve" else ["approve", "reject"]


def _runs(ws: Workspace, threads: Collection[str]) -> list[Incident]:
    found = (ws.ledger.incidents.find(thread) for thread in threads)
    return [run for run in found if run is not None]
