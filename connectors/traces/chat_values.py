"""Chat messages in the recorded request and answer of a model call, whoever's they are.

A request is a list of messages or an object around one (`messages`, `contents`, `input`,
`prompt`, ...); an answer is a message or an object around it (`choices`, `candidates`, `output`,
`generations`, ...). Text that only looks like JSON stays text.
"""

import ast
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from connectors.traces.blobs import without_blobs
from connectors.traces.chat_parts import messages_of
from connectors.traces.chat_rows import BARE, is_call, is_message, json_text, opened_json
from connectors.traces.messages import MAX_MESSAGES, Texts
from contracts.json_types import Json
from contracts.traces import Message, Payload

MAX_WRAPPERS: Final = 6  # objects around the messages
MAX_REPR: Final = 200_000  # characters of a printed message that are looked at

_KNOWN_ROLES: Final = frozenset(
    {"system", "user", "assistant", "tool", "tool-call", "tool-response", "observation", "critic"}
)
_REQUEST: Final = (
    "messages", "contents", "input_messages", "chat_history", "input", "inputs", "prompt",
    "prompts", "request", "body", "kwargs", "args", "new_message", "data", "value",
    "query", "question", "user_input", "text",
)  # fmt: skip
_SYSTEM: Final = ("system", "instructions", "system_instruction", "systemInstruction",
                  "system_prompt")  # fmt: skip
_ANSWER: Final = (
    "choices", "candidates", "generations", "output", "outputs", "replies", "messages", "response",
    "result", "data", "value", "completion", "generation", "output_text", "answer", "results",
)  # fmt: skip
_ENVELOPE: Final = BARE | frozenset(
    {"object", "created", "created_at", "done", "done_reason", "metadata", "total_duration",
     "load_duration", "prompt_eval_count", "eval_count", "llm_output", "run", "logprobs",
     "text", "system_fingerprint", "toolCalls"}
)  # fmt: skip
"""Keys that stand beside an answer which is text."""
_TOOL_REPR: Final = re.compile(
    r"\A(?:\w{1,40}\()?content=('(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\")(.*)\Z", re.DOTALL
)
_REPR_FIELD: Final = re.compile(r"\b(name|tool_call_id|status)='([^'\\]{1,256})'")


def sent_messages(value: Json, texts: Texts) -> tuple[Message, ...]:
    """The messages of a recorded request; text alone is one of the user's."""
    return _read(value, _REQUEST, texts, "user")


def said_messages(value: Json, texts: Texts) -> tuple[Message, ...]:
    """The messages of a recorded answer; text alone is one of the assistant's."""
    return _read(value, _ANSWER, texts, "assistant")


def tool_request(value: Json) -> tuple[str | None, Json]:
    """(name, arguments) out of a recorded request for a tool; (None, None) for anything else."""
    if isinstance(value, str):
        if value[:1] != "{" or not ('"arg' in value or '"toolName"' in value):
            return None, None
        value = opened_json(value)
    if not isinstance(value, dict) or not is_call(value) or len(value) > 6:
        return None, None
    name = next((value[k] for k in ("name", "toolName", "tool_name") if k in value), None)
    for key in ("arguments", "args", "input") if "toolName" in value else ("arguments", "args"):
        arguments = value.get(key)
        if isinstance(arguments, str):
            arguments = opened_json(arguments)
        if isinstance(arguments, dict) and isinstance(name, str):
            return name, arguments
    return None, None


def opened_answer(answer: Payload) -> Payload:
    """A tool message that a recorder printed, `content='...' tool_call_id='...'`, with its fields.

    The text stays as it was recorded.
    """
    text = answer.text
    if "content=" not in text[:60] or "tool_call_id=" not in text or len(text) > MAX_REPR:
        return answer
    match = _TOOL_REPR.match(text)
    if match is None:
        return answer
    try:
        content: Json = ast.literal_eval(match[1])
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return answer
    fields: dict[str, Json] = dict(_REPR_FIELD.findall(match[2]))
    return Payload(
        text=text,
        size_bytes=answer.size_bytes,
        value={**fields, "content": content},
        truncated=answer.truncated,
        sha256=answer.sha256,
    )


def is_tool_answer(answer: Payload) -> bool:
    """Whether the output is a LangChain tool message, which only a tool's step gives back."""
    if '"tool_call_id"' not in answer.text:
        return False
    value = answer.value
    if not isinstance(value, dict):
        return False
    inner = value.get("kwargs") if value.get("type") == "constructor" else value
    return isinstance(inner, dict) and "content" in inner and bool(inner.get("tool_call_id"))


def _read(value: Json, keys: tuple[str, ...], texts: Texts, role: str) -> tuple[Message, ...]:
    recorded = value
    if isinstance(value, str):
        opened = opened_json(value) if value.lstrip()[:1] in ("{", "[", '"') else None
        value = value if opened is None else opened
    rows, system = _rows(value, keys, role)
    if not rows:  # whatever was said or asked in a shape of its own
        text = json_text(recorded) if value else ""
        return (texts.plain(role, without_blobs(text)),) if text.strip() else ()
    found: list[Message] = []
    for row in (*system, *rows[-MAX_MESSAGES:]):
        found += messages_of(row, texts, role)
    return texts.remember(tuple(_settled(_joined(found, rows))[-MAX_MESSAGES:]))


