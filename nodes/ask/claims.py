"""Check what a model said against what its tools returned: every number and every id. Pure.

A number holds when some returned number, rounded as the answer rounds it, is the same; a percentage
also when it is a returned share times a hundred. Whether a true number stands in a true sentence is
not checked: that takes reading.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

_ID = re.compile(
    r"(?<![\w-])[a-z]-[a-z2-7]{10}(?![\w-])"
    r"|(?<![\w-])(?=[0-9a-f-]*\d)[0-9a-f]{8,}(?:-[0-9a-f]{4,12})*(?![\w-])",
    re.IGNORECASE,
)
_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?|(?<!\d)\d\d:\d\d(?!\d)")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:[,.]\d+)*(?![\w])")
_ORDINAL = re.compile(r"(?m)^\s*(?:[-*] |#+ )?\d{1,2}[.)]\s")
_NAME = re.compile(r"[A-Za-z][\w.-]*\d[\w.-]*")
_WORDS = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15,
    "sixteen": 16, "seventeen": 17, "eighteen": 18, "nineteen": 19, "twenty": 20,
}  # fmt: skip
"""Small numbers in letters; `one` is too often no number."""
_PERCENT = re.compile(r"(?:\s*(?:to|and|\u2013|-|,)\s*\d+(?:\.\d+)?)?\s*(?:%|per ?cent)")
"""After a number: it is a percentage, also as the first of a range."""
_WORD = re.compile(rf"\b(?:{'|'.join(_WORDS)})\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsupported:
    """Something in an answer that no tool returned."""

    kind: Literal["number", "id", "time"]
    text: str


def unsupported(answer: str, returned: Iterable[str]) -> list[Unsupported]:
    """What the answer states and nothing returned, in order, once each.

    Args:
        answer: the model's words.
        returned: texts of tools, and what the model was told with the question.
    """
    told = "\n".join(returned)
    low = told.lower()
    numbers = {value for value, _, _ in _numbers(_TIME.sub(" ", _ID.sub(" ", told)))}
    found = [
        Unsupported(kind="id", text=one)
        for one in _ID.findall(answer)
        if one.lower() not in low
    ]  # fmt: skip
    rest = _ID.sub(" ", answer)
    found += [
        Unsupported(kind="time", text=one) for one in _TIME.findall(rest) if not _known(one, told)
    ]
    rest = _NAME.sub(lambda m: " " if m[0] in told else m[0], _TIME.sub(" ", rest))
    rest = _ORDINAL.sub(" ", rest)
    for value, decimals, text in _numbers(rest):
        if not _supported(value, decimals, numbers, percent="%" in text):
            found.append(Unsupported(kind="number", text=text))
    for word in _WORD.findall(rest):
        if _WORDS[word.lower()] not in numbers and word.lower() not in low:
            found.append(Unsupported(kind="number", text=word))
    return list(dict.fromkeys(found))


def _numbers(text: str) -> Iterator[tuple[float, int, str]]:
    """Value, decimals and words of each number."""
    for match in _NUMBER.finditer(text):
        said = match[0].replace(",", "")
        if said.count(".") > 1:
            continue  # a version or an address, looked up as a name
        percent = _PERCENT.match(text, match.end()) is not None
        decimals = len(said.partition(".")[2])
        yield float(said), decimals, f"{match[0]} %" if percent else match[0]


def _supported(value: float, decimals: int, numbers: set[float], *, percent: bool) -> bool:
    half = 0.5 * 10.0**-decimals + 1e-9
    for number in numbers:
        if decimals or number == int(number):
            near = abs(number - value) <= (half if number != int(number) else 1e-9)
        else:
            near = abs(number - value) <= half
        if near or (percent and abs(number * 100 - value) <= half):
            return True
    return False


def _known(moment: str, told: str) -> bool:
    return moment in told or moment.replace(" ", "T") in told
