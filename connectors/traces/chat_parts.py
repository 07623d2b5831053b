"""One recorded chat message, in whichever vendor's shape, as messages.

Known are OpenAI chat and Responses, Anthropic, Gemini, Bedrock, LangChain, the Vercel AI SDK,
Pydantic AI, Haystack, and role with parts of the OpenTelemetry conventions. Results of tools
become messages of role "tool" of their own; what a model thought aloud is no part of what it said.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from connectors.traces.blobs import media_mark, without_blobs
from connectors.traces.chat_rows import (
    ANSWERS,
    ARGUMENTS,
    CALLS,
    IDS,
    NAMES,
    RESULTS,
    failed_text,
    first_of,
    is_call,
    itself,
    json_text,
    opened_json,
    opened_row,
    row_role,
)
from connectors.traces.messages import Texts, role_of
from connectors.traces.raw import as_objects, as_text
from contracts.json_types import Json
from contracts.traces import Message

Call = tuple[str | None, str, str]
MAX_PARTS: Final = 1024  # of one message
MAX_INNER: Final = 4  # parts within a part

_CALL_KEYS: Final = ("functionCall", "function_call", "toolUse", "tool_call")
_RESULT_KEYS: Final = ("functionResponse", "function_response", "toolResult", "tool_call_result")
_CALLS_BESIDE: Final = frozenset(
    {"tool_calls", "toolCalls", "additional_kwargs", "function_call", "invalid_tool_calls"}
)
_SAID: Final = ("text", "content", "refusal", "output_text")
_REPR: Final = re.compile(
    r"\A(?:\w{1,40}\()?role='(\w{1,20})',? content=('(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\")",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r"}


@dataclass(slots=True)
class _Parts:
    """What the parts of one message hold."""

    said: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    results: list[Message] = field(default_factory=list)


def messages_of(row: Json, texts: Texts, role: str = "user") -> Iterator[Message]:
    """The messages that one recorded message stands for, in order.

    Args:
        row: the recorded message; text alone is one message.
        texts: shares and cuts the texts.
        role: of a message that names none.
    """
    if isinstance(row, str):
        yield _spoken(row, texts, role)
        return
    plain = _plain(row)
    if plain is not None:
        yield texts.plain(*plain)
        return
    opened = opened_row(row)
    if opened is not None:
        yield from _opened_messages(opened, texts, role)


def _opened_messages(row: Mapping[str, Json], texts: Texts, role: str) -> Iterator[Message]:
    named = row_role(row) or role
    parts = _Parts()
    content = next(
        (row[key] for key in ("parts", "content", "text") if row.get(key) is not None), None
    )
    alone = itself(row)
    if alone == "call":
        parts.calls.append(call_of(row, texts))
        named = "assistant"
    elif alone == "answer":
        named, content = "tool", first_of(row, ANSWERS)
        parts.said.append(_text_of(content))
    else:
        _read_content(content, parts, texts, 0)
    parts.calls += _calls_beside(row, texts)
    text = "\n".join(parts.said)
    if parts.calls and named == "tool":
        named = "assistant"  # some recorders file a request for a tool under the tool
    elif not parts.calls and named in ("assistant", "tool"):
        requested = _calls_as_text(text, texts)
        if requested:
            parts.calls, text, named = requested, "", "assistant"
    yield from parts.results
    if parts.results and not text.strip() and not parts.calls:
        return
    answered = _id(row, named)
    if named == "tool":
        text = failed_text(text, row)
    yield _message(named, text, answered, parts.calls, texts)


def _plain(row: Json) -> tuple[str, str] | None:
    """(role, text) of the commonest message, a role and some text; None for any other."""
    if not isinstance(row, dict) or len(row) != 2:
        return None
    role, content = row.get("role"), row.get("content")
    if content is None:
        content = row.get("parts")
    if isinstance(content, list) and len(content) == 1:
        part = content[0]
        if isinstance(part, dict) and len(part) == 2 and part.get("type") == "text":
            content = part.get("text", part.get("content"))
    if not isinstance(role, str) or not isinstance(content, str) or content[:2] == "[{":
        return None
    return row_role(row), without_blobs(content)


def call_of(call: Mapping[str, Json], texts: Texts) -> Call:
    """(id, name, arguments as JSON text) of a recorded request for a tool."""
    inner: Mapping[str, Json] = call
    for key in ("function", "custom"):
        function = call.get(key)
        if isinstance(function, dict):
            inner = function
    name = as_text(first_of(inner, NAMES))
    arguments = first_of(inner, ARGUMENTS)
    return (
        as_text(first_of(call, IDS)) or None,
        texts.keep(name),
        texts.keep(without_blobs(json_text(arguments))),
    )


def _spoken(text: str, texts: Texts, role: str) -> Message:
    """Text as a message; `role='user' content='...'` is how some recorders print one."""
    match = _REPR.match(text) if text[:80].find("role='") >= 0 else None
    if match is not None:
        role, text = match[1], _ESCAPE.sub(_unescaped, match[2][1:-1])
    return texts.plain(role_of(role), without_blobs(text))


def _unescaped(found: re.Match[str]) -> str:
    return _ESCAPED.get(found[1], found[1])


def _read_content(content: Json, parts: _Parts, texts: Texts, depth: int) -> None:
    if isinstance(content, str):
        parts.said.append(content)
    elif isinstance(content, list):
        for part in content[:MAX_PARTS]:
            _read_part(part, parts, texts, depth)
    elif isinstance(content, dict):
        before = len(parts.said) + len(parts.calls) + len(parts.results)
        _read_part(content, parts, texts, depth)
        if len(parts.said) + len(parts.calls) + len(parts.results) == before:
            parts.said.append(json_text(content))
    elif content is not None:
        parts.said.append(json_text(content))


def _read_part(part: Json, parts: _Parts, texts: Texts, depth: int) -> None:
    if isinstance(part, str):
        parts.said.append(part)
    if not isinstance(part, dict) or depth > MAX_INNER:
        return
    kind = as_text(part.get("type") or part.get("part_kind"))
    text = part.get("text", part.get("content")) if kind == "text" else None
    if isinstance(text, str):
        parts.said.append(text)
        return
    if kind == "function" and not isinstance(part.get("function"), dict):
        kind = ""
    call = next((part[key] for key in _CALL_KEYS if isinstance(part.get(key), dict)), None)
    answer = next((part[key] for key in _RESULT_KEYS if isinstance(part.get(key), dict)), None)
    if isinstance(call, dict):
        parts.calls.append(call_of(call, texts))
    elif isinstance(answer, dict):
        parts.results.append(_result(answer, texts))
    elif kind in CALLS:
        parts.calls.append(call_of(part, texts))
    elif kind in RESULTS or (kind == "retry-prompt" and part.get("tool_name")):
        parts.results.append(_result(part, texts))
    elif not _is_thought(part, kind):
        _read_text(part, kind, parts, texts, depth)


def _is_thought(part: Mapping[str, Json], kind: str) -> bool:
    low = kind.lower()
    return "thinking" in low or "reasoning" in low or part.get("thought") is True


def _read_text(
    part: Mapping[str, Json], kind: str, parts: _Parts, texts: Texts, depth: int
) -> None:
    if kind in ("system-prompt", "user-prompt", "retry-prompt"):
        said = _Parts()
        _read_content(part.get("content"), said, texts, depth + 1)
        role = "system" if kind == "system-prompt" else "user"
        parts.results.append(_message(role, "\n".join(said.said), None, [], texts))
        return
    shown = media_mark(part)
    if shown is not None:
        parts.said.append(shown)
        return
    text = first_of(part, _SAID)
    if isinstance(text, str):
        parts.said.append(text)
    elif text is not None:
        parts.said.append(_text_of(text))
    elif isinstance(part.get("json"), dict | list):  # Bedrock's structured answers
        parts.said.append(json_text(part["json"]))
    elif isinstance(part.get("executableCode"), dict):
        parts.said.append(json_text(part["executableCode"]))


def _result(part: Mapping[str, Json], texts: Texts) -> Message:
    """A tool's answer out of a part, as a message of its own."""
    text = failed_text(_text_of(first_of(part, ANSWERS)), part)
    origin = part.get("origin")
    answered = first_of(part, IDS) or (origin.get("id") if isinstance(origin, dict) else None)
    return _message("tool", text, as_text(answered) or None, [], texts)


