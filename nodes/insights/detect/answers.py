"""What a tool answered and was asked, out of the envelopes that frameworks record.

The documented contracts of frameworks are known here and nowhere else: LangChain's ToolMessage
(plain, or as `{"type": "tool", "data": ...}`, with `status: "error"`), MCP's `isError` with content
parts, and smolagents' `{"args": ..., "kwargs": ...}`.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from contracts.json_types import Json
from contracts.traces import Payload, Span

MAX_LITERAL = 20_000
_MCP_KEYS = frozenset({"content", "isError", "structuredContent", "_meta"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The text of a tool's answer, its JSON when it is some, and the envelope's own verdict."""

    text: str
    value: Json = None
    marked: bool = False
    """The framework marked the answer as an error."""
    call_id: str | None = None
    cut: bool = False
    """The recorded text was cut, so that it need not be whole JSON."""


def answer_of(payload: Payload | None) -> Answer:
    """The answer inside the payload."""
    if payload is None:
        return Answer(text="")
    value = payload.value
    message = _tool_message(value)
    if message is None:
        if isinstance(value, dict) and (value.get("isError") is True or _is_mcp(value)):
            text = _content(value.get("content"))
            marked = value.get("isError") is True
            inner = None if marked else parsed(text)
            return Answer(text=text, value=inner, marked=marked, cut=payload.truncated)
        return Answer(text=payload.text, value=value, cut=payload.truncated)
    text = _content(message.get("content"))
    call_id = message.get("tool_call_id")
    return Answer(
        text=text,
        value=parsed(text),
        marked=message.get("status") == "error",
        call_id=call_id if isinstance(call_id, str) else None,
    )


def _tool_message(value: Json) -> Mapping[str, Json] | None:
    """The fields of a LangChain tool message, however it was written down."""
    if not isinstance(value, dict):
        return None
    for inner in (value, value.get("output"), value.get("data"), value.get("kwargs")):
        if isinstance(inner, dict) and "content" in inner and "tool_call_id" in inner:
            return inner
        if isinstance(inner, dict) and inner is not value:
            data = inner.get("data") or inner.get("kwargs")
            if isinstance(data, dict) and "content" in data and "tool_call_id" in data:
                return data
    return None


def _is_mcp(value: Mapping[str, Json]) -> bool:
    """Whether it is a tool result of the Model Context Protocol: content parts and nothing else."""
    parts = value.get("content")
    if not isinstance(parts, list) or not parts or value.keys() - _MCP_KEYS:
        return False
    return all(isinstance(p, dict) and isinstance(p.get("text"), str) for p in parts)


def _content(value: Json) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        parts = [part.get("text") if isinstance(part, dict) else part for part in value]
        return "\n".join(part for part in parts if isinstance(part, str))
    return "" if value is None else orjson.dumps(value, default=str).decode()


def parsed(text: str) -> Json:
    """The text as a JSON object or list, else None."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        value: Json = orjson.loads(text)
    except ValueError:
        return None
    return value


def own_arguments(span: Span) -> Mapping[str, Json] | None:
    """The arguments as the tool's own span recorded them by name, if it did."""
    payload = span.input
    if payload is None:
        return None
    value = payload.value
    if value is None and payload.text[:1] == "{" and len(payload.text) <= MAX_LITERAL:
        value = _literal(payload.text)
    if not isinstance(value, dict):
        return None
    named, plain = value.get("kwargs"), value.get("args")
    if isinstance(named, dict) and isinstance(plain, list):
        return {**{str(i): item for i, item in enumerate(plain)}, **named}
    return value


def _literal(text: str) -> Json:
    """A Python dict as some recorders write one."""
    try:
        value = ast.literal_eval(text)
        return orjson.loads(orjson.dumps(value, default=str)) if isinstance(value, dict) else None
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
