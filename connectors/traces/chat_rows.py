"""How vendors write one chat message down: its envelope, its role, and the names of its fields."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

import orjson

from connectors.traces.messages import role_of
from connectors.traces.raw import as_text
from contracts.json_types import Json

CALLS: Final = frozenset(
    {"tool_call", "tool_use", "tool-call", "function_call", "server_tool_use", "mcp_tool_use",
     "custom_tool_call", "function", "builtin-tool-call", "tool_call_chunk"}
)  # fmt: skip
"""Types of a request for a tool."""
RESULTS: Final = frozenset(
    {"tool_call_response", "tool_result", "tool-result", "function_call_output", "tool-return",
     "custom_tool_call_output", "mcp_tool_result", "web_search_tool_result", "function_response",
     "builtin-tool-return"}
)  # fmt: skip
"""Types of a tool's answer."""
NAMES: Final = ("name", "toolName", "tool_name", "recipient_name")
IDS: Final = ("call_id", "toolCallId", "tool_call_id", "tool_use_id", "toolUseId", "id")
ARGUMENTS: Final = ("arguments", "args", "input", "parameters", "arguments_json")
ANSWERS: Final = ("response", "result", "output", "content")

_TYPED: Final = frozenset(
    {"human", "ai", "system", "tool", "function_call", "function_call_output", "custom_tool_call",
     "custom_tool_call_output"}
)  # fmt: skip
_CONTENT: Final = (
    "content", "parts", "text", "tool_calls", "toolCalls", "function_call", "_content", "message",
)  # fmt: skip
BARE: Final = frozenset(
    {"content", "additional_kwargs", "response_metadata", "usage_metadata", "tool_calls",
     "invalid_tool_calls", "id", "name", "type", "example", "finish_reason", "stop_reason",
     "stop_sequence", "model", "usage", "index", "refusal", "tool_call_id", "status", "artifact",
     "turn_complete", "partial"}
)  # fmt: skip
"""Keys of a message that names no role; an object with any other is the model's own JSON."""

_CLASS: Final = re.compile(r"\A(Human|AI|System|Tool|Function|Developer)Message(Chunk)?\Z")
_TYPES: Final = frozenset({"human", "ai", "system", "tool", "function"})


def opened_row(row: Json) -> Mapping[str, Json] | None:
    """The fields of a message, out of the envelopes around it; None where there is no message."""
    if not isinstance(row, dict):
        return None
    inner = row.get("message") or row.get("delta")
    if isinstance(inner, dict) and "content" not in row and "role" not in row:
        row = inner
    kind, kwargs, data, path = (row.get(key) for key in ("type", "kwargs", "data", "id"))
    if isinstance(kwargs, dict) and isinstance(path, list) and path:  # LangChain's serialisation
        return {**kwargs, "type": as_text(path[-1])}
    if isinstance(data, dict) and isinstance(kind, str) and "content" in data:
        return {**data, "type": kind}
    if "_role" in row:  # Haystack
        return {"role": row["_role"], "content": row.get("_content")}
    content = row.get("content")
    return _within(row, content) if isinstance(content, dict) else row


def _within(row: Mapping[str, Json], content: Mapping[str, Json]) -> Mapping[str, Json] | None:
    """A message whose content is an object: Gemini's content, or no message at all."""
    if isinstance(content.get("parts"), list):
        return {"role": content.get("role") or row.get("role"), "parts": content["parts"]}
    function = content.get("function")
    if isinstance(function, dict) and looks_defined(function):
        return None  # a tool that is offered, which LangChain's callback lists among the messages
    return row


def is_message(value: Mapping[str, Json]) -> bool:
    """Whether the object is one message, in its envelope or without."""
    kind = as_text(value.get("type"))
    if isinstance(value.get("role"), str) or "_role" in value:
        return any(key in value for key in _CONTENT)
    if kind in _TYPED:
        return any(key in value for key in (*_CONTENT, "data", "output", "arguments", "input"))
    content = value.get("content")
    if isinstance(content, str | list):
        return all(key in BARE for key in value)
    return (
        (isinstance(content, dict) and "parts" in content)
        or (isinstance(value.get("kwargs"), dict) and isinstance(value.get("id"), list))
        or (value.get("kind") in ("request", "response") and "parts" in value)
        or any(isinstance(value.get(key), dict) for key in ("message", "delta"))
    )


def looks_defined(function: Mapping[str, Json]) -> bool:
    """Whether the object describes a tool instead of asking for one."""
    schema = function.get("parameters") or function.get("input_schema")
    return "description" in function or (isinstance(schema, dict) and "properties" in schema)


def row_role(row: Mapping[str, Json]) -> str:
    """The role that a message names in any of its ways; "" where it names none."""
    named = as_text(row.get("role")) or as_text(row.get("message_type"))
    if named and named != "chat":
        match = _CLASS.match(named)
        return role_of(match[1].lower() if match else named)
    if row.get("kind") in ("request", "response"):  # Pydantic AI
        return "user" if row["kind"] == "request" else "assistant"
    kind = as_text(row.get("type"))
    match = _CLASS.match(kind)
    if match:
        return role_of(match[1].lower())
    return role_of(kind) if kind in _TYPES else ""


def itself(row: Mapping[str, Json]) -> str:
    """Whether an item that is no message is a "call" or an "answer" by itself; "" for neither."""
    kind = row.get("type")
    if "role" in row or not isinstance(kind, str):
        return ""
    if kind in CALLS and first_of(row, NAMES) is not None:
        return "call"
    return "answer" if kind in RESULTS else ""


def is_call(item: Json) -> bool:
    """Whether the object asks for a tool, by itself and outside of a message."""
    if not isinstance(item, dict) or "role" in item:
        return False
    function = item.get("function")
    named = function if isinstance(function, dict) else item
    has_name = any(isinstance(named.get(key), str) for key in NAMES)
    return has_name and any(key in named for key in ARGUMENTS) and not looks_defined(named)


def failed_text(text: str, envelope: Mapping[str, Json]) -> str:
    """The text of a tool's answer, which says so where only its envelope marks it as an error."""
    marked = (
        any(envelope.get(key) is True for key in ("is_error", "isError", "error"))
        or envelope.get("status") == "error"
        or envelope.get("outcome") == "failed"
    )
    head = text[:200].lower()
    return f"Error: {text}" if marked and "error" not in head and "fail" not in head else text


def first_of(row: Mapping[str, Json], keys: Sequence[str]) -> Json:
    """The value of the first of the keys that is there and not null."""
    return next((row[key] for key in keys if row.get(key) is not None), None)


def json_text(value: Json) -> str:
    """Text as it is, nothing as "", anything else as compact JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    try:
        return orjson.dumps(value, default=str).decode()
    except TypeError:  # whole numbers over 64 bits, lone surrogates, nesting over 254
        pass
    try:
        return json.dumps(value, default=str, separators=(",", ":"))
    except (ValueError, RecursionError):
        return ""


def opened_json(text: str) -> Json:
    """The JSON that a text holds; None where it only looks like it."""
    try:
        value: Json = orjson.loads(text)
    except ValueError:
        return None
    return value
