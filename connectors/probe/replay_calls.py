"""The tool calls of a trace as what was asked and what was answered, in one normal form."""

import ast
import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, cast

from connectors.traces.redact import redact_json
from contracts.json_types import Json, canonical_json
from contracts.traces import Payload, Span, Trace

ArgumentsKey = str
"""Canonical JSON of normalised arguments."""

MAX_PARSED_CHARS = 200_000
MAX_DEPTH = 40
_WRAPPERS: Final = frozenset({"input", "args", "arguments", "kwargs", "name", "id", "type"})
_ERROR_CHARS = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    """What a tool answered, as the agent got it."""

    kind: Literal["result", "error", "unknown"]
    """unknown: the recording does not hold it whole."""
    text: str = ""
    """The result, or the error's message."""
    error_type: str | None = None


UNKNOWN_ANSWER: Final = ToolAnswer(kind="unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """One call of a tool; `arguments` is None where they were not recorded whole."""

    tool: str
    arguments: Json | None
    answer: ToolAnswer
    started_at: datetime
    ended_at: datetime | None

    @property
    def known(self) -> bool:
        """Whether the arguments can be compared."""
        return self.arguments is not None


def normal(value: Json, depth: int = 0) -> Json:
    """One form for arguments that mean the same.

    A key with null is as if it were left out; 2.0 is 2; text is in Unicode's composed form with a
    line feed as line end; the order of keys is not looked at. Nothing else is touched: blanks,
    letter case, the order of lists and empty texts make a difference.

    Raises:
        ValueError: nested too deep.
    """
    if depth > MAX_DEPTH:
        raise ValueError("arguments nested too deep")
    if isinstance(value, Mapping):
        return {
            unicodedata.normalize("NFC", str(key)): normal(inner, depth + 1)
            for key, inner in value.items()
            if inner is not None
        }
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [normal(inner, depth + 1) for inner in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value).replace("\r\n", "\n")
    return value


def key_of(arguments: Json) -> ArgumentsKey:
    """The same for arguments that are equal in normal form.

    Raises:
        ValueError: nested too deep, or no JSON.
    """
    return canonical_json(normal(arguments)).decode("utf-8", "surrogatepass")


def masked_key(arguments: Json) -> ArgumentsKey:
    """The same with personal data and secrets masked, as they are in the input of a mined case."""
    return key_of(redact_json(normal(arguments)))


def calls_of(trace: Trace) -> list[RecordedCall]:
    """The tool calls of a trace by their start; interrupted ones (a person was asked) left out."""
    spans = [s for s in trace.spans if s.kind == "tool" and s.status != "interrupted"]
    if not trace.timeless:
        spans.sort(key=lambda span: span.started_at)
    asked = _asked_by_models(trace)
    return [
        RecordedCall(
            tool=span.tool_name or span.name, arguments=_arguments(span, asked),
            answer=_answer(span), started_at=span.started_at, ended_at=span.ended_at,
        )
        for span in spans
    ]  # fmt: skip


def _asked_by_models(trace: Trace) -> dict[str, list[Mapping[str, Json]]]:
    """What models asked for, by tool: some recorders keep no more than a lone argument's value."""
    asked: dict[str, list[Mapping[str, Json]]] = {}
    for span in trace.spans:
        for message in span.messages_out:
            for _, name, raw in message.tool_calls:
                value = _parsed(raw)
                if isinstance(value, Mapping):
                    asked.setdefault(name, []).append(value)
    return asked


def _arguments(span: Span, asked: Mapping[str, Sequence[Mapping[str, Json]]]) -> Json | None:
    """The arguments as an object, or the bare value where its name is not known; None: unknown."""
    payload = span.input
    if payload is None or not payload.text.strip():
        return {}
    if payload.truncated or len(payload.text) > MAX_PARSED_CHARS:
        return None
    value = payload.value if payload.value is not None else _parsed(payload.text)
    value = _unwrapped(value)
    if isinstance(value, Mapping):
        return value
    for arguments in asked.get(span.tool_name or span.name, ()):
        if len(arguments) == 1 and str(next(iter(arguments.values()))) == payload.text:
            return arguments
    return value


def _unwrapped(value: Json) -> Json:
    """The arguments inside a whole tool-call message."""
    if isinstance(value, Mapping) and set(value) <= _WRAPPERS:
        for key in ("args", "arguments", "input", "kwargs"):
            inner = _parsed(value[key]) if key in value else None
            if isinstance(inner, Mapping):
                return inner
    return value


def _parsed(value: Json) -> Json:
    """JSON, or Python's way to print a structure; anything else stays as it is."""
    if not isinstance(value, str) or len(value) > MAX_PARSED_CHARS:
        return value
    if value[:1] not in ("{", "["):
        return value
    for read in (json.loads, ast.literal_eval):
        try:
            found = read(value)
            canonical_json(found)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
        return cast("Json", found)
    return value


def _answer(span: Span) -> ToolAnswer:
    error = span.error
    if span.status == "error" or error is not None:
        if error is None:
            return UNKNOWN_ANSWER
        return ToolAnswer(kind="error", text=error.message[:_ERROR_CHARS], error_type=error.type)
    if span.output is None or span.output.truncated:
        return UNKNOWN_ANSWER
    return _result(span.output)


def _result(payload: Payload) -> ToolAnswer:
    """What the tool gave, taken out of the message that frameworks put around it."""
    for content, status in _contents(payload.value):
        if status == "error":
            return ToolAnswer(kind="error", text=content[:_ERROR_CHARS])
        return ToolAnswer(kind="result", text=content)
    return ToolAnswer(kind="result", text=payload.text)


def _contents(value: Json) -> Iterator[tuple[str, Json]]:
    """(text, status) of a tool message: LangChain's forms of it, or under a lone `output`."""
    if not isinstance(value, Mapping):
        return
    if set(value) == {"output"}:
        inner = value["output"]
        found = list(_contents(inner))
        yield found[0] if found else (_text(inner), None)
        return
    for key in ("data", "kwargs"):
        inner = value.get(key)
        if isinstance(inner, Mapping) and "content" in inner and "tool_call_id" in inner:
            value = inner
    if "content" in value and "tool_call_id" in value:
        yield _text(value["content"]), value.get("status")


def _text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
