"""Grading: each kind by what a person would say, and nothing unknown as a pass."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from contracts.findings import Evidence, Signature, Symptom
from contracts.gate import Case, CaseId, RunResult
from contracts.harness import Observation, Usage
from contracts.json_types import Json, JsonObject, sha256_hex
from contracts.traces import Message, Payload, Span, SpanError, SpanId, SpanKind, Trace, TraceId
from nodes.gate.score import Answer, arguments, grade
from nodes.insights.signature import matches

START = datetime(2026, 1, 5, 9, tzinfo=UTC)


def asserting(*assertions: JsonObject) -> Case:
    return Case(
        id=CaseId("c-1"), input="x", assertions=assertions, tags=frozenset({"target"}),
        family="f", origin="file:x",
    )  # fmt: skip


def span(
    number: int, kind: SpanKind, name: str, given: Json | str = None, error: SpanError | None = None
) -> Span:
    text = given if isinstance(given, str) else ""
    return Span(
        id=SpanId(f"s{number}"), trace_id=TraceId("t"), parent_id=None, name=name, kind=kind,
        status="error" if error else "ok", started_at=START + timedelta(seconds=number),
        ended_at=None, error=error, tool_name=name if kind == "tool" else None,
        input=None if given is None else Payload(
            text=text, value=None if isinstance(given, str) else given, size_bytes=len(text),
            sha256=sha256_hex(text.encode()),
        ),
    )  # fmt: skip


def traced(*spans: Span) -> Trace:
    return Trace(id=TraceId("t"), spans=(span(0, "agent", "root"), *spans))


def symptom(signature: str, *, recovered: bool = False) -> Symptom:
    return Symptom(
        trace_id=TraceId("t"), unit="t", span_id=SpanId("s1"), kind="tool_error",
        signature=Signature(signature), severity="high", detector="d", template="",
        evidence=Evidence(field="output", quote="", start=0), at=START, recovered=recovered,
    )  # fmt: skip


def result(
    assertion: JsonObject, output: Json = "ok", *, trace: Trace | None = None,
    symptoms: Sequence[Symptom] = (), seconds: float = 1.0, cost_usd: float | None = None,
) -> RunResult:  # fmt: skip
    seen = Observation(output=output, trace=trace, seconds=seconds, usage=Usage(cost_usd=cost_usd))
    return grade(asserting(assertion), seen, symptoms).result


@pytest.mark.parametrize(
    ("assertion", "output", "expected"),
    [
        ({"not_empty": True}, "done", "pass"),
        ({"not_empty": True}, " \n", "fail"),
        ({"not_empty": True}, None, "fail"),
        ({"not_empty": True}, {"message": ""}, "fail"),
        ({"not_empty": True}, {"count": 0}, "pass"),
        ({"equals": {"a": 1}}, {"a": 1.0}, "pass"),
        ({"equals": 1}, True, "fail"),
        ({"contains": "queued"}, "It is queued.", "pass"),
        ({"contains": "queued"}, "It is not.", "fail"),
        ({"contains": 'say "hi"'}, {"message": 'I say "hi"'}, "pass"),
        ({"not_contains": 'say "hi"'}, {"message": 'I say "hi"'}, "fail"),
        ({"not_contains": "tomorrow"}, "It is queued.", "pass"),
        ({"regex": r"R-\d{4}\b"}, "Refund R-1234.", "pass"),
        ({"regex": r"^R-\d{4}$"}, "Refund R-1234.", "fail"),
        ({"json_schema": {"type": "object", "required": ["id"]}}, '{"id": 1}', "pass"),
        ({"json_schema": {"type": "object", "required": ["id"]}}, {"no": 1}, "fail"),
        ({"json_schema": {"type": "object"}}, "not JSON", "fail"),
        ({"number": 12.5}, "That is 12.50 euros", "pass"),
        ({"number": {"value": 1200, "tolerance": 1}}, "1,200.9 in all", "pass"),
        ({"number": {"value": 1200, "tolerance": 0.5}}, "1,200.9 in all", "fail"),
        ({"number": {"value": 3, "path": "items.1.count"}}, {"items": [1, {"count": 3}]}, "pass"),
        ({"number": {"value": 3, "path": "items.9"}}, {"items": [3]}, "fail"),
        ({"number": 3}, "none", "fail"),
    ],
)
def test_assertions_on_the_answer(assertion: JsonObject, output: Json, expected: RunResult) -> None:
    assert result(assertion, output) == expected


CALLS = traced(
    span(1, "tool", "find_order", {"order_id": "A-1", "fields": ["total"]}),
    span(2, "llm", "model"),
    span(3, "tool", "queue_refund", "{'order_id': 'A-1', 'amount': 5}"),
)


@pytest.mark.parametrize(
    ("assertion", "expected"),
    [
        ({"tool_called": "queue_refund"}, "pass"),
        ({"tool_called": {"name": "queue_refund", "args": {"order_id": "A-1"}}}, "pass"),
        ({"tool_called": {"name": "queue_refund", "args": {"order_id": "A-2"}}}, "fail"),
        ({"tool_called": {"name": "find_order", "args": {"fields": ["total"]}}}, "pass"),
        ({"tool_called": {"name": "model"}}, "fail"),
        ({"tool_not_called": {"name": "cancel"}}, "pass"),
        ({"tool_not_called": "find_order"}, "fail"),
        ({"tool_order": ["find_order", "queue_refund"]}, "pass"),
        ({"tool_order": ["queue_refund", "find_order"]}, "fail"),
        ({"tool_order": ["find_order", "cancel"]}, "fail"),
    ],
)
def test_assertions_on_tool_calls(assertion: JsonObject, expected: RunResult) -> None:
    assert result(assertion, trace=CALLS) == expected


@pytest.mark.parametrize(
    "assertion",
    [
        {"no_symptom": "tool_timeout"}, {"tool_called": "a"}, {"tool_not_called": "a"},
        {"tool_order": ["a", "b"]}, {"max_usd": 1.0},
    ],
)  # fmt: skip
def test_what_was_not_observed_is_missing_never_a_pass(assertion: JsonObject) -> None:
    found = grade(asserting({"not_empty": True}, assertion), Observation(output="ok"), ())
    assert found.result == "missing"
    assert found.failed == (f"{next(iter(assertion))} (assertion 2): unknown",)


def test_arguments_that_cannot_be_read_are_unknown() -> None:
    trace = traced(span(1, "tool", "queue_refund", "order_id=A-1"))
    wanted: JsonObject = {"tool_called": {"name": "queue_refund", "args": {"order_id": "A-1"}}}
    assert result(wanted, trace=trace) == "missing"


@pytest.mark.parametrize(
    "recorded",
    [
        {"order_id": "A-1"}, '{"order_id": "A-1"}', "{'order_id': 'A-1'}",
        {"input": "{'order_id': 'A-1'}"},
        {"name": "queue_refund", "args": {"order_id": "A-1"}, "id": "call_1", "type": "tool_call"},
    ],
)  # fmt: skip
def test_arguments_are_read_in_every_form_recorders_use(recorded: Json) -> None:
    assert arguments(span(1, "tool", "queue_refund", recorded), {}) == {"order_id": "A-1"}


def test_an_argument_that_is_itself_called_input_is_kept() -> None:
    assert arguments(span(1, "tool", "ask", {"input": "hello"}), {}) == {"input": "hello"}


@pytest.mark.parametrize(
    ("signature", "prefix", "expected"),
    [
        ("tool_timeout:payment_api:504", "tool_timeout:payment_api", True),
        ("tool_timeout:payment_api", "tool_timeout:payment_api", True),
        ("tool_timeout:payment_api_v2", "tool_timeout:payment_api", False),
        ("tool_timeout", "tool_timeout:payment_api", False),
    ],
)
def test_a_signature_matches_a_prefix_only_at_a_colon(
    signature: str, prefix: str, expected: bool
) -> None:
    assert matches(signature, prefix) is expected


def test_a_symptom_fails_the_run_unless_the_agent_recovered() -> None:
    wanted: JsonObject = {"no_symptom": "tool_timeout:payment_api"}
    hit = symptom("tool_timeout:payment_api:504")
    assert result(wanted, trace=CALLS, symptoms=[hit]) == "fail"
    healed = symptom("tool_timeout:payment_api:504", recovered=True)
    assert result(wanted, trace=CALLS, symptoms=[healed]) == "pass"
    assert result(wanted, trace=CALLS, symptoms=[symptom("rate_limit:model")]) == "pass"


def test_limits_of_time_and_money() -> None:
    assert result({"max_seconds": 2}, seconds=2.0) == "pass"
    assert result({"max_seconds": 2}, seconds=2.1) == "fail"
    assert result({"max_usd": 0.5}, cost_usd=0.5) == "pass"
    assert result({"max_usd": 0.5}, cost_usd=0.6) == "fail"


def test_each_assertion_that_does_not_hold_is_named_without_its_text() -> None:
    case = asserting({"contains": "a secret"}, {"not_empty": True}, {"equals": "b"})
    found = grade(case, Observation(output="x", usage=Usage(cost_usd=0.1, input_tokens=3)), ())
    assert (found.result, found.cost_usd, found.input_tokens) == ("fail", 0.1, 3)
    assert found.failed == ("contains (assertion 1)", "equals (assertion 3)")


def test_one_failed_assertion_outweighs_one_unknown() -> None:
    case = asserting({"tool_called": "a"}, {"equals": "b"})
    assert grade(case, Observation(output="x"), ()).result == "fail"


def test_a_run_that_was_not_observed_is_missing() -> None:
    found = grade(asserting({"not_empty": True}), Observation(missing="protocol: no answer"), ())
    assert (found.result, found.failed) == ("missing", ("not observed: protocol",))


def test_the_agents_own_error_is_a_fail_named_by_its_class_alone() -> None:
    seen = Observation(error="GraphRecursionError: limit with a customer's name")
    found = grade(asserting({"not_empty": True}), seen, ())
    assert (found.result, found.failed) == ("fail", ("agent error: GraphRecursionError",))


@pytest.mark.parametrize(
    "seen",
    [
        Observation(error="AuthenticationError: 401"),
        Observation(error="openai.RateLimitError: Error code: 429 - {'error': 'slow down'}"),
        Observation(output="Error code: 401 - {'error': {'message': 'Incorrect API key'}}"),
        Observation(output={"message": "anthropic.InternalServerError: overloaded"}),
        Observation(
            output="Sorry, an error came up.",
            trace=traced(
                span(1, "llm", "m", error=SpanError(type="openai.APIConnectionError", message="x"))
            ),
        ),
    ],
)
def test_a_providers_error_is_missing_whatever_the_text_matches(seen: Observation) -> None:
    found = grade(asserting({"regex": "[Ee]rror|401"}), seen, ())
    assert found.result == "missing"


@pytest.mark.parametrize(
    "seen",
    [
        Observation(output="The payment API answered with error 504, so nothing was refunded."),
        Observation(output="Your AuthenticationError: 401 means that the key is wrong."),
        Observation(
            output="AuthenticationError: the shop refused",
            trace=traced(
                span(1, "tool", "shop", error=SpanError(type="AuthenticationError", message="x")),
                span(2, "llm", "m"),
            ),
        ),
        Observation(
            output="Error, but answered.",
            trace=traced(
                span(1, "llm", "m", error=SpanError(type="RateLimitError", message="x")),
                span(2, "llm", "m"),
            ),
        ),
    ],
)
def test_an_agent_that_speaks_of_errors_is_graded(seen: Observation) -> None:
    assert grade(asserting({"regex": "[Ee]rror"}), seen, ()).result == "pass"


def test_a_pattern_that_runs_away_is_unknown_in_bounded_time() -> None:
    assert result({"regex": r"(?:a|a?)+(?:a|a)+(x|y)\1$"}, "a" * 5_000 + "z") != "pass"


def test_a_schema_never_reaches_for_another_document() -> None:
    schema: JsonObject = {"$ref": "https://example.org/schema.json"}
    assert result({"json_schema": schema}, {"a": 1}) == "missing"


def test_arguments_that_were_cut_are_unknown_whatever_is_left_of_them() -> None:
    text = '{"order_id": "A-1"}'
    whole = span(1, "tool", "queue_refund", text)
    part = Payload(text=text, size_bytes=99_999, truncated=True, sha256=sha256_hex(b"the whole"))
    cut = replace(whole, input=part)
    wanted: JsonObject = {"tool_called": {"name": "queue_refund", "args": {"order_id": "A-1"}}}
    assert result(wanted, trace=traced(whole)) == "pass"
    assert result(wanted, trace=traced(cut)) == "missing"


def asked(number: int, raw: str) -> Span:
    """A model call that asks for `find_order`."""
    calls = ((None, "find_order", raw),)
    said = Message(role="assistant", content="", tool_calls=calls)
    return replace(span(number, "llm", "model"), messages_out=(said,))


@pytest.mark.parametrize(
    ("recorded", "raw", "becomes"),
    [
        ("A-1", '{"order_id": "A-1"}', "pass"),
        ("A-1", '{"order_id": "A-2"}', "missing"),  # not the request that this call answers
        ("A-1", '{"order_id": "A-1", "limit": 3}', "missing"),
        ("A-2", '{"order_id": "A-2"}', "fail"),
    ],
)
def test_a_lone_value_is_named_by_the_request_for_it(
    recorded: str, raw: str, becomes: RunResult
) -> None:
    trace = traced(asked(1, raw), span(2, "tool", "find_order", recorded))
    wanted: JsonObject = {"tool_called": {"name": "find_order", "args": {"order_id": "A-1"}}}
    assert result(wanted, trace=trace) == becomes


OUTSIDE: tuple[JsonObject, ...] = ({"python": "checks.holds"}, {"judge": "Is it polite?"})


@pytest.mark.parametrize("assertion", OUTSIDE)
def test_what_others_answer_is_missing_until_they_did(assertion: JsonObject) -> None:
    assert result(assertion) == "missing"


@pytest.mark.parametrize("assertion", OUTSIDE)
@pytest.mark.parametrize(
    ("said", "becomes"), [("yes", "pass"), ("no", "fail"), ("unknown", "missing")]
)
def test_what_others_answered_counts_for_its_own_assertion(
    assertion: JsonObject, said: Answer, becomes: RunResult
) -> None:
    case = asserting({"not_empty": True}, assertion)
    graded = grade(case, Observation(output="ok"), (), {1: said})
    assert graded.result == becomes
