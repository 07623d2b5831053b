"""From two tallies to groups by final signature: templates, people's choices, likeness, the rest.

What decides is the counts and the texts, never the order of input. First the templates of each key
are split, so that different messages at one place are different findings; then people's choices
move signatures, then signatures that are wordings of one are merged; at last the keys beyond
`MAX_KEYS` are put together by kind, those with the fewest units.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from contracts.findings import Finding, Merge, Signature
from nodes.insights.choices import NONE, Choices, regrouped
from nodes.insights.group import Group
from nodes.insights.signature import split_templates
from nodes.insights.similar import Side, merged_by_likeness
from nodes.insights.tally import VARIOUS, Tally

MAX_KEYS = 2_000
"""Signatures that an analysis tells apart."""
TEMPLATES_KEPT = 5  # of a finding, for later analyses and for people


@dataclass(slots=True)
class Pair:
    """One signature in the window and in the baseline."""

    now: Group = field(default_factory=Group)
    before: Group = field(default_factory=Group)
    templates: dict[str, int] = field(default_factory=dict)
    """Units in both windows by its own templates, not those of what was merged into it."""
    merged: list[Merge] = field(default_factory=list)

    def add(self, other: "Pair") -> None:
        """Take in another signature's counts; its templates stay its own."""
        self.now.add(other.now)
        self.before.add(other.before)

    def leading(self) -> tuple[str, ...]:
        """Its templates, those of most units first."""
        order = sorted(self.templates, key=lambda t: (-self.templates[t], t))
        return tuple(template for template in order if template)[:TEMPLATES_KEPT]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """What was put together since there were too many signatures to tell apart."""

    signatures: int
    units: int
    """Units of the window that have one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """Every group by its final signature."""

    pairs: Mapping[Signature, Pair]
    names: Mapping[str, Mapping[str, Signature]]
    """Final signature by key and template."""
    rest: Rest | None

    def name(self, key: str, template: str) -> Signature:
        """The final signature of a symptom."""
        return self.names.get(key, {}).get(template, Signature(key))


@dataclass(slots=True)
class _Work:
    """A grouping being made."""

    pairs: dict[Signature, Pair]
    names: dict[str, dict[str, Signature]]

    def move(self, signature: Signature, into: Signature, merge: Merge | None) -> None:
        """Put one signature into another one."""
        moved = self.pairs.pop(signature)
        target = self.pairs.setdefault(into, Pair())
        target.add(moved)
        if merge is not None:
            target.merged += [*moved.merged, merge]
        for templates in self.names.values():
            for template, name in templates.items():
                if name == signature:
                    templates[template] = into


def grouped(
    now: Tally,
    before: Tally | None,
    *,
    known: Iterable[Finding] = (),
    choices: Choices | None = None,
    max_keys: int = MAX_KEYS,
) -> Grouping:
    """Groups by final signature; both windows together decide, so that they are split alike.

    Args:
        now: the window's counts.
        before: the baseline's.
        known: findings of earlier analyses; they keep their signatures, however counts change.
        choices: what people said.
        max_keys: signatures that are told apart.
    """
    chosen = choices or NONE
    known = tuple(known)
    work = _split(now, before, known, chosen)
    _apply(work, chosen)
    _merge(work, known, chosen)
    rest = _put_together(work, max_keys)
    return Grouping(pairs=work.pairs, names=work.names, rest=rest)


def _split(now: Tally, before: Tally | None, known: Sequence[Finding], choices: Choices) -> _Work:
    earlier = before.groups if before else {}
    remembered = remembered_marks(known)
    work = _Work(pairs={}, names={})
    for key in sorted({*now.groups, *earlier}):
        sides = (now.groups.get(key, {}), earlier.get(key, {}))
        counts: dict[str, int] = {}
        for side in sides:
            for template, group in side.items():
                counts[template] = counts.get(template, 0) + len(group.units)
        marks = split_templates(counts, remembered.get(key), choices.own_marks(key))
        names = work.names[key] = {t: Signature(key + mark) for t, mark in marks.items()}
        for at, side in enumerate(sides):
            for template, group in side.items():
                pair = work.pairs.setdefault(names[template], Pair())
                (pair.now, pair.before)[at].add(group)
        for template, units in counts.items():
            pair = work.pairs[names[template]]
            pair.templates[template] = units
    return work


def remembered_marks(known: Iterable[Finding]) -> dict[str, dict[str, str]]:
    """Mark of the leading template of each finding of earlier analyses, by key."""
    marks: dict[str, dict[str, str]] = {}
    for finding in known:
        key, _, mark = finding.signature.partition("~")
        if finding.templates and f":{VARIOUS}" not in key:
            marks.setdefault(key, {})[finding.templates[0]] = f"~{mark}" if mark else ""
    return marks


def _apply(work: _Work, choices: Choices) -> None:
    """Move signatures to where people put them."""
    moved = regrouped({name: list(pair.templates) for name, pair in work.pairs.items()}, choices)
    for signature, to in sorted(moved.items()):
        units = len(work.pairs[signature].now.units)
        merge = Merge(signature=signature, units=units, by=to.by, why=to.why)
        work.move(signature, to.into, merge)


def _merge(work: _Work, known: Sequence[Finding], choices: Choices) -> None:
    """Merge signatures that are wordings of one."""
    seen = {finding.signature for finding in known}
    sides = [
        Side(
            signature=name,
            units=len(pair.now.units) + len(pair.before.units),
            template=next(iter(pair.leading()), ""),
            known=name in seen,
        )
        for name, pair in work.pairs.items()
    ]
    for one in merged_by_likeness(sides, choices.keeps_apart):
        units = len(work.pairs[one.signature].now.units)
        merge = Merge(signature=one.signature, units=units, by="similar", why=one.why)
        work.move(one.signature, one.into, merge)


def _put_together(work: _Work, max_keys: int) -> Rest | None:
    """Keep the signatures of most units; of the others one of each kind stands for all."""
    if len(work.pairs) <= max_keys:
        return None
    order = sorted(
        work.pairs,
        key=lambda s: (-len(work.pairs[s].now.units), -len(work.pairs[s].before.units), s),
    )
    into: dict[Signature, Signature] = {}
    units: set[int] = set()
    for signature in order[max_keys:]:
        into[signature] = Signature(f"{signature.split(':', 1)[0]}:{VARIOUS}")
        pair = work.pairs.pop(signature)
        units |= pair.now.units.keys()
        work.pairs.setdefault(into[signature], Pair()).add(pair)
    for templates in work.names.values():
        for template, name in templates.items():
            templates[template] = into.get(name, name)
    return Rest(signatures=len(into), units=len(units))
