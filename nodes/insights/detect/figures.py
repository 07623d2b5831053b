"""Figures in a text: the numbers that mean an amount, and whether some others account for them.

What only looks like a number is left out: list markers, dates, times, versions, ids, parts of
words, links and code. A figure is accounted for when it was said before, when it is a rounding of
that, or one step of arithmetic away: the sum or difference of two figures, a small multiple of one
or of such a sum, a share in percent, or the sum of the other figures that stand beside it.
"""

import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

MAX_TEXT = 200_000  # characters of one text that are read
MAX_KNOWN = 50_000  # figures that are remembered
MAX_TERMS = (
    100  # of them, the newest, that arithmetic is tried with: more would account for anything
)
MULTIPLES = range(2, 13)
CENT = 0.011
FINE = 0.005  # a figure of fewer digits is the quotient of some two numbers by chance
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_SCALED = re.compile(r"(\d[\d,]*(?:\.\d+)?)[ -]?(thousand|million|billion|trillion)", re.IGNORECASE)
_SCALES = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
_WHOLE = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?")
_BEFORE = frozenset("_.,:/#@=&?%-\"'")
_AFTER = frozenset("_:/@-")
_UNIT = re.compile(r" ?(?:USD|EUR|GBP|dollars?|euros?|pounds?)\b| ?%")
_SIGN = re.compile(r"[$\u20ac\u00a3\u00a5] ?\Z")
_LINK = re.compile(r"\bhttps?://\S+")
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_DATED = re.compile(
    r"\b\d{4}-\d{2}-\d{2}(?:[T ][\d:.]+Z?)?\b|\b\d{1,2}[/.]\d{1,2}[/.]\d{2,4}\b|\b\d{1,2}:\d{2}\b"
    r"|\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.? \d{1,2}(?:st|nd|rd|th)?"
    r"(?:, ?\d{4})?\b|\b\d{1,2} (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\b"
)
_MARKER = re.compile(r"^[ \t]*\(?\d{1,3}[.)][ \t]", re.MULTILINE)
_ENDING = re.compile(r"\bending (?:in|with) (?:\*\*)?\d+", re.IGNORECASE)
_LEFT_OUT = (_CODE, _LINK, _DATED, _MARKER, _ENDING)
MAX_NESTED = 4  # places that are left out and that may lie over each other


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number that means an amount."""

    value: float
    text: str
    start: int
    money: bool


def figures(text: str) -> Iterator[Figure]:
    """The figures of a text, in order; offsets are those of the text."""
    kept = text[:MAX_TEXT]
    found = [match for match in _NUMBER.finditer(kept) if _stands_alone(kept, match)]
    if not found:
        return
    left_out = [match.span() for rule in _LEFT_OUT for match in rule.finditer(kept)]
    left_out.sort()
    at = 0
    for match in found:
        while at < len(left_out) and left_out[at][1] <= match.start():
            at += 1
        if any(start <= match.start() < end for start, end in left_out[at : at + MAX_NESTED]):
            continue
        number = _WHOLE.match(match[0])
        value = _value(number[0]) if number else None
        if number is None or value is None or len(number[0]) < len(match[0].rstrip(",")):
            continue
        end = match.start() + len(number[0])
        unit = _UNIT.match(kept, end)
        sign = _SIGN.search(kept, max(0, match.start() - 2), match.start())
        start = sign.start() if sign else match.start()
        stop = unit.end() if unit else end
        money = sign is not None or (unit is not None and "%" not in unit[0])
        yield Figure(value=value, text=kept[start:stop], start=start, money=money)


def _stands_alone(text: str, match: re.Match[str]) -> bool:
    """Whether the number is no part of a word, an id, a time, a path or a version."""
    before = text[match.start() - 1] if match.start() else " "
    after = text[match.end()] if match.end() < len(text) else " "
    if before.isalnum() or before in _BEFORE or after in _AFTER or after.isalnum():
        return False
    following = text[match.end() + 1 : match.end() + 2]
    return not (after == "." and following.isdigit())


def _value(number: str) -> float | None:
    digits = number.replace(",", "")
    return float(digits[:40]) if len(digits.partition(".")[0]) <= 15 else None


@dataclass(slots=True)
class Known:
    """The numbers that were seen so far. Texts are read when the first figure is asked about."""

    _values: set[float] = field(default_factory=set)
    _sorted: list[float] = field(default_factory=list)
    _terms: dict[float, None] = field(default_factory=dict)
    _texts: set[int] = field(default_factory=set)
    _unread: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        """Every number of a text, also those inside ids, dates and code; a text only once."""
        key = hash(text)
        if key not in self._texts:
            self._texts.add(key)
            self._unread.append(text[:MAX_TEXT])

    def _read(self) -> None:
        if not self._unread:
            return
        self._sorted = []
        for text in self._unread:
            for number in _NUMBER.findall(text):
                value = _value(number)
                if value is None or len(self._values) >= MAX_KNOWN:
                    continue
                self._values.add(value)
                if value:
                    self._terms.pop(value, None)
                    self._terms[value] = None
            if "illion" in text or "housand" in text:
                self._values |= {
                    (_value(number) or 0) * _SCALES[scale.lower()]
                    for number, scale in _SCALED.findall(text)
                }
            while len(self._terms) > MAX_TERMS:
                del self._terms[next(iter(self._terms))]
        self._unread.clear()

    def accounts_for(self, value: float, beside: Collection[float] = ()) -> bool:
        """Whether the value was seen, or follows from what was by simple arithmetic.

        Args:
            value: the figure.
            beside: the other figures of the same text.
        """
        self._read()
        if value in self._values or self._rounded(value):
            return True
        terms = sorted({*self._terms, *beside})
        if _one_step(value, terms) or _rounded_product(value, terms):
            return True
        if any(_one_step(value / k, terms) for k in MULTIPLES):
            return True
        total = sum(beside)
        return abs(total - value) < CENT or abs(total - 2 * value) < CENT

    def _rounded(self, value: float) -> bool:
        """Whether some number that was seen rounds to the value."""
        if not self._sorted:
            self._sorted = sorted(self._values)
        return _within(self._sorted, value, _half(value))


def _half(value: float) -> float:
    """Half of the last digit: 1.25 is .005, and 17,000, which stands for 16,500 to 17,500, 500."""
    places = len(f"{value:.6f}".rstrip("0").partition(".")[2])
    if places:
        return 0.5 * 10.0**-places
    digits = f"{int(value)}"
    return 0.5 * 10.0 ** (len(digits) - len(digits.rstrip("0")))


def _within(ordered: Sequence[float], value: float, off: float) -> bool:
    """Whether one of the numbers, in order, is at most `off` away from the value."""
    at = bisect_left(ordered, value - off)
    return at < len(ordered) and ordered[at] <= value + off


def _one_step(value: float, terms: Sequence[float]) -> bool:
    """Whether the value is a term, or the sum, difference or product of two."""
    near = {round(term, 2) for term in terms}
    if round(value, 2) in near:
        return True
    for term in near:
        if round(value - term, 2) in near or round(value + term, 2) in near:
            return True
        if term and round(value / term, 4) in near:
            return True
    return False


def _rounded_product(value: float, terms: Sequence[float]) -> bool:
    """Whether a term divided by another one, or its share in percent, rounds to the value."""
    half = _half(value)
    if half > FINE * abs(value):
        return False
    return any(
        _within(terms, value * term / by, half * abs(term) / by + 1e-9)
        for term in terms
        for by in (1, 100)
    )
