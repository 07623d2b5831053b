import json

import pytest

from contracts.json_types import Json
from contracts.traces import Trace
from nodes.insights.detect.all import detect_trace
from tests.trace_worlds import root, span, tool, trace_of


def found(*spans: dict[str, Json]) -> list[tuple[str, str]]:
    """(signature, span number) of every symptom that was not recovered from."""
    return [
        (str(s.signature), str(int(s.span_id, 16) - 1))
        for s in detect_trace(trace_of(*spans))
        if not s.recovered
    ]


def llm(number: int, said: str = "", **attributes: Json) -> dict[str, Json]:
    own = {
        "output__value": said,
        "llm__output_messages__0__message__role": "assistant",
        "llm__output_messages__0__message__content": said,
    }
    return span(number, "LLM", "chat", also={**own, **attributes})


@pytest.mark.parametrize(
    ("answer", "signature"),
    [
        ({"ok": False, "message": "no such order"}, "tool_error:pay"),
        ({"error": "boom"}, "tool_error:pay"),
        ({"is_error": True, "content": "boom"}, "tool_error:pay"),
        ({"status": 504, "detail": "upstream"}, "tool_timeout:pay:504"),
        ({"statusCode": "429"}, "rate_limit:pay:429"),
        ({"success": False, "error": {"code": 503, "message": "down"}}, "tool_error:pay:503"),
        ("Error: connection reset", "tool_error:pay"),
        ("504 Gateway Time-out", "tool_timeout:pay:504"),
        ("HTTP 429 Too Many Requests", "rate_limit:pay:429"),
        ("ValueError: order id must look like A-9999", "tool_error:pay:ValueError"),
        ("Traceback (most recent call last):\n  ...\nKeyError: 'x'", "tool_error:pay:KeyError"),
        ("Request timed out after 30 s", "tool_timeout:pay"),
        ('{"state": "shipped", "items": [1, 2', "malformed_output:pay"),
        ({"type": "tool", "data": {"content": "Error: bad id", "tool_call_id": "c",
                                   "status": "error"}}, "tool_error:pay"),
        ({"isError": True, "content": [{"type": "text", "text": "nope"}]}, "tool_error:pay"),
    ],
)  # fmt: skip
def test_a_tool_that_fails_without_error_status_is_seen(answer: Json, signature: str) -> None:
    ((seen, where),) = found(root(), tool(1, "pay", {"id": "A-1"}, answer))
    assert seen == signature
    assert where == "1"


@pytest.mark.parametrize(
    "answer",
    [
        {"ok": True, "error": None, "errors": []},
        {"status": "shipped", "code": 404},
        {"status": 200, "items": [{"error": "in a row, not of the call"}]},
        "Errors in English grammar: a short history",
        "HTTP 404 is the code that servers answer with when ...",
        "The search for 'timeout' found 3 pages.",
        "[INFO] started\n[INFO] done",
        '{"a": 1}\n{"a": 2}',
        "500 Miles is a song",
        "{'python': 'repr'}",
        "",
    ],
)
def test_an_answer_that_only_speaks_of_errors_is_none(answer: Json) -> None:
    assert found(root(), tool(1, "pay", {"id": "A-1"}, answer)) == []


@pytest.mark.parametrize(
    ("error", "signature"),
    [
        (("TimeoutError", "no answer in 5 s"), "tool_timeout:pay:TimeoutError"),
        (("httpx.HTTPStatusError", "Server error '504 Gateway Timeout' for url"),
         "tool_timeout:pay:504"),
        (("RateLimited", "slow down"), "rate_limit:pay:RateLimited"),
        (("openai.RateLimitError", "slow down"), "rate_limit:pay:RateLimitError"),
        (("json.decoder.JSONDecodeError", "Expecting value: line 1 column 1"),
         "malformed_output:pay:JSONDecodeError"),
        (("ValueError", "order id must look like A-9999, got 42"), "tool_error:pay:ValueError"),
        (("AgentError", "code failed due to: KeyError: 'x'"), "tool_error:pay:KeyError"),
    ],
)  # fmt: skip
def test_the_most_specific_kind_names_an_exception(error: tuple[str, str], signature: str) -> None:
    assert found(root(), tool(1, "pay", {}, error=error)) == [(signature, "1")]


