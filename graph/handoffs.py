"""What a person does with a hand-off: read it, close it."""

from contracts.errors import UsageError
from contracts.json_types import Json
from graph.findings import line_of, name_of
from memory.handoffs import Ticket
from memory.workspace import Workspace
from nodes.decide import Person

MAX_REASON = 500


def ticket_of(ws: Workspace, finding: str) -> Ticket:
    """The ticket of a finding.

    Raises:
        UsageError: it has none.
    """
    ticket = ws.ledger.handoffs.get(finding)
    if ticket is None:
        raise UsageError(f"{finding}: it has no hand-off; `tracemend handoffs` lists them")
    return ticket


def close_ticket(ws: Workspace, finding: str, reason: str, person: Person) -> Ticket:
    """Close a ticket under a person's name; a closed one stays as it was closed first.

    Raises:
        UsageError: the finding has none, or there is no reason.
    """
    ticket = ticket_of(ws, finding)
    stored = ws.ledger.knowledge.finding(finding)
    closed: dict[str, Json] = {
        "reason": line_of("reason", reason, MAX_REASON), "by": name_of(person),
        "units": stored.finding.units if stored.unseen_at is None else 0,
        "units_total": stored.finding.units_total,
    }  # fmt: skip
    with ws.ledger.db.write() as tx:
        ws.ledger.handoffs.close(
            tx, finding, {**ticket.body, "closed": closed}, by=str(closed["by"])
        )
    return ticket_of(ws, finding)
