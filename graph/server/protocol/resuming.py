"""A resume: exactly one pending interrupt, by its id, entered as a decision in the ledger.

The dispatcher resumes the thread with what the ledger holds, as after every other door; so what a
client sent never reaches the graph, and the decide node reads the row.
"""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from pydantic import ValidationError

from connectors.review.clean import safe
from connectors.review.payload import ResumeAnswer
from contracts.codec import to_json
from contracts.errors import UsageError
from contracts.json_types import Json, JsonObject
from contracts.people import Principal
from contracts.proposals import CardKind, Decision
from graph.drive import Pending, Standing
from graph.installation import Door
from graph.outcomes import shown_at
from graph.server.problems import Problem
from graph.server.protocol.bodies import Command
from graph.server.protocol.following import ACTIVE
from memory.inbox import decisions_on
from memory.ledger import Ledger
from memory.proposals import StoredProposal
from memory.protocol import RunRow
from nodes.decide import Entered, Person, enter, name_problem

_INTERRUPT = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """What a client answers to which interrupt."""

    run: str
    thread: str
    interrupt: str
    answer: JsonObject
    body: JsonObject


def checked_command(command: Command) -> tuple[str, JsonObject]:
    """The interrupt's id and the answer to it.

    Raises:
        Problem: 501 for what could go around a person, 422 for what is no answer by id.
    """
    if command.goto is not None or command.update is not None:
        raise Problem(
            501, "command: `goto` and `update` could go around the reviewer; send `resume`"
        )
    by_id = 'command.resume: needs {"<interrupt id>": {"decisions": [{"type": ...}]}}'
    if not isinstance(command.resume, Mapping) or not command.resume:
        raise Problem(422, by_id)
    if len(command.resume) != 1:
        raise Problem(422, f"{by_id}, one interrupt a call")
    interrupt, value = next(iter(command.resume.items()))
    if not _INTERRUPT.fullmatch(interrupt):
        raise Problem(422, by_id)
    try:
        answer = ResumeAnswer.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "answer"
        raise Problem(422, f"command.resume: {where}: {first['msg']}") from error
    said: dict[str, Json] = answer.model_dump(mode="json")
    decision = answer.decisions[0].model_dump(mode="json")
    if answer.decisions[0].message is not None:
        decision["message"] = safe(answer.decisions[0].message)
    return interrupt, {**said, "decisions": [decision]}


async def resume(door: Door, caller: Principal, asked: Resume) -> RunRow:
    """Enter the answer and note the run that it makes.

    Raises:
        Problem: 409 for an id that waits for nothing (with the first decision, when there is one),
            403 and 422 for an answer that makes no decision.
    """
    standing = await door.driver.standing(asked.thread)
    pending = next((one for one in standing.pending if one.id == asked.interrupt), None)
    if pending is None:
        raise await asyncio.to_thread(_stale, door.ws.ledger, standing)
    stored, card = await asyncio.to_thread(_shown, door.ws.ledger, pending)
    person = Person(name=caller.name, via="langgraph", authenticated=True)
    entered = await enter(door.ws, stored, card, {**asked.answer, "by": caller.name}, person)
    if entered.problem is not None:
        raise await asyncio.to_thread(_refused, door, stored, card, person, entered)
    if entered.decision is not None and not entered.first:
        raise _decided(entered.decision)
    return await asyncio.to_thread(_noted, door.ws.ledger, asked)


def _stale(ledger: Ledger, standing: Standing) -> Problem:
    """409 for an interrupt that does not wait, with what was decided on its proposal last."""
    proposal = standing.values.get("proposal")
    said = decisions_on(ledger.db, str(proposal)) if proposal else []
    return Problem(
        409, "command.resume: no such interrupt waits on this thread; read its state again",
        more={
            "interrupts": [one.id for one in standing.pending],
            "decision": to_json(said[-1]) if said else None,
        },
    )  # fmt: skip


def _shown(ledger: Ledger, pending: Pending) -> tuple[StoredProposal, CardKind]:
    """The proposal revision of the interrupt's card, which must be the newest.

    Raises:
        Problem: 409, a newer revision waits or is being made.
    """
    try:
        stored, card = shown_at(ledger, pending)
    except UsageError as error:
        raise Problem(409, str(error)) from error
    requests = cast("list[JsonObject]", pending.payload["action_requests"])
    args = cast("JsonObject", requests[0]["args"])
    newest = stored.proposal
    if args.get("proposal_hash") != newest.hash:
        raise Problem(
            409, f"{newest.id}: r{newest.revision} is newer than this card; read the state again",
            more={"revision": newest.revision, "hash": newest.hash},
        )  # fmt: skip
    return stored, card


def _refused(
    door: Door, stored: StoredProposal, card: CardKind, person: Person, entered: Entered
) -> Problem:
    """Why an answer made no decision, with the status that its reason has."""
    proposal, said = stored.proposal, entered.problem or ""
    there = door.ws.ledger.proposals.decisions(proposal.id, proposal.revision, card)
    if name_problem(proposal, person) == said or any(one.by == person.name for one in there):
        return Problem(403, said)
    newest = door.ws.ledger.proposals.latest(proposal.id)
    moved = newest.state != stored.state or "waits for no answer" in said
    return Problem(409 if moved else 422, said)


def _decided(first: Decision) -> Problem:
    return Problem(
        409, f"decided before: {first.type} by {first.by}; that stands",
        more={"decision": to_json(first)},
    )  # fmt: skip


def _noted(ledger: Ledger, asked: Resume) -> RunRow:
    """The run's row; the runs before it came to rest at the interrupt that is answered now."""
    for status in ACTIVE:
        for before in ledger.protocol.runs(thread=asked.thread, status=status):
            ledger.protocol.set_run(before.run, "interrupted")
    with ledger.db.write() as tx:
        ledger.protocol.put_run(tx, asked.run, asked.thread, asked.body)
    row = ledger.protocol.run(asked.run)
    if row is None:
        raise Problem(409, "run_id: taken; send it again")
    return row
