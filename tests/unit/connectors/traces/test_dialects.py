"""Every dialect says which model or tool was called, with what, what came back, and what failed."""

import json
from collections.abc import Mapping, Sequence

import pytest

from connectors.traces.dialects import canonical
from connectors.traces.messages import Texts
from connectors.traces.normalise import to_span
from connectors.traces.raw import RawSpan, RawStatus
from contracts.json_types import Json
from contracts.traces import Span

Attributes = dict[str, Json]
ARGUMENTS = {"order": "A-7", "full": True}
ARGUMENTS_TEXT = json.dumps(ARGUMENTS)


def read(
    attributes: Mapping[str, Json],
    name: str = "step",
    events: Sequence[tuple[str, Mapping[str, Json]]] = (),
    status: RawStatus = "unset",
) -> Span:
    raw = RawSpan(
        trace_id="t", span_id="s", parent_id=None, name=name, start_ns=1, end_ns=2,
        status=status, attributes=dict(attributes), events=list(events),
    )  # fmt: skip
    return to_span(raw, Texts(1 << 18))


def said(span: Span) -> list[tuple[str, str]]:
    return [(m.role, m.content) for m in (*span.messages_in, *span.messages_out)]


def asked_for(span: Span) -> list[tuple[str | None, str, Json]]:
    return [
        (call_id, name, json.loads(arguments))
        for message in span.messages_out
        for call_id, name, arguments in message.tool_calls
    ]