def test_a_parent_that_passes_a_failure_on_does_not_fire() -> None:
    error = ("ValueError", "order id must look like A-9999")
    node = span(1, "CHAIN", "tools", error=error)
    failing = tool(2, "pay", {}, error=error, parent=1)
    assert found(root(error=error, answer=None), node, failing) == [
        ("tool_error:pay:ValueError", "2")
    ]


def test_a_parent_with_a_failure_of_its_own_fires_too() -> None:
    failing = tool(1, "pay", {}, error=("ValueError", "bad id in the order"))
    later = llm(2, "something else")
    broken = root(error=("KeyError", "'customer' is not in the state"), answer=None)
    assert found(broken, failing, later) == [
        ("exception:agent:KeyError", "0"),
        ("tool_error:pay:ValueError", "1"),
    ]


def test_a_later_success_of_the_tool_is_a_recovery() -> None:
    failed = tool(1, "pay", {"id": "1042"}, error=("ValueError", "bad id"))
    worked = tool(2, "pay", {"id": "A-1042"}, {"paid": True})
    symptoms = detect_trace(trace_of(root(), failed, worked))
    assert [(s.recovered, s.severity) for s in symptoms] == [(True, "low")]
    reverse = trace_of(root(), tool(1, "pay", {}, "ok"), tool(2, "pay", {}, error=("E", "bad")))
    assert [s.recovered for s in detect_trace(reverse)] == [False]


def test_three_equal_calls_with_equal_answers_are_a_loop_at_the_last() -> None:
    calls = [tool(n, "look", {"q": "x"}, "nothing new") for n in (1, 2, 3)]
    assert found(root(), *calls) == [("repeated_call:look", "3")]
    assert found(root(), *calls[:2]) == []


def test_alternating_calls_without_news_are_a_loop_and_news_ends_it() -> None:
    around = [tool(n, "ab"[n % 2], {}, "same") for n in range(1, 9)]
    assert {signature for signature, _ in found(root(), *around)} == {
        "repeated_call:a",
        "repeated_call:b",
    }
    working = [tool(n, "wait", {}, "ok") if n % 2 else tool(n, "poll", {}, f"{n} %")
               for n in range(1, 9)]  # fmt: skip
    assert found(root(), *working) == []


def test_retries_of_a_silent_failure_are_that_failure_and_no_loop() -> None:
    calls = [tool(n, "pay", {}, "504 Gateway Time-out") for n in (1, 2, 3, 4)]
    assert {signature for signature, _ in found(root(), *calls)} == {"tool_timeout:pay:504"}


def test_retries_of_a_marked_failure_are_that_failure_and_no_loop() -> None:
    calls = [tool(n, "pay", {}, error=("TimeoutError", "no answer")) for n in (1, 2, 3, 4)]
    assert {signature for signature, _ in found(root(), *calls)} == {
        "tool_timeout:pay:TimeoutError"
    }


def test_a_run_that_was_never_closed_is_unfinished() -> None:
    assert found(root(seconds=None, answer=None)) == [("unfinished:agent:unclosed", "0")]


def test_a_used_up_step_limit_is_unfinished() -> None:
    error = ("GraphRecursionError", "Recursion limit of 25 reached")
    assert found(root(error=error, answer=None), tool(1, "a", {}, "x")) == [
        ("unfinished:agent:GraphRecursionError", "0")
    ]


def test_a_cut_off_last_answer_is_unfinished() -> None:
    cut = llm(1, "The first half", llm__finish_reason="length")
    assert found(root(), cut) == [("unfinished:agent:length", "1")]


