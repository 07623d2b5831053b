"""What a recorded run answers when its calls are made again, and what it does not answer."""

import json
from collections.abc import Sequence

import pytest

from connectors.probe.replay_calls import calls_of, key_of
from connectors.probe.replay_recording import Replayed, Session, record
from contracts.json_types import Json
from tests.trace_worlds import OtlpSpan, root, span, tool, trace_of

ASKED = {"message": "refund order A-1042, please"}
ORDER = {"order_id": "A-1042"}
MADE_UP = ("6f9d3c1e-0b7a-4c55-9d2e-1a2b3c4d5e6f", "11111111-2222-4333-8444-555555555555")


def session(
    *spans: OtlpSpan, through: Sequence[str] = (), writes: Sequence[str] = (), asked: Json = None
) -> Session:
    """A run on the recording of these calls."""
    recording = record(trace_of(root(), *spans), asked or ASKED, writes)
    return Session(recording, asked or ASKED, fall_through=through, writes=writes)


def texts(*said: Replayed) -> list[str]:
    return [s.answer.text if s.answer is not None else s.kind for s in said]


def test_equal_calls_get_the_recorded_answers_in_order_and_no_further_one() -> None:
    run = session(tool(1, "status", ORDER, "open"), tool(2, "status", ORDER, "paid"))
    assert texts(*(run.call("status", ORDER) for _ in range(3))) == ["open", "paid", "missing"]
    assert run.missing == "replay: no further recording of status"


def test_the_last_answer_is_repeated_where_the_recording_shows_that_it_does_not_change() -> None:
    run = session(tool(1, "status", ORDER, "open"), tool(2, "status", ORDER, "open"))
    assert texts(*(run.call("status", ORDER) for _ in range(4))) == ["open"] * 4
    assert run.missing is None


def test_one_answer_alone_shows_nothing_about_the_next() -> None:
    run = session(tool(1, "status", ORDER, "open"))
    assert texts(run.call("status", ORDER), run.call("status", ORDER)) == ["open", "missing"]


def test_a_write_is_never_repeated_however_often_it_was_recorded() -> None:
    pays = [tool(n, "pay", ORDER, "paid") for n in (1, 2)]
    run = session(*pays, writes=["pay"])
    assert texts(*(run.call("pay", ORDER) for _ in range(3))) == ["paid", "paid", "refused"]


def test_a_recorded_error_is_an_error_again() -> None:
    run = session(tool(1, "pay", ORDER, error=("app.Busy", "504")))
    answer = run.call("pay", ORDER).answer
    assert answer is not None
    assert (answer.kind, answer.error_type, answer.text) == ("error", "app.Busy", "504")


@pytest.mark.parametrize("other", [{"order_id": "A-1043"}, {"order_id": "a-1042"}, {}, "A", [1]])
def test_other_arguments_are_another_call(other: Json) -> None:
    run = session(tool(1, "status", ORDER, "open"))
    assert run.call("status", other).kind == "missing"
    assert run.missing == "replay: no recording of status"


@pytest.mark.parametrize(
    ("recorded", "asked"),
    [
        ({"a": 1, "b": "x"}, {"b": "x", "a": 1.0}),
        ({"a": 1}, {"a": 1, "note": None}),
        ({"name": "Jose\u0301"}, {"name": "Jos\u00e9"}),
        ({"text": "a\r\nb"}, {"text": "a\nb"}),
    ],
)
def test_arguments_that_mean_the_same_are_the_same_call(recorded: Json, asked: Json) -> None:
    assert session(tool(1, "t", recorded, "yes")).call("t", asked).kind == "answer"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": "1"}, {"a": 1}),
        ({"a": True}, {"a": 1}),
        ({"a": ""}, {"a": " "}),
        ({"a": [1, 2]}, {"a": [2, 1]}),
        ({"a": ""}, {}),
    ],
)
def test_arguments_that_may_mean_something_else_are_kept_apart(one: Json, other: Json) -> None:
    assert key_of(one) != key_of(other)


def test_nothing_is_answered_after_the_first_call_that_is_not_recorded() -> None:
    run = session(tool(1, "status", ORDER, "open"))
    assert run.call("refund", ORDER).kind == "missing"
    assert run.call("status", ORDER).kind == "missing"
    assert run.missing == "replay: no recording of refund"


def test_a_read_that_may_be_called_falls_through_and_the_run_stays_observed() -> None:
    run = session(tool(1, "status", ORDER, "open"), through=["status", "look"])
    assert texts(run.call("status", ORDER), run.call("status", ORDER)) == ["open", "through"]
    assert run.call("look", {}).kind == "through"
    assert run.missing is None


def test_a_write_that_was_not_recorded_is_refused_and_the_run_is_missing() -> None:
    run = session(tool(1, "status", ORDER, "open"), writes=["refund"])
    assert run.call("refund", ORDER).kind == "refused"
    assert run.missing == "replay: no recording of refund"


def test_an_answer_from_behind_a_write_is_not_given_before_that_write() -> None:
    spans = [
        tool(1, "status", ORDER, "open"),
        tool(2, "pay", ORDER, "ok"),
        tool(3, "status", ORDER, "refunded"),
    ]
    run = session(*spans, writes=["pay"])
    assert texts(run.call("status", ORDER), run.call("status", ORDER)) == ["open", "missing"]
    run = session(*spans, writes=["pay"])
    assert texts(run.call("pay", ORDER), run.call("status", ORDER)) == ["ok", "refunded"]
    run = session(*spans[:2], writes=["pay"])
    assert texts(run.call("pay", ORDER), run.call("status", ORDER)) == ["ok", "missing"]


