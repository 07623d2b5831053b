"""Recorded requests and answers of every vendor become the same messages."""

import base64
import json

import pytest

from connectors.traces.blobs import without_blobs
from connectors.traces.chat_values import (
    opened_answer,
    said_messages,
    sent_messages,
    tool_request,
)
from connectors.traces.messages import MAX_MESSAGES, Texts
from contracts.json_types import Json
from contracts.traces import Message, Payload

ARGUMENTS = {"order": "A-7"}
ARGUMENTS_TEXT = json.dumps(ARGUMENTS)
FUNCTION: Json = {"name": "find", "arguments": ARGUMENTS_TEXT}
OPENAI_CALL: Json = {"id": "c1", "type": "function", "function": FUNCTION}


def texts() -> Texts:
    return Texts(1 << 18)


def sent(value: Json) -> list[tuple[str, str, str | None, list[tuple[str | None, str, Json]]]]:
    return [_plain(message) for message in sent_messages(value, texts())]


def _plain(m: Message) -> tuple[str, str, str | None, list[tuple[str | None, str, Json]]]:
    calls = [(i, name, json.loads(arguments)) for i, name, arguments in m.tool_calls]
    return m.role, m.content, m.tool_call_id, calls


def lc(name: str, **kwargs: Json) -> Json:
    return {"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", name],
            "kwargs": kwargs}  # fmt: skip


REQUESTS: dict[str, Json] = {
    "OpenAI chat": {"model": "m", "messages": [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Where is A-7?"}]},
        {"role": "assistant", "content": None, "tool_calls": [OPENAI_CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "on its way"}]},
    "OpenAI Responses": {"instructions": "Be brief.", "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "Where is A-7?"}]},
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "id": "fc_9", "call_id": "c1", "status": "completed",
         "name": "find", "arguments": ARGUMENTS_TEXT},
        {"type": "function_call_output", "call_id": "c1", "output": "on its way"}]},
    "Anthropic": {"system": [{"type": "text", "text": "Be brief."}], "messages": [
        {"role": "user", "content": "Where is A-7?"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm"},
            {"type": "tool_use", "id": "c1", "name": "find", "input": ARGUMENTS}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1",
             "content": [{"type": "text", "text": "on its way"}]}]}]},
    "Gemini": {"config": {"system_instruction": "Be brief."}, "contents": [
        {"role": "user", "parts": [{"text": "Where is A-7?"}]},
        {"role": "model", "parts": [
            {"text": "hm", "thought": True},
            {"functionCall": {"id": "c1", "name": "find", "args": ARGUMENTS}}]},
        {"role": "user", "parts": [
            {"functionResponse": {"id": "c1", "name": "find", "response": "on its way"}}]}]},
    "Bedrock": {"system": [{"text": "Be brief."}], "messages": [
        {"role": "user", "content": [{"text": "Where is A-7?"}]},
        {"role": "assistant", "content": [
            {"toolUse": {"toolUseId": "c1", "name": "find", "input": ARGUMENTS}}]},
        {"role": "user", "content": [
            {"toolResult": {"toolUseId": "c1", "content": [{"text": "on its way"}]}}]}]},
    "LangChain, serialised": {"messages": [[
        lc("SystemMessage", content="Be brief."),
        lc("HumanMessage", content="Where is A-7?", type="human"),
        lc("AIMessage", content="", additional_kwargs={"tool_calls": [OPENAI_CALL]},
           tool_calls=[{"name": "find", "args": ARGUMENTS, "id": "c1", "type": "tool_call"}]),
        lc("ToolMessage", content="on its way", tool_call_id="c1", status="success")]]},
    "LangChain, by type": [
        {"type": "system", "content": "Be brief."},
        {"type": "human", "data": {"content": "Where is A-7?"}},
        {"type": "ai", "content": "", "additional_kwargs": {"tool_calls": [OPENAI_CALL]}},
        {"type": "tool", "content": "on its way", "tool_call_id": "c1"}],
    "LangGraph for JavaScript": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Where is A-7?"},
        {"role": "assistant", "content": "", "tool_calls": [OPENAI_CALL]},
        {"role": "find", "content": "on its way", "additional_kwargs": {}}],
    "Vercel AI SDK": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Where is A-7?"}]},
        {"role": "assistant", "content": [
            {"type": "tool-call", "toolCallId": "c1", "toolName": "find", "input": ARGUMENTS}]},
        {"role": "tool", "content": [
            {"type": "tool-result", "toolCallId": "c1", "toolName": "find",
             "output": {"type": "text", "value": "on its way"}}]}],
    "Pydantic AI": [
        {"kind": "request", "parts": [
            {"part_kind": "system-prompt", "content": "Be brief."},
            {"part_kind": "user-prompt", "content": "Where is A-7?"}]},
        {"kind": "response", "parts": [
            {"part_kind": "tool-call", "tool_name": "find", "args": ARGUMENTS_TEXT,
             "tool_call_id": "c1"}]},
        {"kind": "request", "parts": [
            {"part_kind": "tool-return", "tool_name": "find", "content": "on its way",
             "tool_call_id": "c1"}]}],
    "role and parts": [
        {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
        {"role": "user", "parts": [{"type": "text", "content": "Where is A-7?"}]},
        {"role": "assistant", "parts": [
            {"type": "tool_call", "id": "c1", "name": "find", "arguments": ARGUMENTS}]},
        {"role": "tool", "parts": [
            {"type": "tool_call_response", "id": "c1", "response": "on its way"}]}],
    "Haystack": {"messages": [
        {"_role": "system", "_content": [{"text": "Be brief."}]},
        {"role": "user", "content": [{"text": "Where is A-7?"}]},
        {"role": "assistant", "content": [
            {"tool_call": {"id": "c1", "tool_name": "find", "arguments": ARGUMENTS}}]},
        {"role": "tool", "content": [
            {"tool_call_result": {"result": "on its way", "error": False,
                                  "origin": {"id": "c1", "tool_name": "find"}}}]}]},
}  # fmt: skip


