"""Our own traces written down as nested span trees with OpenInference attributes.

The format holds all that a trace holds; statuses are written as words, times as RFC 3339.
"""

import json
from collections.abc import Iterable, Sequence

from contracts.json_types import Json
from contracts.traces import Message, Payload, Span, Trace

_STATUS = {"ok": "Ok", "error": "Error", "unset": "Unset", "interrupted": "Error"}


def document(trace: Trace) -> dict[str, Json]:
    """The trace as `{trace_id, spans: [root]}` with `child_spans`."""
    written: dict[str, dict[str, Json]] = {}
    children: dict[str, list[Json]] = {}
    roots: list[Json] = []
    for span in trace.spans:
        if span.virtual:
            continue
        children[span.id] = []
        written[span.id] = {**_span(span, trace), "child_spans": children[span.id]}
        above = children.get(span.parent_id or "")
        (roots if above is None else above).append(written[span.id])
    return {"trace_id": trace.id, "spans": roots}


def _span(span: Span, trace: Trace) -> dict[str, Json]:
    message = span.error.message if span.error is not None else ""
    recorded: dict[str, Json] = {
        "trace_id": trace.id, "span_id": span.id, "span_name": span.name,
        "parent_span_id": span.parent_id, "timestamp": span.started_at.isoformat(),
        "status_code": _STATUS[span.status], "status_message": message,
        "resource_attributes": _resource(trace), "span_attributes": _attributes(span, trace),
        "events": _events(span),
    }  # fmt: skip
    if span.ended_at is not None:
        recorded["end_time"] = span.ended_at.isoformat()
    return recorded


def _resource(trace: Trace) -> dict[str, Json]:
    known: dict[str, Json] = {
        **trace.resource, "deployment.environment.name": trace.environment,
        "service.version": trace.release,
    }  # fmt: skip
    return {key: value for key, value in known.items() if value is not None}


def _attributes(span: Span, trace: Trace) -> dict[str, Json]:
    known: dict[str, Json] = {
        "openinference.span.kind": "UNKNOWN" if span.kind == "other" else span.kind.upper(),
        "input.value": _text(span.input), "output.value": _text(span.output),
        "tool.name": span.tool_name, "llm.model_name": span.model,
        "llm.token_count.prompt": span.input_tokens,
        "llm.token_count.completion": span.output_tokens, "llm.cost.total": span.cost_usd,
        "llm.finish_reason": span.finish_reason, "graph.node.id": span.attributes.get("node"),
        "session.id": trace.session_id, "user.id": trace.user_id,
    }  # fmt: skip
    known |= _messages("llm.input_messages", span.messages_in)
    known |= _messages("llm.output_messages", span.messages_out)
    tools = span.attributes.get("llm.tools")
    for number, schema in enumerate(tools if isinstance(tools, list) else ()):
        known[f"llm.tools.{number}.tool.json_schema"] = schema
    return {key: value for key, value in known.items() if value is not None}


def _text(payload: Payload | None) -> str | None:
    return None if payload is None else payload.text


def _messages(prefix: str, messages: Sequence[Message]) -> dict[str, Json]:
    rows: dict[str, Json] = {}
    for number, message in enumerate(messages):
        here = f"{prefix}.{number}.message"
        rows |= {f"{here}.role": message.role, f"{here}.content": message.content}
        if message.tool_call_id is not None:
            rows[f"{here}.tool_call_id"] = message.tool_call_id
        for place, (call_id, name, arguments) in enumerate(message.tool_calls):
            call = f"{here}.tool_calls.{place}.tool_call"
            rows |= {f"{call}.function.name": name, f"{call}.function.arguments": arguments}
            rows |= {} if call_id is None else {f"{call}.id": call_id}
    return rows


def _events(span: Span) -> list[Json]:
    if span.error is None:
        return []
    attributes: dict[str, Json] = {"exception.message": span.error.message}
    if span.error.type is not None:
        attributes["exception.type"] = span.error.type
    if span.error.stack is not None:
        attributes["exception.stacktrace"] = span.error.stack
    return [{"Name": "exception", "Attributes": attributes}]


def lines(traces: Iterable[Trace]) -> bytes:
    """One tree a line."""
    return b"".join(json.dumps(document(trace)).encode() + b"\n" for trace in traces)
