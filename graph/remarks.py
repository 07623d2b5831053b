"""What people say to a proposal that decides nothing: a question to its author, a deferral."""

from datetime import datetime

from configs.redaction import redact
from contracts.errors import UsageError
from contracts.json_types import content_id
from contracts.proposals import CardKind, Proposal
from memory.database import rfc3339
from memory.ledger import Ledger
from memory.proposals import StoredProposal
from memory.trail import Remark, RemarkKind
from nodes.decide import WAITING, Person

LONGEST = 2_000
"""Characters of a question."""

_WAITS = WAITING["approve"] | WAITING["override"]


def ask(
    ledger: Ledger, proposal_id: str, text: str, person: Person, key: str
) -> tuple[Remark, bool]:
    """Keep a question to the author of a proposal, masked; True: it is new.

    Raises:
        UsageError: no such proposal, it waits for nobody, or the text or the key is none.
    """
    said = redact(text.strip())
    if not said or len(said) > LONGEST:
        raise UsageError(f"text: needs 1 to {LONGEST} characters, got {len(said)}")
    return _remark(ledger, proposal_id, "ask", person, key, text=said)


def defer(
    ledger: Ledger, proposal_id: str, until: datetime, person: Person, key: str
) -> tuple[Remark, bool]:
    """Keep that a proposal is put off; True: it is new.

    Raises:
        UsageError: no such proposal, it waits for nobody, or no time between now and its expiry
            was named.
    """
    if until.tzinfo is None:
        raise UsageError("until: needs an RFC 3339 time with a zone")
    return _remark(ledger, proposal_id, "defer", person, key, until=rfc3339(until))


def _remark(
    ledger: Ledger,
    proposal_id: str,
    kind: RemarkKind,
    person: Person,
    key: str,
    *,
    text: str | None = None,
    until: str | None = None,
) -> tuple[Remark, bool]:
    if not person.name or not key:
        raise UsageError("a remark needs the name of who makes it, and a key")
    stored = ledger.proposals.latest(proposal_id)
    proposal = stored.proposal
    kept = _kept(ledger, proposal, kind, person.name, key)
    if kept is not None:
        if (kept.text, kept.until) != (text, until):
            raise UsageError(f"the key {key!r} stands for another remark of yours; use a new one")
        return kept, False
    if stored.state not in _WAITS:
        which = f"{proposal.id} r{proposal.revision}"
        raise UsageError(f"{which} is {stored.state}; it waits for nobody")
    if until is not None:
        _check_until(ledger, stored, until)
    return ledger.trail.add(
        proposal, kind, by=person.name, via=person.via, key=key, text=text, until=until
    )


def _kept(ledger: Ledger, proposal: Proposal, kind: RemarkKind, by: str, key: str) -> Remark | None:
    """What this person said with this key before, whatever revision was shown then."""
    ids = {
        content_id("t-", proposal.id, str(revision), kind, by, key)
        for revision in range(1, proposal.revision + 1)
    }
    return next((said for said in ledger.trail.of(proposal.id) if said.id in ids), None)


def _check_until(ledger: Ledger, stored: StoredProposal, until: str) -> None:
    proposal = stored.proposal
    kind: CardKind = "override" if stored.state in WAITING["override"] else "approve"
    card = ledger.proposals.card(proposal.id, proposal.revision, kind)
    if until <= ledger.db.now():
        raise UsageError(f"until: {until} is over already")
    if card is not None and until > rfc3339(card.expires_at):
        raise UsageError(
            f"until: the card of {proposal.id} expires at {rfc3339(card.expires_at)}; name an "
            "earlier time"
        )
