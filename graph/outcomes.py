"""What a run came to, what a decision led to, and which stored answer an interrupt gets."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from contracts.errors import TracemendError
from contracts.gate import GateReport
from contracts.json_types import Json, JsonObject
from contracts.proposals import CardKind, Decision, Proposal, ProposalState, Release
from graph.drive import Pending, Standing
from memory.database import rfc3339
from memory.ledger import Ledger
from memory.proposals import StoredProposal
from memory.workspace import Workspace
from nodes.decide import expired, seats_needed, settled


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One run after it was driven as far as it goes now."""

    thread: str
    kind: str
    finding: str | None
    proposal: str | None
    state: ProposalState | None
    waiting: bool
    values: JsonObject
    problem: TracemendError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a decision, and of everything it led to."""

    decision: Decision | None
    first: bool
    state: ProposalState
    proposal: Proposal
    """The newest revision: after a moved base, the one that waits now."""
    changed: tuple[str, ...]
    report: tuple[GateReport, str] | None
    release: Release | None
    refused: str | None = None
    """Why the newest revision has no plan, when its plan was refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """The release that took another one back."""

    release: Release
    first: bool
    """False: it was taken back before; this is that answer."""


def ran_to(ledger: Ledger, thread: str, kind: str, standing: Standing) -> Ran:
    """A run where it stands now."""
    proposal = standing.values.get("proposal")
    finding = standing.values.get("finding")
    stored = ledger.proposals.latest(str(proposal)) if proposal else None
    return Ran(
        thread=thread, kind=kind, finding=str(finding) if finding else None,
        proposal=str(proposal) if proposal else None, state=stored.state if stored else None,
        waiting=standing.started and not standing.finished, values=standing.values,
    )  # fmt: skip


def not_driven(
    thread: str, kind: str, problem: TracemendError | None = None, *, why: str | None = None
) -> Ran:
    """A run that was not driven: it failed again, is not to be driven, or not yet (`why`)."""
    return Ran(
        thread=thread, kind=kind, finding=None, proposal=None, state=None, waiting=False,
        values={"why": why} if why else {}, problem=problem,
    )  # fmt: skip


def led_to(
    ledger: Ledger,
    proposal_id: str,
    decision: Decision | None,
    *,
    first: bool,
    changed: tuple[str, ...] = (),
) -> Outcome:
    """What a decision led to so far."""
    stored = ledger.proposals.latest(proposal_id)
    decided = stored.proposal
    if decision is not None and decision.proposal_hash != decided.hash:
        earlier = ledger.proposals.by_hash(decision.proposal_hash)
        decided = earlier.proposal if earlier is not None else decided
    return Outcome(
        decision=decision, first=first, state=stored.state, proposal=stored.proposal,
        changed=changed or _changed(ledger, decided), report=ledger.gate.report(decided.hash),
        release=ledger.effects.release_of(decided.hash), refused=_refused(ledger, stored.proposal),
    )  # fmt: skip


def _refused(ledger: Ledger, proposal: Proposal) -> str | None:
    done = ledger.steps.get(proposal.thread, f"plan:{proposal.revision}:approve") or {}
    reason = done.get("why")
    return str(reason) if reason else None


def _changed(ledger: Ledger, proposal: Proposal) -> tuple[str, ...]:
    """What somebody changed between the yes and the write, when that stopped the write."""
    effect = ledger.effects.find(kind="apply", proposal_hash=proposal.hash)
    if effect is None or effect.state not in ("aborted", "stuck"):
        return ()
    return (effect.reason or "the harness changed",)


def shown_at(ledger: Ledger, pending: Pending) -> tuple[StoredProposal, CardKind]:
    """The newest revision of the proposal that an interrupt is about, and its kind of card."""
    requests = cast("Sequence[JsonObject]", pending.payload["action_requests"])
    args = cast("JsonObject", requests[0]["args"])
    card = cast("JsonObject", pending.payload["card"])
    stored = ledger.proposals.latest(str(args["proposal_id"]))
    return stored, cast("CardKind", card["kind"])


def expiry_of(ledger: Ledger, standing: Standing) -> str | None:
    """When the card that a run waits at expires, RFC 3339 UTC; None: it waits at none."""
    if not standing.pending:
        return None
    stored, card = shown_at(ledger, standing.pending[0])
    shown = ledger.proposals.card(stored.proposal.id, stored.proposal.revision, card)
    return rfc3339(shown.expires_at) if shown is not None else None


def answered(ws: Workspace, standing: Standing) -> bool:
    """Whether the ledger holds what a waiting run waits for. Reads only, expiry aside."""
    return bool(standing.pending) and _there(ws, standing.pending[0]) is not None


def stored_answer(ws: Workspace, pending: Pending) -> JsonObject | None:
    """The answer that the ledger holds for this interrupt; None: it waits for a person.

    A card whose time is over is answered here, by the system's no.
    """
    there = _there(ws, pending)
    if there is not None:
        return there
    decision = expired(ws, *shown_at(ws.ledger, pending))
    return _answer(decision) if decision is not None else None


def _there(ws: Workspace, pending: Pending) -> JsonObject | None:
    stored, card = shown_at(ws.ledger, pending)
    proposal = stored.proposal
    needed = seats_needed(proposal.risk, ws.settings.review.second_person)
    decisions = ws.ledger.proposals.decisions(proposal.id, proposal.revision, card)
    counted = settled(decisions, needed)
    if counted is not None:
        return _answer(counted)
    if stored.state in ("stale", "drafting"):
        # Nothing is left to answer: the base moved, or an edit made the next revision. The
        # decide node enters no decision in these states and routes on by the ledger.
        return {"decisions": [{"type": "approve"}], "by": None}
    return None


def _answer(decision: Decision) -> JsonObject:
    """A stored decision as the answer that resumes its interrupt; the ledger's row counts."""
    kind = "reject" if decision.type == "expired" else decision.type
    said: dict[str, Json] = {"type": kind}
    if kind == "reject":
        said["message"] = f"{decision.reason or 'other'}: {decision.note or decision.type}"
    return {"decisions": [said], "by": decision.by}
