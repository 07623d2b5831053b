"""ATIF trajectories: steps, what they count, answers that failed, and agents within agents."""

from datetime import UTC, datetime

import pytest

from connectors.traces import atif
from contracts.json_types import Json
from contracts.traces import Trace
from tests.step_logs import one, steps, texts


def step(number: int, source: str, message: Json, **more: Json) -> dict[str, Json]:
    at = f"2026-04-01T10:00:{number:02d}Z"
    return {"step_id": number, "timestamp": at, "source": source, "message": message, **more}


def called(call_id: str, name: str, **arguments: Json) -> Json:
    return {"tool_call_id": call_id, "function_name": name, "arguments": arguments}


def answered(call_id: str, content: Json, **more: Json) -> Json:
    return {"source_call_id": call_id, "content": content, **more}


def trajectory(*taken: Json, **more: Json) -> dict[str, Json]:
    return {
        "schema_version": "ATIF-v1.5", "session_id": "5f3c2f8e-0000-4000-8000-00000000abcd",
        "agent": {"name": "coder", "version": "2", "model_name": "m1"}, "steps": list(taken),
        **more,
    }  # fmt: skip


def read(*taken: Json, **more: Json) -> Trace:
    document = trajectory(*taken, **more)
    assert atif.takes(document)
    return one(atif.spans(document))


def test_steps_become_model_calls_and_tools() -> None:
    trace = read(
        step(1, "system", "rules"),
        step(2, "user", "fix it"),
        step(3, "agent", "looking", tool_calls=[called("c", "Bash", command="ls")],
             observation={"results": [answered("c", "a.py")]},
             metrics={"prompt_tokens": 90, "completion_tokens": 8, "cost_usd": 0.25},
             extra={"stop_reason": "tool_use"}),
        step(4, "agent", "done"),
    )  # fmt: skip
    assert steps(trace) == ["agent coder", "llm model", "tool Bash", "llm model"]
    root, call, bash, last = trace.spans
    assert root.input is not None
    assert root.output is not None
    assert (root.input.text, root.output.text) == ("fix it", "done")
    assert trace.id == "5f3c2f8e0000400080000000" + "0000abcd"
    assert (trace.session_id, trace.release) == ("5f3c2f8e-0000-4000-8000-00000000abcd", "2")
    assert (call.model, call.input_tokens, call.output_tokens) == ("m1", 90, 8)
    assert (call.cost_usd, call.finish_reason) == (0.25, "tool_use")
    assert [m.role for m in call.messages_in] == ["system", "user"]
    assert bash.input is not None
    assert bash.input.value == {"command": "ls"}
    assert call.started_at == datetime(2026, 4, 1, 10, 0, 3, tzinfo=UTC)
    assert (last.input_tokens, last.output_tokens, last.cost_usd) == (None, None, None)


@pytest.mark.parametrize(
    ("metrics", "message", "counted"),
    [
        ({"prompt_tokens": 0, "completion_tokens": 0}, "", (None, None)),
        ({"prompt_tokens": 0, "completion_tokens": 0, "cost_usd": 0}, "x", (None, None)),
        ({"prompt_tokens": 9, "completion_tokens": 0}, "x", (9, None)),
        ({"prompt_tokens": 9, "completion_tokens": 0}, "", (9, 0)),
        (None, "x", (None, None)),
    ],
)
def test_a_count_that_cannot_be_is_unknown(
    metrics: Json, message: str, counted: tuple[int | None, int | None]
) -> None:
    call = read(step(1, "user", "q"), step(2, "agent", message, metrics=metrics)).spans[1]
    assert (call.input_tokens, call.output_tokens) == counted
    assert call.cost_usd is None


@pytest.mark.parametrize(
    "more",
    [
        {"extra": {"is_error": True}},
        {"is_error": True},
        {"error": {"type": "unknown", "message": "OSError: gone"}},
    ],
)
def test_an_answer_that_says_it_failed_is_an_error(more: dict[str, Json]) -> None:
    result = answered("c", "OSError: gone", **more)
    trace = read(
        step(1, "agent", "", tool_calls=[called("c", "Read")], observation={"results": [result]})
    )
    tool = trace.spans[2]
    assert (tool.status, tool.error and tool.error.type) == ("error", "OSError")


