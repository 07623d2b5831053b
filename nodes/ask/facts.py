"""What can be said to a question without a model: which findings it is about, and their numbers.

Pure. A finding is about the question when they share a word: in the finding's own text, in what its
failing runs asked for, or by likeness of the whole text. Every match says why.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from contracts.findings import Finding
from contracts.gate import Lesson
from contracts.json_types import Json, canonical_json
from nodes.ask.times import AskedTime
from nodes.insights.report import finding_json
from nodes.insights.sketch import Evidence
from nodes.insights.tried import Tried, tries

STEM = 4
"""Letters that two words must share at their beginning: `refunds` and `refunded`."""
LIKE = 0.4
"""Likeness of texts from which a finding is about the question without a common word."""
_WORD = re.compile(r"[^\W\d_]+|(?<![\w.])[1-5]\d\d(?![\w.])")
_SAID_OFTEN = """
a an and any are as at be been because but by can cannot could did do does doing done error errors
every fail failed failing fails failure failures for from had has have how i in is issue issues it
its keep keeps last many more most much my no not of often on or our out problem problems since so
some than that the their them then there these they this to too up was we were what when where which
who why will with would wrong you your happen happened happening happens go going went gone change
changed changes broken broke break agent agents trace traces run runs session sessions tell show me
about please
"""
_COMMON = frozenset(_SAID_OFTEN.split())
"""Words of questions about failures that say nothing of which failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """A finding that the question is about."""

    finding: Finding
    why: tuple[str, ...]
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What was read for an answer."""

    traces: int
    status: str
    """`complete`, `partial` or `pending`; of the window and what it is compared with together."""
    why: str | None
    unit: str
    units_total: int
    stored: bool = False
    """True: nothing was read; the findings are those of earlier analyses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """An answer without a model."""

    question: str
    time: AskedTime
    read: Read
    about: tuple[About, ...]
    """Best match first; empty: no finding matches the words."""
    findings: tuple[Finding, ...]
    """All, worst first."""
    tried: Mapping[str, tuple[Tried, ...]]
    """By finding id: what was tried for it before."""

    @property
    def shown(self) -> tuple[Finding, ...]:
        """What an answer tells: matches, else the worst."""
        return tuple(one.finding for one in self.about) or self.findings


def words_of(question: str) -> list[str]:
    """The words of a question that say what it is about."""
    found = [word.lower() for word in _WORD.findall(question)]
    return [word for word in dict.fromkeys(found) if word not in _COMMON and len(word) > 2]


def match(
    question: str,
    findings: Sequence[Finding],
    evidence: Mapping[str, Evidence],
    likeness: Mapping[str, float],
) -> tuple[About, ...]:
    """Findings that the question is about, the best first.

    Args:
        question: without its words for a time.
        findings: worst first; the order decides between equal matches.
        evidence: condensed runs of each finding, by its id, where there are any.
        likeness: of the finding's text to the question's, by id.
    """
    words = words_of(question)
    found = []
    for place, finding in enumerate(findings):
        why, hits = _reasons(words, finding, evidence.get(finding.id))
        alike = likeness.get(finding.id, 0.0)
        if not hits and (alike < LIKE or not words):
            continue
        score = hits
        if alike >= LIKE:
            why.append(f"text {alike:.2f} alike")
            score += alike
        found.append((-score, place, About(finding=finding, why=tuple(why), score=score)))
    return tuple(one for _, _, one in sorted(found, key=lambda row: row[:2]))


def _reasons(
    words: Sequence[str], finding: Finding, evidence: Evidence | None
) -> tuple[list[str], float]:
    """Why a finding is about these words, and how much."""
    own = _stems(f"{finding.title} {finding.signature} {finding.diagnosis.cause}")
    own |= _stems(finding.diagnosis.summary)
    own |= _stems(" ".join(one.sentence for one in finding.contrasts))
    said = [word for word in words if _stem(word) in own]
    why = [f"says {', '.join(said)}"] if said else []
    hits = float(len(said))
    asked = [word for word in words if word not in said]
    failing = evidence.failing if evidence is not None else ()
    requests = [
        _stems(f"{canonical_json(one.request).decode('utf-8', 'replace')} {one.answer}")
        for one in failing
    ]
    for word in asked:
        number = sum(_stem(word) in request for request in requests)
        if number * 2 > len(requests):
            why.append(f"{number} of {len(requests)} sampled failing runs speak of {word}")
            hits += 0.5 * number / len(requests)
    return why, hits


