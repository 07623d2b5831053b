"""Read how an id is to be written, and write it that way."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from examples.refund_agent.following.prose import NUMBER, Sentence, number_of


@dataclass(frozen=True, slots=True)
class IdFormat:
    """Write the parameter as `letters`, `separator` and at least `digits` digits."""

    parameter: str
    letters: str
    """Such as `A`; taken over from the customer where they gave as many. Empty: none."""
    separator: str
    digits: int

    def write(self, given: str) -> str:
        """The id in this form; what holds no digits is passed as it is."""
        match = re.search(r"(?P<letters>[A-Za-z]*)[^A-Za-z0-9]*(?P<digits>\d+)", given)
        if match is None:
            return given
        letters = self.letters
        if letters and len(match["letters"]) == len(letters):
            letters = match["letters"].upper() if letters.isupper() else match["letters"].lower()
        return f"{letters}{self.separator}{match['digits'].zfill(self.digits)}"


_EXAMPLE = re.compile(
    r"(?P<mark>[`'\"*]+)?(?P<id>#?[A-Za-z]{0,4}[-_/#.]?(?:\d{2,8}|[#NXd]{2,8}|0{2,8}))(?(mark)[`'\"*]+|(?![\w-]))"
)
_PATTERN = re.compile(
    r"\^?\[?(?P<letters>[A-Z])(?:-[A-Z]\])?(?P<sep>[-_/])?(?:\\d|\[0-9\])\{(?P<digits>\d)\}\$?"
)
_CUE = re.compile(
    r"\b(?:forms?|format\w*|written|writ(?:e|ing)|looks?|like|normali[sz]\w*|convert\w*|rewrite"
    r"|turn|bring|pattern|such as|e\.g|examples?|shaped?|style|spell\w*|pass\w*|send|must|should"
    r"|prefix\w*|digits?|always|expect\w*|accept\w*)\b",
    re.I,
)
_AWAY = re.compile(
    r"(?:\b(?:(?:not|never|instead of|rather than|wrong|incorrect)\b[^;.:]{0,40}"
    r"|(?:bare|from|without|no)\b[^,;.:]{0,40})"
    r"|\bcustomers?\b[^,;.:]*\b(?:writes?|wrote|types?|says?|gives?)\b[^;.:]{0,40})$",
    re.I,
)
_TOWARDS = re.compile(
    r"(?:\b(?:to|into|becomes?|forms?|format|formatted|means?|exactly|send|pass|use|(?<!such )as)\b"
    r"|->|→|=>?)[\s:]*(?:the |an? |always |of )?$",
    re.I,
)
_LETTER = re.compile(r"\b(?:capital|upper-?case|upper case) (?:letter )?(?P<letter>[A-Z]\b)?", re.I)
_HYPHEN = re.compile(r"\b(?:hyphen|dash)\b", re.I)
_DIGITS = re.compile(rf"\b(?P<n>{NUMBER})[ -]digits?\b", re.I)
_ONLY_DIGITS = re.compile(
    r"\b(?:digits only|only (?:the )?digits|without (?:the |any )?letters?|digits alone)\b", re.I
)


def read_formats(sentence: Sentence, parameters: Sequence[str]) -> list[IdFormat]:
    """The forms that one sentence gives for parameters of the bound tools."""
    text = sentence.text
    if _CUE.search(text) is None:
        return []
    about = [name for name in parameters if _named(name, text)]
    if not about and any(
        _named(name, near) for near in sentence.context[-1:] for name in parameters
    ):
        about = [n for n in parameters if _named(n, sentence.context[-1])]
        about = (
            about
            if re.match(r"\s*(?:it|they|always|write|pass|the form|this|use)\b", text, re.I)
            else []
        )
    shape = _shape(text) if about else None
    return [IdFormat(name, *shape) for name in about] if shape else []


def _named(parameter: str, text: str) -> bool:
    """`order_id`, "order id", "order ids", "order number", "order's id"."""
    head, _, tail = parameter.rpartition("_")
    if tail != "id" or not head:
        return re.search(rf"(?<!\w){re.escape(parameter)}(?!\w)", text, re.I) is not None
    kinds = "ids?|numbers?|identifiers?|references?|codes?"
    return re.search(rf"\b{re.escape(head)}(?:'s)?[ _-](?:{kinds})\b", text, re.I) is not None


def _shape(text: str) -> tuple[str, str, int] | None:
    """(letters, separator, digits) of the form that is asked for."""
    pattern = _PATTERN.search(text)
    if pattern is not None:
        return pattern["letters"], pattern["sep"] or "", int(pattern["digits"])
    examples = [m for m in _EXAMPLE.finditer(text) if m["mark"] or re.search(r"\d", m["id"])]
    wanted = [m for m in examples if _AWAY.search(text[: m.start()]) is None or _towards(text, m)]
    strong = [m for m in wanted if _towards(text, m)]
    if wanted:
        return _parts((strong[-1] if strong else wanted[0])["id"])
    digits = _DIGITS.search(text)
    if _ONLY_DIGITS.search(text):
        return "", "", number_of(digits["n"]) if digits else 1
    letter = _LETTER.search(text)
    if letter is None or letter["letter"] is None or digits is None:
        return None  # prose alone, and no letter in it: nothing to go by
    return letter["letter"].upper(), "-" if _HYPHEN.search(text) else "", number_of(digits["n"])


def _towards(text: str, example: re.Match[str]) -> bool:
    return _TOWARDS.search(text[: example.start()]) is not None


def _parts(example: str) -> tuple[str, str, int] | None:
    match = re.fullmatch(r"(#?[A-Za-z]{0,4}?)([-_/#.]?)([0-9#NXd]{2,8})", example)
    return (match[1], match[2], len(match[3])) if match else None
