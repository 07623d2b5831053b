"""One person's answer to one exact text: entered once, or refused with the reason's own status."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from connectors.review.clean import safe
from connectors.review.diff import unified
from connectors.review.payload import ALTERNATIVE_KEY, EditedAction
from contracts.errors import PolicyRefused, StaleBase
from contracts.harness import HarnessSnapshot
from contracts.json_types import Json, canonical_json, sha256_hex
from contracts.people import Principal
from contracts.proposals import Decision, Proposal
from graph.installation import Door
from graph.server.problems import Problem
from graph.server.views import DecisionAnswer, Seats, decision_view
from memory.inbox import decisions_on
from memory.proposals import StoredProposal
from nodes.decide import WAITING, Entered, Person, name_problem, seats_needed, settled

TRIES = 4
"""Two people who press at the same moment meet on one seat; the later one takes the next."""


def is_text(text: str) -> str:
    """Text that can be stored as UTF-8.

    Raises:
        ValueError: it holds a lone surrogate or a NUL.
    """
    if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise ValueError("holds characters that are no text")
    return text


Text = Annotated[str, AfterValidator(is_text)]
Message = Annotated[str, Field(max_length=4000), AfterValidator(is_text)]


def _all_text(value: Json) -> None:
    """`is_text` for every string in it."""
    if isinstance(value, str):
        is_text(value)
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            is_text(key)
            _all_text(inner)
    elif isinstance(value, Sequence):
        for inner in value:
            _all_text(inner)


class Answer(BaseModel):
    """The body of a decision."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["approve", "edit", "reject"]
    message: Message | None = Field(
        default=None, description="Of a rejection `reason: note`; reasons are in docs/api.md."
    )
    edited_action: EditedAction | None = Field(
        default=None, description="Of an edit: `{args: {'text:<path>': full text}}`."
    )
    alternative: Literal["b", "c"] | None = Field(
        default=None, description="Of an edit, in place of texts: which alternative is picked."
    )
    card: Literal["approve", "override"] = Field(
        default="approve", description="Which card was read; an override is never meant by itself."
    )

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.type == "edit" and (self.edited_action is None) == (self.alternative is None):
            raise ValueError(
                "an edit needs `edited_action` with the new texts in `args`, or `alternative`"
            )
        if self.type != "edit" and self.alternative is not None:
            raise ValueError("`alternative` is of an edit; a pick waits for its own approval")
        if self.edited_action is not None:
            _all_text(self.edited_action.args)
        return self


def request_key(caller: Principal, key: str, answer: Answer, shown: str) -> str:
    """What is kept of an idempotency key: digests of the caller's key and of what it came with."""
    said = canonical_json([answer.model_dump(), shown])
    return f"{sha256_hex(f'{caller.name}|{key}'.encode())[:32]}.{sha256_hex(said)[:32]}"


async def decide(
    door: Door, caller: Principal, stored: StoredProposal, answer: Answer, *, shown: str,
    key: str | None,
) -> DecisionAnswer:  # fmt: skip
    """Enter the answer; what it leads to is driven by the dispatcher.

    Args:
        door: of the project.
        caller: who says it.
        stored: the newest revision.
        answer: what is said.
        shown: the hash of the text that the caller read.
        key: as `request_key` makes it; None: the call carries none.

    Raises:
        Problem: 403, 409, 412 or 422, and why.
    """
    proposal_id = stored.proposal.id
    for _ in range(TRIES):
        if again := await asyncio.to_thread(_earlier, door, proposal_id, caller, key):
            return await asyncio.to_thread(_answer, door, again)
        stored = await asyncio.to_thread(door.ws.ledger.proposals.latest, proposal_id)
        if stored.proposal.hash != shown:
            raise await asyncio.to_thread(stale, door, stored.proposal, shown)
        await asyncio.to_thread(_check, door, caller, stored, answer)
        try:
            entered = await door.service.enter_decision(
                proposal_id, _said(answer), _person(caller, key), expected_hash=shown,
                card=answer.card,
            )  # fmt: skip
        except (StaleBase, PolicyRefused) as refused:
            if await asyncio.to_thread(_earlier, door, proposal_id, caller, key):
                continue
            newest = await asyncio.to_thread(door.ws.ledger.proposals.latest, proposal_id)
            if newest.proposal.hash != shown:
                continue
            await asyncio.to_thread(_check, door, caller, newest, answer)
            raise Problem(422, str(refused)) from refused
        if entered.changed:
            raise _moved(entered)
        if entered.decision is not None and entered.first:
            return await asyncio.to_thread(_answer, door, entered.decision)
    raise Problem(409, "others decide on this right now; read it again and decide again")


def _person(caller: Principal, key: str | None) -> Person:
    return Person(name=caller.name, via="api", authenticated=True, key=key)


def _said(answer: Answer) -> dict[str, Json]:
    """The answer as the decide node reads it; a secret in the message is masked here."""
    said: dict[str, Json] = {"type": answer.type}
    if answer.message is not None:
        said["message"] = safe(answer.message)
    if answer.edited_action is not None:
        said["edited_action"] = answer.edited_action.model_dump(mode="json")
    if answer.alternative is not None:
        said["edited_action"] = {"args": {ALTERNATIVE_KEY: answer.alternative}}
    return said


