"""Turn a person's answer into one decision row, or say why it is none; route by the row."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NotRequired, cast

from langgraph.runtime import Runtime
from sqlalchemy import Connection
from typing_extensions import TypedDict

from contracts.context import RunContext
from contracts.errors import PolicyRefused
from contracts.json_types import Json, JsonObject, content_id
from contracts.proposals import (
    REJECT_REASONS,
    CardKind,
    Decision,
    DecisionId,
    DecisionType,
    Proposal,
    ProposalState,
    Risk,
    Via,
)
from memory.proposals import StoredProposal
from memory.workspace import Workspace, open_workspace
from nodes.evolution.revise import edited_revision, picked_label
from nodes.ports import open_harness

WAITING: Mapping[CardKind, frozenset[ProposalState]] = {
    "approve": frozenset({"waiting"}),
    "override": frozenset({"inconclusive"}),
    "undo": frozenset({"applied", "watching", "settled"}),
}
"""In which states of a proposal an answer on each kind of card can become a decision."""

_RISKS: tuple[Risk, ...] = ("low", "medium", "high")


class DecideReads(TypedDict):
    """What decide reads."""

    proposal: str
    card: CardKind
    revision: int
    answer: NotRequired[dict[str, Json] | None]
    answer_problem: NotRequired[str | None]


class DecideWrites(TypedDict):
    """What decide writes: nothing that a route depends on; routes read the ledger."""

    answer: None
    answer_problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Who answers. `authenticated`: a server checked the name, or the person owns the files."""

    name: str | None
    via: Via
    authenticated: bool
    key: str | None = None
    """The caller's idempotency key: the same person's second call with it gets the first answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entered:
    """What became of an answer: a decision (ours or the first one), a problem, or a moved base."""

    decision: Decision | None = None
    first: bool = False
    problem: str | None = None
    changed: tuple[str, ...] = ()


def seats_needed(risk: Risk, second_person: str) -> int:
    """Two people decide at or above the risk that the settings name, one below."""
    if second_person == "never":
        return 1
    return 2 if _RISKS.index(risk) >= _RISKS.index(cast("Risk", second_person)) else 1


def settled(decisions: Sequence[Decision], needed: int) -> Decision | None:
    """The decision that counts: any no, any edit, or the yes that fills the last seat."""
    for decision in decisions:
        if decision.type != "approve":
            return decision
    return decisions[needed - 1] if len(decisions) >= needed else None


def split_reason(message: str | None) -> tuple[str, str | None] | None:
    """`reason: note` in its parts; text without a known reason is `other`. None: no text."""
    text = (message or "").strip()
    if not text:
        return None
    head, _, rest = text.partition(":")
    if head.strip() in REJECT_REASONS:
        return head.strip(), rest.strip() or None
    return "other", text


def name_problem(proposal: Proposal, person: Person) -> str | None:
    """Why this person cannot decide on this proposal; None: they can."""
    if not person.name:
        return "a decision needs a name: send `by`, or sign in"
    if proposal.risk != "low" and not person.authenticated:
        return f"risk {proposal.risk}: only a signed-in person may decide; sign in and answer again"
    if proposal.risk != "low" and proposal.draft.author == f"person:{person.name}":
        return f"risk {proposal.risk}: {person.name} wrote this text, somebody else must approve it"
    return None


async def enter(
    ws: Workspace, stored: StoredProposal, card: CardKind, answer: JsonObject, person: Person
) -> Entered:
    """Insert the decision that an answer makes, or say why it makes none.

    The base is compared with the target first: an approval of an edit whose base moved is not
    recorded; the proposal becomes stale and evolution makes the next revision.
    """
    proposal = stored.proposal
    needed = seats_needed(proposal.risk, ws.settings.review.second_person)
    there = await asyncio.to_thread(
        ws.ledger.proposals.decisions, proposal.id, proposal.revision, card
    )
    counted = settled(there, needed) or await asyncio.to_thread(expired, ws, stored, card)
    if counted is not None:
        return Entered(decision=counted, first=False)
    if stored.state not in WAITING[card]:
        return Entered(
            problem=f"{proposal.id} r{proposal.revision} is {stored.state}, it waits for no answer"
        )
    said = _said(answer)
    who = Person(
        name=person.name or _text(answer.get("by")) or ws.settings.review.reviewer,
        via=person.via, authenticated=person.authenticated, key=person.key,
    )  # fmt: skip
    if problem := name_problem(proposal, who):
        return Entered(problem=problem)
    if any(d.by == who.name for d in there):
        return Entered(problem=f"{who.name} approved already; a second person must as well")
    if said.get("type") == "approve" and card != "undo":
        changed = await _moved(ws, proposal)
        if changed:
            await asyncio.to_thread(_set_state, ws, proposal, "stale")
            return Entered(changed=changed)
    return await asyncio.to_thread(
        lambda: _insert(ws, stored, card, said, who=who, seat=len(there) + 1)
    )


async def _moved(ws: Workspace, proposal: Proposal) -> tuple[str, ...]:
    """Harness paths that are not what the proposal was made on."""
    now = await (await asyncio.to_thread(open_harness, ws)).read()
    if now.revision == proposal.base_revision:
        return ()
    base = await asyncio.to_thread(ws.ledger.artifacts.snapshot, proposal.base_revision)
    return base.changed(now)


def _said(answer: JsonObject) -> Mapping[str, Json]:
    decisions = answer.get("decisions")
    first = decisions[0] if isinstance(decisions, Sequence) and decisions else {}
    return cast("Mapping[str, Json]", first)  # the payload's schema was checked at the interrupt


def _text(value: Json) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


def _insert(
    ws: Workspace,
    stored: StoredProposal,
    card: CardKind,
    said: Mapping[str, Json],
    *,
    who: Person,
    seat: int,
) -> Entered:
    proposal = stored.proposal
    kind = cast("DecisionType", said.get("type"))
    reason = split_reason(_text(said.get("message")))
    revised: Proposal | None = None
    if kind == "reject" and reason is None:
        known = ", ".join(REJECT_REASONS)
        return Entered(problem=f"a reject needs a reason ({known}) in `message`")
    if kind == "edit":
        if card != "approve":
            return Entered(
                problem="only a proposal that waits for its first approval can be edited"
            )
        try:
            revised = edited_revision(ws, proposal, said.get("edited_action"), by=who.name or "")
        except PolicyRefused as refused:
            return Entered(problem=f"the edit is refused: {refused}")
    why, note = reason if reason is not None else (None, None)
    label = picked_label(said.get("edited_action")) if kind == "edit" else None
    decision = Decision(
        id=DecisionId(
            content_id("d-", proposal.id, str(proposal.revision), card, str(seat), proposal.hash)
        ),
        proposal=proposal.id, revision=proposal.revision, proposal_hash=proposal.hash,
        card=card, seat=seat, type=kind, by=who.name or "", via=who.via, at=ws.ledger.db.clock(),
        reason=why if kind == "reject" else None,
        note=note if kind == "reject" else f"picked alternative {label}" if label else None,
        binds=_binds(ws, proposal, card), request_key=who.key,
    )  # fmt: skip
    with ws.ledger.db.write() as tx:
        first = ws.ledger.proposals.decide(tx, decision)
        if first:
            _follow(ws, tx, proposal, decision, revised)
    if first:
        return Entered(decision=decision, first=True)
    stands = ws.ledger.proposals.decisions(proposal.id, proposal.revision, card)[seat - 1]
    return Entered(decision=stands, first=False)


def _follow(
    ws: Workspace,
    tx: Connection,
    proposal: Proposal,
    decision: Decision,
    revised: Proposal | None,
) -> None:
    """What a decision changes at once, in its own transaction."""
    if revised is not None:
        ws.ledger.proposals.insert(tx, revised, state="drafting")
        return
    needed = seats_needed(proposal.risk, ws.settings.review.second_person)
    moves: dict[DecisionType, ProposalState] = {"reject": "rejected", "expired": "expired"}
    if decision.seat >= needed and decision.card != "undo":
        moves["approve"] = "approved"
    state = moves.get(decision.type)
    if state is not None and decision.card != "undo":
        ws.ledger.proposals.set_state(tx, proposal, state)


def _binds(ws: Workspace, proposal: Proposal, card: CardKind) -> str | None:
    if card == "override":
        report = ws.ledger.gate.report(proposal.hash)
        return report[1] if report else None
    if card == "undo":
        release = ws.ledger.effects.release_of(proposal.hash)
        return release.id if release else None
    return None


def _set_state(ws: Workspace, proposal: Proposal, state: ProposalState) -> None:
    with ws.ledger.db.write() as tx:
        ws.ledger.proposals.set_state(tx, proposal, state)
        ws.ledger.proposals.wake(tx, proposal.id)


def expired(ws: Workspace, stored: StoredProposal, card: CardKind) -> Decision | None:
    """The system's decision on a card whose time is over, entered now unless it was; else None."""
    if stored.state not in WAITING[card]:
        return None
    shown = ws.ledger.proposals.card(stored.proposal.id, stored.proposal.revision, card)
    if shown is None or ws.ledger.db.clock() < shown.expires_at:
        return None
    return expire(ws, stored, card).decision


