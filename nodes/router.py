"""Where a request goes, and whether what insights found is worth an optimisation pass."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NotRequired, cast, get_args

from langgraph.runtime import Runtime
from sqlalchemy import Connection
from typing_extensions import TypedDict

from connectors.models.chat import open_model
from contracts.codec import to_json
from contracts.context import RunContext
from contracts.errors import UsageError
from contracts.findings import TEXT_REMEDIES, Finding
from contracts.json_types import Json, JsonObject, canonical_json, sha256_hex
from memory.workspace import Workspace, open_workspace, thread_of
from nodes.insights.spending import Meter
from nodes.intent import ANSWER_TOKENS, TOKENS, Decided, by_model, by_words

RequestKind = Literal["alert", "improve", "question", "watch", "undo", "text"]
"""`text` is what a person wrote without saying which of the others it is; the router decides."""
REQUEST_KINDS: tuple[RequestKind, ...] = get_args(RequestKind)


UNCLEAR = 0.3
"""Confidence of a diagnosis below which no edit is drafted; rules alone are never below it."""
MINOR_RATE = 0.1
"""Share of units: a finding of low severity that is surely (95 %) rarer is listed only."""
INTENT = "router.intent"
"""The step under which it is kept what free text stands for."""
_FINDING = re.compile(r"\bf-[a-z2-7]{10}\b")


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
    about: NotRequired[Literal["status"]]
    """Of a question that the router made of free text: answered from the ledger, without traces."""


class RouterReads(TypedDict):
    """What the router reads."""

    request: Request


class RouterWrites(TypedDict):
    """What the router writes."""

    route: Literal["insights", "watch", "apply", "plan", "end"]
    proposal: NotRequired[str]
    """For watch and undo: the proposal of the release."""
    request: NotRequired[Request]
    """For free text: the request that it stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Triage:
    """What insights' findings lead to, and why."""

    next: Literal["evolution", "handoff", "end"]
    finding: str | None
    why: str


def alert_key(alert: AlertBody) -> str:
    """The sender's key, else the SHA-256 of the canonical body: equal alerts are one incident."""
    return alert.get("key") or sha256_hex(canonical_json(alert.get("body")))


_NEEDS: Mapping[str, str] = {
    "alert": "alert", "question": "text", "text": "text", "watch": "release", "undo": "release",
}  # fmt: skip


def checked_request(value: object) -> Request:
    """The request, when it is one.

    Raises:
        UsageError: names what is missing.
    """
    if not isinstance(value, Mapping) or value.get("kind") not in REQUEST_KINDS:
        raise UsageError(f"request.kind: needs one of {', '.join(REQUEST_KINDS)}")
    kind = value["kind"]
    needs = _NEEDS.get(kind)
    if needs is not None and not value.get(needs):
        raise UsageError(f"request.{needs}: a request of kind {kind!r} needs it")
    if kind == "text" and not (isinstance(value["text"], str) and value["text"].strip()):
        raise UsageError("request.text: needs words")
    if kind == "alert" and not isinstance(value["alert"], Mapping):
        raise UsageError("request.alert: needs an object with `source` and `body`")
    return cast("Request", value)


def triage(
    findings: Sequence[Finding], *, open_for: str | None, asked: str | None = None
) -> Triage:
    """Serious enough for an optimisation pass? The rule, without effects and without a model.

    Of the findings that are worth it, the first whose best remedy is text and whose cause is known
    goes on; then the first that text may mend all the same; then the first at all, which is handed
    off. What a person asked for goes before ranking and severity.

    Args:
        findings: ranked, best first.
        open_for: the finding of the harness' one open proposal, if there is one.
        asked: a finding that a person asked to improve; it goes before the ranking.
    """
    minors: list[str] = []
    if asked is not None:
        wanted = [f for f in findings if f.id == asked]
    else:
        actionable = [f for f in findings if f.actionable]
        wanted = sorted((f for f in actionable if minor(f) is None), key=_order)
        minors = [why for f in actionable if (why := minor(f)) is not None]
    if not wanted:
        why = minors[0] if minors else "nothing is new, risen or chronic"
        return Triage(next="end", finding=None, why=why)
    return _triaged(wanted[0], open_for=open_for, asked=asked is not None)