def _stem(word: str) -> str:
    """The beginning of a word, without an ending of number or time."""
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= STEM:
            return word[: len(word) - len(ending)].rstrip("e")
    return word.rstrip("e") if len(word) > STEM else word


def _stems(text: str) -> set[str]:
    return {_stem(word.lower()) for word in _WORD.findall(text)}


def tried_of(
    lessons: Sequence[Lesson], findings: Sequence[Finding]
) -> dict[str, tuple[Tried, ...]]:
    """What was tried for each finding, newest first."""
    by_signature: dict[str, list[Lesson]] = {}
    for lesson in lessons:
        by_signature.setdefault(lesson.signature, []).append(lesson)
    return {
        finding.id: tuple(tries(by_signature[finding.signature]))
        for finding in findings
        if finding.signature in by_signature
    }


def facts_lines(facts: Facts, *, most: int = 5) -> Iterator[str]:
    """The answer for a person; without any escape or secret, as findings are kept."""
    yield from _head(facts)
    if not facts.findings:
        so_far = "what was read of " if facts.read.status == "partial" else ""
        yield f"Nothing kept failing in {so_far}{facts.read.units_total} {facts.read.unit}s."
        return
    if not facts.about:
        yield "No finding matches your words; the worst ones are:"
    why = {one.finding.id: one.why for one in facts.about}
    for finding in facts.shown[:most]:
        yield from finding_lines(finding, facts, why.get(finding.id, ()))
    more = len(facts.shown) - most
    if more > 0:
        yield f"and {more} more: `tracemend findings`"


def _head(facts: Facts) -> Iterator[str]:
    read, time = facts.read, facts.time
    span = f"{time.start:%Y-%m-%d %H:%M} to {time.end:%Y-%m-%d %H:%M %Z}".rstrip()
    if read.stored:
        yield "Nothing was read: these are the findings of earlier analyses, with their counts."
    else:
        yield f"{span} ({time.words}): {read.traces} traces, {read.status}"
    if read.status == "partial":
        why = f": {read.why}" if read.why else ""
        yield f"Read in part{why}; what was not read may say otherwise."


def finding_lines(finding: Finding, facts: Facts, why: Sequence[str] = ()) -> Iterator[str]:
    """One finding with its numbers, what goes with it, its cause, and what was tried."""
    low, middle, high = finding.rate
    unit = facts.read.unit
    yield f"- {finding.title} [{finding.id}]"
    if why:
        yield f"    about your question: {'; '.join(why)}"
    yield (
        f"    {finding.units} of {finding.units_total} {unit}s, {middle:.1%} "
        f"(95 % interval {low:.1%} to {high:.1%}), {finding.severity}; {_change(finding, unit)}"
    )
    for contrast in finding.contrasts[:3]:
        yield f"    {contrast.sentence}"
    diagnosis = finding.diagnosis
    agreed = f", agreement {diagnosis.agreement:.0%}" if diagnosis.agreement is not None else ""
    sure = f"{diagnosis.confidence:.0%} sure{agreed}"
    yield f"    cause: {diagnosis.cause} ({sure}): {diagnosis.summary}"
    if finding.exemplars:
        yield f"    traces: {', '.join(trace for trace, _ in finding.exemplars[:3])}"
    for tried in facts.tried.get(finding.id, ())[:2]:
        yield f"    tried before: {tried.sentence}"


def _change(finding: Finding, unit: str) -> str:
    if finding.baseline_units is None:
        return "nothing to compare with"
    sure = f", p {finding.p_holm:.2g}" if finding.p_holm is not None else ""
    return (
        f"{finding.change} against {finding.baseline_units} of {finding.baseline_total} {unit}s "
        f"before{sure}"
    )


def facts_json(facts: Facts) -> dict[str, Json]:
    """The same as keys of `tracemend.ask/1`."""
    read, time = facts.read, facts.time
    return {
        "question": facts.question,
        "window": {
            "start": time.start.isoformat(), "end": time.end.isoformat(), "words": time.words,
        },
        "read": {
            "traces": read.traces, "status": read.status, "why": read.why, "stored": read.stored,
        },
        "unit": read.unit, "units_total": read.units_total,
        "about": [
            {
                **finding_json(one.finding), "why": list(one.why),
                "tried": [t.sentence for t in facts.tried.get(one.finding.id, ())],
            }
            for one in facts.about
        ],
        "others": [
            {"id": f.id, "signature": f.signature, "title": f.title, "units": f.units}
            for f in facts.findings
            if f.id not in {one.finding.id for one in facts.about}
        ],
    }  # fmt: skip
