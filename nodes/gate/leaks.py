"""Has the text of a sealed case got into an edit? Then it can prove nothing any more."""

import re
from collections.abc import Iterator, Mapping, Sequence

from contracts.gate import Case
from contracts.json_types import Json

RUN = 6
"""Words in a row that an edit and an input share only if one was copied; shorter inputs leak whole,
from `SHORT` words on."""
SHORT = 3
_WORD = re.compile(r"\w+")


def leaked(cases: Sequence[Case], text: str) -> tuple[Case, ...]:
    """The cases whose input shares a run of words with `text` (what an edit adds)."""
    words = _words(text)
    runs = {size: _runs(words, size) for size in range(SHORT, RUN + 1)}
    return tuple(
        case for case in cases if any(_meets(_words(leaf), runs) for leaf in _leaves(case.input))
    )


def _meets(words: Sequence[str], runs: Mapping[int, frozenset[tuple[str, ...]]]) -> bool:
    size = min(len(words), RUN)
    return size >= SHORT and not _runs(words, size).isdisjoint(runs[size])


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _runs(words: Sequence[str], size: int) -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(words[at : at + size]) for at in range(len(words) - size + 1))


def _leaves(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from _leaves(item)
