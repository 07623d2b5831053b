"""Contrasts between failing and passing calls of one tool, counted from condensed traces."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import comb

from contracts.json_types import Json
from nodes.insights.habits import arguments_of, example_of, values_of, words_of_tool
from nodes.insights.signature import place_part
from nodes.insights.sketch import Sketch, SketchCall

SAFE_VALUE = re.compile(r"[A-Za-z0-9._:@/-]{1,40}\Z")
"""What of a trace may stand in a playbook's text; anything else is left out."""
MOSTLY = 0.8
MIN_GOOD = 3  # successful calls from which a shape is taken
MIN_PASSING = 5  # passing traces from which "they call it before" is concluded
PREREQUISITE_P = 0.01
_SHAPE_LIMIT = 24
_AMOUNT = re.compile(r"9+[.,]9+")
MIN_CODE = 4  # characters, two of them digits, from which a value is a code and no count
_NAME = re.compile(r"[A-Za-z_][\w.-]*\w")
_ORDER_WORDS = re.compile(
    r"\b(?:first|before|beforehand|prior to|requires?|needs?|must)\b", re.IGNORECASE
)


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known of one group of symptoms. `place` is the tool for the kinds of tools."""

    kind: str
    place: str
    code: str
    quotes: tuple[str, ...] = ()
    """What symptoms of the group say."""
    failing: tuple[Sketch, ...]
    passing: tuple[Sketch, ...]

    @cached_property
    def bad(self) -> list[SketchCall]:
        """Calls in failing traces that failed in the way of this group."""
        key = ":".join(part for part in (self.kind, self.place, self.code) if part)
        return [c for s in self.failing for c in s.calls if not c.ok and c.signature == key]

    @cached_property
    def good(self) -> list[SketchCall]:
        """Successful calls of the tool, wherever."""
        both = (*self.failing, *self.passing)
        return [c for s in both for c in s.calls if _is(c, self.place) and c.ok]

    @cached_property
    def tools(self) -> frozenset[str]:
        """Names under which the tool is called."""
        both = (*self.failing, *self.passing)
        return frozenset(c.tool for s in both for c in s.calls if _is(c, self.place))

    @cached_property
    def passing_callers(self) -> list[Sketch]:
        """Passing traces that called the tool."""
        return [s for s in self.passing if any(_is(c, self.place) for c in s.calls)]

    @cached_property
    def seen(self) -> list[Mapping[str, Json]]:
        """What the symptoms of this group tell besides their words, one a failing trace."""
        key = ":".join(part for part in (self.kind, self.place, self.code) if part)
        return [s.facts[key] for s in self.failing if key in s.facts]

    def number(self, name: str) -> int | None:
        """The middle value of a fact over the failing traces; None where none tells it."""
        found = (one.get(name) for one in self.seen)
        values = sorted(v for v in found if isinstance(v, int) and not isinstance(v, bool))
        return values[len(values) // 2] if values else None

    def word(self, name: str) -> str | None:
        """The fact that most failing traces tell, where it is short and plain."""
        found = (one.get(name) for one in self.seen)
        values = [v for v in found if isinstance(v, str) and SAFE_VALUE.match(v)]
        return _most_common(values) if values else None

    @property
    def notes(self) -> str:
        """What the failures say, lower case."""
        return "\n".join(self.quotes).lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentContrast:
    """An argument that failing calls write otherwise than successful ones."""

    argument: str
    shape: str
    """Of the successful values: A a letter, a a small one, 9 a digit."""
    good_example: str | None
    """In the form of the successful values, and none of them."""
    bad_example: str | None
    good: int
    bad: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WordContrast:
    """An argument for which successful calls use a few words, and failing ones use others."""

    argument: str
    words: tuple[str, ...]
    good: int
    bad: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NameContrast:
    """Failing calls send arguments that the tool's schema does not know."""

    argument: str | None
    """A declared one that none of them sends."""
    sent: str | None
    """What is sent most, and not declared."""
    takes: tuple[str, ...]
    """All declared ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderContrast:
    """A tool that passing traces call before this one, and failing traces do not."""

    prerequisite: str
    passing: tuple[int, int]
    """(called it before, all)"""
    failing: tuple[int, int]
    p: float


def _is(call: SketchCall, place: str) -> bool:
    return call.tool == place or place_part(call.tool) == place


def shape_of(value: str) -> str:
    """Letters as A or a, digits as 9, the rest as it is."""
    return "".join(
        "9" if c.isdigit() else "A" if c.isupper() else "a" if c.isalpha() else c for c in value
    )


def squeezed(shape: str) -> str:
    """The shape with every run of one class as a single character."""
    return re.sub(r"([Aa9])\1+", r"\1", shape)


def argument_contrast(facts: Facts) -> ArgumentContrast | None:
    """The argument whose shape tells failing calls from successful ones, if one does."""
    best: ArgumentContrast | None = None
    names = sorted({name for call in facts.good for name in call.arguments or ()})
    for name in names:
        good, bad = _values(facts.good, name), _values(facts.bad, name)
        found = _shape_contrast(name, good, bad, squeezed) or _shape_contrast(name, good, bad, str)
        if found is None:
            continue
        if best is None or (found.bad, found.good) > (best.bad, best.good):
            best = found
    return None if best is None else replace(best, good_example=_example_like(facts, best))


def _example_like(facts: Facts, found: ArgumentContrast) -> str | None:
    """A value in the form of the successful ones that is nobody's."""
    seen = values_of((*facts.failing, *facts.passing), facts.tools, found.argument)
    return example_of(found.argument, {v: n for v, n in seen.items() if shape_of(v) == found.shape})


