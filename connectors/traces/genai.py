"""Chat messages of a model call from OpenTelemetry GenAI attributes and events, new and old."""

from collections.abc import Iterable, Mapping
from typing import Final

from connectors.traces.chat_parts import messages_of
from connectors.traces.chat_rows import opened_json
from connectors.traces.messages import MAX_MESSAGES, Texts, numbered
from connectors.traces.raw import RawSpan, as_objects
from contracts.json_types import Json
from contracts.traces import Message

INSTRUCTIONS: Final = "gen_ai.system_instructions"
_EVENT_ROLES: Final = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}


def genai_messages(recorded: Json, texts: Texts, role: str = "user") -> tuple[Message, ...]:
    """Messages of `gen_ai.input.messages` and `gen_ai.output.messages`: role and parts."""
    value = opened_json(recorded) if isinstance(recorded, str) else recorded
    rows = as_objects([value] if isinstance(value, dict) else value)
    return _messages(rows[-MAX_MESSAGES:], texts, role)


def with_instructions(
    sent: tuple[Message, ...], recorded: Json, texts: Texts
) -> tuple[Message, ...]:
    """The messages with `gen_ai.system_instructions` before them, unless they hold a system's."""
    if recorded is None or not sent or sent[0].role == "system":
        return sent
    value = opened_json(recorded) if isinstance(recorded, str) else recorded
    content: Json = recorded if value is None else value
    row: Mapping[str, Json] = {"role": "system", "content": content}
    return (*tuple(messages_of(row, texts, "system")), *sent)


def old_genai_messages(
    attributes: Mapping[str, Json], prefix: str, texts: Texts
) -> tuple[Message, ...]:
    """Messages under `gen_ai.prompt.` or `gen_ai.completion.`."""
    rows = []
    for row in numbered(attributes, prefix)[-MAX_MESSAGES:]:
        content = row.get("content")
        opened = opened_json(content) if isinstance(content, str) and content[:2] == "[{" else None
        if isinstance(opened, list) and all(_is_part(part) for part in opened):
            content = opened
        calls: Json = [dict(call) for call in numbered(row, "tool_calls.")]
        rows.append({**_plain(row), "content": content, "tool_calls": calls})
    return _messages(rows, texts, "assistant" if "completion" in prefix else "user")


def event_messages(raw: RawSpan, texts: Texts) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """(input, output) of span events such as `gen_ai.user.message` and `gen_ai.choice`."""
    before: list[Mapping[str, Json]] = []
    after: list[Mapping[str, Json]] = []
    for name, attributes in raw.events:
        if name in _EVENT_ROLES:
            before.append({"role": _EVENT_ROLES[name], **_opened_content(attributes)})
        elif name == "gen_ai.choice":
            after.append(choice_row(attributes))
    sent = _messages(before[-MAX_MESSAGES:], texts, "user")
    return sent, _messages(after[-MAX_MESSAGES:], texts, "assistant")


def choice_row(attributes: Mapping[str, Json]) -> Mapping[str, Json]:
    """The message of a `gen_ai.choice` event, which may be JSON of a message or of parts."""
    message = attributes.get("message")
    inner = opened_json(message) if isinstance(message, str) else message
    if isinstance(inner, dict):
        return {"role": "assistant", **inner}
    if isinstance(inner, list):
        return {"role": "assistant", "content": inner}
    if message is not None:
        return {"role": "assistant", "content": message}
    return {"role": "assistant", **_opened_content(attributes)}


def _opened_content(attributes: Mapping[str, Json]) -> Mapping[str, Json]:
    """An event whose content is JSON text of parts, with the parts."""
    content = attributes.get("content")
    if isinstance(content, str) and content[:2] == "[{":
        opened = opened_json(content)
        if isinstance(opened, list) and all(_is_part(part) for part in opened):
            return {**attributes, "content": opened}
    return attributes


def _is_part(part: Json) -> bool:
    """Whether the object is a part of a message and not the model's own JSON."""
    return isinstance(part, dict) and (
        isinstance(part.get("type"), str)
        or isinstance(part.get("text"), str)
        or any(isinstance(part.get(key), dict) for key in ("toolUse", "toolResult"))
    )


def _plain(row: Mapping[str, Json]) -> dict[str, Json]:
    return {key: row[key] for key in ("role", "tool_call_id", "function_call") if key in row}


def _messages(rows: Iterable[Mapping[str, Json]], texts: Texts, role: str) -> tuple[Message, ...]:
    found: list[Message] = []
    for row in rows:
        found += messages_of(row, texts, role)
    return tuple(found[-MAX_MESSAGES:])
