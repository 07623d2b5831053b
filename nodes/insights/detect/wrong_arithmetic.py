"""A calculation that the agent wrote out and that does not come out.

Meaning: an equation in an answer, `a + b - c = d` with numbers only (also x, *, / and currency
signs), whose sides differ by more than their rounding allows.
Evidence: the equation, at the model call that wrote it. Nothing outside the text is needed.

Left out: code, equations with letters or percentages in them, a minus or a stroke without blanks
around it (dates, ranges), results that are given as rounded ("about"), chains whose numbers are
bound otherwise than by the usual precedence, and integer results of a division.

Known limits: sums that stand in a table or in words are not read; a wrong number that is added up
rightly is right here.
"""

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from contracts.findings import Symptom
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.view import View

KIND = "wrong_arithmetic"
MAX_SAID = 50_000  # characters of an answer that are read
MAX_TERMS = 24
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_MONEY = r"(?:[$\u20ac\u00a3] ?)?"
_NUMBER = rf"{_MONEY}\d[\d,]*(?:\.\d+)?"
_SIGN = r"(?: [/\u2212-] | ?(?:[+*\u00d7\u00f7]|\\times) ?)"
_EQUATION = re.compile(
    rf"(?<![\w.,)%+*/=^({{\u00d7\u2212-])(?<![)%+*/=^\u00d7\u2212-] )"
    rf"({_NUMBER}(?:{_SIGN}{_NUMBER}){{1,{MAX_TERMS}}}) ?= ?(-?{_NUMBER})"
    rf"(?![\w%^(]|[.,]\d| ?(?:[+*/\u00d7\u00f7\u2212-] ?\d|\\times|%|percent|million|billion|k\b))"
)
_PART = re.compile(rf"{_NUMBER}|[+*/\u00d7\u00f7\u2212-]|\\times")
_NEAR = re.compile(
    r"\b(?:about|around|approx\w*|roughly|nearly|rounded|estimat\w*)\b", re.IGNORECASE
)
_SAME: Mapping[str, str] = {"\u00d7": "*", "\\times": "*", "\u00f7": "/", "\u2212": "-"}
_ADDING: Mapping[str, Callable[[float, float], float]] = {"+": operator.add, "-": operator.sub}


def wrong_arithmetic(view: View, _found: Sequence[Symptom]) -> Iterator[Hit]:
    """The first wrong equation of each model call; the same equation only once a trace."""
    told: set[str] = set()
    for run in view.runs:
        for turn in run.turns:
            for start, equation in wrong_equations(turn.said[:MAX_SAID]):
                if equation not in told:
                    told.add(equation)
                    yield Hit(
                        kind=KIND,
                        span=turn.call,
                        message=equation,
                        field="output",
                        start=start,
                        template="a written calculation that does not come out",
                    )
                    break


def wrong_equations(said: str) -> Iterator[tuple[int, str]]:
    """(offset, equation) of each equation whose sides differ."""
    if "=" not in said:
        return
    text = _CODE.sub(lambda m: " " * len(m[0]), said) if "`" in said else said
    for match in _EQUATION.finditer(text):
        around = text[max(0, match.start() - 30) : match.end() + 30]
        left, right = _worked_out(match[1]), _number(match[2])
        if left is None or _NEAR.search(around):
            continue
        if abs(left - right) > _rounding(match[2], divided="/" in match[1] or "\u00f7" in match[1]):
            yield match.start(), match[0]


def _worked_out(terms: str) -> float | None:
    """The value of a chain, products before sums; None where it cannot be read."""
    parts = [_SAME.get(part, part) for part in _PART.findall(terms)]
    total, product = 0.0, _number(parts[0])
    add: Callable[[float, float], float] = operator.add
    for sign, number in zip(parts[1::2], parts[2::2], strict=False):
        value = _number(number)
        if sign == "*":
            product *= value
        elif sign == "/":
            if value == 0:
                return None
            product /= value
        elif sign in _ADDING:
            total, product, add = add(total, product), value, _ADDING[sign]
        else:
            return None
    return add(total, product)


def _number(text: str) -> float:
    digits = re.sub(r"[^\d.-]", "", text)
    return float(digits)


def _rounding(result: str, *, divided: bool) -> float:
    """How far a result may be off: a unit of its last digit, of one more where it was divided."""
    places = len(result.partition(".")[2])
    return (1.0 if divided else 0.51) * 10.0**-places