def word_contrast(facts: Facts) -> WordContrast | None:
    """The argument for which calls that work use a few words, and most failing ones others."""
    for name in arguments_of(facts.good):
        seen = values_of((*facts.failing, *facts.passing), facts.tools, name)
        words = words_of_tool(name, seen)
        bad = _values(facts.bad, name)
        odd = [value for value in bad if value not in words]
        if words and bad and len(odd) >= MOSTLY * len(bad):
            return WordContrast(argument=name, words=words, good=len(facts.good), bad=len(odd))
    return None


def typical_argument(facts: Facts) -> ArgumentContrast | None:
    """The first argument that nearly all successful calls write as a code of one form."""
    for name in arguments_of(facts.good):
        values = _values(facts.good, name)
        if len(values) < MIN_GOOD:
            continue
        shape = _most_common(map(shape_of, values))
        held = sum(shape_of(value) == shape for value in values)
        code = shape.count("9") >= 2 and MIN_CODE <= len(shape) <= _SHAPE_LIMIT
        if not code or _AMOUNT.fullmatch(shape) or held < MOSTLY * len(values):
            continue
        found = ArgumentContrast(
            argument=name, shape=shape, good_example=None, bad_example=None, good=held, bad=0
        )
        return replace(found, good_example=_example_like(facts, found))
    return None


def _shape_contrast(
    name: str, good: Sequence[str], bad: Sequence[str], form: Callable[[str], str]
) -> ArgumentContrast | None:
    """Values of one argument by the form of their shapes: squeezed, or in full (`99`, `9999`)."""
    if len(good) < MIN_GOOD or not bad:
        return None
    usual, held = Counter(form(shape_of(v)) for v in good).most_common(1)[0]
    odd = [v for v in bad if form(shape_of(v)) != usual]
    if held < MOSTLY * len(good) or len(odd) < MOSTLY * len(bad) or len(usual) > _SHAPE_LIMIT:
        return None
    shape = _most_common(shape_of(v) for v in good if form(shape_of(v)) == usual)
    return ArgumentContrast(
        argument=name,
        shape=shape,
        good_example=None,
        bad_example=_example(odd),
        good=len(good),
        bad=len(odd),
    )


