"""What became of a proposal, in one sentence."""

from collections.abc import Sequence

from connectors.review.clean import one_line
from contracts.proposals import Decision, ProposalState, Release
from memory.proposals import StoredProposal
from memory.workspace import Workspace
from nodes.attribution.history import said_yes

_WAITS: dict[ProposalState, str] = {
    "drafting": "not applied: it is being drafted",
    "waiting": "not applied: it waits for a person",
    "approved": "not applied yet: approved, and its gate has not begun",
    "gating": "not applied yet: its gate runs",
    "inconclusive": "not applied: the gate was inconclusive, and it waits for a person",
    "stale": "not applied: the harness changed since, or a later revision took its place",
}


def outcome(
    ws: Workspace,
    stored: StoredProposal,
    release: Release | None,
    undo: Release | None,
    decisions: Sequence[Decision],
) -> str:
    """Where it stands: in place, taken back, or not applied and why.

    Args:
        ws: the project.
        stored: the proposal revision.
        release: the release that the story is of; None: there is none.
        undo: what took it back.
        decisions: all of the proposal, oldest first.
    """
    if release is None:
        return _not_applied(ws, stored, decisions)
    said = f"on {release.at:%Y-%m-%d} by a decision of {_who(ws, release)}"
    if release.undoes is not None:
        return f"took {release.undoes} back {said}: the exact bytes from before it"
    if undo is None:
        return f"applied {said}; not taken back"
    back = f"taken back by {undo.id} on {undo.at:%Y-%m-%d} ({_who(ws, undo)})"
    return f"applied {said}; {back}"


def _who(ws: Workspace, release: Release) -> str:
    names = dict.fromkeys(one_line(one.by, 60) for one in said_yes(ws, release))
    return " and ".join(names) or "nobody known"


def _not_applied(ws: Workspace, stored: StoredProposal, decisions: Sequence[Decision]) -> str:
    proposal = stored.proposal
    if stored.state in _WAITS:
        return _WAITS[stored.state]
    if stored.state in ("gate_rejected", "invalid"):
        report = ws.ledger.gate.report(proposal.hash)
        why = f": {one_line(report[0].reason, 200)}" if report is not None else ""
        return f"not applied: the gate said {report[0].verdict if report else 'no'}{why}"
    if stored.state == "stuck":
        stuck = ws.ledger.effects.of(kind="apply", proposal_hash=proposal.hash)
        reasons = "; ".join(one_line(one.reason, 200) for one in stuck if one.reason)
        return f"stuck half way: {reasons or 'the ledger names no reason'}"
    last = next((one for one in reversed(decisions) if one.type in ("reject", "expired")), None)
    if last is None:
        return f"not applied: {stored.state}"
    if last.type == "expired":
        return "not applied: nobody answered in time, which is a no"
    said = ", ".join(one_line(one, 200) for one in (last.reason, last.note) if one)
    why = f"because: {said}" if said else "without a reason"
    return f"not applied: rejected by {one_line(last.by, 60)} {why}"
