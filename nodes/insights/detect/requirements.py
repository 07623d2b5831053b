"""What the text that a model was given demands of its answer: end markers, sizes. Scanned once.

Only wordings that say it outright are taken: an end marker in quotes after a verb of writing or
ending, and a number of characters after a word of limit. A literal is looked for first.
"""

import re
from collections import OrderedDict
from dataclasses import dataclass

MAX_TEXT = 40_000
_MARKER = re.compile(
    r"\b(?i:write|append|add|end(?:s|ing)?(?: [\w ]{0,30}?)? with|finish(?:es|ing)? with|"
    r"terminate(?:s|d)? (?:it )?with|conclude(?:s)? with)(?: the| a| your| exactly| this| final)*"
    r" ['\"`](?:\\n)?(</?[A-Za-z_]\w{1,30}>|[A-Z][A-Z_]{3,30})['\"`]",
)
_QUOTED = re.compile(r"['\"`](?:\\n)?(?:</?[A-Za-z_]|[A-Z][A-Z_]{3})")
"""What `_MARKER` ends with: cheaper to look for."""
_UNIT = r"(\d[\d,]{1,6}) (?:characters|chars)"
_SIZE = re.compile(
    r"\b(?:at most|no more than|maximum(?: of)?|max(?:imum)?|up ?to(?: the first)?|within"
    r"|limit(?:ed)?(?: of| to)?|not exceed(?:ing)?|less than|under) "
    rf"{_UNIT}\b|\b{_UNIT} (?:or less|or fewer|at a time|at most|max\w*|each)\b",
    re.IGNORECASE,
)
_SIZED = re.compile(r"\d (?:characters|chars)\b", re.IGNORECASE)
"""What `_SIZE` holds: cheaper to look for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Required:
    """What one text demands."""

    markers: tuple[tuple[str, int], ...] = ()
    """End markers and where the text names them."""
    characters: tuple[int, int] | None = None
    """(limit, where): how many characters may be read or written at a time."""


NOTHING = Required()


class Requirements:
    """Demands by text, so that a text that is sent with every call is scanned once. Bounded."""

    def __init__(self, limit: int = 512) -> None:
        self._limit = limit
        self._seen: OrderedDict[str, Required] = OrderedDict()

    def of(self, text: str) -> Required:
        """What the text demands of an answer."""
        known = self._seen.get(text)
        if known is None:
            known = self._seen[text] = required_by(text)
            if len(self._seen) > self._limit:
                self._seen.popitem(last=False)
        return known


def required_by(text: str) -> Required:
    """What the text demands of an answer, read without any memory."""
    head = text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT // 2]}{text[-MAX_TEXT // 2 :]}"
    markers: tuple[tuple[str, int], ...] = ()
    if _QUOTED.search(head):
        markers = tuple((m[1], m.start()) for m in _MARKER.finditer(head))[:8]
    characters = None
    if _SIZED.search(head):
        found = [(int((m[1] or m[2]).replace(",", "")), m.start()) for m in _SIZE.finditer(head)]
        characters = min(found, default=None)
    return Required(markers=markers, characters=characters) if markers or characters else NOTHING