def expire(ws: Workspace, stored: StoredProposal, card: CardKind) -> Entered:
    """The system's no for a card that nobody answered in time. A rejection, never a yes."""
    said: dict[str, Json] = {"type": "expired"}
    system = Person(name="tracemend", via="system", authenticated=True)
    return _insert(ws, stored, card, said, who=system, seat=1)


async def decide(state: DecideReads, runtime: Runtime[RunContext]) -> DecideWrites:
    """Enter the answer unless our own door did before resuming.

    Reads `proposal`, `revision`, `card`, `answer`, `answer_problem`; writes the ledger and
    `answer_problem`.
    """
    ws = await open_workspace(runtime)
    answer = state.get("answer")
    if answer is None:
        return {"answer": None, "answer_problem": state.get("answer_problem")}
    stored = await asyncio.to_thread(ws.ledger.proposals.latest, state["proposal"])
    if stored.proposal.revision != state["revision"]:
        # A door of ours entered an edit, which made the next revision: nothing is left to enter,
        # and an answer to this card must never decide on that one.
        return {"answer": None, "answer_problem": None}
    user = runtime.server_info.user if runtime.server_info is not None else None
    signed_in = user is not None and user.is_authenticated
    person = Person(
        name=user.identity if user is not None and signed_in else None,
        via="langgraph", authenticated=signed_in,
    )  # fmt: skip
    entered = await enter(ws, stored, state["card"], answer, person)
    return {"answer": None, "answer_problem": entered.problem}


Decided = Literal["gate", "apply", "plan", "learn", "evolution", "review"]


async def after_decide(state: DecideReads, runtime: Runtime[RunContext]) -> Decided:
    """Where the ledger's row leads; without a row, back to the person or on to a new base."""
    ws = await open_workspace(runtime)
    return await asyncio.to_thread(_decided, ws, state["proposal"], state["card"])


def _decided(ws: Workspace, proposal_id: str, card: CardKind) -> Decided:
    stored = ws.ledger.proposals.latest(proposal_id)
    proposal = stored.proposal
    if stored.state == "drafting":
        return "plan"
    needed = seats_needed(proposal.risk, ws.settings.review.second_person)
    decisions = ws.ledger.proposals.decisions(proposal.id, proposal.revision, card)
    counted = settled(decisions, needed)
    if counted is None:
        return "evolution" if stored.state == "stale" else "review"
    if counted.type == "approve":
        return "gate" if card == "approve" else "apply"
    return "learn"
