"""What was tried for a failure and what became of it, from lessons. Pure.

One proposal leaves several lessons: that it was applied, what a watch saw, that it was undone. They
are one try, and its newest word holds. A release that another release of the same failure followed
did not hold. Tries that say the same are joined and counted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from contracts.gate import Lesson
from contracts.json_types import canonical_json

Worth = Literal["helped", "open", "refused", "refuted"]
"""helped: its rate fell, and nothing later was needed. open: nobody knows yet. refused: never ran
in production. refuted: undone, or its rate did not fall, or a later release was needed."""

WEIGHT: dict[Worth, float] = {"helped": 1.0, "open": 0.85, "refused": 0.7, "refuted": 0.4}
"""What a try's likeness is worth; only the order matters."""
HALF_LIFE_DAYS = 180.0
"""Agents, tools and models change: a lesson of half a year ago weighs half."""
OLD = 0.3
"""The least that age leaves of a weight; an old lesson is still better than none."""

_RELEASED = ("applied", "fell", "not_fallen", "too_few", "undone", "watching")
_UNDONE = ("undone", "not_fallen")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One edit that was proposed for a failure."""

    lesson: str
    """The id of its newest lesson."""
    finding_id: str
    signature: str
    cause: str
    edit: str
    decision: str
    reason: str | None
    outcomes: tuple[str, ...]
    """Oldest first."""
    worth: Worth
    at: datetime
    times: int = 1
    """How often the same was tried, with the same end."""

    @property
    def sentence(self) -> str:
        """For a card: what, who said what, what came of it."""
        reason = f" ({self.reason})" if self.reason else ""
        times = f", {self.times} times" if self.times > 1 else ""
        word = f"; {self.worth}" if self.worth in ("helped", "refuted") else ""
        return (
            f"{self.edit}: {self.decision}{reason}, outcome: {', '.join(self.outcomes)}"
            f"{word}{times}"
        )


def tries(lessons: Iterable[Lesson]) -> list[Tried]:
    """The tries behind lessons, newest first, duplicates joined."""
    told: dict[tuple[str, str, bytes], list[Lesson]] = {}
    for lesson in sorted(lessons, key=lambda one: (one.at, one.id)):
        files = canonical_json(lesson.facts.get("files"))
        told.setdefault((lesson.finding_id, lesson.edit, files), []).append(lesson)
    single = sorted((_try(group) for group in told.values()), key=lambda one: one.at)
    made = [_overtaken(one, single[at + 1 :]) for at, one in enumerate(single)]
    return sorted(_joined(made), key=lambda one: one.at, reverse=True)


def weight(tried: Tried, now: datetime) -> float:
    """0..1: how much a try still says, by its age and by what became of it."""
    days = max(0.0, (now - tried.at).total_seconds() / 86_400)
    return WEIGHT[tried.worth] * float(max(OLD, 0.5 ** (days / HALF_LIFE_DAYS)))


def _try(lessons: Sequence[Lesson]) -> Tried:
    newest = lessons[-1]
    decided = next((one for one in reversed(lessons) if one.decision != "none"), newest)
    outcomes = tuple(dict.fromkeys(one.outcome for one in lessons))
    return Tried(
        lesson=newest.id, finding_id=newest.finding_id, signature=newest.signature,
        cause=newest.cause, edit=newest.edit, decision=decided.decision, reason=decided.reason,
        outcomes=outcomes, worth=_worth([one.outcome for one in lessons]), at=newest.at,
    )  # fmt: skip


def _worth(outcomes: Sequence[str]) -> Worth:
    said = [one for one in outcomes if one in (*_UNDONE, "fell")]
    if said:
        return "helped" if said[-1] == "fell" else "refuted"
    return "open" if any(one in _RELEASED for one in outcomes) else "refused"


def _overtaken(one: Tried, later: Sequence[Tried]) -> Tried:
    """A release is refuted when the same failure needed another one later."""
    if one.worth not in ("helped", "open"):
        return one
    again = any(
        other.signature == one.signature
        and other.edit != one.edit
        and any(outcome in _RELEASED for outcome in other.outcomes)
        for other in later
    )
    return replace(one, worth="refuted") if again else one


def _joined(single: Sequence[Tried]) -> list[Tried]:
    """The same edit for the same failure with the same end, once."""
    found: dict[tuple[object, ...], Tried] = {}
    for one in single:
        key = (one.signature, one.edit, one.decision, one.reason, one.worth)
        before = found.get(key)
        found[key] = replace(one, times=before.times + 1) if before is not None else one
    return list(found.values())
