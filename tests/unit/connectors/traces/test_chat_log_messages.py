"""Logs of chat messages of every vendor's shape become the same spans."""

from datetime import UTC, datetime

import pytest

from connectors.traces import chat_logs
from connectors.traces.raw import NO_TIMES
from connectors.traces.steps import STEP
from contracts.json_types import Json
from contracts.traces import Trace
from nodes.insights.detect.all import detect_trace
from tests.step_logs import one, steps, texts

PAY: Json = {"id": "c1", "type": "function",
             "function": {"name": "pay", "arguments": '{"order": 7}'}}  # fmt: skip
OPENAI: list[Json] = [
    {"role": "system", "content": "be kind"},
    {"role": "user", "content": "refund 7"},
    {"role": "assistant", "content": None, "tool_calls": [PAY]},
    {"role": "tool", "tool_call_id": "c1", "name": "pay", "content": "Error: status 504"},
    {"role": "assistant", "content": "It failed."},
]
LEGACY: list[Json] = [
    {"role": "system", "content": "be kind"},
    {"role": "user", "content": "refund 7"},
    {"role": "assistant", "content": None,
     "function_call": {"name": "pay", "arguments": '{"order": 7}'}},
    {"role": "function", "name": "pay", "content": "Error: status 504"},
    {"role": "assistant", "content": "It failed."},
]  # fmt: skip
ANTHROPIC: list[Json] = [
    {"role": "system", "content": "be kind"},
    {"role": "user", "content": [{"type": "text", "text": "refund 7"}]},
    {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "hm"},
        {"type": "tool_use", "id": "c1", "name": "pay", "input": {"order": 7}}]},
    {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "c1", "content": "Error: status 504"}]},
    {"role": "assistant", "content": [{"type": "text", "text": "It failed."}]},
]  # fmt: skip
LANGCHAIN: list[Json] = [
    {"type": "system", "data": {"content": "be kind"}},
    {"type": "human", "data": {"content": "refund 7"}},
    {"type": "ai", "data": {"content": "", "tool_calls": [
        {"name": "pay", "args": {"order": 7}, "id": "c1"}]}},
    {"type": "tool", "data": {"content": "Error: status 504", "tool_call_id": "c1"}},
    {"type": "ai", "data": {"content": "It failed."}},
]  # fmt: skip
SHAREGPT: list[Json] = [
    {"from": "system", "value": "be kind"},
    {"from": "human", "value": "refund 7"},
    {"from": "function_call", "value": '{"name": "pay", "arguments": {"order": 7}}'},
    {"from": "observation", "value": "Error: status 504"},
    {"from": "gpt", "value": "It failed."},
]
VENDORS = pytest.mark.parametrize(
    ("key", "messages"),
    [("messages", OPENAI), ("traj", OPENAI), ("messages", LEGACY), ("messages", ANTHROPIC),
     ("messages", LANGCHAIN), ("conversations", SHAREGPT)],
)  # fmt: skip


def read(messages: list[Json], **beside: Json) -> Trace:
    document: dict[str, Json] = {"messages": messages, **beside}
    assert chat_logs.takes(document)
    return one(chat_logs.spans(document))


@VENDORS
def test_a_message_of_the_model_and_a_call_of_a_tool_are_spans(
    key: str, messages: list[Json]
) -> None:
    assert chat_logs.takes({key: messages})
    trace = one(chat_logs.spans({key: messages}))
    assert steps(trace) == ["agent agent", "llm model", "tool pay", "llm model"]
    agent, asking, pay, ending = trace.spans
    assert agent.input is not None
    assert agent.output is not None
    assert (agent.input.text, agent.output.text) == ("refund 7", "It failed.")
    assert [(m.role, m.content) for m in asking.messages_in] == [
        ("system", "be kind"), ("user", "refund 7"),
    ]  # fmt: skip
    assert [call[1] for call in asking.messages_out[0].tool_calls] == ["pay"]
    assert asking.messages_out[0].content == ""
    assert pay.input is not None
    assert pay.input.value == {"order": 7}
    assert pay.output is not None
    assert (pay.output.text, pay.status) == ("Error: status 504", "unset")
    assert [m.role for m in ending.messages_in] == ["system", "assistant", "tool"]
    assert ending.messages_out[0].content == "It failed."


@VENDORS
def test_every_shape_gives_the_same_finding(key: str, messages: list[Json]) -> None:
    (found,) = detect_trace(one(chat_logs.spans({key: messages})))
    assert found.signature == "tool_timeout:pay:504"


