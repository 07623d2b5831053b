"""Field cases of detection and diagnosis: what is expected is found, and nothing else counts.

The table is every case's own `expected.json`; `KINDS` maps its short words to our kinds.
"""

import asyncio
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from connectors.traces.files import FilesSource
from contracts.findings import Finding, Symptom
from contracts.traces import TraceQuery
from nodes.insights.analyze import Analysis, analyze
from nodes.insights.targets import target_cases
from tests.trace_worlds import FIELD_CASES

KINDS = {
    "loop": {"repeated_call"},
    "tool_error": {"tool_error", "tool_timeout"},
    "service_error": {"tool_error", "tool_timeout"},
    "not_found": {"tool_error"},
    "wrong_arguments": {"tool_error"},
    "invented_tool": {"invented_tool"},
    "swallowed_error": {"swallowed_error", "tool_error"},
}
"""The other words are the names of our kinds."""
AREAS = ("detect", "diagnose")
ALSO = ("04-empty-page-in-the-middle", "39-key-on-its-way-into-a-lesson",
        "40-the-rule-is-already-there")  # fmt: skip
"""Cases of other areas that have findings too."""
CASES = sorted(
    path.parent.name
    for path in FIELD_CASES.glob("*/expected.json")
    if json.loads(path.read_text())["area"] in AREAS or path.parent.name in ALSO
)


def files_of(case: str) -> list[Path]:
    folder = FIELD_CASES / case
    return sorted(
        path
        for path in (*folder.glob("*"), *folder.glob("run_a/*"))
        if path.name.startswith(("spans", "observations", "page"))
    )


@cache
def analysis_of(case: str) -> Analysis:
    return asyncio.run(analyze(FilesSource(files_of(case)), TraceQuery(), project="field"))


@cache
def expected_of(case: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FIELD_CASES / case / "expected.json").read_text())
    return found


def counted(case: str) -> list[Symptom]:
    return [symptom for symptom in analysis_of(case).symptoms if symptom.counts]


def fits(symptom: Symptom, expected: dict[str, Any]) -> bool:
    words = [expected["kind"], *expected.get("kind_also_ok", [])]
    kinds = set[str]().union(*(KINDS.get(word, {word}) for word in words))
    spans = {expected["span"], *expected.get("span_also_ok", [])}
    spans |= set(expected.get("evidence_spans", []))
    return (
        symptom.trace_id == expected["trace"] and symptom.kind in kinds and symptom.span_id in spans
    )


def finding_of(case: str, symptom: Symptom) -> Finding:
    return next(f for f in analysis_of(case).findings if f.signature == symptom.signature)


def only(case: str, kind: str) -> Finding:
    (found,) = [finding for finding in analysis_of(case).findings if finding.kind == kind]
    return found


def quotes(case: str, kind: str) -> str:
    return "\n".join(s.evidence.quote for s in analysis_of(case).symptoms if s.kind == kind)


@pytest.mark.parametrize("case", CASES)
def test_every_expected_finding_is_found_at_its_span_with_a_right_remedy(case: str) -> None:
    for expected in expected_of(case)["findings"]:
        hits = [symptom for symptom in counted(case) if fits(symptom, expected)]
        if expected.get("optional"):
            continue
        spans = {expected["span"], *expected.get("span_also_ok", [])}
        assert hits, f"nothing of {expected['kind']} in {expected['trace']}"
        assert hits[0].span_id in spans
        assert finding_of(case, hits[0]).remedy in expected.get("remedy", ["tool", "data"])


@pytest.mark.parametrize("case", CASES)
def test_nothing_else_counts(case: str) -> None:
    expected = expected_of(case)
    loose = set().union(*(KINDS.get(x["kind"], {x["kind"]}) for x in expected.get("also_ok", [])))
    if case.startswith("04"):
        loose.add("unsupported_claim")  # "answer says done": named in the note
    right = {s.signature for s in counted(case) for x in expected["findings"] if fits(s, x)}
    rest = {s.signature for s in counted(case) if s.kind not in loose}
    assert rest - right == set()


