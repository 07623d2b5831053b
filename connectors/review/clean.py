"""Make hidden characters visible before any skin shows a text.

Neither a terminal, nor a Markdown renderer, nor an HTML sanitiser takes out a bidirectional
override or a zero-width space, so it is done here, once, for all of them.
"""

import unicodedata
from collections.abc import Sequence

from configs.redaction import find_secrets, redact

_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_SHOWN_CONTROLS = frozenset("\n\t")
_KEY_BEGINS, _KEY_ENDS = "-----BEGIN", "-----END"
# Invisible although their category is letter, mark or symbol: Hangul fillers, the grapheme joiner,
# Khmer inherent vowels, Mongolian selectors, the empty Braille cell.
_BLANK_LOOKING = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u2800\u3164\uffa0")


def is_hidden(char: str) -> bool:
    """Whether a character shows nothing, or changes how its neighbours show.

    U+FE0F is let through: it only asks for the coloured form of the emoji before it.
    """
    if char.isascii():
        return (char < " " and char not in _SHOWN_CONTROLS) or char == "\x7f"
    return (
        char in _BLANK_LOOKING
        or "\ufe00" <= char <= "\ufe0e"
        or "\U000e0100" <= char <= "\U000e01ef"
        or unicodedata.category(char) in _HIDDEN_CATEGORIES
    )


def clean(text: str) -> str:
    """The text with each hidden character as `⟨U+202E⟩`; line ends become LF. Idempotent."""
    text = text.replace("\r\n", "\n")
    if text.isascii() and text.isprintable():
        return text
    return "".join(f"⟨U+{ord(c):04X}⟩" if is_hidden(c) else c for c in text)


def safe(text: str) -> str:
    """Cleaned and redacted. A secret that hidden characters cut in pieces is found as well."""
    cleaned = clean(text)
    bare = "".join(c for c in text.replace("\r\n", "\n") if not is_hidden(c))
    if len(find_secrets(bare)) > len(find_secrets(cleaned)):
        return redact(bare)
    return redact(cleaned)


def safe_lines(lines: Sequence[str]) -> tuple[str, ...]:
    """Safe lines of one text; a private key spans several and is masked line by line."""
    shown: list[str] = []
    inside = False
    for line in lines:
        inside = inside or (_KEY_BEGINS in line and "PRIVATE KEY" in line)
        shown.append("[private key]" if inside else safe(line))
        inside = inside and _KEY_ENDS not in line
    return tuple(shown)


def one_line(text: str, limit: int = 160) -> str:
    """Safe text on one line, at most `limit` characters."""
    flat = " ".join(safe(text).split())
    return flat if len(flat) <= limit else flat[: limit - 1].rstrip() + "…"
