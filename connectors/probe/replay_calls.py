"""The tool calls of a trace as what was asked and what was answered, in one normal form."""

import json
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from connectors.traces.redact import redact_json
from connectors.traces.tool_arguments import Asked, asked_by_models, recorded_arguments
from contracts.json_types import Json, canonical_json
from contracts.traces import Payload, Span, Trace

ArgumentsKey = str
"""Canonical JSON of normalised arguments."""

MAX_DEPTH = 40
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
    asked = asked_by_models(trace)
    return [
        RecordedCall(
            tool=span.tool_name or span.name, arguments=_arguments(span, asked),
            answer=_answer(span), started_at=span.started_at, ended_at=span.ended_at,
        )
        for span in spans
    ]  # fmt: skip


def _arguments(span: Span, asked: Asked) -> Json | None:
    """Those recorded; a call that shows none at all had none."""
    if span.input is None or not span.input.text.strip():
        return {}
    return recorded_arguments(span, asked)


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