@pytest.mark.parametrize("as_text", [False, True], ids=["recorded", "as text"])
@pytest.mark.parametrize("vendor", REQUESTS)
def test_the_same_conversation_is_the_same_messages_whoever_recorded_it(
    vendor: str, as_text: bool
) -> None:
    value = json.dumps(REQUESTS[vendor]) if as_text else REQUESTS[vendor]
    assert sent(value) == [
        ("system", "Be brief.", None, []),
        ("user", "Where is A-7?", None, []),
        ("assistant", "", None, [("c1", "find", ARGUMENTS)]),
        ("tool", "on its way", "c1", []),
    ]


ANSWERS: dict[str, Json] = {
    "OpenAI chat": {"id": "x", "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
        "role": "assistant", "content": "Let me see.", "tool_calls": [OPENAI_CALL]}}]},
    "OpenAI Responses": {"object": "response", "instructions": "Be brief.", "output": [
        {"type": "reasoning", "id": "r", "summary": []},
        {"type": "message", "role": "assistant", "content": [
            {"type": "output_text", "text": "Let me see.", "annotations": []}]},
        {"type": "function_call", "id": "fc", "call_id": "c1", "name": "find",
         "arguments": ARGUMENTS_TEXT}]},
    "Anthropic": {"id": "msg", "type": "message", "role": "assistant", "content": [
        {"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Let me see."},
        {"type": "tool_use", "id": "c1", "name": "find", "input": ARGUMENTS}]},
    "Gemini": {"candidates": [{"finish_reason": "STOP", "content": {"role": "model", "parts": [
        {"text": "Let me see."},
        {"function_call": {"id": "c1", "name": "find", "args": ARGUMENTS}}]}}]},
    "Bedrock": {"stopReason": "tool_use", "output": {"message": {"role": "assistant", "content": [
        {"text": "Let me see."},
        {"toolUse": {"toolUseId": "c1", "name": "find", "input": ARGUMENTS}}]}}},
    "LangChain": {"generations": [[{"text": "Let me see.", "message": lc(
        "AIMessage", content="Let me see.", type="ai",
        tool_calls=[{"name": "find", "args": ARGUMENTS, "id": "c1"}])}]], "llm_output": {}},
    "LangChain, one message": lc(
        "AIMessageChunk", content="Let me see.",
        tool_calls=[{"name": "find", "args": ARGUMENTS, "id": "c1"}]),
    "Langfuse's callback": {"role": "assistant", "content": "Let me see.",
                            "additional_kwargs": {"tool_calls": [OPENAI_CALL]}},
    "Vercel AI SDK": {"text": "Let me see.", "toolCalls": [
        {"toolCallId": "c1", "toolName": "find", "args": ARGUMENTS}]},
    "Ollama": {"model": "m", "done": True, "message": {
        "role": "assistant", "content": "Let me see.",
        "tool_calls": [{"id": "c1", "function": {"name": "find", "arguments": ARGUMENTS}}]}},
    "a choice": {"index": 0, "message": {
        "role": "assistant", "content": "Let me see.", "tool_calls": [OPENAI_CALL]}},
    "Haystack": {"replies": [{"role": "assistant", "content": [
        {"text": "Let me see."},
        {"tool_call": {"id": "c1", "tool_name": "find", "arguments": ARGUMENTS}}]}]},
}  # fmt: skip


