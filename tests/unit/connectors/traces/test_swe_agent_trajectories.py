"""Trajectories of SWE-agent: actions as tools, in text and by function calls."""

import pytest

from connectors.traces import swe_agent
from contracts.json_types import Json
from contracts.traces import Trace
from tests.step_logs import one, steps


def action(text: str, seen: str, **more: Json) -> dict[str, Json]:
    return {"action": text, "observation": seen, "response": f"I {text}", "thought": "", **more}


def read(document: dict[str, Json]) -> Trace:
    assert swe_agent.takes(document)
    return one(swe_agent.spans(document))


HISTORY: list[Json] = [
    {"role": "system", "content": "SETTING", "agent": "primary"},
    {"role": "user", "content": "a demonstration", "agent": "primary", "is_demo": True},
    {"role": "user", "content": "the issue", "agent": "primary"},
]


def test_an_action_is_a_tool_call_and_its_observation_the_answer() -> None:
    trace = read(
        {
            "environment": "swe", "history": HISTORY,
            "trajectory": [action("open a.py\n", "[File: a.py]", execution_time=0.25),
                           action("python a.py", "bash: a: command not found"),
                           action("", "")],
            "info": {"exit_status": "submitted", "submission": "diff", "model_stats":
                     {"tokens_sent": 70, "instance_cost": 0}},
        }
    )  # fmt: skip
    assert steps(trace) == [
        "agent swe-agent", "llm model", "tool open", "llm model", "tool bash", "llm model",
    ]  # fmt: skip
    root, call, opened, _, shell, _ = trace.spans
    assert root.input is not None
    assert root.output is not None
    assert (root.input.text, root.output.text, root.status) == ("the issue", "diff", "unset")
    assert root.attributes["swe_agent.exit_status"] == "submitted"
    assert root.attributes["swe_agent.tokens_sent"] == 70
    assert "swe_agent.instance_cost" not in root.attributes
    assert [m.content for m in call.messages_in] == ["SETTING", "the issue"]
    assert opened.input is not None
    assert shell.input is not None
    assert opened.attributes["swe_agent.execution_time_s"] == 0.25
    assert opened.input.value == {"action": "open a.py\n"}
    assert shell.input.value == {"command": "python a.py"}
    assert (call.input_tokens, call.cost_usd) == (None, None)


def test_function_calls_of_the_history_name_the_tool_and_its_arguments() -> None:
    called: Json = [{"id": "c1", "function": {"name": "edit", "arguments": '{"line": 3}'}}]
    history: list[Json] = [
        *HISTORY,
        {"role": "assistant", "content": "badly formatted", "action": "?", "agent": "main"},
        {"role": "assistant", "content": "", "action": "edit 3", "agent": "main",
         "tool_calls": called},
    ]  # fmt: skip
    trace = read({"trajectory": [action("edit 3", "done")], "history": history})
    edit = trace.spans[2]
    assert (edit.tool_name, edit.input and edit.input.value) == ("edit", {"line": 3})
    assert edit.output is not None
    assert edit.output.text == "done"


@pytest.mark.parametrize("asked", ["tool", "user"])
def test_a_history_alone_is_a_run_as_well(asked: str) -> None:
    history: list[Json] = [
        {"role": "system", "content": "SETTING", "agent": "main"},
        {"role": "user", "content": "the issue", "agent": "main", "is_demo": True},
        {"role": "assistant", "content": "look", "action": "ls -a", "agent": "main"},
        {"role": asked, "content": "a.py", "agent": "main"},
        {"role": "assistant", "content": "done", "action": "", "agent": "main"},
    ]
    trace = read({"history": history})
    assert steps(trace) == ["agent swe-agent", "llm model", "tool bash", "llm model"]
    assert trace.spans[2].output is not None
    assert trace.spans[2].output.text == "a.py"


def test_a_run_that_was_stopped_says_by_what() -> None:
    root = read({"trajectory": [action("ls", "")], "info": {"exit_status": "exit_cost"}}).root
    assert root.status == "error"
    assert root.error is not None
    assert root.error.message == "exit status exit_cost"


@pytest.mark.parametrize(
    "value",
    [
        {"trajectory": [{"x": 1, "y": 2}]},
        {"history": [{"role": "user", "content": "x"}]},
        {"trajectory": []},
        {},
    ],
)
def test_other_json_is_not_taken(value: dict[str, Json]) -> None:
    assert not swe_agent.takes(value)
