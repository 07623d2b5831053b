"""Field cases of the kinds that exist: expected findings are there, false alarms are not.

Kinds that no detector covers yet are named in `NOT_COVERED`; their findings are left out here.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from connectors.traces.files import FilesSource
from contracts.traces import TraceQuery
from nodes.insights.analyze import Analysis, analyze
from nodes.insights.targets import target_cases
from tests.trace_worlds import FIELD_CASES

KINDS = {
    "loop": {"repeated_call"},
    "tool_error": {"tool_error", "tool_timeout"},
    "invented_tool": {"tool_error"},
    "wrong_arguments": {"tool_error"},
    "malformed_output": {"malformed_output"},
    "rate_limit": {"rate_limit"},
}
NOT_COVERED = {"unsupported_claim"}
CASES = [
    "08-same-command-until-the-limit",
    "10-polling-is-work",
    "11-handoff-tool-name-doubled",
    "12-wrong-argument-name-looks-like-a-crash",
    "15-results-of-a-script-that-never-ran",
    "17-nothing-found-is-exit-one",
    "20-fenced-and-inner-fence",
    "22-failed-once-then-fine",
]


def analysis_of(case: str) -> Analysis:
    source = FilesSource([FIELD_CASES / case / "spans.otlp.jsonl"])
    return asyncio.run(analyze(source, TraceQuery(), project="field"))


def expected_of(case: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FIELD_CASES / case / "expected.json").read_text())
    return found


@pytest.mark.parametrize("case", CASES)
def test_every_expected_finding_is_found_at_its_span(case: str) -> None:
    analysis = analysis_of(case)
    for expected in expected_of(case)["findings"]:
        if expected["kind"] in NOT_COVERED or expected.get("optional"):
            continue
        spans = {expected["span"], *expected.get("span_also_ok", [])}
        kinds = set().union(*(KINDS.get(k, {k}) for k in [expected["kind"]]))
        hits = [
            s
            for s in analysis.symptoms
            if s.trace_id == expected["trace"] and s.span_id in spans and s.kind in kinds
        ]
        assert hits, f"nothing of {kinds} at {spans}"
        finding = next(f for f in analysis.findings if f.signature == hits[0].signature)
        assert finding.remedy in expected["remedy"]


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_found_where_nothing_failed(case: str) -> None:
    analysis = analysis_of(case)
    for clean in expected_of(case).get("not_findings", []):
        hits = [
            s
            for s in analysis.symptoms
            if s.trace_id == clean["trace"] and clean.get("span", s.span_id) == s.span_id
        ]
        assert hits == []


def test_a_loop_until_the_limit_is_one_finding_that_shows_how_it_ended() -> None:
    analysis = analysis_of("08-same-command-until-the-limit")
    (finding,) = analysis.findings
    assert finding.signature == "repeated_call:bash"
    assert finding.remedy != "infrastructure"
    assert "step limit 13 used up" in analysis.symptoms[0].evidence.quote


def test_an_invented_tool_is_one_finding_that_names_the_nearest() -> None:
    analysis = analysis_of("11-handoff-tool-name-doubled")
    (finding,) = analysis.findings
    assert len(analysis.symptoms) == 3
    assert finding.diagnosis.cause == "unknown_tool"
    assert "transfer_to_agent_Vq29x-C0wu7yu." in finding.diagnosis.summary
    assert not finding.text_fixable


def test_a_wrong_argument_name_shows_what_the_schema_takes() -> None:
    (finding,) = analysis_of("12-wrong-argument-name-looks-like-a-crash").findings
    diagnosis = finding.diagnosis
    assert diagnosis.cause == "wrong_argument_format"
    assert diagnosis.parameters["argument"] == "slug"
    assert diagnosis.parameters["bad_example"] == "page_title"
    assert "infrastructure" not in diagnosis.remedies


def test_a_failed_program_is_not_hidden_by_a_good_looking_end() -> None:
    (finding,) = analysis_of("15-results-of-a-script-that-never-ran").findings
    assert finding.kind == "tool_error"


def test_the_fallback_shows_that_fenced_json_did_harm() -> None:
    analysis = analysis_of("20-fenced-and-inner-fence")
    assert [(s.kind, s.recovered) for s in analysis.symptoms] == [("malformed_output", False)]


def test_what_was_recovered_from_is_shown_and_not_counted() -> None:
    analysis = analysis_of("22-failed-once-then-fine")
    (symptom,) = analysis.symptoms
    assert (symptom.kind, symptom.recovered, symptom.severity) == ("rate_limit", True, "low")
    assert analysis.findings == ()


def test_a_failing_input_becomes_a_case() -> None:
    analysis = analysis_of("12-wrong-argument-name-looks-like-a-crash")
    (finding,) = analysis.findings
    seen = analysis.evidence[finding.id]
    (case,) = target_cases(finding, seen.failing, seen.passing, max_targets=5, seed=1)
    assert case.input == {"message": "Summarise the page on parking."}
    assert case.tags == {"target"}
    assert case.weak


def test_the_copied_cases_are_the_ones_that_are_tested() -> None:
    assert all(Path(FIELD_CASES / case / "expected.json").exists() for case in CASES)