@pytest.mark.parametrize("case", CASES)
def test_nothing_counts_where_nothing_failed(case: str) -> None:
    for clean in expected_of(case).get("not_findings", []):
        hits = [
            symptom
            for symptom in counted(case)
            if clean.get("trace", symptom.trace_id) == symptom.trace_id
            and clean.get("span", symptom.span_id) == symptom.span_id
        ]
        assert hits == []


@pytest.mark.parametrize("case", CASES)
def test_traces_share_a_finding_exactly_where_they_should(case: str) -> None:
    for group in expected_of(case).get("signatures", {}).get("same", []):
        names = [{s.signature for s in counted(case) if s.trace_id == t} for t in group]
        assert names[0]
        assert all(name == names[0] for name in names)


def test_a_loop_until_the_limit_is_one_finding_that_shows_how_it_ended() -> None:
    finding = only("08-same-command-until-the-limit", "repeated_call")
    assert finding.signature == "repeated_call:bash"
    assert finding.remedy != "infrastructure"
    assert "step limit 13 used up" in quotes("08-same-command-until-the-limit", "repeated_call")


def test_an_invented_tool_is_one_finding_that_names_the_nearest() -> None:
    case = "11-handoff-tool-name-doubled"
    (finding,) = analysis_of(case).findings
    assert len(counted(case)) == 3
    assert finding.diagnosis.cause == "unknown_tool"
    assert "transfer_to_agent_Vq29x-C0wu7yu." in finding.diagnosis.summary
    assert not finding.text_fixable


def test_a_wrong_argument_name_shows_what_the_schema_takes() -> None:
    diagnosis = only("12-wrong-argument-name-looks-like-a-crash", "tool_error").diagnosis
    assert diagnosis.cause == "wrong_argument_format"
    assert diagnosis.parameters["argument"] == "slug"
    assert diagnosis.parameters["bad_example"] == "page_title"
    assert "infrastructure" not in diagnosis.remedies


def test_the_failing_value_of_an_ordinary_answer_is_in_the_signature() -> None:
    findings = analysis_of("14-ok-false-inside-200").findings
    assert [str(finding.signature) for finding in findings] == [
        "unsupported_claim:post_message",
        "tool_error:post_message:channel_not_found",
    ]


def test_a_claim_ranks_above_the_missing_interpreter_and_says_that_the_rule_is_there() -> None:
    case = "15-results-of-a-script-that-never-ran"
    claim, missing = analysis_of(case).findings
    assert (claim.kind, missing.kind) == ("unsupported_claim", "tool_error")
    assert claim.score > missing.score
    assert "Line 1 of the instructions asks for it already" in claim.diagnosis.summary
    assert claim.diagnosis.parameters["already"] == "line-1"
    assert missing.remedy == "infrastructure"


def test_a_search_without_matches_and_a_failed_search_share_no_signature() -> None:
    assert {s.trace_id[:8] for s in counted("17-nothing-found-is-exit-one")} == {"e758251f"}


def test_the_fallback_shows_that_fenced_json_did_harm() -> None:
    found = [(s.kind, s.recovered) for s in counted("20-fenced-and-inner-fence")]
    assert found == [("malformed_output", False)]


def test_what_was_recovered_from_is_shown_and_not_counted() -> None:
    analysis = analysis_of("22-failed-once-then-fine")
    (symptom,) = [s for s in analysis.symptoms if s.kind == "rate_limit"]
    assert (symptom.kind, symptom.recovered, symptom.severity) == ("rate_limit", True, "low")
    assert analysis.findings == ()


