"""Several independent answers of a model, and who wins: they, or what the rules found. Pure.

Rules and answers are joined in this order:
1. Fewer than half of the answers that were asked for can be counted: the rules stand, and no
   agreement is given.
2. Most answers name the cause and remedy of the rules: both stand together, surer than before.
3. The rules rest on hard evidence: they stand, whatever the answers say, and the summary says that
   the analyst disagreed. Hard is a confidence of .75 or more, and a cause that the record itself
   states (a status, an exception of the host's code).
4. Most answers name one other cause and remedy: theirs is the diagnosis. Where that makes text of
   what the rules would hand off, or the reverse, the summary says so.
5. No cause and remedy has most answers: the rules stand, less sure, and the summary says so.

Never from an answer: parameters of playbooks, `none` as a remedy, an edit for a cause of which the
taxonomy knows no remedy in text, or anything that is not in the closed lists.

With r the rules' confidence, a the share of counted answers that agree with what stands, v the
share of answers that count, and m the mean confidence of those that agree, the confidence is
`r + (1 - r) * a * v * m / 2` in case 2, `.8 * a * v * m` in case 4, and in cases 3 and 5
`r * (1 - d * v * (1 - a))` with d .25 where the evidence is hard, else .5. It is never over .95.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import Final

from configs.taxonomy import Cause
from connectors.review.clean import one_line
from contracts.findings import TEXT_REMEDIES, Diagnosis, Remedy

OTHER: Final = "other"
"""A cause that the taxonomy does not know."""
HARD: Final = 0.75
"""Confidence of rules from which on no answer outvotes them."""
STATED: Final = frozenset(
    {"rate_limited", "access_refused", "exception_in_code", "tool_unavailable"}
)
"""Causes that the record itself states, however sure the rules are of them."""
SUREST: Final = 0.95
MAX_SUMMARY: Final = 300
"""Characters of what a model says, on a card."""
_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]{1,10}://\S+|\bwww\.\S+", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """One answer that counts: it names at least one piece of evidence that there is."""

    cause: str
    remedy: Remedy
    confidence: float
    """0..1, lowered by the share of its evidence that does not exist."""
    summary: str
    falsifier: str


def joined(
    rules: Diagnosis,
    opinions: Sequence[Opinion],
    *,
    asked: int,
    model: str,
    causes: Mapping[str, Cause],
) -> Diagnosis:
    """The diagnosis of a finding; see the module for who wins.

    Args:
        rules: what the rules found; its parameters are kept in any case.
        opinions: the answers that count.
        asked: how many answers were asked for.
        model: `provider:name`.
        causes: of the taxonomy.
    """
    if not opinions or 2 * len(opinions) <= asked:
        return rules
    valid = len(opinions) / asked
    counts = Counter((one.cause, one.remedy) for one in opinions)
    (cause, remedy), most = min(counts.items(), key=lambda item: (-item[1], item[0]))
    majority = 2 * most > len(opinions)
    mine = [one for one in opinions if _same(one, rules)]
    votes = f"{most} of {len(opinions)}"
    if majority and _is_same(cause, remedy, rules):
        return _together(rules, mine, len(opinions), valid, model)
    hard = is_hard(rules)
    if majority and not hard and _can_win(cause, remedy, rules, causes):
        theirs = [one for one in opinions if (one.cause, one.remedy) == (cause, remedy)]
        return _theirs(
            rules, theirs, counted=len(opinions), valid=valid, model=model, causes=causes
        )
    if majority:
        why = "outweighs it" if hard else "stands, since no edit is known for that cause"
        said = f"The analyst disagreed: {votes} say {_named(cause, remedy)}; the evidence of the"
        said = f"{said} rules {why}."
    else:
        said = f"The analyst disagreed with itself: no cause has most of {len(opinions)} answers."
    agreement = len(mine) / len(opinions)
    lowered = rules.confidence * (1 - (0.25 if hard else 0.5) * valid * (1 - agreement))
    return replace(
        rules,
        confidence=lowered,
        summary=f"{rules.summary} {said}",
        agreement=agreement,
    )


def is_hard(rules: Diagnosis) -> bool:
    """Whether no answer outvotes these rules."""
    return rules.confidence >= HARD or rules.cause in STATED


def said(text: str) -> str:
    """A sentence of a model for a card: cleaned, masked, on one line, without addresses."""
    return one_line(_ADDRESS.sub("[address]", text[: 20 * MAX_SUMMARY]), MAX_SUMMARY)


def _same(one: Opinion, rules: Diagnosis) -> bool:
    return _is_same(one.cause, one.remedy, rules)


def _is_same(cause: str, remedy: Remedy, rules: Diagnosis) -> bool:
    """Instructions or a skill are the same to a cause: text. The rules say which comes first."""
    if cause != rules.cause:
        return False
    return remedy == rules.remedies[0] or {remedy, rules.remedies[0]} <= TEXT_REMEDIES


def _can_win(cause: str, remedy: Remedy, rules: Diagnosis, causes: Mapping[str, Cause]) -> bool:
    """No edit for a cause that the taxonomy, or the rules themselves, know no edit for."""
    if remedy not in TEXT_REMEDIES:
        return True
    if cause == rules.cause:
        return any(r in TEXT_REMEDIES for r in rules.remedies)
    known = causes.get(cause)
    return known is not None and remedy in known.remedies


def _together(
    rules: Diagnosis, mine: Sequence[Opinion], counted: int, valid: float, model: str
) -> Diagnosis:
    agreement = len(mine) / counted
    sure = agreement * valid * _mean(mine)
    best = _best(mine)
    return replace(
        rules,
        confidence=_capped(rules.confidence + (1 - rules.confidence) * sure / 2),
        summary=f"{rules.summary} The analyst agrees ({len(mine)} of {counted}): {best.summary}",
        agreement=agreement,
        by=f"rules+model:{model}",
    )


def _theirs(
    rules: Diagnosis,
    theirs: Sequence[Opinion],
    *,
    counted: int,
    valid: float,
    model: str,
    causes: Mapping[str, Cause],
) -> Diagnosis:
    agreement = len(theirs) / counted
    best = _best(theirs)
    remedies = _remedies(best.cause, best.remedy, causes)
    notes = [f"The analyst ({len(theirs)} of {counted}): {best.summary}"]
    notes.append(f"The rules said {_named(rules.cause, rules.remedies[0])}.")
    was_text, is_text = _text(rules.remedies), _text(remedies)
    if is_text and not was_text:
        notes.append("By the rules alone this would be handed off, not edited.")
    if was_text and not is_text:
        notes.append("By the rules alone an edit would be drafted.")
    return Diagnosis(
        cause=best.cause,
        remedies=remedies,
        confidence=_capped(0.8 * agreement * valid * _mean(theirs)),
        summary=" ".join(notes),
        falsifier=best.falsifier,
        parameters=rules.parameters,
        agreement=agreement,
        by=f"model:{model}",
    )


def _remedies(cause: str, remedy: Remedy, causes: Mapping[str, Cause]) -> tuple[Remedy, ...]:
    """What most answers say; then the cause's others, but text only where they said text."""
    known = causes[cause].remedies if cause in causes else ()
    others = [r for r in known if r != remedy and (r not in TEXT_REMEDIES or _text((remedy,)))]
    return (remedy, *others)


def _text(remedies: Sequence[Remedy]) -> bool:
    return any(r in TEXT_REMEDIES for r in remedies)


def _best(opinions: Sequence[Opinion]) -> Opinion:
    """The surest; of equals the one whose words come first, whatever their order."""
    return min(opinions, key=lambda one: (-one.confidence, one.summary))


def _mean(opinions: Sequence[Opinion]) -> float:
    return fsum(one.confidence for one in opinions) / len(opinions)  # the same in any order


def _capped(confidence: float) -> float:
    return min(SUREST, confidence)


def _named(cause: str, remedy: Remedy) -> str:
    return f"{cause.replace('_', ' ')} (fix: {remedy})"
