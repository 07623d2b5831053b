"""What the instructions of a model call already ask for: a sentence, and the line it stands in."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from contracts.traces import Span

INSTRUCTING = frozenset({"system", "developer"})
MAX_TEXT = 60_000
_SENTENCE = re.compile(r"[^.!?]+[.!?]*")
_REPORT = re.compile(
    r"\b(?:report|tell|say|state|mention|admit|surface|show|explain|inform|name|disclose|relay)\b"
    r"[^.\n]{0,80}\b(?:errors?|fail(?:s|ed|ure|ures|ing)?|problems?"
    r"|(?:did|does|could) ?n[o']t|unable)\b"
    r"|\b(?:errors?|fail(?:s|ed|ure|ures)?|problems?)\b[^.\n]{0,80}"
    r"\b(?:report|tell|say|state|mention|admit|explain|inform|honest\w*)\b"
    r"|\bnever (?:claim|pretend|invent|make up|guess|fabricate)\b|\bdo(?: not|n't) (?:claim|pretend"
    r"|invent|make up|guess|fabricate)\b|\bhonest(?:ly)?\b",
    re.IGNORECASE,
)
_REPEAT = re.compile(
    r"\b(?:never|do(?: not|n't)|avoid|stop)\b[^.\n]{0,60}\b(?:repeat\w*|again|same call|loop\w*"
    r"|twice|more than (?:once|twice|\w+ times))\b",
    re.IGNORECASE,
)
_RETRY = re.compile(
    r"\b(?:times? ?-?out|timed out|time-?outs?|slow|429|50[234]|rate[ -]?limit\w*"
    r"|too many requests)\b[^.\n]{0,120}\b(?:again|retry|retries|repeat|wait|once more)\b"
    r"|\b(?:again|retry|retries|repeat|wait|once more)\b[^.\n]{0,120}"
    r"\b(?:times? ?-?out|timed out|time-?outs?|429|50[234]|rate[ -]?limit\w*|too many requests)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A sentence of the instructions."""

    line: int
    """Counted from 1, in the message that holds it."""
    text: str


def instructions(call: Span) -> str:
    """The system and developer texts of the call, one after the other."""
    texts = [m.content for m in call.messages_in if m.role in INSTRUCTING]
    return "\n".join(texts)[:MAX_TEXT]


def lines(text: str) -> Iterator[Asked]:
    """Every sentence with its line."""
    for number, line in enumerate(text.splitlines(), 1):
        for match in _SENTENCE.finditer(line):
            if said := match[0].strip():
                yield Asked(line=number, text=said)


def asked_for(call: Span, about: Callable[[str], bool]) -> Asked | None:
    """The first sentence of the call's instructions that is about it."""
    text = instructions(call)
    if not about(text):
        return None
    return next((one for one in lines(text) if about(one.text)), None)


def about_reporting(text: str) -> bool:
    """Whether it asks to report failures, or forbids to claim what did not happen."""
    return _REPORT.search(text) is not None


def about_repeating(text: str) -> bool:
    """Whether it forbids to repeat a call."""
    return _REPEAT.search(text) is not None


def about_retrying(text: str) -> bool:
    """Whether it says to wait or to try again when a call times out or is refused."""
    return _RETRY.search(text) is not None
