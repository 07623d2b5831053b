"""What stands beside proposals in a list or on a page, read for all of them at once."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from sqlalchemy import select

from contracts.codec import from_json
from contracts.proposals import CardKind, Decision
from memory.database import Database
from memory.schema import cards, decisions, trail

Key = tuple[str, int]
"""A proposal's id and a revision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """One revision's cards and what was said to it.

    Attributes:
        cards: when each kind of card that was shown expires.
        said: how many decisions each kind of card has.
        deferred_until: of the newest deferral, RFC 3339 UTC; None: nobody deferred it.
    """

    cards: dict[CardKind, datetime]
    said: dict[CardKind, int]
    deferred_until: str | None


def beside(db: Database, proposals: Collection[str]) -> dict[Key, Beside]:
    """What stands beside these proposals, for each of their revisions that has anything."""
    found: dict[Key, Beside] = {}

    def of(proposal: str, revision: int) -> Beside:
        key = (proposal, revision)
        return found.setdefault(key, Beside(cards={}, said={}, deferred_until=None))

    with db.read() as tx:
        mine = (cards.c.project == db.project) & cards.c.proposal.in_(proposals)
        shown = select(cards.c.proposal, cards.c.revision, cards.c.kind, cards.c.expires_at)
        for row in tx.execute(shown.where(mine)):
            kind = cast("CardKind", row.kind)
            of(row.proposal, row.revision).cards[kind] = datetime.fromisoformat(row.expires_at)
        mine = (decisions.c.project == db.project) & decisions.c.proposal.in_(proposals)
        c = decisions.c
        for proposal, revision, card in tx.execute(
            select(c.proposal, c.revision, c.card).where(mine)
        ):
            said = of(proposal, revision).said
            said[card] = said.get(card, 0) + 1
        mine = (trail.c.project == db.project) & trail.c.proposal.in_(proposals)
        newest = select(trail.c.proposal, trail.c.revision, trail.c.until).where(
            mine, trail.c.kind == "defer"
        )
        for proposal, revision, until in tx.execute(newest.order_by(trail.c.at)):
            was = of(proposal, revision)
            found[proposal, revision] = Beside(cards=was.cards, said=was.said, deferred_until=until)
    return found


def decisions_on(db: Database, proposal: str) -> list[Decision]:
    """All decisions on a proposal, whatever revision and card, oldest first."""
    with db.read() as tx:
        statement = db.mine(decisions, proposal=proposal).order_by(decisions.c.at, decisions.c.seat)
        return [from_json(Decision, row["body"]) for row in db.rows(tx, statement)]
