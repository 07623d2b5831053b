"""Compare rules by their words: is this one there already, does that one say the opposite?

No model and no meaning: words, identifiers, numbers and negations. That is enough to stop a second
copy and a plain contradiction, and no proof that there is none.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from nodes.evolution.items import without_comments
from nodes.evolution.skill_file import body_of

_WORD = re.compile(r"`[^`\n]+`|[^\W_]+(?:[_.'-][^\W_]+)*", re.UNICODE)
_BULLET = re.compile(r"\s*(?:[-*+]|\d{1,3}[.)])\s+")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9`*\"'])")
_FILLER = frozenset(
    re.findall(
        r"\w+",
        "a an the this that these those it its is are be been was were will would can could may "
        "might shall should must do does did to of in on at by for from with and or as if when "
        "then than so you your we our they their i me my he she any all each every always please "
        "also just only there here has have had",
    )
)
_NEGATION = re.compile(
    r"\b(?:never|not|no|don'?t|doesn'?t|cannot|can'?t|won'?t|mustn'?t|shouldn'?t"
    r"|without|avoid|refuse|stop|nor|neither|forbidden)\b",
    re.IGNORECASE,
)
_NO_BAN = re.compile(
    r"\b(?:do\s+not|don't|never)\s+(?:hesitate|worry|be\s+afraid|mind)\b|\bno\s+(?:problem|need)\b"
    r"|\bnot\s+only\b",
    re.IGNORECASE,
)
"""Words of a ban that ban nothing: `do not hesitate to promise` promises."""
_EXCEPTION = re.compile(
    r"\b(?:unless|except(?:ion\w*)?|only\s+(?:if|when)|as\s+long\s+as|but\s+(?:if|when|not)"
    r"|other\s+than|apart\s+from|if\s+the\s+(?:user|customer)\s+insist\w*)\b",
    re.IGNORECASE,
)
_IDENTIFIER = re.compile(r"[^_\d/]*[_\d/].*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One sentence or bullet of a text, with the line on which it starts."""

    line: int
    text: str
    words: frozenset[str]
    """Content words, lower case, without filler."""
    names: frozenset[str]
    """Identifiers and numbers: two rules about different tools are two rules."""
    negative: bool


def statements(text: str) -> tuple[Statement, ...]:
    """Sentences of a text, without front matter, headings and fenced code."""
    found: list[Statement] = []
    pending: list[str] = []
    start = 0
    fenced = False

    def flush() -> None:
        parts = _SENTENCE.split(" ".join(pending))
        found.extend(statement(part.strip(), line=start) for part in parts if part.strip())
        pending.clear()

    for number, line in enumerate(without_comments(body_of(text)).split("\n"), 1):
        if line.lstrip().startswith(("```", "~~~")):
            flush()
            fenced = not fenced
            continue
        bullet = _BULLET.match(line)
        if fenced or bullet or not line.strip() or line.startswith("#"):
            flush()
        if fenced or not line.strip() or line.startswith("#"):
            continue
        if not pending:
            start = number
        pending.append((line[bullet.end() :] if bullet else line).strip())
    flush()
    return tuple(found)


def statement(text: str, *, line: int = 0) -> Statement:
    """The words of one sentence."""
    text = text.replace("\u2019", "'")
    tokens = [t.strip("`").casefold() for t in _WORD.findall(text)]
    words = [t for t in tokens if t and t not in _FILLER and not _NEGATION.fullmatch(t)]
    return Statement(
        line=line,
        text=text,
        words=frozenset(_stem(w) for w in words),
        names=frozenset(w for w in words if _IDENTIFIER.fullmatch(w)),
        negative=len(_NEGATION.findall(_NO_BAN.sub(" ", text))) % 2 == 1,
    )


def same_rule(one: Statement, other: Statement) -> bool:
    """Whether two statements say the same in nearly the same words."""
    if min(len(one.words), len(other.words)) < 3 or one.names != other.names:
        return False
    return one.negative == other.negative and similarity(one.words, other.words) >= 0.75


def opposes(rule: Statement, other: Statement) -> bool:
    """Whether `other` speaks of all that `rule` speaks of, with the opposite sign."""
    if len(rule.words) < 2 or rule.negative == other.negative:
        return False
    return len(rule.words & other.words) >= 0.75 * len(rule.words)


def holds(rule: Statement, text: Sequence[Statement]) -> bool:
    """Whether a text states the rule: one statement has its sign and nearly all its words."""
    return any(
        rule.negative == other.negative
        and len(rule.words & other.words) >= 0.75 * max(1, len(rule.words))
        for other in text
    )


def excepts(rule: Statement, other: Statement) -> bool:
    """Whether `other` speaks of all that `rule` speaks of and takes something out of it."""
    if len(rule.words) < 2 or not _EXCEPTION.search(other.text) or _EXCEPTION.search(rule.text):
        return False
    return len(rule.words & other.words) >= 0.75 * len(rule.words)


def similarity(one: frozenset[str], other: frozenset[str]) -> float:
    """Shared share of two sets (Jaccard), 0..1."""
    union = one | other
    return len(one & other) / len(union) if union else 0.0


def shingles(text: str, size: int = 3) -> frozenset[str]:
    """Runs of `size` words, lower case, for near-copies of longer texts."""
    words = [w.strip("`").casefold() for w in _WORD.findall(text)]
    if len(words) < size:
        return frozenset({" ".join(words)} if words else ())
    return frozenset(" ".join(words[i : i + size]) for i in range(len(words) - size + 1))


def _stem(word: str) -> str:
    """Plural, third person and the other forms of a verb folded: `delays`, `delaying`, `delay`."""
    if _IDENTIFIER.fullmatch(word) or len(word) < 4 or word.endswith("ss"):
        return word
    for ending in ("ing", "ed", "es", "s"):
        stem = word.removesuffix(ending)
        if stem != word and len(stem) >= 3 and _VOWEL.search(stem):
            return stem.removesuffix("e")
    return word.removesuffix("e")


_VOWEL = re.compile(r"[aeiouy]")
