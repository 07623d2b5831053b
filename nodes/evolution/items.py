"""What Tracemend itself added to a text: found again by a comment, or by its words. Pure.

An item is a heading with its text, a group of bullets, or the body of a skill. Where the format
allows, a comment on a line of its own stands before it and names the item and its finding:

    <!-- tracemend i-7q2w4x5y6z f-abcdefghij -->

The id is made of the finding's signature and the item's words, so a hand edit shows: the id then no
longer follows from the words.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from contracts.json_types import content_id

ITEM_COMMENT: Final = re.compile(
    r"^<!-- tracemend (?P<item>i-[a-z2-7]{10}) (?P<finding>f-[a-z2-7]{10}) -->\r?$", re.MULTILINE
)
"""A whole line in exactly the form that is written here; nothing else hides behind it."""
_WHOLE_COMMENT: Final = re.compile(ITEM_COMMENT.pattern + r"\n?", re.MULTILINE)
_SUFFIXES: Final = (".md", ".markdown")
_SENT_VERBATIM: Final = "prompts/"
"""A vendor's prompt reaches the model as it is, comments and all, and is often a template."""
_HEADING: Final = re.compile(r"(#{1,6})\s")
_FRONT: Final = re.compile(r"---[ \t]*\n[\s\S]*?\n---[ \t]*(?:\n|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One item of ours in a text; lines count from 0, `stop` is the first line after it."""

    id: str
    finding: str
    start: int
    """Line of its comment; of an item without one, its first line."""
    stop: int
    text: str
    """Its lines without the comment and without blank lines around them; LF ends them."""

    def intact(self, signature: str) -> bool:
        """Whether its words are still those it was added with."""
        return self.id == item_id(signature, self.text)


def item_id(signature: str, text: str) -> str:
    """The stable id of an item: `i-` and 10 base32 characters."""
    return content_id("i-", signature, normal(text))


def normal(text: str) -> str:
    """A text as it is compared: our comments left out, every run of white space one blank."""
    return " ".join(without_comments(text).split())


def without_comments(text: str) -> str:
    """The text without our own comment lines; the lines themselves stay, so that numbers do."""
    return ITEM_COMMENT.sub("", text) if "<!-- tracemend " in text else text


def takes_comments(path: str) -> bool:
    """Whether an item in the file may carry a comment."""
    return path.casefold().endswith(_SUFFIXES) and not path.startswith(_SENT_VERBATIM)


def comment_of(item: str, finding: str) -> str:
    """The comment line, without a line end."""
    return f"<!-- tracemend {item} {finding} -->"


def unmarked(text: str) -> str:
    """The text without our comment lines, their line ends included."""
    return _WHOLE_COMMENT.sub("", text)


def commented(text: str, *, signature: str, finding: str) -> str:
    """An added text with its comment before the first line that says something.

    A comment of ours that it has already makes room; a text that says nothing stays as it is.
    """
    if not normal(text):
        return text
    plain = unmarked(text)
    line = comment_of(item_id(signature, body_text(plain)), finding)
    front = _FRONT.match(plain)
    if front is None:
        rest = plain.lstrip("\n")
        return f"{plain[: len(plain) - len(rest)]}{line}\n{rest}"
    return f"{front[0]}\n{line}\n{plain[front.end() :].lstrip(chr(10))}"


def body_text(text: str) -> str:
    """What of an added text is the item: all but the front matter of a skill."""
    front = _FRONT.match(text)
    return (text[front.end() :] if front else text).strip("\n")


def items_in(text: str, signatures: Mapping[str, str] | None = None) -> tuple[Item, ...]:
    """The items whose comments stand in a text, in its order.

    Without more knowledge an item that begins with a heading ends before the next heading of its
    level, a list ends where the list does, and a skill's body is the rest of the file; none goes
    over the next comment of ours. `signatures` gives the signature of a finding's id: with it an
    item ends where its own words do, as long as nobody changed them.
    """
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n")
    lines = plain.split("\n")
    marks = [(at, found) for at, line in enumerate(lines) if (found := ITEM_COMMENT.match(line))]
    front = _FRONT.match(plain)
    first = front[0].count("\n") if front else -1
    found_items: list[Item] = []
    for number, (at, mark) in enumerate(marks):
        limit = marks[number + 1][0] if number + 1 < len(marks) else len(lines)
        whole = front is not None and not "".join(lines[first:at]).strip()
        stop = limit if whole else _end(lines, at + 1, limit)
        signature = (signatures or {}).get(mark["finding"])
        if signature is not None:
            stop = _exact(lines, at + 1, limit, mark["item"], signature) or stop
        found_items.append(_item(mark["item"], mark["finding"], lines, at, stop))
    return tuple(found_items)


def located(text: str, words: str) -> tuple[int, int] | None:
    """The lines (first, first after) of the only place in which an item's words stand whole.

    For files without comments, where the ledger knows what was added. White space does not count.
    """
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    wanted = [" ".join(line.split()) for line in words.split("\n") if line.strip()]
    if not wanted:
        return None
    said = [(at, " ".join(line.split())) for at, line in enumerate(lines) if line.strip()]
    places = [
        i for i in range(len(said) - len(wanted) + 1)
        if [line for _, line in said[i : i + len(wanted)]] == wanted
    ]  # fmt: skip
    if len(places) != 1:
        return None
    return said[places[0]][0], said[places[0] + len(wanted) - 1][0] + 1


def _item(item: str, finding: str, lines: list[str], at: int, stop: int) -> Item:
    while stop > at + 1 and not lines[stop - 1].strip():
        stop -= 1
    text = "\n".join(lines[at + 1 : stop]).strip("\n")
    return Item(id=item, finding=finding, start=at, stop=stop, text=text)


def _end(lines: list[str], start: int, limit: int) -> int:
    """Where the item that starts on a line ends by its form."""
    at = start
    while at < limit and not lines[at].strip():
        at += 1
    if at == limit:
        return limit
    heading = _HEADING.match(lines[at])
    if heading:
        return next(_headings(lines, at + 1, limit, len(heading[1])), limit)
    blank = False
    for here in range(at + 1, limit):
        line = lines[here]
        if not line.strip():
            blank = True
            continue
        if _HEADING.match(line) or (blank and not line.startswith((" ", "\t"))):
            return here
        blank = False
    return limit


def _headings(lines: list[str], start: int, limit: int, level: int) -> Iterator[int]:
    for at in range(start, limit):
        heading = _HEADING.match(lines[at])
        if heading and len(heading[1]) <= level:
            yield at


def _exact(lines: list[str], start: int, limit: int, item: str, signature: str) -> int | None:
    """The line after the last one of the words that the id was made of."""
    for stop in range(start + 1, limit + 1):
        if lines[stop - 1].strip() and item_id(signature, "\n".join(lines[start:stop])) == item:
            return stop
    return None
