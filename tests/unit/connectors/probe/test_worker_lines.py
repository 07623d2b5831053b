"""A worker's lines are data that may be wrong in any way."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connectors.probe.environment import worker_environment
from connectors.probe.wire import (
    ProtocolBreachError,
    WireId,
    clean,
    parse_answer,
    parse_ready,
    run_line,
)

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def test_half_characters_cannot_reach_what_is_stored() -> None:
    output = parse_answer(b'{"id": "a", "output": {"k": ["\\ud83d", "\\ud83d\\ude00"]}}').output
    stored = json.dumps(output, ensure_ascii=False).encode().decode()
    assert stored == '{"k": ["\ufffd", "\U0001f600"]}'


@pytest.mark.parametrize("error", ["", {"code": 1}, 7])
def test_a_failure_without_words_is_still_a_failure(error: object) -> None:
    answer = parse_answer(json.dumps({"id": "a", "output": "fine", "error": error}).encode())
    assert answer.error
    assert answer.output is None


@unhurried
@given(st.binary(max_size=60) | st.text(max_size=30).map(str.encode))
def test_no_line_whatever_crashes_the_reader(line: bytes) -> None:
    for read in (parse_answer, parse_ready):
        refused = ""
        try:
            read(line)
        except ProtocolBreachError as breach:
            refused = str(breach)
        assert refused.isprintable()


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
)


OPTIONAL = dict.fromkeys(("output", "error", "missing", "usage", "spans"), values)


@unhurried
@given(st.fixed_dictionaries({"id": st.just("a")}, optional=OPTIONAL))
def test_exactly_one_of_output_error_and_missing_counts(message: dict[str, object]) -> None:
    answer = parse_answer(json.dumps(message).encode())
    told = [answer.error is not None, answer.missing is not None, answer.output is not None]
    assert sum(told) <= 1
    for tokens in (answer.usage.input_tokens, answer.usage.output_tokens):
        assert tokens is None or tokens >= 0
    assert answer.usage.cost_usd is None or 0 <= answer.usage.cost_usd < float("inf")


def test_a_run_is_one_line_whatever_the_input() -> None:
    line = run_line(
        WireId("w"), case_input={"text": "a\n\u2028b"}, harness="/h", workdir="/w", seed=1,
        deadline_s=2.0,
    )  # fmt: skip
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")


@unhurried
@given(st.text())
def test_a_cleaned_text_is_one_printable_line(text: str) -> None:
    cleaned = clean(text, 20)
    assert len(cleaned) <= 20
    assert cleaned.isprintable()


def test_marks_stand_alone_when_the_operator_has_no_attributes() -> None:
    env = worker_environment({"PATH": "/bin", "SECRET": "x"}, names=(), extra={}, run_id="r")
    assert env["PATH"] == "/bin"
    assert "SECRET" not in env
    assert env["OTEL_RESOURCE_ATTRIBUTES"].startswith("deployment.environment=tracemend-gate,")
