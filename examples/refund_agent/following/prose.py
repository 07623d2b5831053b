"""Cut instruction text into sentences, each with the text that says what it is about."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_NUMBER_WORDS = {
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "a couple of": 2,
    "a few": 3,
    "several": 3,
}
NUMBER = r"(?:\d{1,2}|" + "|".join(_NUMBER_WORDS) + ")"


def number_of(text: str) -> int:
    """The value of what `NUMBER` matched."""
    word = " ".join(text.lower().split())
    return _NUMBER_WORDS[word] if word in _NUMBER_WORDS else int(word)


@dataclass(frozen=True, slots=True)
class Mention:
    """A tool named in a sentence, and where."""

    tool: str
    start: int
    end: int
    act: bool = False
    """Named by what it does, so the mention itself says to do it."""


class Lexicon:
    """The tools that are bound, and the ways in which prose names them.

    `payment_api` is named by `payment_api`, "payment-api", "payment API" and "the payment
    service"; `queue_refund` also by what it does: "queue the refund", "queuing a refund".
    """

    def __init__(self, tools: Sequence[str]) -> None:
        self.tools = tuple(tools)
        first = [tool.split("_")[0] for tool in tools]
        self._names = [
            (tool, re.compile(_name(tool, alone=first.count(tool.split("_")[0]) == 1), re.I))
            for tool in tools
        ]
        self._acts = [(tool, re.compile(_act(tool), re.I)) for tool in tools if "_" in tool]

    def named(self, text: str) -> list[Mention]:
        """Tools called by name, in order."""
        return _in_order(_find(self._names, text))

    def mentioned(self, text: str) -> list[Mention]:
        """Tools called by name or by what they do, in order."""
        return _in_order(_find(self._names, text) + _find(self._acts, text, act=True))


def _name(tool: str, *, alone: bool) -> str:
    parts = [re.escape(part) for part in tool.split("_")]
    name = rf"(?<!\w){'[ _-]'.join(parts)}(?!\w)"
    if not alone or len(parts) == 1:
        return name
    kinds = "tool|service|api|call|endpoint|gateway|provider|function"
    return rf"{name}|\b{parts[0]}s? (?:{kinds})s?\b"


def _act(tool: str) -> str:
    verb, *_, noun = tool.split("_")
    if verb.endswith("y"):
        verb = rf"{verb[:-1]}(?:y|ies|ied|ying)"
    else:
        verb = rf"{verb.rstrip('e')}(?:e|es|ed|ing|s)?"
    return rf"\b{verb} (?:the |an? |its |their |your |this |that )?(?:\w+ )?{noun}\b"


def _find(
    patterns: Sequence[tuple[str, re.Pattern[str]]], text: str, *, act: bool = False
) -> list[Mention]:
    return [
        Mention(tool, match.start(), match.end(), act)
        for tool, pattern in patterns
        for match in pattern.finditer(text)
    ]


def _in_order(mentions: list[Mention]) -> list[Mention]:
    return sorted(mentions, key=lambda mention: (mention.start, -mention.end))


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of the instructions."""

    text: str
    context: tuple[str, ...]
    """What a reader has in mind here, far to near: headings, what leads up to this sentence."""
    first: bool
    """Opens its paragraph or list item."""


_FENCE = re.compile(r"\s*(?:```|~~~)")
_HEADING = re.compile(r"\s{0,3}(?P<level>#{1,6})\s+(?P<text>.*?)\s*#*$")
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,2}[.)])\s+(?P<text>.*)$")
_TOPIC = re.compile(r"when to use:", re.I)
_END = re.compile(r"(?<!e\.g\.)(?<!i\.e\.)(?<=[.!?;])[)\"'*]*\s+")
_POINTS_BACK = re.compile(
    r"\b(?:it|this|that|these|those|so|then|the (?:tool|call|request|same|error|first))\b", re.I
)


@dataclass(slots=True)
class _Reader:
    """Blocks as they are met, and the context that goes with each."""

    title: tuple[str, ...] = ()
    """What the skill being read is for."""
    heading: tuple[str, ...] = ()
    leads: list[str] = field(default_factory=list)
    """Text of the section so far that the next list item or a pronoun may refer to."""
    lines: list[str] = field(default_factory=list)
    item: bool = False

    def close(self) -> Iterator[Sentence]:
        """The sentences of the block that ends here."""
        text = " ".join(line.strip() for line in self.lines)
        self.lines = []
        if not text:
            return
        sentences = [part for part in _END.split(text) if part]
        back = self.item or _POINTS_BACK.search(sentences[0]) is not None
        context = self.title + self.heading + (tuple(self.leads[-4:]) if back else ())
        for index, sentence in enumerate(sentences):
            yield Sentence(sentence, context, first=index == 0)
            context = (*context, sentence)
        self.leads.append(text)
        if _TOPIC.match(text):
            self.title = (text,)

    def open_section(self, level: int, text: str) -> None:
        """A heading starts a section; the heading of a skill also ends the skill before."""
        if level == 1 and text.lower().startswith("skill:"):
            self.title = ()
        self.heading = (text,)
        self.leads = []


def sentences(text: str) -> Iterator[Sentence]:
    """The sentences of Markdown text, in order; headings and fenced examples are not sentences."""
    reader, fenced = _Reader(), False
    for line in text.splitlines():
        heading, item = _HEADING.match(line), _ITEM.match(line)
        if _FENCE.match(line):
            fenced = not fenced
            yield from reader.close()
        elif fenced:
            continue
        elif heading:
            yield from reader.close()
            reader.open_section(len(heading["level"]), heading["text"])
        elif item or not line.strip():
            yield from reader.close()
            reader.item = item is not None
            reader.lines = [item["text"]] if item else []
        else:
            reader.lines.append(line)
    yield from reader.close()
