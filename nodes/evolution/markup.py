"""Text that a page does not show although an agent reads it. Pure.

A reviewer may read the rendered file, as on a code host; what a renderer leaves out would be
approved unread. Code, where markup shows as it is written, is left alone.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from nodes.evolution.change import TextChange
from nodes.evolution.edits import BOM
from nodes.evolution.items import ITEM_COMMENT
from nodes.evolution.judged import Judged, judged, quoted

MAX_LINE = 2_000
"""Characters of a line that a person still reads to its end."""
PADDING = 40
"""Blanks in a row inside a line, behind which text stands outside the window."""
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_CODE_SPAN = re.compile(r"(?<!`)(`{1,3})(?!`)[^`\n]{1,400}?(?<!`)\1(?!`)")
_COMMENT = re.compile(
    r"<!--(?:(?!-->)[\s\S])*(?:-->)?|<!\[CDATA\[|<\?[a-z!]|<![a-z]", re.IGNORECASE
)
_FORBIDDEN: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "a tag that hides or runs its content",
        re.compile(
            r"<(?:script|style|template|iframe|object|embed|noscript|textarea|svg)\b"
            r"|<(?:input|form|link|base|meta)\s[^<>\n]{0,200}="
            r"|<[a-z][^<>\n]{0,200}\s(?:hidden(?=[\s=/>])|(?:style|on[a-z]{3,20})\s{0,4}=)"
            r"[^<>\n]{0,200}|<font\s[^<>\n]{0,200}\bcolor\b",
            re.IGNORECASE,
        ),
    ),
    ("invisible mathematics", re.compile(r"\\(?:color|textcolor|[hv]?phantom)\s{0,4}\{")),
    ("a data or script address", re.compile(r"\b(?:data:[a-z]+/|javascript:|vbscript:)", re.I)),
    (
        "a definition that shows nothing",
        re.compile(r"^ {0,3}\[(?://|comment|#|_|\.|\s)\]:.*", re.IGNORECASE | re.MULTILINE),
    ),
)
_UNSEEN: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("text folded away by <details>", re.compile(r"<(?:details|summary)\b", re.IGNORECASE)),
    (
        "a link's title",
        re.compile(r"\]\([^()\s]{0,400}\s{1,4}(?:\"[^\"\n]{1,400}\"|'[^'\n]{1,400}')\s{0,4}\)"),
    ),
    (
        "a link definition",
        re.compile(r"^ {0,3}\[[^\]\n]{1,200}\]:[ \t]{0,8}\S[^\n]*", re.MULTILINE),
    ),
    ("an image", re.compile(r"!\[[^\]\n]{0,400}\][(\[]|<img\b", re.IGNORECASE)),
    (
        "text inside a tag",
        re.compile(
            r"<[a-z][\w-]{0,30}\s[^<>\n]{0,400}=\s{0,4}(?:\"[^\"\n]{20,}\"|'[^'\n]{20,}')"
            r"|<[a-z][\w-]{0,30}(?:\s{1,4}[a-z][\w-]{0,30}){5,40}\s{0,4}/?>",
            re.IGNORECASE,
        ),
    ),
)
_BLANK = r"[ \t\u00a0\u2000-\u200a\u3000]"
_PADDED = re.compile(rf"(?<=\S){_BLANK}{{{PADDING},}}\S")
_FAR = re.compile(rf"(?<=\S){_BLANK}{{{3 * PADDING},}}\S")
"""In code and in tables columns are set with blanks."""


def hidden_text(changes: Sequence[TextChange]) -> Judged:
    """Markup that an edit adds and that keeps text from whoever reads the rendered page."""
    refused: list[str] = []
    warned: list[str] = []
    for change in changes:
        old, new = shown_markup(change.before), shown_markup(change.after)
        for what, found in _added(_hiding(old), _hiding(new)):
            refused.append(f"{change.path}: {what}: {quoted(found)}; say it in plain sight")
        for what, found in _added(_unseen(old), _unseen(new)):
            warned.append(f"{change.path}: {what} does not show on a page: {quoted(found)}")
        prose = frozenset(new.split("\n"))
        for line in change.lines[1]:
            table = line.lstrip().startswith("|") or line not in prose
            if padded := (_FAR if table else _PADDED).search(line):
                refused.append(
                    f"{change.path}: text behind {len(padded[0]) - 1} blanks in one line; close up"
                )
            elif len(line) > MAX_LINE:
                warned.append(f"{change.path}: a line of {len(line)} characters")
    return judged(refused, warned)


def shown_markup(text: str) -> str:
    """The text without code, without front matter's fence lines and without our own comments."""
    text = ITEM_COMMENT.sub("", text.removeprefix(BOM).replace("\r\n", "\n"))
    return "\n".join(_outside_code(text))


def _outside_code(text: str) -> Iterator[str]:
    fence: str | None = None
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if fence is not None:
            if mark and mark[1].startswith(fence) and not line[mark.end() :].strip():
                fence = None
        elif mark and not (mark[1][0] == "`" and "`" in line[mark.end() :]):
            fence = mark[1]
        else:
            yield _CODE_SPAN.sub("", line)


def _hiding(text: str) -> Counter[tuple[str, str]]:
    found = Counter(("a comment", match[0]) for match in _COMMENT.finditer(text))
    for what, pattern in _FORBIDDEN:
        found.update((what, m[0]) for m in pattern.finditer(text))
    return found


def _unseen(text: str) -> Counter[tuple[str, str]]:
    return Counter(
        (what, match[0]) for what, pattern in _UNSEEN for match in pattern.finditer(text)
    )


def _added(
    old: Counter[tuple[str, str]], new: Counter[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    return iter((new - old).keys())
