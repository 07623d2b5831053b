"""Characters that do not show, and words that mix letters of scripts which look alike. Pure."""

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

from connectors.review.clean import is_hidden
from nodes.evolution.change import TextChange
from nodes.evolution.edits import BOM
from nodes.evolution.judged import Judged, judged, quoted

_JOINERS = "\u200c\u200d"
_COLOURED = "\ufe0f"
_PLAIN = re.compile(r"[\t\n -~]*")
_WORD = re.compile(r"[^\W\d_]+")
# Letters of other scripts that print like a Latin one in common typefaces.
_LIKE_LATIN = frozenset(
    "аеорсухіјѕһԁԛԝАВЕКМНОРСТУХІЈЅҮ"  # noqa: RUF001  # Cyrillic
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧαινορτυχϲϳ"  # Greek
    "օսոցհՕՍ"  # noqa: RUF001  # Armenian
)
_ALIKE_SCRIPTS = frozenset({"LISU", "CHEROKEE", "COPTIC"})
"""Scripts of which so many letters print like Latin ones that none stands beside them."""
_CAPITALS_THEN_OWN = re.compile(r"[A-Z]{2,}[^\W\d_A-Za-z]+")
_STYLED = ("MATHEMATICAL", "PARENTHESIZED", "CIRCLED", "NEGATIVE", "SQUARED", "DOUBLE-STRUCK",
           "SCRIPT", "BLACK-LETTER")  # fmt: skip


def hidden_characters(changes: Sequence[TextChange]) -> Judged:
    """Hidden characters that an edit adds; a byte order mark at the start may stay."""
    problems: list[str] = []
    for change in changes:
        old, new = change.before, change.after
        if new.startswith(BOM) and (old.startswith(BOM) or not change.there_before):
            new = new.removeprefix(BOM)
        was = hidden_in(old.removeprefix(BOM))
        codes = [
            f"U+{ord(char):04X}"
            for char, count in sorted(hidden_in(new).items())
            if count > was[char]
        ]
        if codes:
            more = f" and {len(codes) - 8} more" if len(codes) > 8 else ""
            problems.append(
                f"{change.path}: hidden characters added: {', '.join(codes[:8])}{more}; take them "
                "out"
            )
    return judged(problems)


def hidden_in(text: str) -> Counter[str]:
    """How often each hidden character occurs where it hides something.

    A joiner between letters of a script that is spelled with joiners, or between two emoji, is
    spelling; so is one request for colour after a symbol. Anywhere else they only hide.
    """
    text = text.replace("\r\n", "\n")
    if _PLAIN.fullmatch(text):
        return Counter()
    return Counter(char for at, char in enumerate(text) if _hides(text, at, char))


def _hides(text: str, at: int, char: str) -> bool:
    if char == _COLOURED:
        return not _coloured(text, at)
    if char in _JOINERS:
        return not (_joins(text[at - 1 : at]) and _joins(text[at + 1 : at + 2]))
    return is_hidden(char)


def _coloured(text: str, at: int) -> bool:
    """Whether the character before is a symbol that has a coloured form."""
    before, after = text[at - 1 : at] if at else "", text[at + 1 : at + 2]
    if before.isascii():
        return before != "" and before in "0123456789#*" and after == "\u20e3"
    return unicodedata.category(before) in ("So", "Sm", "Po", "Pd", "Sk")


def _joins(char: str) -> bool:
    """Whether a joiner may stand beside the character."""
    if not char or char.isascii() or char in _JOINERS:
        return False
    if char == _COLOURED or unicodedata.category(char) in ("So", "Sk"):
        return True
    return unicodedata.category(char)[0] in "LM" and _script(char) not in (
        "LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "CJK", "HANGUL", "HIRAGANA", "KATAKANA",
        "FULLWIDTH", "MATHEMATICAL", "COMBINING", "VARIATION",
    )  # fmt: skip


@lru_cache(maxsize=4096)
def _script(char: str) -> str:
    return unicodedata.name(char, "").split(" ", 1)[0]


def mixed_letters(changes: Sequence[TextChange]) -> Judged:
    """Added words of letters that only look like what they spell."""
    refused: list[str] = []
    warned: list[str] = []
    for change in changes:
        old = frozenset(_words(change.removed))
        for line in change.lines[1]:
            latin = _mostly_latin(line)
            for word in _words(line):
                if word in old:
                    continue
                if why := _mixed(word):
                    refused.append(f"{change.path}: {why}: {quoted(word)}; write it in one script")
                elif latin and len(word) > 1 and all(c in _LIKE_LATIN for c in word):
                    warned.append(
                        f"{change.path}: the word {quoted(word)} has no Latin letter, though it "
                        "looks like it"
                    )
    return judged(refused, warned)


def looks_mixed(text: str) -> bool:
    """Whether a text, such as a path, has a word of mixed or styled letters."""
    return any(_mixed(word) for word in _words(text))


def _words(text: str) -> Iterator[str]:
    return (w for w in _WORD.findall(text) if not w.isascii())


def _mixed(word: str) -> str | None:
    """Why a word's letters mislead; None: they do not."""
    if any(unicodedata.name(c, "").startswith(_STYLED) and _folds(c) for c in word):
        return "letters that are drawn symbols"
    scripts = {_script(c) for c in word}
    if "LATIN" not in scripts or len(scripts) == 1:
        return None
    alike = [c for c in word if c in _LIKE_LATIN or _script(c) in _ALIKE_SCRIPTS]
    own = [c for c in word if _script(c) != "LATIN" and c not in _LIKE_LATIN]
    if not alike or (own and _CAPITALS_THEN_OWN.fullmatch(word)):
        return None
    return "letters of several scripts in one word"


def _folds(char: str) -> bool:
    return unicodedata.normalize("NFKC", char).isascii()


def _mostly_latin(line: str) -> bool:
    letters = [c for c in line if c.isalpha()]
    return sum(map(str.isascii, letters)) > 0.8 * len(letters)


def plain(text: str) -> str:
    """The text as rules about words read it: compatible forms folded, nothing hidden, no markup.

    Full-width and drawn letters become the letters they stand for, entities their characters, curly
    quotes straight ones; of a link stays what it shows.
    """
    if "&" in text:
        text = html.unescape(text)
    if not text.isascii():
        folded = unicodedata.normalize("NFKC", text.replace("\u2019", "'"))
        text = "".join(c for c in folded if c in "\t\n" or not is_hidden(c))
    if "[" in text or "<" in text:
        text = _TAG.sub("", _LINK.sub(r"\1", text))
    if "_" in text:
        text = _EMPHASIS.sub("", text)
    return text.translate(_NO_MARKUP)


_LINK = re.compile(r"!?\[([^\[\]\n]{0,200})\]\([^()\n]{0,400}\)")
_TAG = re.compile(r"</?[a-zA-Z]{1,10}\s?/?>")
_EMPHASIS = re.compile(r"(?<!\w)_{1,3}(?=\w)|(?<=\w)_{1,3}(?!\w)")
_NO_MARKUP = {ord(c): None for c in "*`~"}
