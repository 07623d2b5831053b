"""Can a case tell good runs from bad? It must fail on its evidence and hold on clean runs. Pure.

An assertion that cannot fail proves nothing, and one that clean runs do not satisfy calls good
agents bad. Both are refused with the reason, before a gate is built on them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from contracts.gate import Case, RunResult
from contracts.harness import Observation
from contracts.json_types import JsonObject
from contracts.traces import Trace
from memory.assertions import is_weak
from memory.families import family_key
from nodes.cases.witness import Witness
from nodes.gate.outage import outage
from nodes.gate.score import Answer, grade
from nodes.insights.facts import MOSTLY

MIN_CLEAN: Final = 5
"""Clean runs below which nothing is said of an assertion."""
TOLERATED: Final = 0.10
"""Share of clean runs that an assertion may call bad."""
TOLERATED_TOOLS: Final = 1.0 - MOSTLY
"""The same for calls of tools: the closing tool is one that most runs call, not all of them."""
_TOOLS: Final = frozenset({"tool_called", "tool_not_called", "tool_order"})
_LIMITS: Final = frozenset({"max_seconds", "max_usd"})
_EVERYWHERE: Final = frozenset({"no_symptom", "not_empty"})
"""Kinds that hold for whatever is asked; all others are about this request."""
_CALLS_MATTER: Final = frozenset({"tool_not_called", "tool_order"})
_TEXT: Final = frozenset({"equals", "contains", "not_contains", "regex", "json_schema", "number"})
_FROM_TRACES: Final = frozenset({"no_symptom", "tool_called", "max_usd"})
"""What else a trace can tell; `python` and `judge` are asked of real runs only."""
_ANSWERS: Final[Mapping[RunResult, Answer]] = {"pass": "yes", "fail": "no", "missing": "unknown"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Soundness:
    """What the recorded runs say of one case."""

    case: Case
    """With the assertions that are sound."""
    refused: tuple[tuple[int, str], ...]
    """(place of an assertion from 1, why it is left out)."""
    why_not: str | None
    """Why the case as a whole proves nothing; None: it can."""
    said: tuple[str, ...]
    """What could not be decided, a sentence each."""

    @property
    def sound(self) -> bool:
        """Whether the case can be used."""
        return self.why_not is None


def check_case(
    case: Case,
    evidence: Witness | None,
    clean: Sequence[Witness],
    *,
    alike: frozenset[str] = frozenset(),
) -> Soundness:
    """Hold a case against the run that it was made of, and against runs in which nothing failed.

    Args:
        case: with any assertions.
        evidence: the failing run that it was made of; None: there is none, so only the clean runs
            speak.
        clean: runs in which no symptom counts.
        alike: tools by which runs are known that do the same work: clean runs that called one of
            them judge the case's tool assertions, beside those of its own family.
    """
    kept: list[JsonObject] = []
    refused: list[tuple[int, str]] = []
    said: list[str] = []
    for place, assertion in enumerate(case.assertions, start=1):
        why, note = _on_clean(case, place, assertion, clean, alike)
        if why is not None:
            refused.append((place, why))
            continue
        kept.append(assertion)
        if note is not None:
            said.append(note)
    found = replace(case, assertions=tuple(kept), weak=case.weak or is_weak(kept))
    why_not = "none of its assertions holds on clean runs" if not kept else None
    if why_not is None and evidence is not None:
        why_not, more = _on_evidence(found, evidence)
        said += more
    return Soundness(case=found, refused=tuple(refused), why_not=why_not, said=tuple(said))


def check_ordinary(case: Case, own: Witness, clean: Sequence[Witness] = ()) -> Soundness:
    """Hold a case of ordinary traffic against the run that it was made of, which went well.

    Every assertion must hold there and on clean runs of its family, where there are enough, and
    the case must fail for an agent that does nothing.
    """
    kept: list[JsonObject] = []
    refused: list[tuple[int, str]] = []
    said: list[str] = []
    for place, assertion in enumerate(case.assertions, start=1):
        answer = _answer(case, assertion, own)
        if answer == "no":
            refused.append((place, f"{_named(place, assertion)} does not hold on its own trace"))
            continue
        why, _ = _on_clean(case, place, assertion, clean, frozenset())
        if why is not None:
            refused.append((place, why))
            continue
        kept.append(assertion)
        if answer == "unknown":
            said.append(f"{_named(place, assertion)} cannot be decided on a trace")
    found = replace(case, assertions=tuple(kept), weak=case.weak or is_weak(kept))
    idle = grade(found, Observation(output="", trace=_idle(own)), ())
    why_not = None
    if not kept:
        why_not = "none of its assertions holds on runs that went well"
    elif idle.result == "pass":
        why_not = "cannot fail: an agent that does nothing passes it"
    return Soundness(case=found, refused=tuple(refused), why_not=why_not, said=tuple(said))


def notes_of(checked: Sequence[Soundness]) -> tuple[str, ...]:
    """What was refused over many cases, one sentence a reason, the most frequent first."""
    reasons: Counter[str] = Counter()
    for one in checked:
        reasons.update(f"an assertion is left out: {why}" for _, why in one.refused)
        if one.why_not is not None:
            reasons[f"not a target: {one.why_not}"] += 1
    return tuple(
        why if count == 1 else f"{why} ({count} cases)"
        for why, count in sorted(reasons.items(), key=lambda kv: (-kv[1], kv[0]))
    )


def _on_clean(
    case: Case,
    place: int,
    assertion: JsonObject,
    clean: Sequence[Witness],
    alike: frozenset[str],
) -> tuple[str | None, str | None]:
    """(why the assertion is refused, what could not be said of it)."""
    kind = _kind(assertion)
    name = _named(place, assertion)
    comparable = [one for one in clean if _comparable(case, kind, one, alike)]
    answers = [_answer(case, assertion, one) for one in comparable]
    decided = [one for one in answers if one != "unknown"]
    if comparable and not decided:
        return None, f"{name} cannot be decided on a trace"
    failed = decided.count("no")
    if len(decided) < MIN_CLEAN:
        runs = f"{len(decided)} clean run{'s' * (len(decided) != 1)}"
        return None, f"{name} is not tried: {runs} to compare with, {MIN_CLEAN} are needed"
    tolerated = TOLERATED_TOOLS if kind in _TOOLS else TOLERATED
    if failed > tolerated * len(decided) + 1e-9:
        return f"{name} fails on {failed} of {len(decided)} clean runs", None
    return None, None


def _comparable(case: Case, kind: str, clean: Witness, alike: frozenset[str]) -> bool:
    """Whether a clean run can say something of an assertion of this kind."""
    if kind in _EVERYWHERE or kind in _LIMITS:
        return True
    same = clean.family == family_key(case.input)
    return same or (kind in _TOOLS and not alike.isdisjoint(clean.tools))


def _on_evidence(case: Case, evidence: Witness) -> tuple[str | None, list[str]]:
    """(why the case cannot fail where it must, what could not be decided there)."""
    seen = evidence.observation
    if outage(seen) is not None:
        return "its evidence is a provider's outage, which the gate does not count", []
    if seen.error is not None:
        return None, []  # an agent's own error is a fail, whatever is asserted
    answers = [_answer(case, one, evidence) for one in case.assertions]
    if "no" in answers:
        return None, []
    unknown = [
        f"{_named(place, one)} cannot be decided on the evidence"
        for place, (one, answer) in enumerate(zip(case.assertions, answers, strict=True), start=1)
        if answer == "unknown"
    ]
    if len(unknown) == len(answers):
        return "nothing of it can be decided on the evidence", unknown
    held = (one for one, said in zip(case.assertions, answers, strict=True) if said == "yes")
    kinds = ", ".join(dict.fromkeys(map(_kind, held)))
    return f"cannot fail on the evidence: {kinds} held in the failing run", unknown


def _answer(case: Case, assertion: JsonObject, run: Witness) -> Answer:
    """What one assertion says of one recorded run."""
    kind = _kind(assertion)
    if not _decidable(kind, run):
        return "unknown"
    graded = grade(replace(case, assertions=(assertion,)), run.observation, run.symptoms)
    answer = _ANSWERS[graded.result]
    if kind in _TOOLS and not run.whole_calls and answer == "no" and _arguments(assertion):
        return "unknown"
    return answer


def _decidable(kind: str, run: Witness) -> bool:
    """Whether enough of the run was recorded to ask an assertion of this kind."""
    if kind in _TEXT:
        return run.answered and run.whole_answer
    if kind == "not_empty":
        return run.answered
    if kind == "max_seconds":
        return run.timed
    if kind in _CALLS_MATTER:
        return run.whole_calls
    return kind in _FROM_TRACES


def _arguments(assertion: JsonObject) -> bool:
    argument = next(iter(assertion.values()), None)
    return isinstance(argument, Mapping) and bool(argument.get("args"))


def _idle(own: Witness) -> Trace | None:
    """A run of the same agent in which nothing happened."""
    trace = own.observation.trace
    return None if trace is None else replace(trace, spans=(replace(trace.root, output=None),))


def _kind(assertion: JsonObject) -> str:
    return next(iter(assertion), "?")


def _named(place: int, assertion: JsonObject) -> str:
    """By kind and place alone: the case may be sealed."""
    return f"{_kind(assertion)} (assertion {place})"
