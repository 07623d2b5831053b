"""Where an edit without an anchor goes in the text of a chat prompt: into its system message."""

import re
from typing import Final

from connectors.prompts.text import is_chat
from contracts.errors import AnchorError
from nodes.evolution.edits import end_anchor, place_of

_HEAD: Final = re.compile(r"^=== [a-z][a-z0-9_]{0,39}(?: [^\n]*[^\s\n])? ===$", re.MULTILINE)
_ROLES: Final = ("=== system ===", "=== developer ===")
"""Messages that steer the model; what stands in the others is said by or to somebody."""


def system_span(text: str) -> tuple[int, int] | None:
    """Offsets of the first system message, its head included; None: the chat has none."""
    heads = list(_HEAD.finditer(text))
    for number, head in enumerate(heads):
        if head[0] in _ROLES:
            stop = heads[number + 1].start() if number + 1 < len(heads) else len(text)
            return head.start(), stop
    return None


def end_of_instructions(text: str, path: str) -> str:
    """The anchor after which a text without a place of its own is inserted.

    Raises:
        AnchorError: the file is blank, or a chat without a system message.
    """
    span = None
    if is_chat(path):
        span = system_span(text)
        if span is None:
            raise AnchorError(f"{path}: the chat has no system message")
    anchor = end_anchor(text, span)
    if anchor is None:
        raise AnchorError(f"{path}: no line to insert after")
    return anchor


def in_instructions(text: str, path: str, anchor: str) -> bool:
    """Whether the place of an anchor steers the model: in a chat, its system message alone.

    True for an anchor without one place: that is for the merge to say.
    """
    if not is_chat(path):
        return True
    place, span = place_of(text, anchor), system_span(text)
    if place is None:
        return True
    return span is not None and span[0] <= place[0] and place[1] <= span[1]