def _rows(value: Json, keys: tuple[str, ...], role: str) -> tuple[list[Json], list[Json]]:
    """(messages, instructions before them) as they were recorded, out of what is around them."""
    system: list[Json] = []
    for _ in range(MAX_WRAPPERS):
        if isinstance(value, str):
            return ([value] if value.strip() else []), system
        if isinstance(value, list):
            inner = _unnested(value)
            if inner is value:
                return _items(value, role), system
            value = inner
            continue
        if not isinstance(value, dict):
            break
        if role == "user" and not system:
            system = _instructions(value)
        if is_message(value):
            return [value], system
        if role == "assistant" and isinstance(value.get("text"), str) and _beside(value, "text"):
            return [_with_calls(value)], system
        value = _inside(value, keys, role)
    return [], system


def _inside(value: Mapping[str, Json], keys: tuple[str, ...], role: str) -> Json:
    """What the object is around; None where it is around nothing that is known."""
    for key in keys:
        inner = value.get(key)
        if _holds(inner) and not (
            role == "assistant" and isinstance(inner, str) and not _beside(value, key)
        ):
            return inner
    return None


def _beside(value: Mapping[str, Json], key: str) -> bool:
    """Whether only an envelope stands beside the key, and no more of the model's own JSON."""
    return all(other == key or other in _ENVELOPE for other in value)


def _holds(value: Json) -> bool:
    return isinstance(value, str | list | dict) and bool(value)


def _unnested(items: list[Json]) -> Json:
    """The first of several lists: LangChain records a batch of conversations."""
    first = items[0] if items else None
    if isinstance(first, list) and not _is_pair(first):
        return first
    return items


def _is_pair(item: Json) -> bool:
    return isinstance(item, list) and len(item) == 2 and all(isinstance(x, str) for x in item)


def _items(items: list[Json], role: str) -> list[Json]:
    """The messages of a list: pairs as messages, bare requests for tools as one message."""
    if role == "assistant" and items and all(is_call(item) for item in items):
        plain = not any(isinstance(i, dict) and str(i.get("type", "")).startswith("function_call")
                        for i in items)  # fmt: skip
        if plain:
            return [{"role": "assistant", "content": "", "tool_calls": items}]
    if items and all(_is_bare_part(item) for item in items):
        return [{"role": role, "content": items}]
    rows: list[Json] = []
    for item in items:
        if isinstance(item, list) and _is_pair(item):
            rows.append({"role": item[0], "content": item[1]})
        elif isinstance(item, dict) and not is_message(item):
            if "text" in item and _beside(item, "text"):
                rows.append(_with_calls(item))
            elif not _is_step(item):
                return []
        elif isinstance(item, str | dict):
            rows.append(item)
    return rows


def _is_step(item: Mapping[str, Json]) -> bool:
    """Whether the item is one of an answer's own steps, which says nothing to the user."""
    kind = item.get("type")
    return isinstance(kind, str) and (kind == "reasoning" or kind.endswith(("_call", "_output")))


def _is_bare_part(item: Json) -> bool:
    """Whether the item is a part of a message that stands without its message."""
    if not isinstance(item, dict) or "role" in item:
        return False
    return item.get("type") in ("text", "tool_use", "thinking", "image", "image_url", "tool-call")


def _with_calls(value: Mapping[str, Json]) -> Json:
    """An answer of text and perhaps calls, or a generation around its message."""
    message = value.get("message")
    if isinstance(message, dict):
        return message
    calls = value.get("toolCalls") or value.get("tool_calls")
    return {"role": value.get("role") or "assistant", "content": value["text"], "tool_calls": calls}


def _instructions(value: Mapping[str, Json]) -> list[Json]:
    config = value.get("config")
    for holder in (value, config if isinstance(config, dict) else {}):
        for key in _SYSTEM:
            said = holder.get(key)
            if isinstance(said, dict) and ("parts" in said or "content" in said):
                return [{**said, "role": "system"}]
            if isinstance(said, str | list) and said:
                return [{"role": "system", "content": said}]
    return []


def _joined(found: list[Message], rows: list[Json]) -> list[Message]:
    """The items of one answer as one message: the Responses API lists text and calls apart."""
    apart = any(
        isinstance(row, dict) and row.get("type") in ("function_call", "custom_tool_call")
        for row in rows
    )
    if not apart:
        return found
    out: list[Message] = []
    for message in found:
        last = out[-1] if out else None
        if last and last.role == message.role == "assistant" and message.tool_calls:
            out[-1] = replace(last, tool_calls=last.tool_calls + message.tool_calls)
        else:
            out.append(message)
    return out


def _settled(messages: list[Message]) -> list[Message]:
    """Answers whose role is the name of the tool that was asked (LangGraph for JavaScript)."""
    if all(message.role in _KNOWN_ROLES for message in messages):
        return messages
    asked: dict[str, str | None] = {}
    out = []
    for message in messages:
        asked.update((name, call_id) for call_id, name, _ in message.tool_calls)
        if message.role in asked and message.role not in _KNOWN_ROLES:
            answered = message.tool_call_id or asked[message.role]
            message = replace(message, role="tool", tool_call_id=answered)  # noqa: PLW2901
        out.append(message)
    return out