def test_a_bare_list_of_messages_is_one_run() -> None:
    assert chat_logs.takes_list(OPENAI)
    assert steps(one(chat_logs.list_spans(OPENAI))) == steps(read(OPENAI))


def test_equal_logs_are_one_trace_and_other_ones_are_not() -> None:
    assert read(OPENAI).id == read(OPENAI).id
    assert read(OPENAI).id != read(OPENAI[:3]).id
    assert read(OPENAI, task_id=1, trial=0).id != read(OPENAI, task_id=1, trial=1).id


def test_what_stands_beside_the_messages_is_context_or_left_alone() -> None:
    trace = read(
        OPENAI, trace_id="ab" * 16, session_id="s1", user_id="u1", environment="prod",
        reward=0.25, info={"task": {"instruction": "VERDICT"}}, ground_truth="VERDICT",
    )  # fmt: skip
    assert (trace.id, trace.session_id, trace.user_id) == ("ab" * 16, "s1", "u1")
    assert trace.environment == "prod"
    assert "VERDICT" not in texts(trace)
    assert "0.25" not in texts(trace)


def test_a_log_without_times_keeps_its_order_and_says_so() -> None:
    trace = read(OPENAI)
    assert trace.root.attributes[NO_TIMES] is True
    begun = [span.started_at for span in trace.spans[1:]]
    assert begun == sorted(set(begun))
    assert trace.root.ended_at is not None
    assert [s.attributes.get(STEP) for s in trace.spans] == [None, 2, 2, 4]


def test_recorded_times_are_kept_in_utc() -> None:
    messages: list[Json] = [
        {"role": "user", "content": "hi", "timestamp": "2026-03-01T10:00:00+02:00"},
        {"role": "assistant", "content": "hello", "created_at": 1_772_352_005},
    ]
    trace = read(messages)
    assert NO_TIMES not in trace.root.attributes
    assert trace.started_at == datetime(2026, 3, 1, 8, 0, tzinfo=UTC)
    assert trace.spans[1].started_at == datetime(2026, 3, 1, 8, 0, 5, tzinfo=UTC)


def test_what_a_message_counts_is_kept_and_nothing_is_unknown() -> None:
    usage: Json = {"prompt_tokens": 12, "completion_tokens": 0}
    told: Json = {"role": "assistant", "content": "x", "model": "m", "usage": usage,
                  "finish_reason": "length"}  # fmt: skip
    call = read([{"role": "user", "content": "q"}, told]).spans[1]
    assert (call.model, call.input_tokens, call.output_tokens) == ("m", 12, None)
    assert (call.cost_usd, call.finish_reason) == (None, "length")


def test_answers_find_their_calls_in_any_order_and_without_ids() -> None:
    def called(name: str, call_id: str | None) -> Json:
        return {"id": call_id, "function": {"name": name, "arguments": "{}"}}

    messages: list[Json] = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "", "tool_calls": [called("a", "1"), called("b", "2")]},
        {"role": "tool", "tool_call_id": "2", "content": "of b"},
        {"role": "tool", "tool_call_id": "1", "content": "of a"},
        {"role": "assistant", "content": "", "tool_calls": [called("c", None), called("d", None)]},
        {"role": "tool", "name": "d", "content": "of d"},
        {"role": "tool", "content": "of c"},
        {"role": "tool", "tool_call_id": "9", "name": "e", "content": "of nobody"},
    ]
    tools = {s.tool_name: s.output.text for s in read(messages).spans if s.output and s.tool_name}
    assert tools == {"a": "of a", "b": "of b", "c": "of c", "d": "of d", "e": "of nobody"}


def test_a_call_without_an_answer_has_none() -> None:
    pay = read(OPENAI[:3]).spans[2]
    assert (pay.tool_name, pay.output, pay.ended_at) == ("pay", None, None)


def test_only_a_log_that_says_so_makes_an_error() -> None:
    failed: Json = {"role": "tool", "tool_call_id": "c1", "content": "KeyError: 'x'",
                    "status": "error"}  # fmt: skip
    pay = read([*OPENAI[:3], failed]).spans[2]
    assert (pay.status, pay.error and pay.error.type) == ("error", "KeyError")