def test_a_read_beside_a_write_holds_with_or_without_it() -> None:
    spans = [tool(1, "pay", ORDER, "ok"), span(
        2, "TOOL", "look", at=1.2, tool__name="look", input__value="{}", output__value="seen",
    )]  # fmt: skip
    assert session(*spans, writes=["pay"]).call("look", {}).kind == "answer"
    run = session(*spans, writes=["pay"])
    assert texts(run.call("pay", ORDER), run.call("look", {})) == ["ok", "seen"]


def test_ids_and_times_that_the_agent_made_up_make_no_difference() -> None:
    def pay(made_up: str, at: str) -> Json:
        return {**ORDER, "key": made_up, "at": at}

    spans = [
        tool(1, "pay", pay(MADE_UP[0], "2026-03-01T10:00:00Z"), "first"),
        tool(2, "pay", pay(MADE_UP[1], "2026-03-01T10:00:09Z"), "second"),
    ]
    run = session(*spans)
    fresh = [pay("aaaaaaaa-2222-4333-8444-55555555555" + n, "2026-11-30T18:00:00Z") for n in "12"]
    assert texts(*(run.call("pay", one) for one in fresh)) == ["first", "second"]


def test_an_id_that_was_read_somewhere_is_never_taken_for_another() -> None:
    mine, other = MADE_UP
    asked = {"message": f"cancel {mine}"}
    run = session(tool(1, "cancel", {"id": mine}, "done"), asked=asked)
    assert run.call("cancel", {"id": other}).kind == "missing"
    spans = [tool(1, "find", {}, f"it is {mine}"), tool(2, "cancel", {"id": mine}, "done")]
    run = session(*spans)
    assert run.call("find", {}).kind == "answer"
    assert run.call("cancel", {"id": other}).kind == "missing"
    spans = [tool(1, "find", {}, f"it is {mine}"), tool(2, "cancel", {"id": other}, "done")]
    run = session(*spans)
    assert run.call("find", {}).kind == "answer"
    assert run.call("cancel", {"id": mine}).kind == "missing"


def test_masked_input_finds_the_recorded_call_where_only_one_can_be_meant() -> None:
    def mail(to: str) -> Json:
        return {"to": to}

    asked = {"message": "write to [email]"}
    run = session(tool(1, "mail", mail("ann@example.org"), "sent"), asked=asked)
    assert run.call("mail", mail("[email]")).kind == "answer"
    spans = [tool(n, "mail", mail(f"{who}@example.org"), "sent") for n, who in ((1, "a"), (2, "b"))]
    assert session(*spans, asked=asked).call("mail", mail("[email]")).kind == "missing"


def test_a_lone_value_is_read_as_the_argument_that_the_model_gave() -> None:
    calls = {"llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "status",
             "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments":
                 json.dumps(ORDER), "llm.output_messages.0.message.role": "assistant"}  # fmt: skip
    bare = span(2, "TOOL", "status", tool__name="status", input__value="A-1042",
                output__value="open")  # fmt: skip
    recorded = calls_of(trace_of(root(), span(1, "LLM", "model", also=calls), bare))
    assert [call.arguments for call in recorded] == [ORDER]
    run = session(bare)
    assert run.call("status", {"number": "A-1042"}).kind == "answer"
    assert session(bare).call("status", {"number": "A-1043"}).kind == "missing"
    assert session(bare).call("status", {"number": "A-1042", "more": 1}).kind == "missing"


MESSAGES = {
    "langchain": {"type": "tool", "data": {"content": "open", "tool_call_id": "c", "type": "tool"}},
    "constructor": {"lc": 1, "type": "constructor", "id": ["ToolMessage"],
                    "kwargs": {"content": "open", "tool_call_id": "c", "status": "success"}},
    "plain": {"content": "open", "tool_call_id": "c", "status": "success"},
    "langsmith": {"output": "open"},
    "both": {"output": {"content": "open", "tool_call_id": "c"}},
}  # fmt: skip


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES)
def test_the_answer_is_taken_out_of_the_message_around_it(message: Json) -> None:
    run = session(tool(1, "status", ORDER, json.dumps(message)))
    assert texts(run.call("status", ORDER)) == ["open"]


def test_a_structure_of_the_tools_own_is_given_as_it_was_recorded() -> None:
    own = '{"output": "x", "content": "y"}'
    assert texts(session(tool(1, "t", {}, own)).call("t", {})) == [own]


def test_a_tool_message_with_an_error_is_an_error() -> None:
    message = json.dumps({"content": "no such order", "tool_call_id": "c", "status": "error"})
    answer = session(tool(1, "t", {}, message)).call("t", {}).answer
    assert answer is not None
    assert answer.kind == "error"


@pytest.mark.parametrize("through", [(), ("t",)])
def test_an_answer_that_was_not_recorded_whole_is_not_made_up(through: Sequence[str]) -> None:
    run = session(tool(1, "t", {}), through=through)
    assert run.call("t", {}).kind == ("through" if through else "missing")
    assert run.missing == (None if through else "replay: no whole answer recorded of t")


def test_without_a_recording_every_call_is_missing() -> None:
    run = Session(None, ASKED, fall_through=(), writes=())
    assert run.call("t", {}).kind == "missing"
    assert run.missing == "replay: no recording of t"


def test_hostile_names_and_arguments_end_the_run_and_nothing_else() -> None:
    deep: Json = "x"
    for _ in range(3_000):
        deep = [deep]
    run = session(tool(1, "t", {}, "yes"))
    assert run.call("t", deep).kind == "missing"
    run = session(tool(1, "t", {}, "yes"))
    assert run.call("a\nb\x1b[31m" + "x" * 9_000, {}).kind == "missing"
    assert run.missing is not None
    assert "\n" not in run.missing
    assert "\x1b" not in run.missing
    assert len(run.missing) < 150
