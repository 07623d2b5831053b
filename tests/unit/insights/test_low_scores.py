"""Scores of evaluators and people are failures where the settings say so, and only there."""

from dataclasses import replace

import pytest

from configs.settings import ScoreRule
from contracts.findings import Symptom
from contracts.json_types import Json
from contracts.traces import Score, SpanId, Trace, TraceQuery
from nodes.insights.analyze import analyze
from nodes.insights.detect.all import detect
from nodes.insights.detect.faults import Scans
from tests.trace_worlds import MemorySource, root, span_id, tool, trace_of


def scored(value: float | bool | str | None, name: str = "helpful", *, span: int = -1) -> Trace:
    about = SpanId(span_id(span)) if span >= 0 else None
    score = Score(name=name, value=value, source="eval", comment="rude", span_id=about)
    return replace(trace_of(root(), tool(1, "look", {}, {"found": 1})), scores=(score,))


def judged(trace: Trace, *rules: ScoreRule) -> list[Symptom]:
    return [s for s in detect(trace, Scans(), scores=rules).symptoms if s.kind == "low_score"]


@pytest.mark.parametrize(
    ("value", "rule", "fails"),
    [
        (0.2, ScoreRule(name="helpful", below=0.5), True),
        (0.5, ScoreRule(name="helpful", below=0.5), False),
        (9, ScoreRule(name="helpful", above=5), True),
        (False, ScoreRule(name="helpful", below=1), True),
        (True, ScoreRule(name="helpful", below=1), False),
        ("Bad", ScoreRule(name="helpful", equals=("bad", "awful")), True),
        ("good", ScoreRule(name="helpful", equals=("bad",)), False),
        ("0.1", ScoreRule(name="helpful", below=0.5), True),
        (None, ScoreRule(name="helpful", below=0.5), False),
        (0.2, ScoreRule(name="other", below=0.5), False),
    ],
)
def test_a_score_fails_by_its_rule(
    value: float | bool | str | None, rule: ScoreRule, fails: bool
) -> None:
    assert bool(judged(scored(value), rule)) is fails


def test_without_rules_no_score_is_looked_at() -> None:
    assert judged(scored(0.0)) == []


def test_a_score_counts_with_the_severity_of_its_rule_at_the_step_it_is_about() -> None:
    rule = ScoreRule(name="helpful", below=0.5, severity="critical")
    (found,) = judged(scored(0.1, span=1), rule)
    assert (found.counts, found.severity, found.span_id) == (True, "critical", span_id(1))
    assert found.signature == "low_score:helpful"
    assert "0.1 by eval: rude" in found.evidence.quote
    (category,) = judged(scored("bad"), ScoreRule(name="helpful", equals=("bad",)))
    assert (category.signature, category.span_id) == ("low_score:helpful:bad", span_id(0))


async def test_a_low_score_is_a_finding_that_asks_for_no_edit() -> None:
    rule = ScoreRule(name="helpful", below=0.5)
    source = MemorySource([scored(0.1)])
    found = await analyze(source, TraceQuery(), project="p", scores=[rule])
    (finding,) = found.findings
    assert (finding.kind, finding.diagnosis.remedies) == ("low_score", ("none",))
    assert not finding.text_fixable
    assert (await analyze(source, TraceQuery(), project="p")).findings == ()


def evaluated(**attributes: Json) -> Trace:
    step = tool(1, "look", {}, {"found": 1})
    event: dict[str, Json] = {
        "name": "gen_ai.evaluation.result",
        "attributes": [
            {"key": f"gen_ai.evaluation.{key.replace('__', '.')}", "value": value}
            for key, value in attributes.items()
        ],
    }
    return trace_of(root(), {**step, "events": [event]})


def test_evaluations_that_opentelemetry_records_as_events_are_scores() -> None:
    (number,) = evaluated(
        name={"stringValue": "Relevance"},
        score__value={"doubleValue": 0.25},
        explanation={"stringValue": "off topic"},
    ).scores
    assert (number.name, number.value, number.comment) == ("Relevance", 0.25, "off topic")
    assert (number.span_id, number.source) == (span_id(1), "eval")
    label = evaluated(name={"stringValue": "Tone"}, score__label={"stringValue": "rude"})
    assert [score.value for score in label.scores] == ["rude"]
    assert evaluated(score__value={"doubleValue": 0.25}).scores == ()


def test_a_recorded_error_type_on_a_step_without_status_is_a_failure() -> None:
    step = {**tool(1, "pay", {}), "status": {}}
    attributes = step["attributes"]
    assert isinstance(attributes, list)
    typed: Json = {"key": "error.type", "value": {"stringValue": "ReadTimeout"}}
    failed = trace_of(root("pay", "I could not pay."), {**step, "attributes": [*attributes, typed]})
    (symptom,) = [s for s in detect(failed, Scans()).symptoms if s.counts]
    assert symptom.signature == "tool_timeout:pay:ReadTimeout"
    fine = trace_of(root("pay", "I could not pay."), step)
    assert [s for s in detect(fine, Scans()).symptoms if s.counts] == []