def test_a_group_chat_names_its_agents_and_its_terminal() -> None:
    history: list[Json] = [
        {"role": "assistant", "name": "Ada", "content": "run\n```python\nprint(1)\n```"},
        {"role": "user", "name": "Computer_terminal",
         "content": "exitcode: 1 (execution failed)\nCode output: NameError: x"},
        {"role": "user", "name": "Bob", "content": "so it fails"},
    ]  # fmt: skip
    document: dict[str, Json] = {
        "history": history, "question": "how many?", "mistake_reason": "VERDICT",
        "system_prompt": {"Ada": "you are Ada", "Bob": "you are Bob"}, "ground_truth": "VERDICT",
    }  # fmt: skip
    assert chat_logs.takes(document)
    trace = one(chat_logs.spans(document))
    assert steps(trace) == ["agent agent", "llm Ada", "tool Computer_terminal", "llm Bob"]
    root, ada, terminal, bob = trace.spans
    assert root.input is not None
    assert root.input.text == "how many?"
    assert (ada.attributes["node"], bob.attributes["node"]) == ("Ada", "Bob")
    assert bob.messages_in[0].content == "you are Bob"
    assert bob.messages_in[1].role == "user"  # to Bob, Ada is somebody else
    assert terminal.status == "error"
    assert terminal.input is not None
    assert terminal.input.value == {"code": "print(1)\n"}
    assert "VERDICT" not in texts(trace)


def test_roles_may_be_the_names_of_agents() -> None:
    items: list[Json] = [
        {"role": "human", "content": "find it"},
        {"role": "Orchestrator (thought)", "content": "a plan"},
        {"role": "Orchestrator (-> WebSurfer)", "content": "search"},
        {"role": "WebSurfer", "content": "found"},
    ]
    assert chat_logs.takes_list(items)
    trace = one(chat_logs.list_spans(items))
    assert [s.attributes.get("node") for s in trace.spans[1:]] == [
        "Orchestrator", "Orchestrator", "WebSurfer",
    ]  # fmt: skip
    assert trace.spans[2].name == "Orchestrator (-> WebSurfer)"


def test_a_named_customer_is_no_agent() -> None:
    messages: list[Json] = [
        {"role": "user", "name": "mia", "content": "hi"},
        {"role": "assistant", "name": "desk", "content": "hello"},
    ]
    assert steps(read(messages)) == ["agent agent", "llm desk"]


def test_a_dialogue_in_one_text_is_taken_apart() -> None:
    text = "user: hi,\nthere\nassistant: None\ntool: Error: no user\nassistant: Sorry."
    assert chat_logs.takes({"messages_display": text})
    trace = one(chat_logs.spans({"messages_display": text}))
    assert steps(trace) == ["agent agent", "llm model", "tool tool", "llm model"]
    assert trace.root.input is not None
    assert trace.root.input.text == "hi,\nthere"
    assert trace.spans[2].output is not None
    assert trace.spans[2].output.text == "Error: no user"


@pytest.mark.parametrize(
    "value",
    [
        {"messages": []},
        {"messages": "hello"},
        {"messages": [{"role": "system", "content": "a prompt"},
                      {"role": "user", "content": "{{question}}"}], "model": "m"},
        {"messages": [{"type": "text", "content": "x"}]},
        {"messages": [{"id": 1, "subject": "mail"}]},
        {"history": ["cd /", "ls"]},
        {"conversations": [{"from": "mia@example.com", "value": "x"}]},
        {"messages": OPENAI, "resourceSpans": []},
        {"id": 1, "epoch": 1, "messages": OPENAI},
        {"run_type": "chain", "inputs": {}, "messages": OPENAI},
        {"traces": [{"role": "assistant", "content": "x"}]},
        {"messages_display": "a text"},
    ],
)  # fmt: skip
def test_json_of_another_kind_is_not_taken(value: dict[str, Json]) -> None:
    assert not chat_logs.takes(value)


@pytest.mark.parametrize("items", [[], ["x"], [OPENAI], [{"messages": OPENAI}], OPENAI[:2]])
def test_a_list_of_another_kind_is_not_one_run(items: list[Json]) -> None:
    assert not chat_logs.takes_list(items)


def test_a_thousand_turns_do_not_repeat_their_history() -> None:
    messages: list[Json] = [{"role": "system", "content": "s"}]
    for number in range(1000):
        messages += [{"role": "user", "content": f"q{number}"},
                     {"role": "assistant", "content": f"a{number}"}]  # fmt: skip
    calls = read(messages).spans[1:]
    assert len(calls) == 1000
    assert all(len(call.messages_in) <= 3 for call in calls)
    assert [m.content for m in calls[-1].messages_in] == ["s", "a998", "q999"]