@pytest.mark.parametrize("vendor", ANSWERS)
def test_the_same_answer_is_the_same_message_whoever_recorded_it(vendor: str) -> None:
    found = [_plain(m) for m in said_messages(json.dumps(ANSWERS[vendor]), texts())]
    assert found == [("assistant", "Let me see.", None, [("c1", "find", ARGUMENTS)])]


def test_requests_for_tools_alone_are_one_message() -> None:
    calls: Json = [
        {"toolCallId": "c1", "toolName": "find", "input": ARGUMENTS_TEXT},
        {"toolCallId": "c2", "toolName": "find", "input": "{}"},
    ]
    found = [_plain(m) for m in said_messages(calls, texts())]
    assert found == [("assistant", "", None, [("c1", "find", ARGUMENTS), ("c2", "find", {})])]


def test_a_request_for_a_tool_that_is_written_as_text_is_one() -> None:
    row = {"role": "assistant", "content": json.dumps([OPENAI_CALL])}
    found = [_plain(m) for m in said_messages([row], texts())]
    assert found == [("assistant", "", None, [("c1", "find", ARGUMENTS)])]


def test_several_choices_are_several_messages() -> None:
    value = {"choices": [{"message": {"role": "assistant", "content": str(n)}} for n in (1, 2)]}
    assert [m.content for m in said_messages(value, texts())] == ["1", "2"]


@pytest.mark.parametrize(
    "text",
    ["plain words", "{not json", "[Note] see below", "  ", '{"answer": "42", "why": "asked"}',
     '[{"name": "eggs", "amount": 2}]', '{"title": "x", "content": "y"}', '{"role": "CTO"}',
     '{"result": "fine", "score": 1}', "42", "null", "[]"],
)  # fmt: skip
def test_what_a_model_said_stays_as_it_was_unless_it_is_a_message(text: str) -> None:
    found = [(m.role, m.content) for m in said_messages(text, texts())]
    expected = [("assistant", text)] if text.strip() and text != "[]" else []
    assert found == expected


def test_an_answer_alone_in_its_wrapping_is_its_text() -> None:
    for value in ({"output": "fine"}, {"completion": "fine", "model": "m"}, {"text": "fine"}):
        assert [m.content for m in said_messages(value, texts())] == ["fine"]


@pytest.mark.parametrize(
    "value",
    ["Hi", {"prompt": "Hi"}, {"args": ["Hi"]}, {"prompts": ["Hi"]}, {"contents": "Hi"},
     {"input": "Hi", "model": "m"}, ["Hi"], [["user", "Hi"]], [["human", "Hi"]],
     {"kwargs": {"messages": [{"role": "user", "content": "Hi"}]}},
     {"messages": ["role='user' content='Hi' name=None tool_calls=None"]}],
)  # fmt: skip
def test_a_prompt_is_one_message_of_the_users(value: Json) -> None:
    assert sent(value) == [("user", "Hi", None, [])]


def test_a_tool_that_is_offered_among_the_messages_is_no_message() -> None:
    offered: Json = {"name": "find", "description": "finds", "parameters": {"properties": {}}}
    rows: Json = [
        {"role": "user", "content": "Hi"},
        {"role": "tool", "content": {"type": "function", "function": offered}},
    ]
    assert sent(rows) == [("user", "Hi", None, [])]


