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
_WITH_DIGIT = re.compile(r"[^\s\"',:;{}\[\]()]*\d[^\s\"',:;{}\[\]()]*")
_BLANKS = re.compile(r"\s+")


def family_key(case_input: Json) -> str:
    """The input's text in lower case, every word that holds a digit masked as `#`.

    Two requests that differ in an order number alone are the same request.
    """
    text = canonical_json(case_input).decode("utf-8", "replace").casefold()
    return _BLANKS.sub(" ", _WITH_DIGIT.sub("#", text)).strip()


def assign_families(cases: Sequence[Case]) -> tuple[Case, ...]:
    """The cases in the same order, each with a family; a family that is set stays.

    Near duplicates of near duplicates are one family. The order of the cases does not matter.
    """
    keys = [family_key(case.input) for case in cases]
    groups = _Groups(dict.fromkeys(keys, ""))
    for case, key in sorted(zip(cases, keys, strict=True), key=lambda pair: pair[0].id):
        if case.family and not groups.named(key):
            groups.name(key, case.family)
    for left, right in _near_pairs(sorted(set(keys))):
        groups.join(left, right)
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

    def family(self, key: str) -> str:
        return self.named(key) or content_id("fam-", self._root(key))


def _near_pairs(keys: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pairs of different keys that are near duplicates, in a fixed order.

    Prefix filter: of two sets that are that alike, the rarest few shingles of each share one.
    """
    shingles = [_shingles(key) for key in keys]
    often = Counter(s for group in shingles for s in group)
    holders: dict[str, list[int]] = defaultdict(list)
    for i, group in enumerate(shingles):
        rare = sorted(group, key=lambda s: (often[s], s))
        prefix = rare[: len(rare) - math.ceil(NEAR * len(rare)) + 1]
        for j in sorted({j for s in prefix for j in holders[s]}):
            both = len(group & shingles[j])
            if both >= NEAR * (len(group) + len(shingles[j]) - both):
                yield keys[j], keys[i]
        for s in prefix:
            holders[s].append(i)


def _shingles(text: str) -> frozenset[str]:
    return frozenset(text[i : i + _SHINGLE] for i in range(max(1, len(text) - _SHINGLE + 1)))
