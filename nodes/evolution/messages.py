"""The messages of a chat prompt: an edit changes what they say, never which there are. Pure."""

from collections.abc import Mapping, Sequence

from connectors.prompts.text import PLACEHOLDER, PromptTextError, chat_messages, is_chat
from contracts.json_types import Json
from nodes.evolution.change import TextChange
from nodes.evolution.edits import BOM
from nodes.evolution.judged import Judged, judged
from nodes.evolution.placeholders import placeholders


def message_changes(changes: Sequence[TextChange]) -> Judged:
    """What an edit does to the messages of chat prompts beside their words."""
    problems: list[str] = []
    for change in changes:
        if is_chat(change.path) and change.there_after:
            problems += [f"{change.path}: {why}" for why in _problems(change)]
    return judged(problems)


def _problems(change: TextChange) -> list[str]:
    if not change.there_before:
        return ["a chat prompt is not added here; make it in the prompt store"]
    try:
        new = chat_messages(_text(change.after))
    except PromptTextError as error:
        return [f"no chat prompt any more: {error}"]
    try:
        old = chat_messages(_text(change.before))
    except PromptTextError:
        return []  # it was broken, and the edit mends it
    was, now = [_head(m) for m in old], [_head(m) for m in new]
    if was != now:
        return [f"messages change from {', '.join(was)} to {', '.join(now)}; keep each `=== … ===`"]
    problems: list[str] = []
    for number, (before, after) in enumerate(zip(old, new, strict=True), 1):
        if moved := _variables(before) ^ _variables(after):
            names = ", ".join(f"`{form}`" for form in sorted(moved))
            problems.append(
                f"message {number} ({was[number - 1]}) has other placeholders: {names}; a variable "
                "stays in its message"
            )
    return problems


def _text(text: str) -> str:
    return text.removeprefix(BOM).replace("\r\n", "\n")


def _head(message: Mapping[str, Json]) -> str:
    if message.get("type") == PLACEHOLDER:
        return f"{PLACEHOLDER} {message.get('name')}"
    return str(message.get("role"))


def _variables(message: Mapping[str, Json]) -> frozenset[str]:
    return placeholders(str(message.get("content", "")))


def message_words(changes: Sequence[TextChange]) -> str:
    """What was looked at, for a card."""
    chats = sum(is_chat(c.path) for c in changes)
    return "roles and order kept" if chats else "no chat prompt is touched"