def name_contrast(facts: Facts) -> NameContrast | None:
    """What the tool's schema declares, where most failing calls send what it does not."""
    sketches = (*facts.failing, *facts.passing)
    offers = (o for s in sketches for o in s.offered.items() if place_part(o[0]) == facts.place)
    declared = next((names for _, names in offers), None)
    calls = [call for call in facts.bad if call.arguments is not None]
    if declared is None or not calls:
        return None
    undeclared = [{n for n in c.arguments or () if n not in declared} for c in calls]
    if sum(map(bool, undeclared)) < MOSTLY * len(calls):
        return None
    sent = _most_common(name for names in undeclared for name in names)
    left_out = [n for n in declared if not any(n in (c.arguments or ()) for c in calls)]
    return NameContrast(
        argument=left_out[0] if left_out else None,
        sent=sent if SAFE_VALUE.match(sent) else None,
        takes=declared,
    )


def order_contrast(facts: Facts) -> OrderContrast | None:
    """The tool whose absence before this one goes with failing, by Fisher's exact test."""
    passing = [_before(sketch, facts.place) for sketch in facts.passing_callers]
    failing = [
        _before(s, facts.place) for s in facts.failing if any(_is(c, facts.place) for c in s.calls)
    ]
    if len(passing) < MIN_PASSING or not failing:
        return None
    best: OrderContrast | None = None
    for tool in sorted({name for names in passing for name in names}):
        there = sum(tool in names for names in passing)
        absent = sum(tool not in names for names in failing)
        if there < MOSTLY * len(passing) or absent < MOSTLY * len(failing):
            continue
        p = fisher_p(there, len(passing), len(failing) - absent, len(failing))
        if p <= PREREQUISITE_P and (best is None or p < best.p):
            best = OrderContrast(
                prerequisite=tool,
                passing=(there, len(passing)),
                failing=(len(failing) - absent, len(failing)),
                p=p,
            )
    return best


def named_prerequisite(facts: Facts) -> str | None:
    """The one tool of the agent that most failures name as what has to come first.

    Only names of tools that the agent has are looked for, so that no text can bring in another.
    """
    sketches = (*facts.failing, *facts.passing)
    known = {name for s in sketches for name in (*s.offered, *(c.tool for c in s.calls if c.ok))}
    counts: Counter[str] = Counter()
    for quote in facts.quotes:
        words = frozenset(_NAME.findall(quote))
        if _ORDER_WORDS.search(quote):
            counts.update(n for n in known if n in words and place_part(n) != facts.place)
    mostly = [n for n, times in counts.items() if times >= MOSTLY * len(facts.quotes)]
    return mostly[0] if len(mostly) == 1 else None


def fisher_p(k_a: int, n_a: int, k_b: int, n_b: int) -> float:
    """One-sided Fisher exact p of at least k_a of n_a, against k_b of n_b."""
    drawn, hits = n_a, k_a + k_b
    total = comb(n_a + n_b, drawn)
    tail = sum(
        comb(hits, i) * comb(n_a + n_b - hits, drawn - i) for i in range(k_a, min(drawn, hits) + 1)
    )
    return min(1.0, tail / total)


def attempts(facts: Facts) -> int:
    """Median over failing traces of the longest run of failed, equal calls of the tool."""
    longest = []
    for sketch in facts.failing:
        run = most = 0
        last: str | None = None
        for call in sketch.calls:
            if not _is(call, facts.place):
                continue
            again = not call.ok and (last is None or call.arguments_key == last)
            run = run + 1 if again else int(not call.ok)
            last = None if call.ok else call.arguments_key
            most = max(most, run)
        if most:
            longest.append(most)
    return sorted(longest)[len(longest) // 2] if longest else 0


def _before(sketch: Sketch, place: str) -> frozenset[str]:
    """Tools that were called with success before the first call of this one."""
    names = set()
    for call in sketch.calls:
        if _is(call, place):
            break
        if call.ok:
            names.add(call.tool)
    return frozenset(names)


def _values(calls: Sequence[SketchCall], name: str) -> list[str]:
    found = []
    for call in calls:
        value: Json = (call.arguments or {}).get(name)
        if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
            found.append(str(value))
    return found


def _most_common(items: Iterable[str]) -> str:
    counts = Counter(items)
    return min(counts, key=lambda item: (-counts[item], item))


def _example(values: Iterable[str]) -> str | None:
    safe = sorted({value for value in values if SAFE_VALUE.match(value)})
    return safe[0] if safe else None
