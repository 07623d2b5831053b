"""Whether two messages say the same thing, and what tells them apart.

Likeness alone never decides: messages of different causes are often closer to each other ("the card
is expired", "the card is locked") than two wordings of one cause. So two messages are only taken
for one where nothing that carries meaning differs: status codes, exception classes, negations,
words for the state of a thing.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

_WORD = re.compile(r"<\w+>|[A-Za-z_]\w*(?:'t\b)?")
_CODE = re.compile(r"<\d+>")
_CLASS = re.compile(
    r"\b[A-Za-z_]*(?:Error|Exception|Timeout|Fault|Refused|Denied|Exceeded|Interrupt|Failure)\b"
)
_NEGATIONS = frozenset({
    "not", "no", "never", "without", "cannot", "can't", "don't", "doesn't", "didn't", "won't",
    "isn't", "wasn't", "aren't", "nothing", "none", "neither", "nor",
})  # fmt: skip
_STATES = frozenset({
    "abort", "active", "allow", "ambiguous", "amount", "archive", "auth", "ban", "block",
    "broken", "busy", "cancel", "certificate", "close", "conflict", "connect", "corrupt",
    "credential", "currency", "deadlock", "decline", "delete", "denied", "deny",
    "deprecate", "different", "disable", "disk", "dns", "duplicate", "early", "empty",
    "enable", "exceed", "exist", "expire", "forbidden", "format", "full", "future",
    "handshake", "high", "illegal", "inactive", "insufficient", "interrupt", "invalid",
    "large", "late", "length", "limit", "lock", "long", "lost", "low", "malformed",
    "maximum", "memory", "minimum", "mismatch", "miss", "negative", "null", "offline",
    "open", "overload", "paid", "password", "past", "pend", "permission", "positive",
    "quota", "read", "refund", "refuse", "reject", "reset", "resolve", "revoke", "schema",
    "ship", "short", "signature", "slow", "small", "ssl", "stale", "suspend", "syntax",
    "time", "tls", "token", "truncate", "type", "unauthorised", "unauthorized",
    "unavailable", "undefined", "unexpected", "unknown", "unpaid", "unreachable",
    "unsupported", "unverified", "use", "verify", "withdraw", "withdrawn", "write", "zero",
})  # fmt: skip
"""Stems of words that say what is the matter with a thing, rather than which thing it is."""
_DEMANDS = frozenset({"must", "should", "expected", "required", "requires", "need", "needs"})
"""What must be was not: `must have four digits` says the same as `has not four digits`."""
_SMALL = frozenset({
    "a", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "been", "being",
    "but", "by", "can", "could", "did", "do", "does", "done", "each", "for", "from", "gave",
    "get", "gets", "give", "given", "got", "had", "has", "have", "having", "he", "her",
    "here", "his", "i", "if", "in", "into", "is", "it", "its", "just", "may", "me", "might",
    "my", "of", "on", "one", "only", "or", "our", "please", "shall", "she", "so", "some",
    "than", "that", "the", "their", "then", "there", "these", "they", "this", "those", "to",
    "us", "very", "was", "we", "were", "when", "while", "will", "with", "would", "you",
    "your",
})  # fmt: skip
_ENDINGS = ("ations", "ation", "ings", "ing", "ed", "es", "s", "e", "y")
_SHORTEST = 3


@dataclass(frozen=True, slots=True)
class Words:
    """A message template as its words."""

    all: frozenset[str]
    """Lower case, placeholders such as `<id>` included."""
    stems: frozenset[str]
    """Of words with a meaning of their own: no placeholders, no small words, no negations."""
    codes: frozenset[str]
    classes: frozenset[str]
    refusals: int
    """Negations, and demands that were not met."""
    order: tuple[str, ...]
    """All words as they stand."""

    @property
    def states(self) -> frozenset[str]:
        """Stems that say what is the matter."""
        return self.stems & STATE_STEMS


def words_of(template: str) -> Words:
    """Take a template apart."""
    order = tuple(_WORD.findall(template.lower()))
    plain = [word for word in order if not word.startswith("<")]
    refusals = [word for word in plain if word in _NEGATIONS or word in _DEMANDS]
    return Words(
        all=frozenset(order),
        stems=frozenset(
            stem(word) for word in plain if word not in _SMALL and word not in refusals
        ),
        codes=frozenset(_CODE.findall(template)),
        classes=frozenset(_CLASS.findall(template)),
        refusals=len(refusals),
        order=order,
    )


def stem(word: str) -> str:
    """The word without a usual ending: `expired` and `expires` are one."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST:
            word = word[: -len(ending)]
            break
    if len(word) > _SHORTEST and word[-1] == word[-2]:
        word = word[:-1]
    return word


STATE_STEMS = frozenset(stem(word) for word in _STATES)


def share(a: Collection[str], b: Collection[str]) -> float:
    """Share of common words among all words of both; 1 where neither has any."""
    together = {*a, *b}
    return len({*a} & {*b}) / len(together) if together else 1.0


def conflict(a: Words, b: Words) -> str | None:
    """What tells two messages apart, for a person; None: nothing that is looked for."""
    if a.codes and b.codes and not a.codes & b.codes:
        return f"codes {_list(a.codes)} and {_list(b.codes)}"
    if a.classes and b.classes and not a.classes & b.classes:
        return f"classes {_list(a.classes)} and {_list(b.classes)}"
    if a.refusals != b.refusals:
        return "one has a negation more"
    mine, others = a.states - b.stems, b.states - a.stems
    if mine and others:
        return f"{_list(mine)} and {_list(others)}"
    return None


def places_apart(a: Words, b: Words) -> int:
    """At how many places two messages of one frame have other words.

    At two or more the frame is shared and what they say is not. A single place holds a value as a
    rule (a name, a table), or the one word that matters: only many messages can tell.
    """
    differing = 0
    for tag, i1, i2, j1, j2 in SequenceMatcher(
        None, a.order, b.order, autojunk=False
    ).get_opcodes():
        if tag == "replace" and _meant(a.order[i1:i2]) and _meant(b.order[j1:j2]):
            differing += 1
    return differing


def _meant(words: Sequence[str]) -> bool:
    return any(not word.startswith("<") and word not in _SMALL for word in words)


def _list(words: Collection[str]) -> str:
    return ", ".join(sorted(words)[:4])