@pytest.mark.parametrize(
    ("answer", "hit"),
    [
        ("", True),
        ('""', True),
        ({"messages": [{"type": "ai", "data": {"content": "", "type": "ai"}}]}, True),
        ({"messages": [{"type": "ai", "data": {"content": "hi", "type": "ai"}}]}, False),
        ({"messages": [{"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}]}, False),
        ({"queue": "claims"}, False),
        ("fine", False),
    ],
)
def test_an_empty_end_is_seen_in_every_shape(answer: Json, hit: bool) -> None:
    text = answer if isinstance(answer, str) else json.dumps(answer)
    assert bool(found(root(answer=text))) is hit


def test_a_pause_for_a_person_is_no_failure() -> None:
    paused = span(1, "CHAIN", "ask", error=("langgraph.errors.GraphInterrupt", "(Interrupt(),)"))
    assert found(root(answer=""), paused) == []


def test_arguments_come_from_the_model_call_where_the_tool_recorded_a_bare_value() -> None:
    asked = llm(
        1,
        llm__output_messages__0__message__tool_calls__0__tool_call__id="c1",
        llm__output_messages__0__message__tool_calls__0__tool_call__function__name="pay",
        llm__output_messages__0__message__tool_calls__0__tool_call__function__arguments='{"id":"7"}',
    )
    bare = span(2, "TOOL", "pay", tool__name="pay", input__value="7", output__value="ok")
    from nodes.insights.detect.view import view_of

    (call,) = view_of(trace_of(root(), asked, bare)).calls.values()
    assert call.arguments == {"id": "7"}


def test_an_error_that_only_the_next_call_shows_is_found_at_the_asking_call() -> None:
    asked = llm(
        1,
        llm__output_messages__0__message__tool_calls__0__tool_call__id="c1",
        llm__output_messages__0__message__tool_calls__0__tool_call__function__name="nope",
    )
    later = llm(
        2, "sorry",
        llm__input_messages__0__message__role="user",
        llm__input_messages__0__message__content="help",
        llm__input_messages__1__message__role="assistant",
        llm__input_messages__1__message__tool_calls__0__tool_call__id="c1",
        llm__input_messages__1__message__tool_calls__0__tool_call__function__name="nope",
        llm__input_messages__2__message__role="tool",
        llm__input_messages__2__message__tool_call_id="c1",
        llm__input_messages__2__message__content="Error: nope is not a valid tool",
    )  # fmt: skip
    assert found(root(), asked, later) == [("invented_tool:nope", "1")]


def test_a_person_who_begins_with_error_is_no_failure() -> None:
    later = llm(
        2, "try again",
        llm__input_messages__0__message__role="assistant",
        llm__input_messages__0__message__content="What does it say?",
        llm__input_messages__1__message__role="user",
        llm__input_messages__1__message__content="Error: paper jam",
    )  # fmt: skip
    assert found(root(), llm(1, "What does it say?"), later) == []


def test_failing_code_is_found_at_the_call_that_wrote_it() -> None:
    error = ("AgentExecutionError", "Code execution failed at line 'x' due to: NameError: x")
    step = span(1, "CHAIN", "Step 3", error=error)
    wrote = span(2, "LLM", "Model.__call__", parent=1)
    assert found(root(), step, wrote) == [("exception:Step:NameError", "2")]


@pytest.mark.parametrize(
    ("command", "text", "hit"),
    [
        ("grep -rn x src/ | sort", "exit status 1", False),
        ("cd src && diff a b", "Command failed with exit code 1", False),
        ("git diff --exit-code", "exit status 1", False),
        ("grep -rn x srcc/", "grep: srcc/: No such file or directory\nexit status 2", True),
        ("make all", "exit status 1", True),
    ],
)
def test_exit_one_of_a_search_is_an_answer(command: str, text: str, hit: bool) -> None:
    call = tool(1, "bash", {"command": command}, text, error=("ToolError", text))
    assert bool(found(root(), call)) is hit


def test_quotes_are_redacted_and_free_of_control_characters() -> None:
    secret = "sk-" + "a1B2" * 8
    error = ("ValueError", f"key {secret} refused\x1b[31m\u202e")
    (symptom,) = detect_trace(trace_of(root(), tool(1, "pay", {}, error=error)))
    assert secret not in symptom.evidence.quote + symptom.template
    assert "\x1b" not in symptom.evidence.quote
    assert "\u202e" not in symptom.evidence.quote


def test_a_trace_without_failure_has_no_symptom() -> None:
    trace: Trace = trace_of(root(), llm(1, "hello"), tool(2, "pay", {"id": "A-1"}, {"ok": True}))
    assert detect_trace(trace) == ()
