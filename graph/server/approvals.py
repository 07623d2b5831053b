"""Proposals: list, read, decide, ask, defer. Releases, findings and runs are in `overview`."""

import asyncio
import base64
import binascii
import json
import re
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Annotated
from uuid import uuid4

from fastapi import APIRouter, Header, Query, Response
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, field_validator

from connectors.review.clean import safe
from contracts.errors import UsageError
from contracts.people import Principal
from graph.installation import Door
from graph.remarks import LONGEST
from graph.server import overview
from graph.server.deciding import Answer, Text, decide, decided_before, request_key
from graph.server.deps import DispatcherDep, InstallationDep, PrincipalDep, door_holding, doors_of
from graph.server.inbox import Status, detail, newest_first
from graph.server.problems import Problem
from graph.server.views import (
    REFUSALS,
    Changed,
    Decided,
    DecisionAnswer,
    ProblemView,
    ProposalDetail,
    ProposalPage,
    RemarkAnswer,
    remark_view,
)
from memory.ledger import Ledger
from memory.proposals import StoredProposal
from memory.trail import Remark
from nodes.decide import WAITING, Person

router = APIRouter(tags=["approvals"], responses=REFUSALS)

_HASH = re.compile(r"[0-9a-f]{64}")
_KEY = re.compile(r"[\x21-\x7e][\x20-\x7e]{0,254}")

_CLOSED: dict[str, object] = {"model": Decided, "description": "It waits for nobody."}

Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key", description="Any text of yours; with it a call can be repeated."
    ),
]
Project = Annotated[str | None, Query(description="One project; default: all of yours.")]


class Question(BaseModel):
    """The body of a question to the author."""

    model_config = ConfigDict(extra="forbid")

    text: Text = Field(min_length=1, max_length=LONGEST)


class Deferral(BaseModel):
    """The body of a deferral."""

    model_config = ConfigDict(extra="forbid")

    until: AwareDatetime = Field(description="RFC 3339; not shown as waiting before it.")

    @field_validator("until")
    @classmethod
    def _is_a_time_of_ours(cls, value: datetime) -> datetime:
        if not 1970 < value.year < 9999:  # the ends of the calendar have no UTC
            raise ValueError("names no time that could be meant")
        return value


@router.get("/proposals")
async def list_proposals(
    *,
    installation: InstallationDep,
    caller: PrincipalDep,
    status: Annotated[Status | None, Query(description="A state, or a group of states.")] = None,
    finding: Annotated[str | None, Query(max_length=100)] = None,
    project: Project = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: Annotated[str | None, Query(max_length=400)] = None,
) -> ProposalPage:
    """Proposals of the caller's projects, newest first; a cursor goes on where a page ended."""
    doors = await doors_of(installation, caller, project)
    before = None if cursor is None else _cursor(cursor)
    found = await asyncio.to_thread(
        newest_first, doors, status=status, finding=finding, limit=limit + 1, before=before
    )
    shown = [summary for _, summary in found[:limit]]
    more = len(found) > limit
    return ProposalPage(
        proposals=shown, next=_text_of(found[limit - 1][0], shown[-1].id) if more else None
    )


@router.get(
    "/proposals/{proposal}", response_model=ProposalDetail,
    responses={304: {"description": "It is what `If-None-Match` names."}},
)  # fmt: skip
async def read_proposal(
    proposal: str,
    installation: InstallationDep,
    caller: PrincipalDep,
    response: Response,
    if_none_match: Annotated[str | None, Header(alias="If-None-Match")] = None,
) -> ProposalDetail | Response:
    """The newest revision with its card; `ETag` is the hash that a decision sends back."""
    door, stored = await door_holding(
        installation, caller, "read", "proposal", _latest(proposal)
    )  # fmt: skip
    tag = f'"{stored.proposal.hash}"'
    # A hash names the text; what was said to it since is in the body, so only the text is spared.
    if if_none_match is not None and tag in _tags(if_none_match):
        return Response(status_code=304, headers={"ETag": tag})
    response.headers["ETag"] = tag
    return await asyncio.to_thread(detail, door, stored)


