"""The final state of a LangGraph run as an observation: answer, failure, usage, messages."""

from collections.abc import Mapping, Sequence
from typing import Final

from connectors.probe.answers import MAX_DEPTH, too_deep
from connectors.probe.wire import MAX_REASON_CHARS, ProtocolBreachError
from contracts.harness import Usage
from contracts.json_types import Json, JsonObject

ERROR: Final = "__error__"
INTERRUPT: Final = "__interrupt__"
_SPEAKERS: Final = ("ai", "assistant")


def checked_state(state: object) -> Json:
    """What the server sent, once it can be walked.

    Raises:
        ProtocolBreachError: it is nested too deep.
    """
    value: Json = state  # type: ignore[assignment]  # out of the SDK's JSON parser
    if too_deep(value):
        raise ProtocolBreachError(f"a state nested over {MAX_DEPTH} levels")
    return value


def failure_of(state: Json) -> str | None:
    """How the agent failed, as the state tells it; None: it does not."""
    if not isinstance(state, Mapping):
        return None
    error = state.get(ERROR)
    if isinstance(error, Mapping):
        kind, said = error.get("error"), error.get("message")
        text = ": ".join(part for part in (kind, said) if isinstance(part, str) and part)
        return text[:MAX_REASON_CHARS] or "error"
    if error is not None:
        return str(error)[:MAX_REASON_CHARS] or "error"
    if state.get(INTERRUPT):
        return "interrupted: the graph waits for a person, and nobody answers here"
    return None


def output_of(state: Json, path: str | None) -> Json:
    """The entry at a dotted path, where a number counts in a list, from its end if negative.

    None where there is none. Without a path the whole state.
    """
    if path is None:
        if isinstance(state, Mapping):
            return {key: value for key, value in state.items() if key != INTERRUPT}
        return state
    value = state
    for key in path.split("."):
        if isinstance(value, Mapping):
            value = value.get(key)
        elif isinstance(value, list) and key.removeprefix("-").isdecimal():
            place = int(key)
            value = value[place] if -len(value) <= place < len(value) else None
        else:
            return None
    return value


def messages_of(state: Json) -> Sequence[Json]:
    """The chat messages of the state; empty where it has none."""
    found = state.get("messages") if isinstance(state, Mapping) else None
    return found if isinstance(found, list) else ()


def usage_of(state: Json, given: int) -> Usage:
    """Tokens of the messages that the agent wrote, and the cost where the state has one.

    One message without a count leaves the sum unknown. Cost is read from `cost_usd`, or from
    `usage.cost_usd`, of the state.

    Args:
        state: the final state.
        given: messages that the run began with; what they once used is not this run's.
    """
    sent: int | None = None
    received: int | None = None
    for number, message in enumerate(_written(messages_of(state)[given:])):
        counts = message.get("usage_metadata")
        one = _count(counts, "input_tokens"), _count(counts, "output_tokens")
        before = (0, 0) if number == 0 else (sent, received)
        sent, received = _sum(before[0], one[0]), _sum(before[1], one[1])
    return Usage(input_tokens=sent, output_tokens=received, cost_usd=_cost(state))


def _written(messages: Sequence[Json]) -> list[JsonObject]:
    return [
        message
        for message in messages
        if isinstance(message, Mapping)
        and any(message.get(key) in _SPEAKERS for key in ("type", "role"))
    ]


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _count(counts: Json, key: str) -> int | None:
    value = counts.get(key) if isinstance(counts, Mapping) else None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
        return None
    return value


def _cost(state: Json) -> float | None:
    if not isinstance(state, Mapping):
        return None
    usage = state.get("usage")
    for value in (
        state.get("cost_usd"),
        usage.get("cost_usd") if isinstance(usage, Mapping) else None,
    ):
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9:
            return float(value)
    return None
