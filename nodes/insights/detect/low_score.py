"""A recorded score or feedback that the settings name as a failure.

Meaning: an evaluator, a person or a user judged the trace, and `analysis.scores` says that such a
judgement is a failure. Evidence: name, value, who judged, and the comment. Without rules no score
is looked at. Known limits: a score is taken at its word.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from configs.settings import ScoreRule
from contracts.findings import Severity
from contracts.traces import Score
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.view import View

KIND = "low_score"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One hit and the severity that its rule gives it."""

    hit: Hit
    severity: Severity


def low_scores(view: View, rules: Sequence[ScoreRule]) -> Iterator[Judged]:
    """One for each rule that some score of the trace breaks; the first score tells."""
    for rule in rules:
        score = next((s for s in view.trace.scores if s.name == rule.name and fails(s, rule)), None)
        if score is not None:
            yield Judged(hit=_hit(view, score), severity=rule.severity)


def fails(score: Score, rule: ScoreRule) -> bool:
    """Whether the rule calls the score a failure; a score without a value is none."""
    value = score.value
    if isinstance(value, str):
        wanted = {category.strip().lower() for category in rule.equals}
        if value.strip().lower() in wanted:
            return True
        value = _number(value)
    if value is None:
        return False
    number = float(value)
    if str(value).lower() in {category.lower() for category in rule.equals}:
        return True
    below = rule.below is not None and number < rule.below
    return below or (rule.above is not None and number > rule.above)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _hit(view: View, score: Score) -> Hit:
    span = view.by_id.get(score.span_id) if score.span_id is not None else None
    said = f": {score.comment}" if score.comment else ""
    return Hit(
        kind=KIND,
        span=span or view.trace.root,
        message=f"{score.name} is {score.value} by {score.source or 'unknown'}{said}",
        field="score",
        place=score.name,
        code=score.value if isinstance(score.value, str) and _number(score.value) is None else None,
        template="a recorded score is a failure by the settings",
        facts={"score": score.name, "source": score.source},
    )
