"""Where things stand, from the ledger alone: open findings, proposals that wait, tickets."""

from collections import Counter
from collections.abc import Sequence

from connectors.review.clean import one_line
from memory.handoffs import Ticket
from memory.knowledge import StoredFinding
from memory.proposals import StoredProposal
from memory.workspace import Workspace

SHOWN = 5
WAITING = frozenset({"waiting", "inconclusive"})
"""States of a proposal in which a person is asked."""


def status_of(ws: Workspace) -> str:
    """The project's own work as it stands now."""
    ledger = ws.ledger
    return standing(
        ledger.knowledge.findings(), ledger.proposals.all_latest(), ledger.handoffs.listed()
    )


def standing(
    findings: Sequence[StoredFinding],
    proposals: Sequence[StoredProposal],
    tickets: Sequence[Ticket],
) -> str:
    """A few lines, worst first. A pure function."""
    states = Counter(str(stored.state) for stored in findings)
    counted = ", ".join(f"{n} {state}" for state, n in sorted(states.items())) or "none"
    lines = [f"Findings: {counted}."]
    open_now = [s.finding for s in findings if s.state in ("open", "reopened") and
                s.finding.actionable]  # fmt: skip
    lines += [
        f"- {one_line(f.title)}: {f.units} of {f.units_total} ({f.change}) [{f.id}]"
        for f in open_now[:SHOWN]
    ]
    waiting = [s.proposal for s in proposals if s.state in WAITING]
    lines.append(f"Proposals that wait for a person: {len(waiting)} of {len(proposals)}.")
    lines += [f"- {p.id} r{p.revision}, risk {p.risk}, for {p.finding_id}" for p in waiting[:SHOWN]]
    open_tickets = [ticket for ticket in tickets if ticket.state == "open"]
    lines.append(f"Open hand-offs: {len(open_tickets)}.")
    lines += [
        f"- {one_line(str(t.body.get('title', '')))} ({one_line(str(t.body.get('where', '')))})"
        f" [{t.finding}]"
        for t in open_tickets[:SHOWN]
    ]
    return "\n".join(lines)
