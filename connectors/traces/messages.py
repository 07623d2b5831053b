"""Chat messages of a model call from OpenInference attributes, and the texts that calls share."""

from collections import deque
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import orjson

from connectors.traces.blobs import media_mark, without_blobs
from connectors.traces.raw import as_text
from contracts.json_types import Json
from contracts.traces import Message

MAX_MESSAGES = 512  # of one call; a longer history keeps its end
MAX_CHOICES = 16  # of one call; more answers are the pieces of a streamed one
_ROLES: Final = {
    "human": "user", "ai": "assistant", "model": "assistant", "developer": "system",
    "function": "tool",
}  # fmt: skip


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


def role_of(recorded: str) -> str:
    """The role in one spelling; roles of other kinds stay as they were recorded."""
    return _ROLES.get(recorded, recorded)[:64]


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

_ROWS = ("llm.input_messages.", "llm.output_messages.")


@lru_cache(maxsize=16384)
def _place(key: str, prefix: int) -> tuple[int, str] | None:
    """(index, rest) of `prefix` + `N.rest`; the same few keys come with every call."""
    index, _, rest = key[prefix:].partition(".")
    return (int(index), rest) if len(index) <= 6 and index.isdecimal() else None


def message_rows(attributes: Mapping[str, Json]) -> tuple[Rows, Rows]:
    """(input message rows, output message rows), in one pass."""
    sent: Rows = {}
    said: Rows = {}
    for key, value in attributes.items():
        if key.startswith(_ROWS):
            inward = key[4] == "i"
            found = _place(key, 19 if inward else 20)
            if found is not None:
                rows = sent if inward else said
                row = rows.get(found[0])
                if row is None:
                    row = rows[found[0]] = {}
                row[found[1]] = value
    return sent, said


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


def joined_pieces(said: tuple[Message, ...], texts: Texts) -> tuple[Message, ...]:
    """A streamed answer that was recorded as one message a piece, as one message."""
    if len(said) <= MAX_CHOICES or any(one.tool_calls or one.role != "assistant" for one in said):
        return said
    return (texts.plain("assistant", "".join(one.content for one in said)),)


def _openinference_message(row: Mapping[str, Json], texts: Texts) -> Message:
    content = row.get("message.content")
    role = row.get("message.role")
    if len(row) == 2 and isinstance(content, str) and isinstance(role, str):
        return texts.plain(role_of(role), without_blobs(content))
    if not isinstance(content, str):
        parts = numbered(row, "message.contents.")
        content = "\n".join(_content_text(part) for part in parts)
    calls = tuple(
        (
            as_text(call.get("tool_call.id")) or None,
            texts.keep(as_text(call.get("tool_call.function.name"))),
            texts.keep(_json_text(call.get("tool_call.function.arguments"))),
        )
        for call in (numbered(row, "message.tool_calls.") if len(row) > 1 else ())
    )
    return Message(
        role=role_of(as_text(role)),
        content=texts.keep(without_blobs(content)),
        tool_call_id=as_text(row.get("message.tool_call_id")) or None,
        tool_calls=calls,
    )


def _content_text(part: Mapping[str, Json]) -> str:
    """Text of one part of a message; a mark where it is an image or a file."""
    text = part.get("message_content.text")
    if isinstance(text, str):
        return text
    for kind in ("image", "audio", "video", "document"):
        url = part.get(f"message_content.{kind}.{kind}.url")
        if isinstance(url, str):
            return media_mark({"type": kind, "url": url}) or ""
    return ""


def _json_text(value: Json) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    try:
        return orjson.dumps(value).decode()
    except (TypeError, ValueError):
        return str(value)