def _text_of(value: Json) -> str:
    """What a tool answered, as text: its parts by line, anything else as compact JSON."""
    if isinstance(value, str):
        return value
    if (
        isinstance(value, dict)
        and value.get("type") in ("text", "error-text")
        and value.get("value")
    ):
        return json_text(value["value"])  # the Vercel AI SDK wraps an answer once more
    if isinstance(value, list) and value and all(_is_shown(part) for part in value):
        shown = [_shown(part) for part in value[:MAX_PARTS]]
        return "\n".join(shown)
    return json_text(value)


def _is_shown(part: Json) -> bool:
    if not isinstance(part, dict):
        return False
    return isinstance(part.get("text"), str) or "json" in part or media_mark(part) is not None


def _shown(part: Json) -> str:
    if not isinstance(part, dict):
        return ""
    text = part.get("text")
    return text if isinstance(text, str) else media_mark(part) or json_text(part.get("json"))


def _calls_beside(row: Mapping[str, Json], texts: Texts) -> list[Call]:
    """Requests for tools that stand beside the content; each once, however often written down."""
    if _CALLS_BESIDE.isdisjoint(row):
        return []
    beside = row.get("additional_kwargs")
    sources: list[Json] = [row.get("tool_calls"), row.get("toolCalls")]
    if isinstance(beside, dict):
        sources += [beside.get("tool_calls"), [beside.get("function_call")]]
    sources += [[row.get("function_call")], row.get("invalid_tool_calls")]
    for source in sources:
        listed = opened_json(source) if isinstance(source, str) else source
        found = [call_of(call, texts) for call in as_objects(listed)[:MAX_PARTS]]
        found = [call for call in found if call[1]]
        if found:
            return found
    return []


def _calls_as_text(text: str, texts: Texts) -> list[Call]:
    """Requests for tools that a recorder wrote as the text of the message."""
    if text[:2] != "[{" or '"function"' not in text:
        return []
    items = opened_json(text)
    if not isinstance(items, list) or not all(
        isinstance(item, dict) and item.get("type") == "function" and is_call(item)
        for item in items
    ):
        return []
    return [call_of(item, texts) for item in as_objects(items)[:MAX_PARTS]]


def _id(row: Mapping[str, Json], role: str) -> str | None:
    if role != "tool":
        return None
    named = as_text(first_of(row, IDS[:-1])) or as_text(row.get("id"))
    return named or None


def _message(
    role: str, text: str, answered: str | None, calls: Sequence[Call], texts: Texts
) -> Message:
    text = without_blobs(text)
    if not calls and answered is None:
        return texts.plain(role, text)
    return Message(
        role=role, content=texts.keep(text), tool_call_id=answered, tool_calls=tuple(calls)
    )
