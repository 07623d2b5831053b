"""Have we seen this? Similar findings and lessons, with what was tried and what it did.

The parts of the signature come first, the text second: messages that look alike with different
causes are closer by text than the same cause in other words. Each result says why it is here.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from contracts.codec import from_json, to_json
from contracts.errors import ConfigError
from contracts.findings import Finding
from contracts.gate import Lesson
from contracts.json_types import Json, JsonObject
from memory.knowledge import StoredFinding
from memory.semantic import Searched, SemanticMemory
from memory.semantic_keep import findings_of, lessons_about, lessons_of
from memory.semantic_texts import finding_document, lesson_document
from memory.vectors import Vector
from memory.workspace import Workspace
from nodes.insights.tried import Tried, tries, weight
from nodes.ports import open_memory

CANDIDATES = 60
"""Nearest texts that are looked at; duplicates among them are joined."""
SIGNATURES = 8
"""Different failures whose lessons are read, the newest `NEWEST` of each."""
NEWEST = 20
SHOWN = 5
STRUCTURE = 0.65
"""Share of the structure in a score; the rest is the text's."""
SAME_PLACE = 0.75
ALIKE = 0.5
"""Likeness of texts from which one is recalled that shares no place and no code."""
BY_SIGNATURE = "by signature alone"

