"""The messages of a chat prompt as one text, and back, exactly.

A message begins with a line of its own such as `=== system ===`; what follows up to the next such
line is its content. A line of a content that looks like one gets a backslash in front. So an anchor
finds its place in a chat prompt as in any file, and a diff of it reads as one.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from contracts.json_types import Json

CHAT_SUFFIX: Final = ".chat.md"
TEXT_SUFFIX: Final = ".md"
PROMPTS: Final = "prompts/"

_HEAD: Final = re.compile(r"=== ([a-z][a-z0-9_]{0,39})(?: ([^\n]*[^\s\n]))? ===")
_LIKE_HEAD: Final = re.compile(r"\\*=== .* ===")
PLACEHOLDER: Final = "placeholder"
"""The role of a place that messages are put into; its line names the variable."""

Message = Mapping[str, Json]
"""`{"role", "content"}`, or `{"type": "placeholder", "name"}` for a place of messages."""


class PromptTextError(ValueError):
    """A text is no chat prompt; the message says in which line and why."""


def chat_text(messages: Sequence[Message]) -> str:
    """The messages as one text.

    Raises:
        PromptTextError: one has no role and content of texts, or a role that no line can name.
    """
    parts: list[str] = []
    for number, message in enumerate(messages, 1):
        head, content = _head(message, number), message.get("content")
        if not _HEAD.fullmatch(head):
            raise PromptTextError(f"message {number}: its role cannot be written in a line")
        parts.append(head)
        if message.get("type") == PLACEHOLDER:
            continue
        if not isinstance(content, str):
            raise PromptTextError(f"message {number}: its content is no text")
        parts += [_escaped(line) for line in content.split("\n")]
    return "\n".join([*parts, ""])


def chat_messages(text: str) -> list[dict[str, Json]]:
    """The text as messages; the inverse of `chat_text`.

    Raises:
        PromptTextError: it does not begin with a message's line, or a place has a content.
    """
    found: list[tuple[str, str | None, list[str]]] = []
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        head = _HEAD.fullmatch(line)
        if head:
            found.append((head[1], head[2], []))
        elif not found:
            raise PromptTextError(f"line {number}: a chat prompt begins with `=== role ===`")
        else:
            found[-1][2].append(line[1:] if _LIKE_HEAD.fullmatch(line) else line)
    messages: list[dict[str, Json]] = []
    for role, name, lines in found:
        if role != PLACEHOLDER:
            if name is not None:
                raise PromptTextError(f"`=== {role} {name} ===`: only a placeholder has a name")
            messages.append({"role": role, "content": "\n".join(lines)})
            continue
        if any(line.strip() for line in lines) or name is None:
            raise PromptTextError("a placeholder has a name and no content")
        messages.append({"type": PLACEHOLDER, "name": name})
    return messages


def is_chat(path: str) -> bool:
    """Whether a harness path holds the messages of a chat."""
    return path.startswith(PROMPTS) and path.endswith(CHAT_SUFFIX)


def prompt_path(name: str, *, chat: bool) -> str:
    """Where a managed prompt stands in the harness."""
    return f"{PROMPTS}{name}{CHAT_SUFFIX if chat else TEXT_SUFFIX}"


def prompt_name(path: str) -> str:
    """The name of the prompt at a harness path."""
    name = path.removeprefix(PROMPTS)
    return name.removesuffix(CHAT_SUFFIX) if is_chat(path) else name.removesuffix(TEXT_SUFFIX)


def _head(message: Message, number: int) -> str:
    if message.get("type") == PLACEHOLDER:
        return f"=== {PLACEHOLDER} {message.get('name')} ==="
    role = message.get("role")
    if not isinstance(role, str) or role == PLACEHOLDER:
        raise PromptTextError(f"message {number}: has no role")
    return f"=== {role} ==="


def _escaped(line: str) -> str:
    return "\\" + line if _LIKE_HEAD.fullmatch(line) else line
