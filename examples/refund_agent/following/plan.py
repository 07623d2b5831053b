"""Decide the next step of a conversation: a tool call, or the answer."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from examples.refund_agent.following.directives import Directives
from examples.refund_agent.following.request import TRADE, Request


@dataclass(frozen=True, slots=True)
class Done:
    """A tool call that was made, and what came back."""

    tool: str
    arguments: Mapping[str, object]
    content: str
    failed: bool

    @property
    def statuses(self) -> frozenset[int]:
        """HTTP statuses that the error text names."""
        return frozenset(int(code) for code in re.findall(r"\b[45]\d\d\b", self.content))


@dataclass(frozen=True, slots=True)
class NextCall:
    """Call this tool now."""

    tool: str
    arguments: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Answer:
    """Say this to the customer and stop."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """All that the model goes by."""

    request: Request
    tools: Mapping[str, tuple[str, ...]]
    """Bound tools and the names of their parameters."""
    rules: Directives
    history: Sequence[Done]


def next_step(situation: Situation) -> NextCall | Answer:
    """The next call of the plan, a repeated or a substitute call after a failure, or the answer."""
    request = situation.request
    if request.order is None and request.wish != "loyalty":
        return Answer("Could you give me the number of your order, please?")
    last = situation.history[-1] if situation.history else None
    if last is not None and last.failed:
        return _after_failure(situation, last)
    tried = {done.tool for done in situation.history}
    steps = [tool for tool in TRADE[request.wish] if tool in situation.tools]
    lost = [done for done in _latest(situation.history) if done.failed]
    if any(situation.rules.instead_of(done.tool) in tried for done in lost):
        queued = _fact(situation, "status") == "queued"
        return Answer(_success(situation) if queued else _failure(situation, lost[-1]))
    for tool in steps:
        if tool not in tried:
            return _call(situation, tool)
    return Answer(_success(situation))


def _latest(history: Sequence[Done]) -> list[Done]:
    """The latest call of each tool."""
    return list({done.tool: done for done in history}.values())


def _after_failure(situation: Situation, last: Done) -> NextCall | Answer:
    failures = 0
    for done in reversed(situation.history):
        if done.tool != last.tool:
            break
        failures += 1
    if failures <= situation.rules.retries_of(last.tool, last.statuses):
        return NextCall(last.tool, last.arguments)
    instead = situation.rules.instead_of(last.tool)
    tried = {done.tool for done in situation.history}
    if instead is not None and instead in situation.tools and instead not in tried:
        return _call(situation, instead)
    return Answer(_failure(situation, last))


def _call(situation: Situation, tool: str) -> NextCall | Answer:
    """Call the tool, or first what the instructions put before it."""
    tried = {done.tool for done in situation.history}
    seen = {tool}
    while True:
        missing = [
            first
            for first in situation.rules.before(tool)
            if first in situation.tools and first not in tried | seen
        ]
        if not missing:
            break
        tool = missing[0]
        seen.add(tool)
    if situation.rules.forbids(tool):
        return Answer("I am sorry, I am not able to do that from here.")
    return NextCall(tool, {name: _value(situation, name) for name in situation.tools[tool]})


def _value(situation: Situation, parameter: str) -> str:
    """What a model would pass for a parameter of this name."""
    request = situation.request
    if parameter.endswith("_id"):
        return situation.rules.write_id(parameter, request.order or "")
    if parameter == "customer":
        return request.customer or ""
    if parameter in {"amount_eur", "amount"}:
        return _fact(situation, "amount_eur")
    if parameter == "reason":
        return "the payment did not go through"
    if any(done.tool == "payment_api" and done.failed for done in _latest(situation.history)):
        return "Your refund could not be paid yet."
    return f"Your refund of {_fact(situation, 'amount_eur')} euro is on its way."


def _fact(situation: Situation, name: str) -> str:
    """A field of the latest good answer that has it."""
    for done in reversed(situation.history):
        value = {} if done.failed else _object(done.content)
        if name in value:
            return str(value[name])
    return ""


def _object(text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _success(situation: Situation) -> str:
    """The answer after a plan that worked, made of what the tools said."""
    order, item = _fact(situation, "order_id"), _fact(situation, "item")
    if _fact(situation, "status") == "queued":
        return (
            f"The payment for order {order} did not go through at once. Your refund is queued and "
            "a colleague will finish it."
        )
    match situation.request.wish:
        case "refund":
            amount = _fact(situation, "amount_eur")
            return f"Your refund of {amount} euro for the {item} (order {order}) is on its way."
        case "shipping":
            where = _last_seen(situation)
            return f"The parcel with your {item} (order {order}) {where}."
        case "return":
            label = _fact(situation, "label")
            return f"Here is the return label for the {item} of order {order}: {label}."
        case "loyalty":
            return f"You have {_fact(situation, 'points')} loyalty points."
        case "order":
            amount = _fact(situation, "amount_eur")
            return f"Order {order} is one {item} for {amount} euro, and it is paid."


def _last_seen(situation: Situation) -> str:
    for done in reversed(situation.history):
        events = _object(done.content).get("events")
        if isinstance(events, list) and events and isinstance(events[-1], dict):
            carrier = _fact(situation, "carrier")
            return (
                f"is with {carrier} and was last seen {events[-1]['at']} near {events[-1]['town']}"
            )
    return "is on its way"


_WANTED = {
    "refund": "refund",
    "shipping": "parcel check",
    "order": "look-up",
    "return": "return label",
    "loyalty": "points check",
}


def _failure(situation: Situation, last: Done) -> str:
    request = situation.request
    subject = f" for order {request.order}" if request.wish != "loyalty" else ""
    why = ", ".join(f"status {code}" for code in sorted(last.statuses)) or "an error"
    return (
        f"I am sorry, the {_WANTED[request.wish]}{subject} could not be done: one of our systems "
        f"answered with {why}. Please contact us again later."
    )
