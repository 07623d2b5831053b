"""Chat messages of a model call, from whichever attributes recorded them."""

from collections import deque
from collections.abc import Iterable, Mapping
from functools import lru_cache

import orjson

from connectors.traces.raw import RawSpan, as_objects, as_text
from contracts.json_types import Json
from contracts.traces import Message

MAX_MESSAGES = 512  # of one call; a longer history keeps its end
_EVENT_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}


class Texts:
    """Shares equal texts of one trace, since every call sends the history again; cuts long ones."""

    def __init__(self, cap: int) -> None:
        self.cap = cap
        self.cut = 0
        self.bytes = 0
        self._seen: dict[str, str] = {}
        self._recent: deque[tuple[Message, ...]] = deque(maxlen=3)
        self._plain: dict[tuple[str, str], Message] = {}

    def keep(self, text: str) -> str:
        """The text, at most `cap` characters of it, as one shared object."""
        if len(text) > self.cap:
            self.cut += 1
            text = text[: self.cap]
        return self._seen.setdefault(text, text)

    def known(self, at: int, row: Mapping[str, Json]) -> Message | None:
        """The message at the same place of a recent call, if it is the same."""
        content = row.get("message.content")
        for history in self._recent:
            if at < len(history):
                one = history[at]
                same = one.content == content and one.role == row.get("message.role")
                if same and not one.tool_calls and one.tool_call_id is None:
                    return one
        return None

    def remember(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Keep the messages of a call at hand for the next ones."""
        if len(messages) > 1:
            self._recent.appendleft(messages)
        return messages

    def plain(self, role: str, content: str) -> Message:
        """A message without tool calls, one object for all that are equal."""
        content = self.keep(content)
        key = (role, content)
        found = self._plain.get(key)
        if found is None:
            found = self._plain[key] = Message(role=role, content=content)
        return found


def numbered(attributes: Mapping[str, Json], prefix: str) -> list[dict[str, Json]]:
    """Arrays written as numbered keys: `prefix` + `N.rest` as one object of rests an index."""
    rows: dict[int, dict[str, Json]] = {}
    size = len(prefix)
    for key, value in attributes.items():
        if key.startswith(prefix):
            index, _, rest = key[size:].partition(".")
            if len(index) <= 6 and index.isascii() and index.isdigit():
                rows.setdefault(int(index), {})[rest] = value
    return [rows[index] for index in sorted(rows)]


Rows = dict[int, dict[str, Json]]
"""Numbered keys as one object of rests an index."""

_IN = "input_messages."
_OUT = "output_messages."


@lru_cache(maxsize=16384)
def _place(key: str, prefix: int) -> tuple[int, str] | None:
    """(index, rest) of `prefix` + `N.rest`; the same few keys come with every call."""
    index, _, rest = key[prefix:].partition(".")
    return (int(index), rest) if len(index) <= 6 and index.isdecimal() else None


def split_attributes(
    attributes: Mapping[str, Json], *, messages: bool
) -> tuple[list[tuple[str, Json]], Rows, Rows, list[str]]:
    """(other attributes, input message rows, output message rows, tool schemas), in one pass."""
    others: list[tuple[str, Json]] = []
    sent: Rows = {}
    said: Rows = {}
    tools: list[str] = []
    for key, value in attributes.items():
        if not key.startswith("llm."):
            others.append((key, value))
        elif key.startswith((_IN, _OUT), 4):
            if messages:
                inward = key[4] == "i"
                found = _place(key, 19 if inward else 20)
                if found is not None:
                    rows = sent if inward else said
                    row = rows.get(found[0])
                    if row is None:
                        row = rows[found[0]] = {}
                    row[found[1]] = value
        elif key.startswith("tools.", 4):
            if isinstance(value, str):
                tools.append(value)
        else:
            others.append((key, value))
    return others, sent, said, tools


def openinference_messages(rows: Rows, texts: Texts) -> tuple[Message, ...]:
    """Messages of `llm.input_messages.` or `llm.output_messages.` by index.

    A call sends the history of an earlier one again: equal messages at equal places are taken from
    there, which costs a comparison instead of a hash of every text.
    """
    if not rows:
        return ()
    messages = []
    for at, index in enumerate(sorted(rows)[-MAX_MESSAGES:]):
        row = rows[index]
        known = texts.known(at, row) if len(row) == 2 else None
        messages.append(_openinference_message(row, texts) if known is None else known)
    return texts.remember(tuple(messages))


def _openinference_message(row: Mapping[str, Json], texts: Texts) -> Message:
    content = row.get("message.content")
    role = row.get("message.role")
    if len(row) == 2 and isinstance(content, str) and isinstance(role, str):
        return texts.plain(role, content)
    if not isinstance(content, str):
        parts = numbered(row, "message.contents.")
        content = "\n".join(as_text(part.get("message_content.text")) for part in parts)
    calls = tuple(
        (
            as_text(call.get("tool_call.id")) or None,
            texts.keep(as_text(call.get("tool_call.function.name"))),
            texts.keep(_json_text(call.get("tool_call.function.arguments"))),
        )
        for call in (numbered(row, "message.tool_calls.") if len(row) > 2 else ())
    )
    return Message(
        role=as_text(row.get("message.role")),
        content=texts.keep(content),
        tool_call_id=as_text(row.get("message.tool_call_id")) or None,
        tool_calls=calls,
    )


def genai_messages(recorded: Json, texts: Texts) -> tuple[Message, ...]:
    """Messages of `gen_ai.input.messages` and `gen_ai.output.messages`: role and parts."""
    rows = as_objects(_parsed(recorded))[-MAX_MESSAGES:]
    return tuple(_chat_message(row, texts) for row in rows)


def old_genai_messages(
    attributes: Mapping[str, Json], prefix: str, texts: Texts
) -> tuple[Message, ...]:
    """Messages under `gen_ai.prompt.` or `gen_ai.completion.`."""
    messages = []
    for row in numbered(attributes, prefix)[-MAX_MESSAGES:]:
        calls = [
            {"id": c.get("id"), "name": c.get("name"), "arguments": c.get("arguments")}
            for c in numbered(row, "tool_calls.")
        ]
        messages.append(
            _chat_message(
                {
                    "role": row.get("role"),
                    "content": row.get("content"),
                    "tool_call_id": row.get("tool_call_id"),
                    "tool_calls": calls,
                },
                texts,
            )
        )
    return tuple(messages)


def event_messages(raw: RawSpan, texts: Texts) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """(input, output) of span events such as `gen_ai.user.message` and `gen_ai.choice`."""
    before: list[Message] = []
    after: list[Message] = []
    for name, attributes in raw.events:
        if name in _EVENT_ROLES:
            row = {"role": _EVENT_ROLES[name], **attributes}
            before.append(_chat_message(row, texts))
        elif name == "gen_ai.choice":
            inner = _parsed(attributes.get("message"))
            row = {"role": "assistant", **(inner if isinstance(inner, dict) else attributes)}
            after.append(_chat_message(row, texts))
    return tuple(before[-MAX_MESSAGES:]), tuple(after[-MAX_MESSAGES:])


def chat_value_messages(value: Json, texts: Texts) -> tuple[Message, ...]:
    """Messages of a recorded request or answer `{"messages": [{"role", "content"}]}`."""
    rows = value.get("messages") if isinstance(value, dict) else value
    found = [row for row in as_objects(rows) if isinstance(row.get("role"), str)]
    return tuple(_chat_message(row, texts) for row in found[-MAX_MESSAGES:])


def _chat_message(row: Mapping[str, Json], texts: Texts) -> Message:
    """One message in the shape of OpenAI chat, or of role and parts."""
    parts = as_objects(row.get("parts")) or as_objects(row.get("content"))
    content = row.get("content")
    spoken = content if isinstance(content, str) else "\n".join(_part_texts(parts))
    calls = [_call(call, texts) for call in as_objects(_parsed(row.get("tool_calls")))]
    calls += [_call(part, texts) for part in parts if part.get("type") in ("tool_call", "tool_use")]
    answers = [p.get("id") for p in parts if p.get("type") == "tool_call_response"]
    answered = row.get("tool_call_id") or row.get("id") or (answers[0] if answers else None)
    role = as_text(row.get("role"))
    return Message(
        role=role,
        content=texts.keep(spoken),
        tool_call_id=as_text(answered) or None if role == "tool" else None,
        tool_calls=tuple(calls),
    )


def _part_texts(parts: Iterable[Mapping[str, Json]]) -> list[str]:
    texts = []
    for part in parts:
        for key in ("content", "text", "result", "response"):
            value = part.get(key)
            if value is not None:
                texts.append(_json_text(value))
                break
    return texts


def _call(call: Mapping[str, Json], texts: Texts) -> tuple[str | None, str, str]:
    function = call.get("function")
    inner = function if isinstance(function, dict) else call
    arguments = next(
        (inner[key] for key in ("arguments", "args", "input") if inner.get(key) is not None), ""
    )
    return (
        as_text(call.get("id")) or None,
        texts.keep(as_text(inner.get("name"))),
        texts.keep(_json_text(arguments)),
    )


def _parsed(value: Json) -> Json:
    if not isinstance(value, str):
        return value
    try:
        parsed: Json = orjson.loads(value)
    except (ValueError, RecursionError):
        return None
    return parsed


def _json_text(value: Json) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    try:
        return orjson.dumps(value).decode()
    except (TypeError, ValueError):
        return str(value)
