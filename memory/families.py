"""Families of cases: inputs that say nearly the same are one case to statistics."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from contracts.gate import Case
from contracts.json_types import Json, canonical_json, content_id

NEAR = 0.8  # Jaccard similarity of shingles from which on two inputs are one family
_SHINGLE = 5  # characters
# Scripts that put no blanks between words: a digit there masks itself, not the whole sentence.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Kana and Han
)
_WORD = re.compile(rf"[^\s\"',:;{{}}\[\](){_UNSPACED}]+")
_DIGIT = re.compile(r"\d")
_BLANKS = re.compile(r"\s+")


def family_key(case_input: Json) -> str:
    """The input's text in lower case, every word that holds a digit masked as `#`.

    Two requests that differ in an order number alone are the same request.
    """
    text = canonical_json(case_input).decode("utf-8", "replace").casefold()
    return _BLANKS.sub(" ", _WORD.sub(_masked, text)).strip()


def _masked(word: re.Match[str]) -> str:
    return "#" if _DIGIT.search(word.group()) else word.group()


def assign_families(cases: Sequence[Case]) -> tuple[Case, ...]:
    """The cases in the same order, each with a family; a family that is set stays.

    Near duplicates of near duplicates are one family. The order of the cases does not matter.
    """
    keys = [family_key(case.input) for case in cases]
    groups = _Groups(dict.fromkeys(keys, ""))
    for case, key in sorted(zip(cases, keys, strict=True), key=lambda pair: pair[0].id):
        if case.family and not groups.named(key):
            groups.name(key, case.family)
    _join_near(sorted(set(keys)), groups)
    return tuple(
        case if case.family else replace(case, family=groups.family(key))
        for case, key in zip(cases, keys, strict=True)
    )


class _Groups:
    """Union-find over keys. The operator's own families are never joined with each other."""

    def __init__(self, names: dict[str, str]) -> None:
        self._parent = {key: key for key in names}
        self._names = names

    def _root(self, key: str) -> str:
        while self._parent[key] != key:
            self._parent[key] = self._parent[self._parent[key]]
            key = self._parent[key]
        return key

    def named(self, key: str) -> str:
        return self._names[self._root(key)]

    def name(self, key: str, family: str) -> None:
        self._names[self._root(key)] = family

    def join(self, left: str, right: str) -> None:
        one, two = sorted((self._root(left), self._root(right)))
        names = {self._names[one], self._names[two]} - {""}
        if one != two and len(names) <= 1:
            self._parent[two] = one
            self._names[one] = next(iter(names), "")

    def together(self, left: str, right: str) -> bool:
        return self._root(left) == self._root(right)

    def family(self, key: str) -> str:
        return self.named(key) or content_id("fam-", self._root(key))


def _join_near(keys: Sequence[str], groups: _Groups) -> None:
    """Join all keys that are near duplicates, in an order that the keys alone decide.

    Prefix filter: of two sets that are that alike, the rarest few shingles of each share one. Sets
    come by size, so the smaller of two is the one that was entered before, and a shorter prefix of
    it is enough (Xiao et al. 2011, similarity joins).
    """
    sets = sorted(_ranked(keys), key=lambda pair: len(pair[1]))
    holders: dict[int, list[tuple[int, int]]] = defaultdict(list)
    members = [frozenset(ranks) for _, ranks in sets]
    for i, (key, ranks) in enumerate(sets):
        size = len(ranks)
        seen: set[int] = set()
        for place, rank in enumerate(ranks[: size - math.ceil(NEAR * size) + 1]):
            for j, other in holders[rank]:
                smaller = len(members[j])
                if j in seen or smaller < NEAR * size:
                    continue
                needed = math.ceil(NEAR / (1.0 + NEAR) * (size + smaller) - 1e-9)
                if 1 + min(size - place - 1, smaller - other - 1) < needed:
                    continue  # a first shared shingle that late leaves too few to share
                seen.add(j)
                if not groups.together(sets[j][0], key):
                    both = len(members[i] & members[j])
                    if both >= NEAR * (size + smaller - both):
                        groups.join(sets[j][0], key)
        entered = size - math.ceil(2.0 * NEAR / (1.0 + NEAR) * size - 1e-9) + 1
        for place, rank in enumerate(ranks[:entered]):
            holders[rank].append((i, place))


def _ranked(keys: Sequence[str]) -> Iterator[tuple[str, list[int]]]:
    """Each key with its shingles as numbers, the rarest first."""
    shingles = [_shingles(key) for key in keys]
    often = Counter(s for group in shingles for s in group)
    number = {s: i for i, s in enumerate(sorted(often, key=lambda s: (often[s], s)))}
    for key, group in zip(keys, shingles, strict=True):
        yield key, sorted(number[s] for s in group)


def _shingles(text: str) -> frozenset[str]:
    return frozenset(text[i : i + _SHINGLE] for i in range(max(1, len(text) - _SHINGLE + 1)))
