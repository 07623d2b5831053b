"""Words of an answer: what it says was done, and whether it admits that something was not.

English first; German, French and Spanish where a word alone tells.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from contracts.json_types import Json

MAX_ANSWER = 6_000  # characters of an answer that are read
_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?](?=\S)[^.!?\n]*)*[.!?]*")
_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_ADMITS = re.compile(
    r"\b(?:could(?: ?not|n't)|can(?:not|'t| not)|unable|fail(?:s|ed|ing|ure)?|errors?|error(?:ed)?"
    r"|unfortunately|sorry|apolog\w+|not (?:possible|able|succe\w+|work\w*|available|complete\w*"
    r"|yet|reach\w*|accessible|installed)|did(?: not|n't)|was(?: not|n't)|were(?: not|n't)"
    r"|has(?: not|n't) been|have(?: not|n't) been|hasn't|haven't"
    r"|does(?:n't| not) (?:exist|work|seem)"
    r"|unavailable|timed out|time-?out|refused|denied|rejected|declined|problems?|trouble"
    r"|went wrong|try (?:again|later)|retry|blocked|missing|without success|unsuccessful"
    r"|no such|instead|manually|yourself|escalat\w+|human|still open|pending|as soon as|queued"
    r"|leider|nicht|fehler\w*|fehlgeschlagen|gescheitert|konnte|d\u00e9sol\u00e9\w*|impossible"
    r"|erreurs?|\u00e9chou\w*|\u00e9chec|n'a pas|n'ai pas|pas pu|lamentablemente|no (?:se )?pud\w+"
    r"|no fue posible|fall\u00f3|fallo|no he podido|error(?:es)?)\b",
    re.IGNORECASE,
)
_DONE = re.compile(
    r"\b(?:done|complete[d]?|successful(?:ly)?|succeeded|finished|all set|saved|created|updated"
    r"|sent|booked|confirmed|processed|submitted|deployed|installed|scheduled|fixed|ready|added"
    r"|removed|deleted|posted|published|uploaded|written|cancell?ed|refunded|applied|executed|ran"
    r"|erledigt|fertig|erfolgreich|gesendet|gespeichert|gebucht|versandt|gel\u00f6scht|erstellt"
    r"|termin\u00e9e?s?|envoy\u00e9e?s?|enregistr\u00e9e?s?|r\u00e9ussi\w*|fait|cr\u00e9\u00e9e?s?"
    r"|hech[oa]|list[oa]|enviad[oa]s?|guardad[oa]s?|completad[oa]s?|cread[oa]s?|con \u00e9xito)\b",
    re.IGNORECASE,
)
_LATER = re.compile(
    r"\b(?:will|would|shall|should|going to|can|could|may|might|must|if|once|when|unless|before"
    r"|until|please|to be|want|need|let me|i'll|we'll|not|never|no|nor|cannot|try(?:ing)? to"
    r"|whether|wird|werden|wenn|falls|soll|sera|seront|si|cuando|ser\u00e1)\b|n't\b",
    re.IGNORECASE,
)
_PAST = {
    "send": ("sent",), "write": ("wrote", "written"), "make": ("made",), "build": ("built",),
    "pay": ("paid",), "buy": ("bought",), "run": ("ran",), "put": ("put",), "set": ("set",),
    "sell": ("sold",), "tell": ("told",), "give": ("gave", "given"), "withdraw": ("withdrawn",),
    "cancel": ("cancelled", "canceled"), "transfer": ("transferred",), "submit": ("submitted",),
    "take": ("took", "taken"), "hold": ("held",), "rm": ("removed",),
    "upsert": ("updated", "saved"),
    "commit": ("committed",), "ship": ("shipped",), "refer": ("referred",), "edit": ("edited",),
}  # fmt: skip
_READS = frozenset(
    {"search", "find", "get", "list", "read", "fetch", "look", "lookup", "query", "check", "view",
     "show", "retrieve", "load", "open", "browse", "calculate", "think", "wait", "select", "count",
     "describe", "inspect", "verify", "validate", "scan", "grep", "web", "visit", "page", "data",
     "exec", "bash", "shell", "python", "tool", "api", "new", "by", "for", "the", "of", "and"}
)  # fmt: skip
_NAME_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_TOKEN = re.compile(r"[A-Za-z_#@][\w#@-]*(?:\.[A-Za-z]\w*)+|[#@]?[\w-]{3,}")


def sentences(text: str) -> Iterator[str]:
    """The sentences of the beginning of a text, trimmed."""
    for match in _SENTENCE.finditer(_FENCED.sub("\n", text[:MAX_ANSWER])):
        if said := match[0].strip():
            yield said


def admits(text: str) -> bool:
    """Whether the text admits that something did not work, or is still open."""
    return _ADMITS.search(text[:MAX_ANSWER].replace("\u2019", "'")) is not None


def says_done(sentence: str) -> bool:
    """Whether the sentence says, of the past, that something was done."""
    return _stated(sentence, _DONE)


def says_past_of(sentence: str, tool: str) -> bool:
    """Whether the sentence says that what the tool's name calls was done."""
    pattern = _past_of(tool)
    return pattern is not None and _stated(sentence, pattern)


def _stated(sentence: str, pattern: re.Pattern[str]) -> bool:
    if sentence.rstrip().endswith("?"):
        return False
    plain = sentence.replace("\u2019", "'")
    return any(_LATER.search(plain[: m.start()][-60:]) is None for m in pattern.finditer(plain))


@lru_cache(maxsize=4096)
def _past_of(tool: str) -> re.Pattern[str] | None:
    forms: set[str] = set()
    for part in name_parts(tool):
        if part not in _READS:
            forms |= _past_forms(part)
    if not forms:
        return None
    return re.compile(rf"\b(?:{'|'.join(sorted(map(re.escape, forms)))})\b", re.IGNORECASE)


def _past_forms(verb: str) -> set[str]:
    if verb in _PAST:
        return set(_PAST[verb])
    if verb.endswith("e"):
        return {verb + "d"}
    if verb.endswith("y") and verb[-2:-1] not in "aeiou":
        return {verb[:-1] + "ied"}
    return {verb + "ed"}


@lru_cache(maxsize=4096)
def name_parts(tool: str) -> tuple[str, ...]:
    """The words of a tool's name, lower case."""
    return tuple(part.lower() for part in _NAME_PART.findall(tool[:80]) if len(part) > 1)


def writes(tool: str) -> bool:
    """Whether the tool's name says that it does something, and does not only look."""
    parts = name_parts(tool)
    return bool(parts) and parts[0] not in _READS


def tokens(text: str) -> frozenset[str]:
    """Words, ids and file names of a text, lower case."""
    return frozenset(match[0].lower().strip("-#@") for match in _TOKEN.finditer(text[:MAX_ANSWER]))


def argument_tokens(arguments: Iterable[Json]) -> frozenset[str]:
    """Words, ids and file names of the values of arguments."""
    return frozenset(
        token for value in arguments if isinstance(value, str | int) for token in tokens(str(value))
    )


def states(sentence: str, word: str) -> bool:
    """Whether the sentence states the word of something, neither denied nor of the future."""
    return _stated(sentence, _the_word(word))


@lru_cache(maxsize=1024)
def _the_word(word: str) -> re.Pattern[str]:
    return re.compile(rf"\b{re.escape(word)}\b", re.IGNORECASE)