def test_a_lost_rule_is_told_with_the_fall_in_tokens_and_no_text_is_asked_for_first() -> None:
    case = "23-rule-lost-in-the-summary"
    finding = only(case, "lost_context")
    assert "absent from the messages of the failing call" in finding.diagnosis.summary
    assert "prompt tokens 91000 to 2100" in finding.diagnosis.summary
    assert "never put ticket numbers into commit titles" in quotes(case, "lost_context")
    assert finding.remedy == "infrastructure"
    (symptom,) = counted(case)
    assert (symptom.span_id, symptom.shown_at) == ("4a66165b2932689b", "02275230189999f9")


def test_agents_that_pass_the_parcel_are_one_finding_that_quotes_both_instructions() -> None:
    case = "25-two-agents-pass-the-parcel"
    (finding,) = analysis_of(case).findings
    assert "Send tax questions to Tax." in quotes(case, "handoff_error")
    assert "Send invoice questions to Billing." in quotes(case, "handoff_error")
    assert finding.diagnosis.remedies == ("instructions",)


def test_a_client_without_patience_counts_once_and_is_no_case_for_text() -> None:
    case = "26-refused-by-a-client-without-patience"
    (finding,) = analysis_of(case).findings
    assert finding.units == 1
    assert not finding.text_fixable
    assert "no model turn between them" in finding.diagnosis.summary
    assert "pauses of at most 2 ms" in finding.diagnosis.summary
    assert finding.diagnosis.parameters["calls"] == 10


def test_an_expired_token_is_one_finding_without_ids_or_fragments() -> None:
    case = "28-expired-token-in-a-200"
    (finding,) = analysis_of(case).findings
    assert (str(finding.signature), finding.units) == ("auth:search_page", 2)
    assert "Renew the login" in finding.diagnosis.summary
    assert not finding.text_fixable
    shown = str(analysis_of(case).symptoms) + str(analysis_of(case).evidence)
    assert "a1f9.." not in shown
    assert "77c0.." not in shown


def test_a_full_window_is_told_at_the_answer_that_filled_it_with_its_size() -> None:
    case = "30-one-answer-fills-the-window"
    finding = only(case, "context_overflow")
    assert "33,299 bytes" in finding.diagnosis.summary
    assert finding.diagnosis.remedies == ("tool", "instructions", "skill")
    assert len(str(analysis_of(case).evidence)) < 6_000  # the log of 33 kB is nowhere in it
    (symptom,) = counted(case)
    assert symptom.shown_at == "511f3614fa7f53fc"


def test_an_instruction_that_cannot_be_followed_is_named_by_its_line() -> None:
    case = "32-asked-for-lessons-that-do-not-exist"
    (finding,) = analysis_of(case).findings
    assert finding.diagnosis.cause == "empty_slot"
    assert "(line 3)" in finding.diagnosis.summary
    assert "Past lessons" in quotes(case, "unsupported_claim")


def test_a_missing_setting_is_named() -> None:
    diagnosis = only("39-key-on-its-way-into-a-lesson", "tool_error").diagnosis
    assert diagnosis.cause == "missing_setting"
    assert diagnosis.parameters["setting"] == "REPORT_BUCKET"


def test_a_rule_that_is_there_is_told_with_its_line() -> None:
    diagnosis = only("40-the-rule-is-already-there", "ignored_instruction").diagnosis
    assert "Line 9 of the instructions asks for it already" in diagnosis.summary
    assert diagnosis.remedies == ("instructions",)


def test_a_failing_input_becomes_a_case() -> None:
    analysis = analysis_of("12-wrong-argument-name-looks-like-a-crash")
    finding = only("12-wrong-argument-name-looks-like-a-crash", "tool_error")
    seen = analysis.evidence[finding.id]
    (case,) = target_cases(finding, seen.failing, seen.passing, max_targets=5, seed=1).cases
    assert case.input == {"message": "Summarise the page on parking."}
    assert case.tags == {"target"}
    assert case.weak


def test_all_cases_of_both_areas_are_tested() -> None:
    assert len(CASES) == 10 + 6 + len(ALSO)
