"""Where a request goes, and whether what insights found is worth an optimisation pass."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NotRequired, cast

from langgraph.runtime import Runtime
from typing_extensions import TypedDict

from contracts.context import RunContext
from contracts.errors import UsageError
from contracts.findings import Finding
from contracts.json_types import Json, JsonObject, canonical_json, sha256_hex
from memory.workspace import Workspace, open_workspace, thread_of

RequestKind = Literal["alert", "improve", "question", "watch", "undo"]
REQUEST_KINDS: tuple[RequestKind, ...] = ("alert", "improve", "question", "watch", "undo")


class AlertBody(TypedDict):
    """What started a run from outside. `window` is {start, end} in RFC 3339 when it names one."""

    source: str
    key: NotRequired[str | None]
    window: NotRequired[JsonObject | None]
    body: NotRequired[Json]


class Request(TypedDict):
    """The graph's input; which keys matter depends on `kind`."""

    kind: RequestKind
    alert: NotRequired[AlertBody]
    finding: NotRequired[str | None]
    text: NotRequired[str]
    release: NotRequired[str]
    slot: NotRequired[str]
    """Of a watch that a schedule asks for: each slot counts anew."""


class RouterReads(TypedDict):
    """What the router reads."""

    request: Request


class RouterWrites(TypedDict):
    """What the router writes."""

    route: Literal["insights", "watch", "apply", "plan", "end"]
    proposal: NotRequired[str]
    """For watch and undo: the proposal of the release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Triage:
    """What insights' findings lead to, and why."""

    next: Literal["evolution", "handoff", "end"]
    finding: str | None
    why: str


def alert_key(alert: AlertBody) -> str:
    """The sender's key, else the SHA-256 of the canonical body: equal alerts are one incident."""
    return alert.get("key") or sha256_hex(canonical_json(alert.get("body")))


def checked_request(value: object) -> Request:
    """The request, when it is one.

    Raises:
        UsageError: names what is missing.
    """
    if not isinstance(value, Mapping) or value.get("kind") not in REQUEST_KINDS:
        raise UsageError(f"request.kind: needs one of {', '.join(REQUEST_KINDS)}")
    kind = value["kind"]
    needs = {"alert": "alert", "question": "text", "watch": "release", "undo": "release"}.get(kind)
    if needs is not None and not value.get(needs):
        raise UsageError(f"request.{needs}: a request of kind {kind!r} needs it")
    if kind == "alert" and not isinstance(value["alert"], Mapping):
        raise UsageError("request.alert: needs an object with `source` and `body`")
    return cast("Request", value)


def triage(
    findings: Sequence[Finding], *, open_for: str | None, asked: str | None = None
) -> Triage:
    """Serious enough for an optimisation pass? The rule, without effects.

    Args:
        findings: ranked, best first.
        open_for: the finding of the harness' one open proposal, if there is one.
        asked: a finding that a person asked to improve; it goes before the ranking.
    """
    if asked is not None:
        wanted = [f for f in findings if f.id == asked]
    else:
        actionable = [f for f in findings if f.actionable]
        wanted = [f for f in actionable if f.text_fixable] or actionable
    if not wanted:
        return Triage(next="end", finding=None, why="nothing is new, risen or chronic")
    top = wanted[0]
    if not top.text_fixable:
        return Triage(next="handoff", finding=top.id, why=f"text cannot fix it: {top.remedy}")
    if open_for == top.id:
        return Triage(next="end", finding=top.id, why="linked to its open proposal")
    if open_for is not None:
        return Triage(next="end", finding=top.id, why="ready: another proposal is open")
    return Triage(next="evolution", finding=top.id, why=f"{top.change}, {top.units} units")


async def router(state: RouterReads, runtime: Runtime[RunContext]) -> RouterWrites:
    """Bind the thread to its project and choose the branch. Reads `request`, writes `route`."""
    ws = await open_workspace(runtime)
    request = checked_request(state["request"])
    return await asyncio.to_thread(_route, ws, thread_of(runtime), request)


def _route(ws: Workspace, thread: str, request: Request) -> RouterWrites:
    kind = request["kind"]
    ws.ledger.incidents.open(
        thread, kind=kind, key=incident_key(request), request=cast("JsonObject", request)
    )
    if kind == "alert":
        alert = request["alert"]
        owner = ws.ledger.incidents.claim_alert(
            source=alert["source"], key=alert_key(alert), thread=thread,
            body=cast("JsonObject", alert),
        )  # fmt: skip
        return {"route": "insights" if owner == thread else "end"}
    if kind in ("watch", "undo"):
        release = ws.ledger.effects.release(request["release"])
        if kind == "watch":
            return {"route": "watch", "proposal": release.proposal}
        stored = ws.ledger.proposals.by_hash(release.proposal_hash)
        if stored is None:
            raise UsageError(f"{release.id}: its proposal is not in the ledger")
        which = stored.proposal
        decided = ws.ledger.proposals.decision(which.id, which.revision, "undo")
        return {"route": "apply" if decided else "plan", "proposal": which.id}
    return {"route": "insights"}


def incident_key(request: Request) -> str:
    """What makes two requests the same: the alert's key, the finding, the release or the text."""
    if request["kind"] == "alert":
        return alert_key(request["alert"])
    if request["kind"] == "watch" and request.get("slot"):
        return f"{request['release']}@{request['slot']}"
    return str(request.get("finding") or request.get("release") or request.get("text") or "")


async def after_router(
    state: RouterWrites, runtime: Runtime[RunContext]
) -> Literal["insights", "watch", "apply", "plan", "__end__"]:
    """The branch that the router chose."""
    del runtime
    route = state["route"]
    return "__end__" if route == "end" else route