_log = logging.getLogger("tracemend.memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenFinding:
    """Another finding that is like the one in question."""

    id: str
    signature: str
    title: str
    state: str
    units: int
    units_total: int
    why: tuple[str, ...]
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenTry:
    """A try, and why it is recalled."""

    tried: Tried
    why: tuple[str, ...]
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """What memory holds that is like a finding, the best first."""

    findings: tuple[SeenFinding, ...] = ()
    tries: tuple[SeenTry, ...] = ()
    how: str = BY_SIGNATURE
    """How it was searched; says so where memory could not be asked, or not all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What memory gives an analysis and takes from it; made before its transaction."""

    recalled: Mapping[str, Recalled] = field(default_factory=dict)
    vectors: tuple[Vector, ...] = ()

    def json_of(self, finding_id: str) -> Json:
        """What is kept with a finding's evidence."""
        found = self.recalled.get(finding_id)
        return to_json(found) if found is not None else None


def prepare(ws: Workspace, findings: Sequence[Finding], ask_for: Iterable[str]) -> Prepared:
    """Vectors of findings that are to be kept, and what is recalled for some of them.

    Memory is a help and no condition: where it cannot be opened, the signature alone is asked.

    Args:
        ws: the project.
        findings: of an analysis that is about to be kept.
        ask_for: ids among them that are worked on.
    """
    wanted = set(ask_for)
    memory, why_not = _memory(ws)
    recalled = {str(f.id): _recall(ws, memory, f, why_not) for f in findings if f.id in wanted}
    made = memory.vectors([finding_document(f) for f in findings]) if memory is not None else []
    return Prepared(recalled=recalled, vectors=tuple(made))


def lesson_vectors(ws: Workspace, lesson: Lesson) -> list[Vector]:
    """The vector to keep with a lesson; empty where memory is off or cannot be opened."""
    memory, _ = _memory(ws)
    return memory.vectors([lesson_document(lesson)]) if memory is not None else []


def recall(ws: Workspace, finding: Finding) -> Recalled:
    """Similar findings and lessons of this project."""
    memory, why_not = _memory(ws)
    return _recall(ws, memory, finding, why_not)


def kept(evidence: JsonObject) -> Recalled | None:
    """What was recalled when the finding was kept; None where nothing was."""
    found = evidence.get("recalled")
    return from_json(Recalled, found) if isinstance(found, dict) else None


def _memory(ws: Workspace) -> tuple[SemanticMemory | None, str]:
    try:
        return open_memory(ws), BY_SIGNATURE
    except ConfigError as error:
        _log.warning("memory cannot be opened", extra={"project": ws.project})
        return None, f"{BY_SIGNATURE}: {error}"


def _recall(
    ws: Workspace, memory: SemanticMemory | None, finding: Finding, why_not: str
) -> Recalled:
    text = finding_document(finding).text
    near: dict[str, float] = {}
    how = why_not
    lessons: list[Lesson] = []
    others: list[StoredFinding] = []
    if memory is not None:
        by_lessons = memory.search(text, kind="lesson", limit=CANDIDATES)
        by_findings = memory.search(text, kind="finding", limit=CANDIDATES)
        near = {one.id: one.likeness for one in (*by_lessons.near, *by_findings.near)}
        how = _how(by_lessons, by_findings)
        lessons = lessons_of(ws.ledger, [one.id for one in by_lessons.near])
        others = findings_of(ws.ledger, [one.id for one in by_findings.near])
    about = [finding.signature, *_signatures(lessons, near)]
    lessons += lessons_about(ws.ledger, about[: SIGNATURES + 1], NEWEST)
    return Recalled(
        findings=_seen_findings(finding, others, near),
        tries=_seen_tries(finding, lessons, near, ws.ledger.db.clock()),
        how=how,
    )


def _how(*searched: Searched) -> str:
    missing = sum(one.missing for one in searched)
    said = "; ".join(one.how for one in searched)
    late = f"; {missing} not in memory yet: `tracemend memory reindex`" if missing else ""
    return said + late


def _signatures(lessons: Sequence[Lesson], near: Mapping[str, float]) -> list[str]:
    """Of lessons found by their text, the nearest first."""
    ranked = sorted(lessons, key=lambda one: (-near.get(one.id, 0.0), one.id))
    return list(dict.fromkeys(one.signature for one in ranked))


def _seen_findings(
    finding: Finding, others: Sequence[StoredFinding], near: Mapping[str, float]
) -> tuple[SeenFinding, ...]:
    seen = []
    for stored in others:
        other = stored.finding
        if other.id == finding.id:
            continue
        fits = alike(finding, other.signature, other.diagnosis.cause, near.get(other.id, 0.0))
        if fits is not None:
            seen.append(
                SeenFinding(
                    id=other.id, signature=other.signature, title=other.title, state=stored.state,
                    units=other.units, units_total=other.units_total, why=fits[1],
                    score=round(fits[0], 4),
                )
            )  # fmt: skip
    return tuple(sorted(seen, key=lambda one: (-one.score, one.id))[:SHOWN])


def _seen_tries(
    finding: Finding, lessons: Sequence[Lesson], near: Mapping[str, float], now: datetime
) -> tuple[SeenTry, ...]:
    unique = list({one.id: one for one in lessons}.values())
    likeness: dict[str, float] = {}
    for lesson in unique:
        known = likeness.get(lesson.signature, 0.0)
        likeness[lesson.signature] = max(known, near.get(lesson.id, 0.0))
    seen = []
    for tried in tries(unique):
        fits = alike(finding, tried.signature, tried.cause, likeness[tried.signature])
        if fits is not None:
            score = round(fits[0] * weight(tried, now), 4)
            seen.append(SeenTry(tried=tried, why=fits[1], score=score))
    return tuple(sorted(seen, key=lambda one: (-one.score, one.tried.lesson))[:SHOWN])


def alike(
    finding: Finding, signature: str, cause: str, likeness: float
) -> tuple[float, tuple[str, ...]] | None:
    """How alike another failure is, 0..1, and why; None: not enough to be shown."""
    shared, reason = _structure(finding.signature, signature)
    why = [reason] if reason else []
    if cause == finding.diagnosis.cause:
        shared = min(1.0, shared + 0.1)
        why.append("same cause")
    if shared < SAME_PLACE and likeness < ALIKE:
        return None
    if likeness > 0:
        why.append(f"text {likeness:.2f} alike")
    return STRUCTURE * shared + (1 - STRUCTURE) * min(1.0, max(0.0, likeness)), tuple(why)


def _structure(one: str, other: str) -> tuple[float, str]:
    """What two signatures share, 0..1, in words."""
    if one == other:
        return 1.0, "same signature"
    (kind, place, code), (other_kind, other_place, other_code) = _parts(one), _parts(other)
    if (kind, place, code) == (other_kind, other_place, other_code):
        return 0.9, "same place and code, another message"
    if (kind, place) == (other_kind, other_place):
        return SAME_PLACE, "same kind at the same place"
    if code and (kind, code) == (other_kind, other_code):
        return 0.6, "same kind and code at another place"
    if place == other_place:
        return 0.4, "same place"
    return (0.3, "same kind at another place") if kind == other_kind else (0.0, "")


def _parts(signature: str) -> tuple[str, str, str]:
    kind, _, rest = signature.partition("~")[0].partition(":")
    place, _, code = rest.partition(":")
    return kind, place, code
