"""The worker protocol's lines as values. Whatever a worker prints is data that may be wrong."""

import json
import math
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NewType, cast

from connectors.probe.company import company
from contracts.harness import Usage
from contracts.json_types import Json

WireId = NewType("WireId", str)
"""Random name of one run; tells neither its case nor its arm."""

MAX_REASON_CHARS = 2_000


class ProtocolBreachError(ValueError):
    """A worker printed what the protocol does not allow; the message says what, in a few words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer line; at most one of `error` and `missing` is set."""

    id: WireId
    output: Json = None
    error: str | None = None
    missing: str | None = None
    usage: Usage = field(default_factory=Usage)
    spans: str | None = None


def run_line(
    wire_id: WireId, *, case_input: Json, harness: str, workdir: str, seed: int, deadline_s: float
) -> bytes:
    """The line that asks for one run, with the addresses of the services beside it."""
    message: dict[str, Json] = {
        "op": "run", "id": wire_id, "input": case_input, "harness": harness, "workdir": workdir,
        "seed": seed, "deadline_s": deadline_s,
        **{str(service): url for service, url in company().items()},
    }  # fmt: skip
    return json.dumps(message, allow_nan=False).encode() + b"\n"


STOP_LINE = b'{"op":"stop"}\n'


def parse_ready(line: bytes) -> int:
    """How many runs at once the worker takes.

    Raises:
        ProtocolBreachError: the line is not a ready line of version 1.
    """
    message = parse_object(line)
    if message.get("op") != "ready":
        raise ProtocolBreachError("the first line is not ready")
    if message.get("v") != 1:
        raise ProtocolBreachError(
            f"protocol version {_short(message.get('v'))}, this side speaks 1"
        )
    concurrency = message.get("concurrency", 1)
    if not isinstance(concurrency, int) or isinstance(concurrency, bool) or concurrency < 1:
        raise ProtocolBreachError(f"ready with concurrency {_short(concurrency)}")
    return concurrency


def parse_only_answer(text: bytes, wire_id: WireId) -> Answer:
    """All that a process of one run printed, as its answer; the id may be left out.

    Raises:
        ProtocolBreachError: it is not one JSON object, or answers another run.
    """
    try:
        answer = answer_of({"id": wire_id, **parse_object(text)})
    except ProtocolBreachError as breach:
        said = str(breach).replace("a line", "an answer", 1)
        raise ProtocolBreachError(said if text.strip() else "no answer") from None
    if answer.id != wire_id:
        raise ProtocolBreachError("an answer to another run")
    return answer


def parse_answer(line: bytes) -> Answer:
    """One answer; values of a wrong kind are unknown, never a crash.

    Raises:
        ProtocolBreachError: the line is not a JSON object with an id.
    """
    return answer_of(parse_object(line))


def answer_of(message: Mapping[str, Json]) -> Answer:
    """The answer that a parsed object is; values of a wrong kind are unknown.

    Raises:
        ProtocolBreachError: it has no id.
    """
    wire_id = message.get("id")
    if not isinstance(wire_id, str):
        raise ProtocolBreachError("a line without an id")
    missing, error = _reason(message.get("missing")), _reason(message.get("error"))
    spans = message.get("spans")
    return Answer(
        id=WireId(wire_id),
        output=message.get("output") if missing is None and error is None else None,
        error=error if missing is None else None,
        missing=missing,
        usage=_usage(message.get("usage")),
        spans=spans if isinstance(spans, str) else None,
    )


def clean(text: str, limit: int) -> str:
    """One printable line of at most `limit` characters."""
    kept = "".join(" " if unicodedata.category(c)[0] in "CZ" else c for c in text[: limit * 4])
    return " ".join(kept.split())[:limit]


def parse_object(line: bytes) -> Mapping[str, Json]:
    """A line as a JSON object, without numbers and texts that could not be stored.

    Raises:
        ProtocolBreachError: it is none.
    """
    try:
        text = line.decode()
        value = json.loads(text, parse_constant=_unknown, parse_float=_finite)
        if "\\ud" in text.lower():
            value = _without_surrogates(value)
    except (ValueError, RecursionError):
        raise ProtocolBreachError("a line that is not JSON") from None
    if not isinstance(value, dict):
        raise ProtocolBreachError("a line that is not a JSON object")
    return cast("Mapping[str, Json]", value)  # a dict out of json.loads


def _unknown(_: str) -> None:
    """NaN and the infinities are no JSON; many writers print them for unknown."""


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def _without_surrogates(value: object) -> object:
    """Escapes of half a character cannot be stored as UTF-8; they become U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_surrogates(k): _without_surrogates(v) for k, v in value.items()}
    return value


def _reason(value: Json) -> str | None:
    if value is None or value is False:
        return None
    text = value if isinstance(value, str) else json.dumps(value)
    return text[:MAX_REASON_CHARS] or "no reason given"


def _usage(value: Json) -> Usage:
    if not isinstance(value, Mapping):
        return Usage()
    cost = value.get("cost_usd")
    known = isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 1e9
    return Usage(
        input_tokens=_count(value, "input_tokens"),
        output_tokens=_count(value, "output_tokens"),
        cost_usd=float(cast("float", cost)) if known else None,
    )


def _count(usage: Mapping[str, Json], key: Literal["input_tokens", "output_tokens"]) -> int | None:
    value = usage.get(key)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # some languages write every number as a float
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
        return None
    return value


def _short(value: Json) -> str:
    return clean(json.dumps(value), 40)