def _earlier(door: Door, proposal: str, caller: Principal, key: str | None) -> Decision | None:
    """The decision that the same call made before.

    Raises:
        Problem: 422, when the key came with something else then.
    """
    if key is None:
        return None
    head = key.partition(".")[0]
    for decision in decisions_on(door.ws.ledger.db, proposal):
        if decision.by == caller.name and (decision.request_key or "").startswith(f"{head}."):
            if decision.request_key != key:
                raise Problem(
                    422, "Idempotency-Key: it was used for another answer; send a new one"
                )
            return decision
    return None


def _check(door: Door, caller: Principal, stored: StoredProposal, answer: Answer) -> None:
    """What the decide node would refuse, each with its own status.

    Raises:
        Problem: 409 or 403.
    """
    ledger, proposal = door.ws.ledger, stored.proposal
    needed = seats_needed(proposal.risk, door.ws.settings.review.second_person)
    said = ledger.proposals.decisions(proposal.id, proposal.revision, answer.card)
    counted = settled(said, needed)
    if counted is not None or stored.state not in WAITING[answer.card]:
        raise decided(stored, counted or _last(door, proposal))
    person = _person(caller, None)
    if problem := name_problem(proposal, person):
        raise Problem(403, problem)
    if any(decision.by == caller.name for decision in said):
        raise Problem(403, f"{caller.name} approved already; the other seat is for a second person")


def _last(door: Door, proposal: Proposal) -> Decision | None:
    """The newest decision on this revision, whatever its card."""
    found = decisions_on(door.ws.ledger.db, proposal.id)
    mine = [d for d in found if d.revision == proposal.revision and d.card != "undo"]
    return mine[-1] if mine else None


def decided(stored: StoredProposal, first: Decision | None) -> Problem:
    """409: there is a decision already, or nothing waits."""
    which = f"{stored.proposal.id} r{stored.proposal.revision} is {stored.state}"
    if stored.state == "inconclusive":
        which += "; its override card waits: read it and send `card: override`"
    by = f": {first.type} by {first.by}" if first is not None else ""
    shown = None if first is None else decision_view(first).model_dump(mode="json")
    return Problem(
        409, f"decided before{by}; {which}" if first is not None else f"nothing waits: {which}",
        more={"decision": shown, "state": stored.state},
    )  # fmt: skip


def decided_before(door: Door, stored: StoredProposal) -> Problem:
    """409 for a proposal that waits for nobody, with the newest decision on it."""
    return decided(stored, _last(door, stored.proposal))


def _moved(entered: Entered) -> Problem:
    changed: list[Json] = list(entered.changed)
    return Problem(
        409, "the harness changed since this was proposed, so nothing was recorded; the next "
        "revision is made on the new text and waits for its own answer",
        more={"decision": None, "changed": changed},
    )  # fmt: skip


def stale(door: Door, newest: Proposal, shown: str) -> Problem:
    """412: what changed between the text that was read and the one that stands now."""
    read = door.ws.ledger.proposals.by_hash(shown)
    known = read is not None and read.proposal.id == newest.id
    more: dict[str, Json] = {
        "proposal": newest.id, "revision": newest.revision, "hash": newest.hash,
        "changed": None, "diff": None,
    }  # fmt: skip
    if read is not None and known:
        artifacts = door.ws.ledger.artifacts
        before = artifacts.snapshot(read.proposal.candidate_revision)
        after = artifacts.snapshot(newest.candidate_revision)
        paths = before.changed(after)
        more |= {"changed": list(paths), "diff": _diff(before, after, paths)}
        said = f"you read r{read.proposal.revision}, r{newest.revision} stands now"
    else:
        said = f"that hash is of no revision of {newest.id}; r{newest.revision} stands now"
    return Problem(412, f"{said}: read it and decide again", more=more)


def _diff(before: HarnessSnapshot, after: HarnessSnapshot, paths: tuple[str, ...]) -> str:
    lines: list[str] = []
    for path in paths:
        old, new = before.files.get(path), after.files.get(path)
        change = unified(path, old.data if old else None, new.data if new else None, fold=None)
        lines += [safe(line) for line in change.lines] or [*change.notes]
    return "\n".join(lines)


def _answer(door: Door, decision: Decision) -> DecisionAnswer:
    ledger = door.ws.ledger
    newest = ledger.proposals.latest(decision.proposal)
    read = ledger.proposals.by_hash(decision.proposal_hash) or newest
    said = ledger.proposals.decisions(decision.proposal, decision.revision, decision.card)
    needed = seats_needed(read.proposal.risk, door.ws.settings.review.second_person)
    return DecisionAnswer(
        decision=decision_view(decision), first=True, state=newest.state,
        revision=newest.proposal.revision,
        seats=Seats(have=sum(one.type == "approve" for one in said), needed=needed),
    )  # fmt: skip