@router.post(
    "/proposals/{proposal}/decision",
    responses={
        409: {"model": Decided, "description": "Decided before, or the harness moved."},
        412: {"model": Changed, "description": "Another text stands now; what changed."},
        428: {"model": ProblemView, "description": "`If-Match` is missing."},
    },
)
async def decide_proposal(
    *,
    proposal: str,
    answer: Answer,
    installation: InstallationDep,
    dispatcher: DispatcherDep,
    caller: PrincipalDep,
    if_match: Annotated[
        str | None,
        Header(alias="If-Match", description="The hash of the text that was read, as its `ETag`."),
    ] = None,
    key: Key = None,
) -> DecisionAnswer:
    """Say yes, no, or edit. The answer comes at once; what it leads to is driven after it."""
    door, stored = await door_holding(
        installation, caller, "decide", "proposal", _latest(proposal)
    )  # fmt: skip
    shown = _shown(if_match)
    kept = None if key is None else request_key(caller, _checked(key), answer, shown)
    given = await decide(door, caller, stored, answer, shown=shown, key=kept)
    dispatcher.wake()
    return given


@router.post("/proposals/{proposal}/ask", responses={409: _CLOSED})
async def ask(
    proposal: str,
    question: Question,
    installation: InstallationDep,
    caller: PrincipalDep,
    key: Key = None,
) -> RemarkAnswer:
    """Put a question to the author; it is kept beside the card and decides nothing."""
    door, _ = await door_holding(installation, caller, "decide", "proposal", _latest(proposal))
    text, own = safe(question.text), _own(key)
    return await _kept(door, proposal, door.service.ask(proposal, text, _person(caller), own))


@router.post("/proposals/{proposal}/defer", responses={409: _CLOSED})
async def defer(
    proposal: str,
    deferral: Deferral,
    installation: InstallationDep,
    caller: PrincipalDep,
    key: Key = None,
) -> RemarkAnswer:
    """Put it off until a time; the card still expires when it would have."""
    door, _ = await door_holding(installation, caller, "decide", "proposal", _latest(proposal))
    until, own = deferral.until, _own(key)
    return await _kept(door, proposal, door.service.defer(proposal, until, _person(caller), own))


async def _kept(
    door: Door, proposal: str, saying: Coroutine[None, None, tuple[Remark, bool]]
) -> RemarkAnswer:
    """What was said, once it is kept.

    Raises:
        Problem: 409 where the proposal waits for nobody any more.
    """
    try:
        said, first = await saying
    except UsageError:
        newest = await asyncio.to_thread(door.ws.ledger.proposals.latest, proposal)
        if newest.state in WAITING["approve"] | WAITING["override"]:
            raise
        raise await asyncio.to_thread(decided_before, door, newest) from None
    return RemarkAnswer(remark=remark_view(said), first=first)


def _latest(proposal: str) -> Callable[[Ledger], StoredProposal]:
    def find(ledger: Ledger) -> StoredProposal:
        return ledger.proposals.latest(proposal)

    return find


def _person(caller: Principal) -> Person:
    return Person(name=caller.name, via="api", authenticated=True)


def _tags(header: str) -> list[str]:
    return [part.strip().removeprefix("W/") for part in header.split(",")]


def _shown(if_match: str | None) -> str:
    """The hash that `If-Match` names.

    Raises:
        Problem: 428 where it names none, 422 where it names what is no hash.
    """
    if if_match is None or if_match.strip() in ("", "*"):
        raise Problem(
            428, "If-Match: send the proposal's hash as you read it (the `ETag` of the GET)"
        )
    found = if_match.strip().strip('"')
    if not _HASH.fullmatch(found):
        raise Problem(422, "If-Match: needs one hash of 64 hexadecimal digits in quotes")
    return found


def _checked(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise Problem(422, "Idempotency-Key: needs 1 to 255 printable ASCII characters")
    return key


def _own(key: str | None) -> str:
    """The caller's key, or one that no other call has."""
    return uuid4().hex if key is None else _checked(key)


def _text_of(at: str, id_: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([at, id_]).encode()).decode()


def _cursor(text: str) -> tuple[str, str]:
    """Where a page goes on.

    Raises:
        Problem: 422, when it is none of ours.
    """
    try:
        at, id_ = json.loads(base64.urlsafe_b64decode(text.encode("ascii")))
    except (ValueError, TypeError, binascii.Error):
        at = id_ = None
    if not isinstance(at, str) or not isinstance(id_, str):
        raise Problem(422, "cursor: send `next` of the page before, as it is")
    return at, id_


router.include_router(overview.router)
