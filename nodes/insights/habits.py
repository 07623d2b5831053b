"""What runs that work do: which tool they call before, last, and how they write an argument. Pure.

Everything here may get into an edit, so it holds names of tools and arguments, shapes, and words
that several runs use; never a value of one customer.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Final

from contracts.json_types import Json
from nodes.insights.sketch import Sketch, SketchCall

MOSTLY: Final = 0.8
MIN_RUNS: Final = 5
"""Passing runs from which a habit is concluded."""
SEVERAL: Final = 3
"""Traces in which a word has to be seen before it counts as one of the tool's own words."""
MAX_WORDS: Final = 4
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z_-]{0,23}\Z")
_CODE: Final = re.compile(r"[A-Za-z0-9._:/-]{1,40}\Z")
_PERSONAL: Final = re.compile(
    r"name|mail|phone|address|street|city|town|user|customer|client|person|patient|birth|account"
    r"|card|login|password|token|secret|key|message|text|query|note|comment",
    re.IGNORECASE,
)
"""Arguments whose values are somebody's, or free text: none of their words is ever taken."""
_DATES: Final = ("2025-01-31", "2025-02-28", "2025-03-31", "2025-04-30")


def called_by_most(runs: Sequence[Sketch], without: Iterable[str] = ()) -> list[str]:
    """Tools that at least four in five of the runs call with success; by name."""
    if not runs:
        return []
    left_out = frozenset(without)
    counts = Counter(tool for run in runs for tool in {call.tool for call in run.calls if call.ok})
    needed = MOSTLY * len(runs)
    return sorted(t for t, times in counts.items() if times >= needed and t not in left_out)


def last_tool(runs: Sequence[Sketch], without: Iterable[str] = ()) -> str | None:
    """Of the tools that most of the runs call, the one that they call last; None: there is none."""
    common = called_by_most(runs, without)
    return max(common, key=lambda tool: (_mean_place(tool, runs), tool)) if common else None


def first_tool(runs: Sequence[Sketch], without: Iterable[str] = ()) -> str | None:
    """Of the tools that most of the runs call, the one that they call first; None: none."""
    common = called_by_most(runs, without)
    return min(common, key=lambda tool: (_first_place(tool, runs), tool)) if common else None


def tool_before(runs: Sequence[Sketch], tools: frozenset[str]) -> str | None:
    """The tool that most runs call with success right before their first call of one of `tools`.

    None below five such runs, and where they differ.
    """
    before: Counter[str] = Counter()
    counted = 0
    for run in runs:
        at = next((i for i, call in enumerate(run.calls) if call.tool in tools), None)
        if at is None:
            continue
        counted += 1
        earlier = [call.tool for call in run.calls[:at] if call.ok]
        if earlier:
            before[earlier[-1]] += 1
    if counted < MIN_RUNS or not before:
        return None
    tool, times = min(before.items(), key=lambda pair: (-pair[1], pair[0]))
    return tool if times >= MOSTLY * counted else None


def values_of(runs: Iterable[Sketch], tools: frozenset[str], argument: str) -> dict[str, int]:
    """Values that successful calls give an argument, with the number of traces that have each."""
    seen: dict[str, set[str]] = {}
    for run in runs:
        for call in run.calls:
            if call.tool in tools and call.ok:
                value = _text((call.arguments or {}).get(argument))
                if value is not None:
                    seen.setdefault(value, set()).add(run.trace_id)
    return {value: len(traces) for value, traces in seen.items()}


def arguments_of(calls: Sequence[SketchCall]) -> list[str]:
    """Arguments that at least four in five of the calls give; by name."""
    counts = Counter(name for call in calls for name in call.arguments or ())
    return sorted(n for n, times in counts.items() if times >= MOSTLY * len(calls))


def words_of_tool(argument: str, values: Mapping[str, int]) -> tuple[str, ...]:
    """The few words that an argument takes; empty where it takes anything else.

    Each in several traces, so that none is one customer's.
    """
    if _PERSONAL.search(argument) or not 1 < len(values) <= MAX_WORDS:
        return ()
    if any(times < SEVERAL or not _WORD.match(value) for value, times in values.items()):
        return ()
    return tuple(sorted(values))


def example_of(argument: str, values: Mapping[str, int]) -> str | None:
    """A value in the form of these, all of one shape, that none of them is; None: none is safe.

    What all have in common stays (`A-`), what varies is made up. A word without a digit is only
    taken as it is where several traces use it and the argument is nobody's data.
    """
    codes = sorted(value for value in values if _CODE.match(value))
    if not codes:
        return None
    if all(_is_date(value) for value in codes):
        return next((day for day in _DATES if day not in values), None)
    if not any(char.isdigit() for char in codes[0]):
        words = [v for v in codes if values[v] >= SEVERAL and _WORD.match(v)]
        named = words and not _PERSONAL.search(argument)
        return min(words, key=lambda v: (-values[v], v)) if named else None
    usual = [_usual(column) for column in zip(*codes, strict=False)]
    digits = [at for at, char in enumerate(usual) if char.isdigit()]
    varying = [at for at in digits if len({code[at] for code in codes}) > 1] or digits
    return _other(usual, varying, values)


def _other(usual: Sequence[str], varying: Sequence[int], taken: Mapping[str, int]) -> str | None:
    """The usual value with its varying digits counted on until nobody has it."""
    size = len(varying)
    start = int("".join(usual[at] for at in varying))
    for step in range(min(10**size, 1000)):
        chars = list(usual)
        number = f"{(start + step) % 10**size:0{size}d}"
        for at, digit in zip(varying, number, strict=True):
            chars[at] = digit
        made = "".join(chars)
        if made not in taken:
            return made
    return None


def _usual(column: Iterable[str]) -> str:
    counts = Counter(column)
    return min(counts, key=lambda char: (-counts[char], char))


def _is_date(value: str) -> bool:
    if len(value) != len("2025-01-31"):
        return False
    try:
        date.fromisoformat(value)
    except ValueError:
        return False
    return True


def _text(value: Json) -> str | None:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _mean_place(tool: str, runs: Sequence[Sketch]) -> float:
    """How late in a run the tool is called last, 0..1, over the runs that call it."""
    places = []
    for run in runs:
        at = [i for i, call in enumerate(run.calls) if call.tool == tool]
        if at:
            places.append((at[-1] + 1) / len(run.calls))
    return sum(places) / len(places)


def _first_place(tool: str, runs: Sequence[Sketch]) -> float:
    """How early in a run the tool is called first, 0..1, over the runs that call it."""
    places = []
    for run in runs:
        at = [i for i, call in enumerate(run.calls) if call.tool == tool]
        if at:
            places.append(at[0] / len(run.calls))
    return sum(places) / len(places)