TOOLS: dict[str, tuple[str, Attributes]] = {
    "Vercel AI SDK": (
        "ai.toolCall",
        {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "find", "ai.toolCall.id": "c1",
         "ai.toolCall.args": ARGUMENTS_TEXT, "ai.toolCall.result": '{"ok":false}'},
    ),
    "Google ADK": (
        "execute_tool find",
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find",
         "gcp.vertex.agent.tool_call_args": ARGUMENTS_TEXT,
         "gcp.vertex.agent.tool_response": '{"ok":false}',
         "gcp.vertex.agent.llm_request": "{}", "gcp.vertex.agent.llm_response": "{}"},
    ),
    "OpenLLMetry": (
        "find.tool",
        {"traceloop.span.kind": "tool", "traceloop.entity.name": "find",
         "traceloop.entity.input":
         json.dumps({"inputs": ARGUMENTS, "input_str": "x", "kwargs": {}}),
         "traceloop.entity.output": json.dumps({"output": '{"ok":false}', "kwargs": {}})},
    ),
    "Pydantic AI": (
        "running tool: find",
        {"gen_ai.tool.call.id": "c1", "logfire.msg": "running tool: find",
         "tool_arguments": ARGUMENTS_TEXT, "tool_response": '{"ok":false}'},
    ),
    "LangSmith": (
        "find",
        {"langsmith.span.kind": "tool", "gen_ai.operation.name": "execute_tool",
         "gen_ai.prompt": json.dumps({"input": ARGUMENTS_TEXT}),
         "gen_ai.completion": json.dumps({"output": '{"ok":false}'})},
    ),
    "MLflow": (
        "find",
        {"mlflow.spanType": '"TOOL"', "mlflow.spanFunctionName": '"find"',
         "mlflow.spanInputs": ARGUMENTS_TEXT, "mlflow.spanOutputs": '{"ok":false}'},
    ),
    "Braintrust": (
        "find",
        {"braintrust.span_attributes": '{"type":"tool","name":"find"}',
         "braintrust.input_json": ARGUMENTS_TEXT, "braintrust.output_json": '{"ok":false}'},
    ),
    "LangWatch": (
        "find",
        {"langwatch.span.type": "tool", "langwatch.input": ARGUMENTS_TEXT,
         "langwatch.output": '{"ok":false}'},
    ),
    "LiveKit": (
        "function_tool",
        {"lk.function_tool.name": "find", "lk.function_tool.arguments": ARGUMENTS_TEXT,
         "lk.function_tool.output": '{"ok":false}'},
    ),
    "GenAI, new": (
        "execute_tool find",
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find",
         "gen_ai.tool.call.arguments": ARGUMENTS_TEXT, "gen_ai.tool.call.result": '{"ok":false}'},
    ),
    "GenAI, other spellings": (
        "execute_tool find",
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find",
         "gen_ai.tool.parameters": ARGUMENTS_TEXT, "gen_ai.tool.result": '{"ok":false}'},
    ),
    "by hand": (
        "tool.find",
        {"tool.name": "find", "tool.args_json": ARGUMENTS_TEXT, "tool.result_json": '{"ok":false}',
         "gen_ai.request.model": "m-1", "agent.input_message": "find input"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("dialect", TOOLS)
def test_a_tool_has_its_name_its_arguments_and_its_whole_answer(dialect: str) -> None:
    name, attributes = TOOLS[dialect]
    span = read(attributes, name)
    assert (span.kind, span.tool_name) == ("tool", "find")
    assert span.input is not None
    value = span.input.value
    assert (json.loads(value) if isinstance(value, str) else value) == ARGUMENTS
    assert span.output is not None
    assert json.loads(span.output.text) == {"ok": False}


CHAT = '[{"role":"user","content":"Where is A-7?"}]'
CALLS: dict[str, tuple[str, Attributes]] = {
    "Vercel AI SDK": (
        "ai.generateText.doGenerate",
        {"ai.operationId": "ai.generateText.doGenerate", "ai.model.id": "m-1",
         "ai.prompt.messages": CHAT, "ai.response.text": "Let me see.",
         "ai.response.toolCalls":
         json.dumps([{"toolCallId": "c1", "toolName": "find", "input": ARGUMENTS_TEXT}]),
         "ai.usage.inputTokens": 11, "ai.usage.outputTokens": 5,
         "ai.response.finishReason": "tool-calls"},
    ),
    "Google ADK": (
        "call_llm",
        {"gen_ai.request.model": "m-1",
         "gcp.vertex.agent.llm_request":
         '{"contents":[{"role":"user","parts":[{"text":"Where is A-7?"}]}]}',
         "gcp.vertex.agent.llm_response": json.dumps({
             "content": {"role": "model", "parts": [
                 {"text": "Let me see."},
                 {"function_call": {"id": "c1", "name": "find", "args": ARGUMENTS}}]},
             "finish_reason": "STOP",
             "usage_metadata": {"prompt_token_count": 11, "candidates_token_count": 5}})},
    ),
    "OpenLLMetry": (
        "openai.chat",
        {"llm.request.type": "chat", "gen_ai.request.model": "m-1",
         "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "Where is A-7?",
         "gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": "Let me see.",
         "gen_ai.completion.0.finish_reason": "tool_calls",
         "gen_ai.completion.0.tool_calls.0.id": "c1",
         "gen_ai.completion.0.tool_calls.0.name": "find",
         "gen_ai.completion.0.tool_calls.0.arguments": ARGUMENTS_TEXT,
         "gen_ai.usage.prompt_tokens": 11, "gen_ai.usage.completion_tokens": 5},
    ),
    "Pydantic AI, events": (
        "chat m-1",
        {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1",
         "gen_ai.usage.input_tokens": 11, "gen_ai.usage.output_tokens": 5,
         "logfire.json_schema": "{}", "gen_ai.response.finish_reasons": ["tool_calls"],
         "events": json.dumps([
             {"event.name": "gen_ai.user.message", "role": "user", "content": "Where is A-7?"},
             {"event.name": "gen_ai.choice", "index": 0, "message": {
                 "role": "assistant", "content": "Let me see.", "tool_calls": [
                     {"id": "c1", "type": "function",
                      "function": {"name": "find", "arguments": ARGUMENTS_TEXT}}]}}])},
    ),
    "LangSmith": (
        "ChatModel",
        {"langsmith.span.kind": "llm", "gen_ai.request.model": "m-1",
         "gen_ai.usage.input_tokens": 11, "gen_ai.usage.output_tokens": 5,
         "gen_ai.prompt": json.dumps({"messages": [[
             {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "HumanMessage"],
              "kwargs": {"content": "Where is A-7?", "type": "human"}}]]}),
         "gen_ai.completion": json.dumps({"generations": [[{
             "text": "Let me see.", "generation_info": {"finish_reason": "tool_calls"},
             "message": {"lc": 1, "type": "constructor", "id": ["x", "AIMessage"], "kwargs": {
                 "content": "Let me see.", "type": "ai",
                 "tool_calls": [{"id": "c1", "name": "find", "args": ARGUMENTS}]}}}]]}),
         "gen_ai.response.finish_reasons": "tool_calls"},
    ),
    "MLflow": (
        "Completions",
        {"mlflow.spanType": '"CHAT_MODEL"', "mlflow.llm.model": '"m-1"',
         "mlflow.chat.tokenUsage": '{"input_tokens":11,"output_tokens":5}',
         "mlflow.spanInputs": '{"messages":' + CHAT + "}",
         "mlflow.spanOutputs": json.dumps({"choices": [{"finish_reason": "tool_calls", "message": {
             "role": "assistant", "content": "Let me see.", "tool_calls": [
                 {"id": "c1", "type": "function",
                  "function": {"name": "find", "arguments": ARGUMENTS_TEXT}}]}}]})},
    ),
    "Haystack": (
        "haystack.component.run",
        {"haystack.component.type": "OpenAIChatGenerator", "llm.request.model": "m-1",
         "llm.usage.prompt_tokens": 11, "llm.usage.completion_tokens": 5,
         "llm.response.finish_reason": "tool_calls",
         "haystack.component.input": json.dumps(
             {"messages": [{"role": "user", "content": [{"text": "Where is A-7?"}]}]}),
         "haystack.component.output": json.dumps({"replies": [{"role": "assistant", "content": [
             {"text": "Let me see."},
             {"tool_call": {"id": "c1", "tool_name": "find", "arguments": ARGUMENTS}}]}]})},
    ),
}  # fmt: skip


@pytest.mark.parametrize("dialect", CALLS)
def test_a_model_call_has_its_messages_the_tools_it_asked_for_and_its_tokens(dialect: str) -> None:
    name, attributes = CALLS[dialect]
    span = read(attributes, name)
    assert (span.kind, span.model) == ("llm", "m-1")
    assert said(span) == [("user", "Where is A-7?"), ("assistant", "Let me see.")]
    assert asked_for(span) == [("c1", "find", ARGUMENTS)]
    assert (span.input_tokens, span.output_tokens) == (11, 5)


KINDS: list[tuple[str, Attributes, str]] = [
    ("ai.streamText", {"ai.operationId": "ai.streamText", "ai.model.id": "m"}, "agent"),
    ("ai.generateObject", {"ai.operationId": "ai.generateObject", "ai.prompt": "{}"}, "chain"),
    ("ai.embed.doEmbed", {"ai.operationId": "ai.embed.doEmbed", "ai.values": ["x"]}, "embedding"),
    ("shop.workflow", {"traceloop.span.kind": "workflow"}, "chain"),
    ("shop.agent", {"traceloop.span.kind": "agent"}, "agent"),
    ("cohere.rerank", {"llm.request.type": "rerank"}, "retriever"),
    ("shop run", {"agent_name": "shop", "final_result": "done"}, "agent"),
    ("running 2 tools", {"tools": ["a", "b"], "logfire.msg": "running 2 tools"}, "chain"),
    ("agent_run [shop]", {"gcp.vertex.agent.event_id": "e"}, "agent"),
    ("Search", {"langsmith.span.kind": "retriever", "gen_ai.operation.name": "embeddings"},
     "retriever"),
    ("run", {"mlflow.spanType": "AGENT"}, "agent"),
    ("haystack.component.run", {"haystack.component.type": "InMemoryBM25Retriever"}, "retriever"),
    ("haystack.component.run", {"haystack.component.type": "ToolInvoker"}, "chain"),
    ("haystack.pipeline.run", {"haystack.pipeline.input_data": "{}"}, "chain"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "attributes", "kind"), KINDS)
def test_a_step_is_what_its_framework_calls_it(
    name: str, attributes: Attributes, kind: str
) -> None:
    assert read(attributes, name).kind == kind


def test_a_wrapper_is_no_model_call_even_where_a_backend_guessed_one() -> None:
    span = read(
        {"langfuse.observation.type": "GENERATION", "ai.operationId": "ai.generateText"},
        "ai.generateText",
    )
    assert span.kind == "agent"


def test_the_answers_of_parallel_calls_once_more_are_no_call_of_a_tool() -> None:
    attributes: Attributes = {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "(merged tools)",
        "gcp.vertex.agent.tool_call_args": "N/A", "gcp.vertex.agent.tool_response": '{"a":1}',
    }  # fmt: skip
    assert read(attributes, "execute_tool (merged)").kind == "chain"


def test_an_empty_object_that_stands_for_nothing_gives_way_to_what_was_recorded() -> None:
    span = read(
        {
            "langfuse.observation.type": "TOOL",
            "langfuse.observation.output": "{}",
            "output.value": '{"id":"c1","name":"find","response":{"found":0}}',
            "gcp.vertex.agent.tool_response": '{"found":0}',
            "gen_ai.tool.name": "find",
        },
        "execute_tool find",
    )
    assert span.output is not None
    assert span.output.text == '{"found":0}'


def test_a_dialect_never_overrides_what_is_recorded_under_our_own_keys() -> None:
    span = read(
        {"openinference.span.kind": "TOOL", "tool.name": "ours", "input.value": "a",
         "output.value": "b", "ai.toolCall.name": "theirs", "ai.toolCall.args": "c",
         "ai.toolCall.result": "d", "traceloop.span.kind": "agent"},
    )  # fmt: skip
    assert (span.kind, span.tool_name) == ("tool", "ours")
    assert (span.input and span.input.text, span.output and span.output.text) == ("a", "b")


def test_attributes_without_a_dialect_are_the_same_object() -> None:
    attributes: Attributes = {"openinference.span.kind": "LLM", "input.value": "x", "custom": 1}
    assert canonical(attributes) is attributes


def test_the_session_the_user_and_the_node_come_from_the_dialect() -> None:
    found = canonical(
        {
            "traceloop.association.properties.session_id": "s-1",
            "traceloop.association.properties.user_id": "u-1",
            "traceloop.association.properties.langgraph_node": "plan",
        }
    )
    assert (found["session.id"], found["user.id"], found["graph.node.id"]) == ("s-1", "u-1", "plan")


def test_a_session_that_is_recorded_is_kept() -> None:
    found = canonical({"gen_ai.conversation.id": "mine", "mlflow.trace.session": "other"})
    assert "session.id" not in found


def test_an_agents_run_began_with_its_request_and_not_with_its_answer() -> None:
    history = [
        {"role": "user", "parts": [{"type": "text", "content": "first"}]},
        {"role": "assistant", "parts": [{"type": "text", "content": "one"}]},
        {"role": "user", "parts": [{"type": "text", "content": "second"}]},
        {"role": "assistant", "parts": [{"type": "text", "content": "two"}]},
    ]
    span = read(
        {"pydantic_ai.all_messages": json.dumps(history), "pydantic_ai.new_message_index": 2,
         "agent_name": "shop", "final_result": "two"},
        "shop run",
    )  # fmt: skip
    assert span.kind == "agent"
    assert span.input is not None
    assert span.input.value == history[:3]
    assert span.output is not None
    assert span.output.text == "two"


def test_the_tools_that_a_model_was_offered_are_kept_whatever_the_key() -> None:
    tool = {"type": "function", "name": "find", "parameters": {"type": "object"}}
    for key, value in (
        ("gen_ai.tool.definitions", json.dumps([tool])),
        ("ai.prompt.tools", [json.dumps(tool)]),
        ("model_request_parameters", json.dumps({"function_tools": [tool]})),
        ("llm.request.functions", json.dumps([tool])),
    ):
        span = read({key: value, "gen_ai.request.model": "m"})
        kept = span.attributes["llm.tools"]
        assert isinstance(kept, list)
        assert [json.loads(str(one)) for one in kept] == [tool], key


def test_numbered_functions_are_offered_tools() -> None:
    found = canonical(
        {"llm.request.functions.0.name": "find", "llm.request.functions.0.parameters": "{}",
         "llm.request.functions.1.name": "send"}
    )  # fmt: skip
    assert json.loads(str(found["llm.tools.0.tool.json_schema"]))["name"] == "find"
    assert json.loads(str(found["llm.tools.1.tool.json_schema"]))["name"] == "send"


def test_a_schema_is_no_argument() -> None:
    span = read(
        {"gen_ai.tool.name": "find",
         "gen_ai.tool.parameters": '{"order":{"type":"string","required":true}}'},
    )  # fmt: skip
    assert span.input is None


def test_a_tool_that_its_framework_marks_as_failed_is_an_error_though_the_span_is_ok() -> None:
    events = [
        ("gen_ai.tool.message", {"role": "tool", "content": ARGUMENTS_TEXT, "id": "c1"}),
        ("gen_ai.choice", {"message": '[{"text":"Error: no such order"}]', "id": "c1"}),
    ]
    attributes: Attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "find",
        "gen_ai.tool.status": "error",
    }
    span = read(attributes, "execute_tool find", events, status="ok")
    assert span.status == "error"
    assert span.input is not None
    assert json.loads(span.input.text) == ARGUMENTS
    assert span.output is not None
    assert span.output.text == "Error: no such order"