def _triaged(top: Finding, *, open_for: str | None, asked: bool) -> Triage:
    """What the one finding leads to."""
    if not top.text_fixable:
        return Triage(next="handoff", finding=top.id, why=f"text cannot fix it: {top.remedy}")
    if open_for == top.id:
        return Triage(next="end", finding=top.id, why="linked to its open proposal")
    if not asked and _unclear(top):
        sure = f"{top.diagnosis.confidence:.0%}"
        why = f"its cause is not clear enough for an edit ({sure}); a person has to look"
        return Triage(next="handoff", finding=top.id, why=why)
    if open_for is not None:
        return Triage(next="end", finding=top.id, why="ready: another proposal is open")
    return Triage(next="evolution", finding=top.id, why=f"{top.change}, {top.units} units")


def minor(finding: Finding) -> str | None:
    """Why a finding is listed but not worth a person's time; None: it is. A pure function."""
    if finding.severity == "low" and finding.rate[2] < MINOR_RATE:
        seen = f"{finding.units} of {finding.units_total}"
        return f"of low severity and seldom ({seen}): listed, not worked on"
    return None


def _order(finding: Finding) -> tuple[bool, bool, bool]:
    """Text first, then what text may mend, then the rest; the ranking decides among equals."""
    text = finding.remedy in TEXT_REMEDIES
    return not finding.text_fixable, finding.text_fixable and _unclear(finding), not text


def _unclear(finding: Finding) -> bool:
    return finding.diagnosis.confidence < UNCLEAR


async def router(state: RouterReads, runtime: Runtime[RunContext]) -> RouterWrites:
    """Bind the thread to its project and choose the branch.

    Reads `request`; writes `route`, and for free text the `request` that it stands for.
    """
    ws = await open_workspace(runtime)
    request, thread = checked_request(state["request"]), thread_of(runtime)
    routed = await asyncio.to_thread(_route, ws, thread, request)
    if request["kind"] != "text":
        return routed
    return {**routed, "request": await meant(ws, thread, request)}


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


async def meant(ws: Workspace, thread: str, request: Request) -> Request:
    """The request that free text stands for; decided once, with why and what it cost.

    Raises:
        ConfigError: `models.router` cannot be opened.
    """
    text = request["text"]
    kept = await asyncio.to_thread(ws.ledger.steps.get, thread, INTENT)
    if kept is None:
        decided = await _decide(ws, thread, text)

        def write(tx: Connection) -> dict[str, Json]:
            if decided.tokens:
                ws.ledger.spends.add(
                    tx, "triage", decided.asked or "", key=f"{thread}:{INTENT}",
                    tokens=decided.tokens, cost_usd=decided.cost_usd, thread=thread,
                )  # fmt: skip
            return to_json(decided)

        kept = await asyncio.to_thread(ws.ledger.steps.once, thread, INTENT, write)
    if kept["intent"] == "improve":
        named = _FINDING.search(text)
        known = {str(s.finding.id) for s in await asyncio.to_thread(ws.ledger.knowledge.findings)}
        finding = named[0] if named is not None and named[0] in known else None
        return {"kind": "improve", "finding": finding, "text": text}
    if kept["intent"] == "status":
        return {"kind": "question", "text": text, "about": "status"}
    return {"kind": "question", "text": text}


async def _decide(ws: Workspace, thread: str, text: str) -> Decided:
    """By the router model where one is set and may be asked, else by words."""
    name = ws.settings.models.router
    if name is None:
        return by_words(text)
    refusal = await asyncio.to_thread(Meter(ws, thread).refusal, tokens=TOKENS)
    if refusal is not None:
        rules = by_words(text)
        return replace(rules, why=f"{name} was not asked: {refusal}; {rules.why}")
    model = await asyncio.to_thread(
        open_model, name, key="models.router", root=ws.root, answer_tokens=ANSWER_TOKENS
    )
    return await by_model(model, name, text)


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