def test_a_converters_step_holds_the_tools_own_result() -> None:
    own: Json = {"tool_use_id": "c", "content": "Exit code 1", "is_error": True}
    shown = answered("c", "Exit code 1\n\n[error] tool reported failure")
    trace = read(
        step(1, "agent", "Executed Bash c", tool_calls=[called("c", "Bash", command="grep x")],
             observation={"results": [shown]},
             extra={"tool_result_is_error": True,
                    "tool_result_metadata": {"raw_tool_result": own}}),
    )  # fmt: skip
    bash = trace.spans[2]
    assert bash.status == "error"
    assert bash.output is not None
    assert bash.output.text == "Exit code 1"
    assert trace.spans[1].messages_out[0].content == ""
    assert trace.root.output is None  # it ended by a call


def test_steps_stand_in_the_order_of_their_times() -> None:
    late = step(9, "agent", "the end")
    early = step(5, "agent", "", tool_calls=[called("c", "Glob")])
    trace = read(step(1, "user", "q"), late, early)
    assert steps(trace) == ["agent coder", "llm model", "tool Glob", "llm model"]
    assert trace.spans[2].output is None


def test_parallel_calls_get_their_own_answers() -> None:
    trace = read(
        step(1, "agent", "", tool_calls=[called("a", "A"), called("b", "B")],
             observation={"results": [answered("b", "of b"), answered("a", "of a")]}),
    )  # fmt: skip
    assert {s.tool_name: s.output.text for s in trace.spans if s.tool_name and s.output} == {
        "A": "of a", "B": "of b",
    }  # fmt: skip


def test_parts_of_a_message_are_joined_and_images_marked() -> None:
    parts: Json = [
        {"type": "text", "text": "see"},
        {"type": "image", "source": {"media_type": "image/png", "path": "x.png"}},
    ]
    trace = read(step(1, "user", parts), step(2, "agent", "ok"))
    assert trace.root.input is not None
    assert trace.root.input.text == "see\n[image]"


def test_a_subagent_runs_within_the_call_that_started_it() -> None:
    child = trajectory(step(4, "user", "look"), step(5, "agent", "seen"), trajectory_id="t-child")
    stray = trajectory(step(6, "agent", "alone"), trajectory_id="t-stray")
    ref: Json = [{"trajectory_id": "t-child"}]
    trace = read(
        step(1, "user", "q"),
        step(2, "agent", "", tool_calls=[called("c", "Task"), called("d", "Other")],
             observation={"results": [answered("c", "ok", subagent_trajectory_ref=ref),
                                      answered("d", "ok")]}),
        step(8, "agent", "end"),
        subagent_trajectories=[child, stray],
    )  # fmt: skip
    agents = [span for span in trace.spans if span.kind == "agent"]
    task = next(span for span in trace.spans if span.tool_name == "Task")
    assert [agent.parent_id for agent in agents] == [None, task.id, trace.root.id]
    seen = next(s for s in trace.spans if s.messages_out and s.messages_out[0].content == "seen")
    assert seen.parent_id == agents[1].id


def test_steps_without_a_model_call_are_none() -> None:
    trace = read(step(1, "user", "q"), step(2, "agent", "dispatch", llm_call_count=0))
    assert steps(trace)[1] == "chain model"


def test_context_copied_from_an_earlier_trajectory_is_not_done_again() -> None:
    trace = read(
        step(1, "user", "q"),
        step(2, "agent", "before", is_copied_context=True),
        step(3, "agent", "now"),
    )
    assert len(trace.spans) == 2
    assert "before" in [m.content for m in trace.spans[1].messages_in]


def test_what_else_a_trajectory_holds_is_left_alone() -> None:
    trace = read(step(1, "agent", "x", extra={"reward": "VERDICT"}), notes="VERDICT",
                 extra={"reward": "VERDICT", "environment": "prod"},
                 final_metrics={"extra": {"score": "VERDICT"}})  # fmt: skip
    assert "VERDICT" not in texts(trace)
    assert trace.environment == "prod"


@pytest.mark.parametrize(
    "value",
    [
        {"schema_version": "1.0", "steps": [{"source": "agent"}]},
        {"steps": [{"uses": "actions/checkout"}], "agent": {}},
        {"agent": {}},
        {"schema_version": 3},
    ],
)
def test_other_json_is_not_taken(value: dict[str, Json]) -> None:
    assert not atif.takes(value)


def test_a_trajectory_without_steps_is_no_trace() -> None:
    assert list(atif.spans({"schema_version": "ATIF-v1.4", "steps": []})) == []
