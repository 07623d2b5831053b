"""The blast radius follows content through a trace: what was given on, by whom, and how far."""

import json
from collections.abc import Sequence

from contracts.json_types import Json
from contracts.traces import SpanId, Trace
from nodes.insights.blast import Reach, reach_of, sentence_of
from nodes.insights.detect.view import view_of
from tests.trace_worlds import OtlpSpan, root, span, span_id, tool, trace_of

BAD = "balance of account 4471 could not be computed, using 999999"


def llm(number: int, said: Sequence[tuple[str, str]], answer: str, **more: Json) -> OtlpSpan:
    """A model call with chat messages in and one out."""
    fields: dict[str, Json] = {"output.value": answer}
    for n, (role, content) in enumerate(said):
        fields[f"llm.input_messages.{n}.message.role"] = role
        fields[f"llm.input_messages.{n}.message.content"] = content
    fields["llm.output_messages.0.message.role"] = "assistant"
    fields["llm.output_messages.0.message.content"] = answer
    return span(number, "LLM", "model", also={**fields, **more})


def reach(trace: Trace, number: int) -> Reach:
    (one,) = reach_of(view_of(trace), [SpanId(span_id(number))])
    return one


def test_an_output_in_a_later_prompt_reaches_that_step_and_the_answer() -> None:
    trace = trace_of(
        root(),
        tool(1, "ledger", {"account": 4471}, BAD),
        llm(2, [("user", "how much?"), ("tool", BAD)], "You have 999999 left, enjoy your day."),
    )
    found = reach(trace, 1)
    assert (found.direct, found.indirect, found.later, found.answered) == (1, 0, 1, True)
    assert found.path == (f"ledger ({span_id(1)})", f"model ({span_id(2)})")
    assert sentence_of(found) == (
        "1 of 1 later steps were given its output; the answer rests on it"
    )


def test_what_a_reached_step_makes_of_it_goes_on_as_indirect() -> None:
    trace = trace_of(
        root(),
        tool(1, "ledger", {"account": 4471}, BAD),
        llm(2, [("tool", BAD)], "I will book the sum of nine hundred thousand now"),
        tool(3, "book", {"note": "I will book the sum of nine hundred thousand now"}, "booked"),
        tool(4, "weather", {"city": "Oslo"}, "rain"),
    )
    found = reach(trace, 1)
    assert (found.direct, found.indirect, found.later, found.answered) == (1, 1, 3, False)
    assert [step.partition(" ")[0] for step in found.path] == ["ledger", "model", "book"]


def test_words_that_stood_before_are_no_evidence() -> None:
    asked = "please look at invoice INV-2031-77 of Smith & Sons"
    trace = trace_of(
        root(asked),
        llm(1, [("user", asked)], "looking"),
        tool(2, "find", {"q": "x"}, asked),  # says nothing that was not there before
        llm(3, [("user", asked)], "nothing found"),
    )
    found = reach(trace, 2)
    assert (found.direct, found.traceable) == (0, False)
    assert "cannot be followed" in sentence_of(found)


def test_a_step_that_did_not_get_it_is_not_reached() -> None:
    trace = trace_of(
        root(),
        tool(1, "ledger", {"account": 4471}, BAD),
        llm(2, [("user", "how much?")], "I do not know."),
    )
    found = reach(trace, 1)
    assert (found.direct, found.traceable, found.later) == (0, True, 1)
    assert sentence_of(found) == "none of the 1 later steps was given it"


def test_arguments_that_a_model_made_up_reach_the_tool_that_was_called_with_them() -> None:
    made_up = json.dumps({"id": 7, "n": 2})
    call = {
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "pay",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": made_up,
    }
    trace = trace_of(
        root(), llm(1, [("user", "pay it")], "", **call), tool(2, "pay", {"id": 7, "n": 2}, "ok")
    )
    assert reach(trace, 1).direct == 1


def test_nothing_after_it_is_said_as_such() -> None:
    trace = trace_of(root(), tool(1, "ledger", {}, BAD))
    assert sentence_of(reach(trace, 1)) == "nothing came after it"


def test_an_output_that_was_not_recorded_is_not_called_harmless() -> None:
    trace = trace_of(root(), tool(1, "ledger", {}), llm(2, [("user", "go on")], "fine"))
    assert not reach(trace, 1).traceable


def test_it_is_found_inside_escaped_json_of_a_step_without_messages() -> None:
    trace = trace_of(
        root(),
        tool(1, "ledger", {}, f'line one "quoted"\n{BAD}'),
        tool(2, "report", {"text": f'line one "quoted"\n{BAD}'}, "sent"),
    )
    assert reach(trace, 1).direct == 1


def test_the_error_text_of_a_step_without_output_is_followed() -> None:
    trace = trace_of(
        root(),
        tool(1, "pay", {}, error=("ValueError", "order id must look like A-9999")),
        llm(2, [("tool", "Error: order id must look like A-9999")], "It failed."),
    )
    assert reach(trace, 1).direct == 1


def test_only_the_first_few_outputs_of_a_trace_are_followed() -> None:
    trace = trace_of(root(), *(tool(n, "t", {"n": n}, f"{BAD} {n}") for n in range(1, 9)))
    assert len(reach_of(view_of(trace), [SpanId(span_id(n)) for n in range(1, 9)])) == 4


def _history(turns: int) -> Trace:
    """A chat whose every call sends all that was said before, as recorders write it."""
    said: list[tuple[str, str]] = [("user", "start")]
    spans = [root(), tool(1, "ledger", {}, BAD)]
    said.append(("tool", BAD))
    for n in range(turns):
        answer = f"thought {n}: " + "considering the next step of the work in detail " * 20
        spans.append(llm(2 + n, said, answer))
        said = [*said, ("assistant", answer)]
    return trace_of(*spans)


def test_every_call_of_a_chat_that_holds_it_is_reached() -> None:
    found = reach(_history(30), 1)
    assert (found.direct, found.later, found.share) == (30, 30, 1.0)
