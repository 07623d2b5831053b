"""Hand-overs between agents: who gave the conversation to whom, as calls of a tool tell it.

The documented ones: LangGraph's `transfer_to_<agent>` (swarm, supervisor), OpenAI Agents'
`transfer_to_<agent>`, ADK's `transfer_to_agent(agent_name=...)`, and tools named `handoff_to_...`
or `delegate_to_...`. Handing over to a person ends a run and is none.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from contracts.json_types import Json
from contracts.traces import Span
from nodes.insights.detect.answers import parsed
from nodes.insights.detect.view import View

_TO = re.compile(
    r"\A(?:transfer|hand_?off|hand_over|delegate|route|escalate|switch|pass|forward)_(?:back_)?to_"
    r"([\w.-]{1,64})\Z",
    re.IGNORECASE,
)
_NAMED = ("agent_name", "agent", "target", "to", "recipient", "destination", "assignee")
_PERSON = re.compile(
    r"(?:\A|_)(?:human|humans|person|people|operator|staff|live|representative|support_team|user|"
    r"customer|colleague)(?:_|\Z)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """One hand-over."""

    span: Span
    """Of the tool; of the model call, where the hand-over left no span of its own."""
    giver: str
    """The agent that gives the conversation away; "" where the trace does not tell."""
    taker: str
    asked_at: Span | None
    """The model call that asked for it."""


def transfers(view: View) -> Iterator[Transfer]:
    """Every hand-over to another agent, in order."""
    ran = {call.tool for call in view.calls.values()}
    asked: dict[str, Span] = {}
    for span in view.trace.spans:
        if span.kind == "llm":
            for _, tool, raw in (one for m in span.messages_out for one in m.tool_calls):
                asked[tool] = span
                value = parsed(raw) if tool not in ran else None
                taker = _taker(tool, value if isinstance(value, dict) else {})
                if tool not in ran and taker is not None:
                    yield _transfer(view, span, taker, span)
        elif span.id in view.calls:
            call = view.calls[span.id]
            taker = _taker(call.tool, call.arguments or {})
            if taker is not None:
                yield _transfer(view, span, taker, asked.get(call.tool))


def _transfer(view: View, span: Span, taker: str, asked_at: Span | None) -> Transfer:
    agent = _agent_of(view, span)
    giver = norm(agent.name) if agent is not None else ""
    return Transfer(span=span, giver=giver, taker=norm(taker), asked_at=asked_at)


def norm(name: str) -> str:
    """An agent's name without what differs between a tool's name and a span's."""
    plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    return plain.removesuffix("_agent") or plain


def _taker(tool: str, arguments: Mapping[str, Json]) -> str | None:
    """Which agent the tool hands over to; None: it hands over to none, or to a person."""
    match = _TO.match(re.sub(r"[\s-]+", "_", tool[:120]))
    if match is None:
        return None
    taker: str | None = match[1]
    if match[1].lower() in ("agent", "agents", "other_agent"):
        values = [arguments.get(key) for key in _NAMED]
        taker = next((v[:64] for v in values if isinstance(v, str) and v.strip()), None)
    return None if taker is None or _PERSON.search(taker) is not None else taker


def _agent_of(view: View, span: Span) -> Span | None:
    """The agent or node under which the step ran; not the root, which stands for all of them."""
    parent = view.by_id.get(span.parent_id) if span.parent_id else None
    while parent is not None and parent.parent_id is not None:
        if parent.kind == "agent" or (parent.kind == "chain" and parent.name != "tools"):
            return parent
        parent = view.by_id.get(parent.parent_id)
    return None