def test_an_answer_that_only_its_envelope_marks_as_an_error_says_so() -> None:
    rows: Json = [
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1", "is_error": True, "content": "no order"},
            {"type": "text", "text": "and now?"}]},
    ]  # fmt: skip
    assert sent(rows) == [("tool", "Error: no order", "c1", []), ("user", "and now?", None, [])]


def test_a_tools_structured_answer_is_kept_whole() -> None:
    answer: Json = {"ok": False, "why": "no order"}
    rows: Json = [{"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1",
                                              "response": answer}]}]  # fmt: skip
    [(_, content, _, _)] = sent(rows)
    assert json.loads(content) == answer


def test_whole_numbers_of_any_size_are_kept() -> None:
    rows: Json = [{"role": "tool", "tool_call_id": "c1", "content": {"n": 2**70}}]
    assert sent(rows) == [("tool", '{"n":1180591620717411303424}', "c1", [])]


IMAGE = base64.b64encode(bytes(range(256)) * 48).decode()  # 12,288 bytes


@pytest.mark.parametrize(
    "part",
    [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE}"}},
     {"type": "input_image", "image_url": f"data:image/png;base64,{IMAGE}"},
     {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": IMAGE}},
     {"inlineData": {"mimeType": "image/png", "data": IMAGE}},
     {"inline_data": {"mime_type": "image/png", "data": IMAGE}},
     {"type": "image", "image": IMAGE, "mediaType": "image/png"},
     {"type": "blob", "mime_type": "image/png", "data": IMAGE},
     {"type": "file", "mediaType": "image/png", "data": IMAGE}],
)  # fmt: skip
def test_an_image_is_a_mark_with_its_type_and_size(part: Json) -> None:
    rows: Json = [{"role": "user", "content": [{"type": "text", "text": "See:"}, part]}]
    assert sent(rows) == [("user", "See:\n[image/png, 12288 bytes]", None, [])]


def test_an_image_behind_a_link_is_its_link() -> None:
    part: Json = {"type": "image_url", "image_url": {"url": "https://img.example/cat.png"}}
    assert sent([{"role": "user", "content": [part]}]) == [
        ("user", "[image: https://img.example/cat.png]", None, [])
    ]


def test_base64_inside_text_becomes_a_mark_and_nothing_else_changes() -> None:
    text = f"before {IMAGE} between data:image/png;base64,{IMAGE} after"
    marked = "before [base64, 12288 bytes] between [image/png, 12288 bytes] after"
    assert without_blobs(text) == marked
    assert without_blobs(marked) == marked


def test_one_letter_over_and_over_is_what_the_model_said() -> None:
    text = "a" * 5000
    assert without_blobs(text) == text


def test_a_long_history_keeps_its_end() -> None:
    rows: Json = [{"role": "user", "content": str(n)} for n in range(MAX_MESSAGES + 9)]
    found = sent_messages(rows, texts())
    assert len(found) == MAX_MESSAGES
    assert found[-1].content == str(MAX_MESSAGES + 8)


def test_long_texts_are_cut_and_counted() -> None:
    kept = Texts(10)
    [message] = sent_messages([{"role": "user", "content": "x" * 99}], kept)
    assert (message.content, kept.cut) == ("x" * 10, 1)


@pytest.mark.parametrize(
    ("value", "found"),
    [({"name": "find", "args": ARGUMENTS, "id": "c1", "type": "tool_call"}, ("find", ARGUMENTS)),
     ({"toolName": "find", "toolCallId": "c1", "input": ARGUMENTS}, ("find", ARGUMENTS)),
     (json.dumps({"name": "find", "arguments": ARGUMENTS_TEXT}), ("find", ARGUMENTS)),
     (ARGUMENTS, (None, None)), ("plain", (None, None)), ('{"name": "x", "args"', (None, None)),
     ({"name": "x", "args": [1], "cwd": "."}, (None, None)), (None, (None, None))],
)  # fmt: skip
def test_arguments_come_out_of_a_request_and_out_of_nothing_else(
    value: Json, found: tuple[str | None, Json]
) -> None:
    assert tool_request(value) == found


@pytest.mark.parametrize("text", ["content=1 tool_call_id=", "content='a", "said content='a'", ""])
def test_an_answer_that_is_no_printed_message_is_left_alone(text: str) -> None:
    payload = Payload(text=text, size_bytes=len(text))
    assert opened_answer(payload) is payload
