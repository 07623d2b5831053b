"""Which signatures of one kind and code are wordings of one: proposals with their evidence.

Only two kinds of pairs are merged. Of one place: messages where every word of the shorter one is in
the longer one, which only adds to it. Of places whose names differ in numbers or spelling alone
(`pay_v1`, `Pay-v2`): messages that share at least half of their words. In both, nothing that
carries meaning may differ (`likeness.conflict`). Other words for the same cause stay apart: nothing
in the words tells them from look-alikes with another cause, so that is for people to say.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from contracts.findings import Signature
from nodes.insights.likeness import Words, conflict, share, words_of
from nodes.insights.signature import SIMILAR

MIN_WORDS = 3
"""Words with a meaning of their own, from which a message says enough to be compared."""
MAX_COMPARED = 64
"""Signatures of one kind and code that are compared with each other, those of most units first."""
_SPELLING = re.compile(r"[^A-Za-z]+|\bv(?=\d)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One signature, as likeness looks at it."""

    signature: Signature
    units: int
    template: str
    """Of its message; empty: it is like nothing."""
    known: bool = False
    """An earlier analysis had it: others are merged into it rather than the other way round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Like:
    """A signature that belongs into another one, and why."""

    signature: Signature
    into: Signature
    why: str


def merged_by_likeness(
    sides: Sequence[Side], keeps_apart: Callable[[str, str], bool]
) -> list[Like]:
    """Which signatures go into which. No target goes anywhere itself. Order changes nothing."""
    families: dict[tuple[str, str], list[Side]] = {}
    for side in sides:
        kind, _, code = _parts(side.signature)
        families.setdefault((kind, code), []).append(side)
    found: list[Like] = []
    for _, family in sorted(families.items()):
        found += _within(family, keeps_apart)
    return found


def _within(family: Sequence[Side], keeps_apart: Callable[[str, str], bool]) -> Iterator[Like]:
    """Each goes into the first before it that it is a wording of."""
    order = sorted(family, key=lambda s: (not s.known, -s.units, s.signature))[:MAX_COMPARED]
    targets: list[tuple[Side, Words]] = []
    for side in order:
        words = words_of(side.template)
        for target, its in targets:
            why = None
            if not keeps_apart(side.signature, target.signature):
                why = _why_one(side, words, target, its)
            if why is not None:
                yield Like(signature=side.signature, into=target.signature, why=why)
                break
        else:
            targets.append((side, words))


def _why_one(a: Side, a_words: Words, b: Side, b_words: Words) -> str | None:
    """Why two are wordings of one, in words; None: they are not."""
    if min(len(a_words.stems), len(b_words.stems)) < MIN_WORDS:
        return None
    if conflict(a_words, b_words) is not None:
        return None
    place, other = _parts(a.signature)[1], _parts(b.signature)[1]
    common = a_words.stems & b_words.stems
    if place == other:
        shorter = min(a_words.stems, b_words.stems, key=len)
        extra = (a_words.stems | b_words.stems) - shorter
        if common != shorter or a_words.states != b_words.states:
            return None
        return (
            f"every word with a meaning of the shorter message ({', '.join(sorted(common)[:6])}) "
            f"is in the longer one, which adds {len(extra)} more; same kind, code and place"
        )
    alike = share(a_words.all, b_words.all)
    if alike < SIMILAR or _spelled(place) != _spelled(other):
        return None
    return (
        f"{alike:.2f} of the words of both messages are common ({', '.join(sorted(common)[:6])}); "
        f"same kind and code, places {place} and {other} differ in numbers or spelling alone"
    )


def _spelled(place: str) -> str:
    return _SPELLING.sub("", place).lower()


def _parts(signature: str) -> tuple[str, str, str]:
    kind, _, rest = signature.partition("~")[0].partition(":")
    place, _, code = rest.partition(":")
    return kind, place, code
