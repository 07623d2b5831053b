"""The same few runs written by hand as recorders write them for which there is no emitter."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.read import shapes
from connectors.traces.otlp import attributes_of
from connectors.traces.raw import as_objects
from connectors.traces.salvage import load
from contracts.json_types import Json
from contracts.traces import Trace
from tests.emit import openinference
from tests.emit.chat import conversation

Document = dict[str, Json]

TEXT_CHARS: Final = 48
_NANOS: Final = 1_000_000_000


def short(value: Json) -> Json:
    """The value with short texts and few items."""
    if isinstance(value, str):
        return value[:TEXT_CHARS]
    if isinstance(value, Mapping):
        return {key: short(item) for key, item in list(value.items())[:6]}
    if isinstance(value, list):
        return [short(item) for item in value[:2]]
    return value


def otlp_documents(own: Path, traces: Sequence[Trace]) -> Iterator[Document]:
    """Export requests with the same few spans, as they were recorded and in other spellings."""
    trees = {str(spans[0]["traceId"]): spans for spans in shapes(own)}
    for number, trace in enumerate(traces):
        ids = {span.id for span in trace.spans}
        spans = [_short_otlp(span) for span in trees[trace.id] if span["spanId"] in ids]
        resource: Json = {"attributes": [{"key": "service.name", "value": {"stringValue": "desk"}}]}
        yield {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": list(spans)}]}]}
        if not number:
            snake = [_snake(span) for span in spans]
            yield {"resource_spans": [{"scope_spans": [{"spans": list(snake)}]}]}
    for found in _dialects(traces[0]):
        yield {"batches": [{"scopeSpans": [{"spans": list(found)}]}]}


def _short_otlp(span: Mapping[str, Json]) -> Document:
    recorded = attributes_of(span.get("attributes"))
    attributes = [_pair(key, _short_text(value)) for key, value in recorded.items()]
    return {**span, "attributes": attributes}


def _short_text(value: Json) -> Json:
    if not isinstance(value, str):
        return value
    inner = load(value.encode()).value if value[:1] in ("{", "[") else None
    return value[:TEXT_CHARS] if inner is None else json.dumps(short(inner))


def _pair(key: str, value: Json) -> Document:
    if isinstance(value, bool):
        return {"key": key, "value": {"boolValue": value}}
    if isinstance(value, int):
        return {"key": key, "value": {"intValue": str(value)}}
    if isinstance(value, float):
        return {"key": key, "value": {"doubleValue": value}}
    return {"key": key, "value": {"stringValue": value if isinstance(value, str) else ""}}


def _snake(span: Mapping[str, Json]) -> Document:
    names = {"traceId": "trace_id", "spanId": "span_id", "parentSpanId": "parent_span_id",
             "startTimeUnixNano": "start_time_unix_nano",
             "endTimeUnixNano": "end_time_unix_nano"}  # fmt: skip
    return {names.get(key, key): value for key, value in span.items()}


def _dialects(trace: Trace) -> Iterator[list[Document]]:
    """The model call and the tool call of a run, as other recorders write them."""
    asked = json.dumps([{"role": "user", "content": "refund A-1"}])
    parts = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "refund A-1"}]}])
    calls = json.dumps([{"role": "assistant", "parts": [
        {"type": "tool_call", "id": "c1", "name": "find", "arguments": {"a": 1}}]}])  # fmt: skip
    llm: list[dict[str, Json]] = [
        {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.input.messages":
         parts, "gen_ai.output.messages": calls, "gen_ai.usage.input_tokens": 5,
         "gen_ai.response.finish_reasons": '["stop"]', "gen_ai.system_instructions": parts},
        {"gen_ai.system": "x", "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "hi",
         "gen_ai.completion.0.content": "yes", "gen_ai.usage.prompt_tokens": 3,
         "llm.request.type": "chat", "gen_ai.completion.0.tool_calls.0.name": "find"},
        {"traceloop.span.kind": "task", "traceloop.entity.input": asked,
         "traceloop.entity.output": "{}", "traceloop.association.properties.session_id": "s"},
        {"langfuse.observation.type": "generation", "langfuse.observation.input": asked,
         "langfuse.observation.output": "ok", "langfuse.observation.usage_details": '{"input": 4}',
         "langfuse.session.id": "s", "langfuse.trace.tags": '["a"]'},
        {"ai.operationId": "ai.generateText.doGenerate", "ai.prompt.messages": asked,
         "ai.response.text": "ok", "ai.model.id": "m", "ai.response.toolCalls": "[]"},
        {"logfire.msg": "chat", "request_data": '{"messages": ' + asked + "}",
         "response_data": '{"message": {"role": "assistant", "content": "ok"}}'},
    ]  # fmt: skip
    tool: dict[str, Json] = {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find",
        "gen_ai.tool.call.arguments": '{"a": 1}', "gen_ai.tool.call.result": '{"ok": false}',
    }  # fmt: skip
    events: list[Json] = [
        {"name": "gen_ai.user.message", "attributes": [_pair("content", "hi")]},
        {"name": "gen_ai.choice", "attributes": [_pair("message", '{"content": "yes"}')]},
        {"name": "exception", "attributes": [_pair("exception.type", "KeyError"),
                                             _pair("exception.message", "no"),
                                             _pair("exception.stacktrace", "Traceback")]},
    ]  # fmt: skip
    for number, attributes in enumerate(llm):
        start = 1_795_510_800 * _NANOS + number
        ids: Document = {"traceId": f"{number + 1:032x}"}
        first: Document = {
            **ids, "spanId": f"{1:016x}", "name": trace.root.name, "startTimeUnixNano": str(start),
            "endTimeUnixNano": str(start + 5 * _NANOS), "attributes":
            [_pair(k, v) for k, v in attributes.items()], "events": events[: 2 * (number % 2)],
            "status": {"code": 1},
        }  # fmt: skip
        second: Document = {
            **ids, "spanId": f"{2:016x}", "parentSpanId": f"{1:016x}", "name": "find",
            "startTimeUnixNano": start + _NANOS, "endTimeUnixNano": start + 2 * _NANOS,
            "attributes": [_pair(k, v) for k, v in tool.items()], "events": events[2:],
            "status": {"code": "STATUS_CODE_ERROR", "message": "KeyError: no"},
        }  # fmt: skip
        yield [first, second]


def _recorded(trace: Trace) -> dict[str, Document]:
    """Attributes with OpenInference keys, by span."""
    found: dict[str, Document] = {}
    stack = as_objects(openinference.document(trace).get("spans"))
    while stack:
        span = stack.pop()
        attributes = span.get("span_attributes")
        found[str(span["span_id"])] = dict(attributes) if isinstance(attributes, dict) else {}
        stack += as_objects(span.get("child_spans"))
    return found


def printed_spans(trace: Trace) -> Iterator[Document]:
    """Spans as the SDKs print them: JavaScript's console and objects, Python's console."""
    console: list[Json] = []
    dumped: list[Json] = []
    python: list[Json] = []
    recorded = _recorded(trace)
    for span in trace.spans:
        us = int(span.started_at.timestamp() * 1_000_000)
        seconds = [us // 1_000_000, us % 1_000_000 * 1000]
        attributes = recorded[span.id]
        parent = {"parentId": span.parent_id} if span.parent_id else {}
        console.append({
            "resource": {"attributes": {"service.name": "desk"}}, "traceId": trace.id,
            "name": span.name, "id": span.id, **parent, "timestamp": us, "duration": 900.5,
            "kind": 0, "attributes": attributes, "status": {"code": 1}, "events": [], "links": [],
        })  # fmt: skip
        dumped.append({
            "name": span.name, "_spanContext": {"traceId": trace.id, "spanId": span.id},
            "parentSpanContext": {"spanId": span.parent_id}, "startTime": seconds,
            "endTime": seconds, "ended": True, "attributes": attributes, "status": {"code": 2},
        })  # fmt: skip
        python.append({
            "name": span.name, "context": {"trace_id": f"0x{trace.id}", "span_id": f"0x{span.id}"},
            "parent_id": f"0x{span.parent_id}" if span.parent_id else None, "kind": "INTERNAL",
            "start_time": span.started_at.isoformat(), "end_time": None,
            "status": {"status_code": "ERROR", "description": "no"}, "attributes": attributes,
            "events": [{"name": "exception", "attributes": {"exception.type": "KeyError"}}],
        })  # fmt: skip
    yield {"spans": console}
    yield {"ai.generateText": dumped}
    yield {"spans": python}


def swe_agent_document(trace: Trace) -> Document:
    """The run as a trajectory of SWE-agent: what the model said, did, and was answered."""
    history: list[Json] = []
    steps: list[Json] = []
    waiting = "ls"
    for said in conversation(trace):
        history.append({"role": said.role if said.role in ("system", "user") else "assistant",
                        "agent": "main", "content": said.text, "action": waiting})  # fmt: skip
        if said.calls:
            waiting = f"{said.calls[0].tool} {json.dumps(said.calls[0].arguments)}"
        elif said.call is not None:
            steps.append({"action": waiting, "observation": said.text, "response": "so",
                          "thought": "", "execution_time": 0.5})  # fmt: skip
    return {
        "environment": "main", "history": history,
        "trajectory": steps or [{"action": waiting, "observation": "a b", "response": "so"}],
        "info": {"exit_status": "exit_cost", "submission": "", "model_stats":
                 {"tokens_sent": 5, "api_calls": 2, "instance_cost": 0.1}},
    }  # fmt: skip


def phoenix_page(trace: Trace) -> Document:
    """The run as a page of spans of Phoenix, with annotations of each kind."""
    rows: list[Json] = [
        {
            "id": "U3Bhbjox", "name": span.name,
            "context": {"trace_id": trace.id, "span_id": span.id},
            "span_kind": span.kind.upper(), "parent_id": span.parent_id,
            "start_time": span.started_at.isoformat(),
            "end_time": span.ended_at.isoformat() if span.ended_at else None,
            "status_code": "ERROR" if span.error else "OK", "status_message": "",
            "attributes": {**_recorded(trace)[span.id], "metadata.node": "n"},
            "events": [],
        }
        for span in trace.spans
    ]  # fmt: skip
    rows += [
        {"name": "helpful", "annotator_kind": kind, "source": "APP", "updated_at":
         "2026-11-24T09:00:00+00:00", "result": {"score": 1.0, "label": "good"}, **about}
        for kind in ("HUMAN", "LLM")
        for about in ({"span_id": trace.root.id}, {"trace_id": trace.id})
    ]  # fmt: skip
    return {"data": rows, "next_cursor": None}
