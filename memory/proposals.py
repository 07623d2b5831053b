"""Proposals, the cards that show them, and what people decided."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from sqlalchemy import Connection, RowMapping, Select, and_, func, or_, select, update

from contracts.codec import from_json, to_json
from contracts.errors import UsageError
from contracts.json_types import Json, JsonObject
from contracts.proposals import (
    CardKind,
    Decision,
    Proposal,
    ProposalHash,
    ProposalId,
    ProposalState,
)
from memory.audit import AuditLog
from memory.database import Database, rfc3339
from memory.schema import cards, decisions, incidents, proposals

OPEN_STATES: frozenset[ProposalState] = frozenset(
    {"drafting", "waiting", "approved", "gating", "inconclusive", "stale"}
)
"""A harness with a proposal in one of these has its one open proposal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredProposal:
    """A proposal revision and where it stands."""

    proposal: Proposal
    state: ProposalState
    at: str = ""
    """When the revision was written (RFC 3339 UTC); with the id, where a page goes on from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCard:
    """What a reviewer is shown for one revision: the view model and the interrupt payload."""

    proposal: ProposalId
    revision: int
    kind: CardKind
    proposal_hash: ProposalHash
    view: JsonObject
    payload: JsonObject
    expires_at: datetime


class Proposals:
    """Proposal revisions of one project. A revision is written once; only its state changes."""

    def __init__(self, db: Database, log: AuditLog) -> None:
        self._db = db
        self._log = log

    def insert(self, tx: Connection, proposal: Proposal, *, state: ProposalState) -> None:
        """Add a revision and close its predecessors as stale."""
        mine = (proposals.c.project == self._db.project) & (proposals.c.id == proposal.id)
        older = mine & (proposals.c.revision < proposal.revision)
        tx.execute(update(proposals).where(older).values(state="stale"))
        row = {
            "id": proposal.id, "revision": proposal.revision, "thread": proposal.thread,
            "finding": proposal.finding_id, "hash": proposal.hash, "state": state,
            "body": to_json(proposal), "at": self._db.now(),
        }  # fmt: skip
        self._db.insert_once(tx, proposals, row)
        self._say(tx, "proposal.revised", proposal, {"hash": proposal.hash})

    def freeze(self, tx: Connection, proposal: Proposal) -> None:
        """Put the plan into a drafted revision, which gives it its final hash."""
        where = (proposals.c.project == self._db.project) & (proposals.c.id == proposal.id)
        where &= proposals.c.revision == proposal.revision
        values = {"hash": proposal.hash, "body": to_json(proposal), "state": "waiting"}
        tx.execute(update(proposals).where(where, proposals.c.state == "drafting").values(values))
        self._say(tx, "proposal.waiting", proposal, {"hash": proposal.hash})

    def set_state(self, tx: Connection, proposal: Proposal, state: ProposalState) -> None:
        """Move a revision on."""
        where = (proposals.c.project == self._db.project) & (proposals.c.id == proposal.id)
        where &= proposals.c.revision == proposal.revision
        tx.execute(update(proposals).where(where).values(state=state))
        self._say(tx, "proposal.state", proposal, {"state": state})

    def latest(self, proposal_id: str) -> StoredProposal:
        """The newest revision.

        Raises:
            UsageError: there is no such proposal in this project.
        """
        found = self.revisions(proposal_id)
        if not found:
            raise UsageError(
                f"{proposal_id}: no such proposal in project {self._db.project!r}; "
                "`tracemend status` lists what is there"
            )
        return found[-1]

    def revisions(self, proposal_id: str) -> list[StoredProposal]:
        """All revisions of a proposal, oldest first."""
        with self._db.read() as tx:
            statement = self._db.mine(proposals, id=proposal_id).order_by(proposals.c.revision)
            return [_stored(row) for row in self._db.rows(tx, statement)]

    def by_hash(self, proposal_hash: str) -> StoredProposal | None:
        """The revision with this hash."""
        row = self._db.first(proposals, hash=proposal_hash)
        return None if row is None else _stored(row)

    def all_latest(self) -> list[StoredProposal]:
        """The newest revision of every proposal, oldest proposal first."""
        first = proposals.alias("first")
        begun = select(func.min(first.c.at)).where(
            first.c.project == proposals.c.project, first.c.id == proposals.c.id
        )
        statement = self._newest().order_by(begun.scalar_subquery(), proposals.c.id)
        with self._db.read() as tx:
            return [_stored(row) for row in self._db.rows(tx, statement)]

    def page(
        self, *, states: Collection[ProposalState] | None, finding: str | None, limit: int,
        before: tuple[str, str] | None,
    ) -> list[StoredProposal]:  # fmt: skip
        """The newest revision of each proposal, newest first, `limit` at most.

        Args:
            states: of the newest revision; None: any.
            finding: the finding that it is for; None: any.
            limit: how many, at least 1.
            before: `(at, id)` of the last one of the page before; None: from the newest on.
        """
        c = proposals.c
        statement = self._newest()
        if states is not None:
            statement = statement.where(c.state.in_(sorted(states)))
        if finding is not None:
            statement = statement.where(c.finding == finding)
        if before is not None:
            at, id_ = before
            statement = statement.where(or_(c.at < at, and_(c.at == at, c.id < id_)))
        statement = statement.order_by(c.at.desc(), c.id.desc()).limit(limit)
        with self._db.read() as tx:
            return [_stored(row) for row in self._db.rows(tx, statement)]

    def open(self) -> StoredProposal | None:
        """The one open proposal of the harness, if there is one."""
        with self._db.read() as tx:
            rows = self._db.rows(tx, self._open())
        return _stored(rows[0]) if rows else None

    def open_in(self, tx: Connection) -> str | None:
        """The id of the open proposal, as this transaction sees it."""
        found: str | None = tx.execute(
            self._open().with_only_columns(proposals.c.id)
        ).scalar_one_or_none()  # fmt: skip
        return found

    def _open(self) -> Select[tuple[object, ...]]:
        c = proposals.c
        waits = self._newest().where(c.state.in_(sorted(OPEN_STATES)))
        return waits.order_by(c.at, c.id).limit(1)

    def _newest(self) -> Select[tuple[object, ...]]:
        """A select of the rows that no later revision stands behind."""
        later = proposals.alias("later")
        newer = select(later.c.id).where(
            later.c.project == proposals.c.project, later.c.id == proposals.c.id,
            later.c.revision > proposals.c.revision,
        )  # fmt: skip
        return self._db.mine(proposals).where(~newer.exists())

    def count_for(self, finding: str) -> int:
        """How many proposals a finding has had."""
        mine = (proposals.c.project == self._db.project) & (proposals.c.finding == finding)
        with self._db.read() as tx:
            counted = select(func.count(func.distinct(proposals.c.id))).where(mine)
            return tx.execute(counted).scalar_one()

    def put_card(self, tx: Connection, card: StoredCard) -> None:
        """Keep a card; a second one for the same revision and kind is ignored."""
        row = {
            "proposal": card.proposal, "revision": card.revision, "kind": card.kind,
            "proposal_hash": card.proposal_hash,
            "body": {"view": dict(card.view), "payload": dict(card.payload)},
            "at": self._db.now(), "expires_at": rfc3339(card.expires_at),
        }  # fmt: skip
        self._db.insert_once(tx, cards, row)

    def card(self, proposal_id: str, revision: int, kind: CardKind) -> StoredCard | None:
        """The card of one revision."""
        row = self._db.first(cards, proposal=proposal_id, revision=revision, kind=kind)
        if row is None:
            return None
        return StoredCard(
            proposal=ProposalId(row["proposal"]), revision=row["revision"], kind=kind,
            proposal_hash=ProposalHash(row["proposal_hash"]),
            view=row["body"]["view"], payload=row["body"]["payload"],
            expires_at=datetime.fromisoformat(row["expires_at"]),
        )  # fmt: skip

    def decide(self, tx: Connection, decision: Decision) -> bool:
        """Insert a decision. False: this seat of this card was decided before; that one stands."""
        row = {
            "id": decision.id, "proposal": decision.proposal, "revision": decision.revision,
            "proposal_hash": decision.proposal_hash, "card": decision.card, "seat": decision.seat,
            "type": decision.type, "body": to_json(decision), "at": self._db.now(),
        }  # fmt: skip
        first = self._db.insert_once(tx, decisions, row)
        if first:
            self._log.append(
                tx, "decision.made",
                {"decision": decision.id, "proposal_hash": decision.proposal_hash,
                 "card": decision.card, "seat": decision.seat, "type": decision.type,
                 "by": decision.by, "via": decision.via},
            )  # fmt: skip
            self.wake(tx, decision.proposal)
        return first

    def wake(self, tx: Connection, proposal_id: str) -> None:
        """Every run that waits at a card of this proposal has something to do now."""
        asked = select(proposals.c.thread).where(
            proposals.c.project == self._db.project, proposals.c.id == proposal_id
        )
        mine = (incidents.c.project == self._db.project) & (incidents.c.state == "waiting")
        # A card "undo" is shown by a run of its own, which has no proposal: it looks, and waits on.
        mine &= incidents.c.thread.in_(asked) | incidents.c.kind.in_(("undo", "watch"))
        tx.execute(update(incidents).where(mine).values(state="running", due_at=None, tries=0))

    def decisions(self, proposal_id: str, revision: int, card: CardKind) -> Sequence[Decision]:
        """Decisions on one card, by seat."""
        rows = self._db.find(decisions, proposal=proposal_id, revision=revision, card=card)
        ordered = sorted(rows, key=lambda row: cast("int", row["seat"]))
        return [from_json(Decision, row["body"]) for row in ordered]

    def decision(self, proposal_id: str, revision: int, card: CardKind) -> Decision | None:
        """The decision of the first seat."""
        found = self.decisions(proposal_id, revision, card)
        return found[0] if found else None

    def _say(
        self, tx: Connection, event: str, proposal: Proposal, more: Mapping[str, Json]
    ) -> None:
        which: dict[str, Json] = {"proposal": proposal.id, "revision": proposal.revision}
        self._log.append(tx, event, {**which, **more})


def _stored(row: RowMapping) -> StoredProposal:
    return StoredProposal(
        proposal=from_json(Proposal, row["body"]), state=row["state"], at=row["at"]
    )
