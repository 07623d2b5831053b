"""Tell whether one text stands in another without keeping either: hashes of runs of words. Pure.

A print keeps the lowest hashes of the runs of `RUN` words of a text. Of two texts those hashes that
are low enough to be in the print are a fair sample, so "how much of this file is in what the model
was sent" is a share that can be counted from the print alone. Which words they were cannot be read
from it.
"""

import base64
import binascii
import re
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

RUN: Final = 4
KEPT: Final = 256
"""Hashes of one print: about 1.4 kB as text. A text of up to so many runs is kept whole."""
MAX_CHARS: Final = 200_000
"""Of a longer text the beginning is looked at."""
ENOUGH: Final = 4
"""Hashes that can be compared, from which a share says something."""
CONTAINED: Final = 0.6
"""Share from which a text stands in another: holes that were filled break the runs around them."""

_WIDE = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD_ASCII = re.compile(r"[a-z0-9]+")
_WORD = re.compile(rf"[{_WIDE}]|(?:(?![{_WIDE}])[^\W_])+")
_HOLE = re.compile(r"\{\{[^{}\n]{0,80}\}\}|\{[^{}\n]{0,80}\}|<%[^\n]{0,80}?%>|\$\{?\w{1,40}\}?")
"""Places that are filled when a prompt is used; no run of words goes over one."""
_MIX: Final = 2_654_435_761
_MASK: Final = 0xFFFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Print:
    """What is kept of a text: how many different runs it has, and the lowest of their hashes."""

    runs: int
    lowest: frozenset[int]

    @property
    def limit(self) -> int:
        """The highest hash that would be in it; every one where the text is kept whole."""
        return max(self.lowest, default=0) if self.runs > len(self.lowest) else _MASK


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """How much of one text stands in another. `compared` of 0: nothing can be said."""

    held: int
    compared: int
    whole: bool = False
    """Whether every hash of both texts was there to be compared."""

    @property
    def known(self) -> bool:
        """Whether enough was compared."""
        return self.compared >= ENOUGH or (self.whole and self.compared > 0)

    @property
    def share(self) -> float:
        """0..1; 0 where nothing was compared."""
        return self.held / self.compared if self.compared else 0.0

    @property
    def contained(self) -> bool:
        """Whether it stands there, as far as can be told."""
        return self.known and self.share >= CONTAINED


def words_of(text: str) -> list[str]:
    """The words in small letters; a letter of Chinese, Japanese or Korean is a word."""
    small = text[:MAX_CHARS].casefold()
    return (_WORD_ASCII if small.isascii() else _WORD).findall(small)


def runs_of(text: str, *, template: bool = False) -> frozenset[int]:
    """Hashes of all runs of words. `template`: the text has holes that are filled when it is used.

    A part of fewer words than a run has is one run if it is the whole text, else none.
    """
    pieces = _HOLE.split(text[:MAX_CHARS]) if template else [text]
    found: set[int] = set()
    for piece in pieces:
        words = words_of(piece)
        if len(words) < RUN and len(pieces) > 1:
            continue
        found |= {_hash(words[at : at + RUN]) for at in range(max(1, len(words) - RUN + 1))}
    found.discard(_hash([]))
    return frozenset(found)


def print_of(runs: Iterable[int]) -> Print:
    """The print of a text with these runs."""
    every = frozenset(runs)
    return Print(runs=len(every), lowest=frozenset(sorted(every)[:KEPT]))


def overlap(runs: frozenset[int], other: Print) -> Overlap:
    """How much of a text with these runs stands in the text of the print."""
    limit = other.limit
    low = [run for run in runs if run <= limit]
    held = sum(run in other.lowest for run in low)
    return Overlap(held=held, compared=len(low), whole=limit == _MASK)


def covered(other: Print, runs: frozenset[int]) -> Overlap:
    """How much of the print's text stands in a text with these runs."""
    return Overlap(held=len(other.lowest & runs), compared=len(other.lowest))


def packed(one: Print) -> str:
    """The print as a short text: its number of runs, `:`, and the hashes."""
    numbers = sorted(one.lowest)
    return f"{one.runs}:{base64.b64encode(struct.pack(f'>{len(numbers)}I', *numbers)).decode()}"


def unpacked(text: str) -> Print | None:
    """The print that `packed` made the text of; None: it is none."""
    count, _, rest = text.partition(":")
    try:
        data = base64.b64decode(rest, validate=True)
        numbers = struct.unpack(f">{len(data) // 4}I", data)
        runs = int(count)
    except (ValueError, binascii.Error, struct.error):
        return None
    return Print(runs=runs, lowest=frozenset(numbers)) if runs >= len(numbers) else None


def _hash(words: list[str]) -> int:
    return (zlib.crc32(" ".join(words).encode("utf-8", "replace")) * _MIX) & _MASK