def test_an_agents_request_and_answer_come_from_its_events() -> None:
    events = [
        ("gen_ai.user.message", {"content": '[{"text":"Where is A-7?"}]'}),
        ("gen_ai.choice", {"message": "On its way.", "finish_reason": "end_turn"}),
    ]
    span = read({"gen_ai.operation.name": "invoke_agent"}, "invoke_agent shop", events)
    assert span.kind == "agent"
    assert span.input is not None
    assert span.output is not None
    assert (span.input.text, span.output.text) == ("Where is A-7?", "On its way.")


def test_messages_in_an_event_of_details_are_those_of_the_call() -> None:
    details: dict[str, Json] = {
        "gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"Hi"}]}]',
        "gen_ai.output.messages": '[{"role":"assistant","parts":[{"type":"text","content":"Yo"}]}]',
        "gen_ai.system_instructions": '[{"type":"text","content":"Be brief."}]',
    }
    span = read(
        {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"},
        events=[("gen_ai.client.inference.operation.details", details)],
    )
    assert said(span) == [("system", "Be brief."), ("user", "Hi"), ("assistant", "Yo")]


def test_prompts_and_completions_in_old_events_are_read() -> None:
    events = [
        ("gen_ai.content.prompt", {"gen_ai.prompt": CHAT}),
        ("gen_ai.content.completion",
         {"gen_ai.completion": '[{"role":"assistant","content":"Soon."}]'}),
    ]  # fmt: skip
    span = read({"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}, events=events)
    assert said(span) == [("user", "Where is A-7?"), ("assistant", "Soon.")]


def test_every_event_of_a_step_that_is_a_span_of_its_own_counts_once() -> None:
    kinds = {}
    for event in ("start", "success", "finish"):
        attributes: Attributes = {
            "openinference.span.kind": "TOOL",
            "target": f"tool.search.{event}",
            "tool.parameters": ARGUMENTS_TEXT,
        }
        span = read(attributes, f"tool.search.{event}-12")
        kinds[event] = (span.kind, span.tool_name)
    assert kinds == {
        "start": ("chain", None), "success": ("tool", "search"), "finish": ("chain", None),
    }  # fmt: skip


def test_a_streamed_answer_in_pieces_is_one_message() -> None:
    attributes: Attributes = {"openinference.span.kind": "LLM", "llm.model_name": "m"}
    for at in range(40):
        attributes[f"llm.output_messages.{at}.message.role"] = "assistant"
        attributes[f"llm.output_messages.{at}.message.content"] = f"{at} "
    assert [m.content for m in read(attributes).messages_out] == [
        "".join(f"{at} " for at in range(40))
    ]


def test_the_right_answer_that_a_benchmark_wrote_beside_a_run_is_not_read() -> None:
    span = read({"task.expected_result": "42", "validation.criteria_json": "[]", "task.id": "q1"})
    assert "42" not in json.dumps(dict(span.attributes))
    assert span.attributes == {"task.id": "q1"}


def test_a_step_that_gives_back_a_tool_message_is_a_tool() -> None:
    answer = {"content": "no such order", "type": "tool", "tool_call_id": "c1", "status": "error"}
    span = read(
        {"langfuse.observation.type": "SPAN", "langfuse.observation.output": json.dumps(answer)},
        "find",
    )
    assert (span.kind, span.tool_name) == ("tool", "find")


def test_a_printed_tool_message_keeps_its_text_and_shows_its_fields() -> None:
    text = "content='Error: it\\'s gone' name='find' tool_call_id='c1' status='error'"
    span = read({"openinference.span.kind": "TOOL", "output.value": text})
    assert span.output is not None
    assert span.output.text == text
    assert span.output.value == {
        "content": "Error: it's gone", "name": "find", "tool_call_id": "c1", "status": "error",
    }  # fmt: skip


def test_a_request_around_the_arguments_is_taken_off() -> None:
    asked = {"name": "find", "args": ARGUMENTS, "id": "c1", "type": "tool_call"}
    span = read({"openinference.span.kind": "TOOL", "input.value": json.dumps(asked)}, "tools")
    assert span.tool_name == "find"
    assert span.input is not None
    assert span.input.value == ARGUMENTS


def test_arguments_that_are_called_name_and_args_are_left_alone() -> None:
    recorded = '{"name":"build","args":["-v"]}'
    span = read({"openinference.span.kind": "TOOL", "input.value": recorded}, "run")
    assert span.tool_name == "run"
    assert span.input is not None
    assert span.input.text == recorded
