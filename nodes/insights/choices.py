"""What people said of findings, as an analysis applies it: merged, kept apart, renamed, closed.

A merge lasts over analyses and is learned from: a later signature of the same kind and code, at a
place of a like name, whose message has the same words, follows the one that was merged, and says
which choice it follows. Two tools that merely fail with the same words do not follow each other.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from contracts.errors import UsageError
from contracts.findings import Signature
from contracts.json_types import Json
from memory.choices import Choice
from nodes.insights.signature import SIMILAR

LIKE_PLACES = 0.5
"""Share of common words of two places' names from which a signature may follow another one's merge:
`pay_v1` and `pay_v2` have all in common, `get_order` and `get_weather` a third."""

_WORD = re.compile(r"<\w+>|[A-Za-z_]\w*")
_PLACE_WORD = re.compile(r"[a-z]+", re.IGNORECASE)
_MARK = re.compile(r"[a-z2-7]{6}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A signature that a person put into another one."""

    into: Signature
    by: str
    choice: str
    """Id of the choice."""
    at: str
    template: str
    """Of the message that the signature had then; empty: it was not known, so nothing follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """A signature that was closed, with how often it was seen then."""

    by: str
    at: str
    """RFC 3339, UTC."""
    reason: str
    units: int
    units_total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Where a signature of this analysis belongs, and why."""

    into: Signature
    by: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Everything that stands, by signature."""

    merged: Mapping[str, Taken] = field(default_factory=dict)
    apart: frozenset[tuple[str, str]] = frozenset()
    """(signature, the one it shall not be merged into), whoever would merge them."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    closed: Mapping[str, Closed] = field(default_factory=dict)

    def keeps_apart(self, one: str, other: str) -> bool:
        """Whether these two shall not be merged by likeness."""
        return (one, other) in self.apart or (other, one) in self.apart

    def own_marks(self, key: str) -> frozenset[str]:
        """Hashes of the templates of a key that a person made findings of their own.

        A template whose hash is among them gets the mark `~hash`, whatever it is like.
        """
        marked = (signature.partition("~") for signature, _ in self.apart)
        return frozenset(mark for head, _, mark in marked if head == key and _MARK.fullmatch(mark))

    def title(self, signature: str) -> str | None:
        """The name that a person gave; None: nobody did."""
        return self.renamed.get(signature)

    def target(self, signature: str) -> Signature:
        """Where merges lead from here; the signature itself when nobody merged it."""
        seen = {signature}
        while signature in self.merged and self.merged[signature].into not in seen:
            signature = self.merged[signature].into
            seen.add(signature)
        return Signature(signature)


NONE = Choices()


def choices_of(standing: Iterable[Choice]) -> Choices:
    """The choices that stand, oldest first, as one value; of a contradiction the newest holds."""
    merged: dict[str, Taken] = {}
    apart: dict[tuple[str, str], None] = {}
    renamed: dict[str, str] = {}
    closed: dict[str, Closed] = {}
    for one in standing:
        body = one.body
        if one.kind == "merge":
            into = Signature(_text(body, "into"))
            apart.pop((one.signature, into), None)
            merged[one.signature] = Taken(
                into=into, by=one.by, choice=one.id, at=one.at, template=_text(body, "template")
            )
        elif one.kind == "split":
            apart[one.signature, _text(body, "from")] = None
            if one.signature in merged and merged[one.signature].into == _text(body, "from"):
                del merged[one.signature]
        elif one.kind == "rename":
            renamed[one.signature] = _text(body, "title")
        elif one.kind == "close":
            closed[one.signature] = _closed(one)
        else:
            closed.pop(one.signature, None)
    return Choices(merged=merged, apart=frozenset(apart), renamed=renamed, closed=closed)


def check_merge(signature: str, into: str, choices: Choices) -> None:
    """Whether a person may put `signature` into `into` now.

    Raises:
        UsageError: they are the same, or `into` goes into `signature` already.
    """
    if signature == into:
        raise UsageError(f"{signature}: a finding cannot be merged into itself")
    if choices.target(into) == signature:
        step = choices.merged[into]
        raise UsageError(
            f"{signature} into {into}: would go round in a circle, since {into} goes into "
            f"{step.into} by {step.by}'s choice {step.choice}; revoke that one first"
        )


def regrouped(
    groups: Mapping[Signature, Collection[str]], choices: Choices
) -> dict[Signature, Moved]:
    """Which signatures of an analysis belong into others by people's choices.

    Args:
        groups: message templates by final signature (mark included).
        choices: what stands.

    Returns:
        Only signatures that move. `into` is the end of the chain, and need not be in `groups`.
    """
    moved: dict[Signature, Moved] = {}
    for signature, templates in groups.items():
        chosen = _chosen(signature, choices) or _followed(signature, templates, choices)
        if chosen is not None and chosen.into != signature:
            moved[signature] = chosen
    return moved


def _chosen(signature: Signature, choices: Choices) -> Moved | None:
    taken = choices.merged.get(signature)
    if taken is None:
        return None
    into = choices.target(signature)
    return Moved(into=into, by=taken.by, why=f"{taken.by} merged them (choice {taken.choice})")


def _followed(signature: Signature, templates: Collection[str], choices: Choices) -> Moved | None:
    """The merge whose merged signature this one repeats; the oldest where several would do."""
    if _has_its_own(signature, choices):
        return None
    for earlier, taken in sorted(choices.merged.items(), key=lambda kv: (kv[1].at, kv[0])):
        into = choices.target(earlier)
        if choices.keeps_apart(signature, into) or choices.keeps_apart(signature, taken.into):
            continue
        if _repeats(signature, templates, earlier, taken.template):
            why = (
                f"same kind, code and words as {earlier}, which {taken.by} merged "
                f"(choice {taken.choice})"
            )
            return Moved(into=into, by=taken.by, why=why)
    return None


def _has_its_own(signature: str, choices: Choices) -> bool:
    """Whether people treat the signature as a finding by itself: it follows nobody."""
    return (
        signature in choices.renamed
        or signature in choices.closed
        or any(taken.into == signature for taken in choices.merged.values())
    )


def _repeats(
    signature: str, templates: Collection[str], earlier: str, earlier_template: str
) -> bool:
    kind, place, code = split_signature(signature)
    earlier_kind, earlier_place, earlier_code = split_signature(earlier)
    if (kind, code) != (earlier_kind, earlier_code) or not earlier_template or not templates:
        return False
    if place != earlier_place and not _like(place, earlier_place):
        return False
    words = frozenset(_WORD.findall(earlier_template.lower()))
    return all(
        _share(frozenset(_WORD.findall(template.lower())), words) >= SIMILAR
        for template in templates
    )


def split_signature(signature: str) -> tuple[str, str, str]:
    """Kind, place and code of a signature, without its mark; empty where there is none."""
    kind, _, rest = signature.partition("~")[0].partition(":")
    place, _, code = rest.partition(":")
    return kind, place, code


def _like(place: str, other: str) -> bool:
    one, two = _place_words(place), _place_words(other)
    return bool(one and two) and _share(one, two) >= LIKE_PLACES


def _place_words(place: str) -> frozenset[str]:
    """Words of a name without numbers and versions, so that `pay_v2` is `pay`."""
    return frozenset(word.lower() for word in _PLACE_WORD.findall(place) if len(word) > 1)


def _share(a: frozenset[str], b: frozenset[str]) -> float:
    together = a | b
    return len(a & b) / len(together) if together else 1.0


def _closed(choice: Choice) -> Closed:
    units, total = choice.body.get("units"), choice.body.get("units_total")
    return Closed(
        by=choice.by, at=choice.at, reason=_text(choice.body, "reason"),
        units=units if isinstance(units, int) else 0,
        units_total=total if isinstance(total, int) else 0,
    )  # fmt: skip


def _text(body: Mapping[str, Json], key: str) -> str:
    value = body.get(key)
    return value if isinstance(value, str) else ""
