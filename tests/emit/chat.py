"""Our own traces written down as chat logs: what was said, called and answered, and when.

A chat log holds no spans but model calls and tools, no stack traces and no graph nodes; a model
call's node stands as the name of its message.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from contracts.json_types import Json
from contracts.traces import Message, Span, Trace
from nodes.insights.detect.answers import answer_of, own_arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call as the log has it."""

    id: str
    tool: str
    arguments: dict[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One message of a run."""

    role: str
    text: str
    at: datetime
    span: Span | None = None
    """The model call or the tool that it came from."""
    calls: tuple[Call, ...] = ()
    call: Call | None = None
    """Of a tool's answer: what it answers."""
    error: str | None = None


def conversation(trace: Trace) -> Iterator[Said]:
    """The run as messages, in order: what is recorded of model calls and tools."""
    open_calls: list[Call] = []
    told: set[tuple[str, str]] = set()
    number = 0
    for span in trace.spans:
        if span.kind == "llm":
            for message in span.messages_in:
                if (
                    message.role in ("system", "user")
                    and (message.role, message.content) not in told
                ):
                    told.add((message.role, message.content))
                    yield Said(role=message.role, text=message.content, at=span.started_at)
            said = span.messages_out[-1] if span.messages_out else Message(role="", content="")
            calls = []
            for _, name, arguments in said.tool_calls:
                number += 1
                calls.append(Call(id=f"call_{number}", tool=name, arguments=_object(arguments)))
            open_calls += calls
            yield Said(
                role="assistant", text=said.content, at=span.started_at, span=span,
                calls=tuple(calls),
            )  # fmt: skip
        elif span.kind == "tool":
            yield _answer(span, open_calls)


def _answer(span: Span, open_calls: list[Call]) -> Said:
    given = own_arguments(span)
    name = span.tool_name or span.name
    named = [call for call in open_calls if call.tool == name]
    same = [call for call in named if given is not None and call.arguments == dict(given)]
    call = next(iter(same or named), Call(id="call_0", tool=name, arguments=dict(given or {})))
    if call in open_calls:
        open_calls.remove(call)
    error = span.error
    failed = f"{(error.type or 'Error').rpartition('.')[2]}: {error.message}" if error else None
    text = failed if failed is not None else answer_of(span.output).text
    return Said(
        role="tool", text=text, at=span.ended_at or span.started_at, span=span, call=call,
        error=failed,
    )  # fmt: skip


def _object(arguments: str) -> dict[str, Json]:
    value = json.loads(arguments or "{}")
    return value if isinstance(value, dict) else {"value": value}


def document(trace: Trace) -> dict[str, Json]:
    """The run as `{"messages": [...]}` with the ids of trace, session and user beside it."""
    rows: list[Json] = []
    for said in conversation(trace):
        row: dict[str, Json] = {
            "role": said.role, "content": said.text, "timestamp": said.at.isoformat(),
        }  # fmt: skip
        if said.role == "assistant" and said.span is not None:
            row.update(_counts(said.span))
        if said.calls:
            row["tool_calls"] = [
                {"id": c.id, "type": "function",
                 "function": {"name": c.tool, "arguments": json.dumps(c.arguments)}}
                for c in said.calls
            ]  # fmt: skip
        if said.call is not None:
            row |= {"tool_call_id": said.call.id, "name": said.call.tool}
            row |= {"status": "error"} if said.error is not None else {}
        rows.append(row)
    beside = {
        "trace_id": trace.id, "session_id": trace.session_id, "user_id": trace.user_id,
        "environment": trace.environment,
    }  # fmt: skip
    known = {k: v for k, v in beside.items() if v is not None}
    return {**known, "messages": rows, "tools": offered_tools(trace)}


def offered_tools(trace: Trace) -> list[Json]:
    """Schemas of the tools that the run's model calls were offered, each once."""
    texts: dict[str, None] = {}
    for span in trace.spans:
        schemas = span.attributes.get("llm.tools")
        if isinstance(schemas, list):
            texts.update(dict.fromkeys(text for text in schemas if isinstance(text, str)))
    return [json.loads(text) for text in texts]


def _counts(span: Span) -> dict[str, Json]:
    counted = {"input_tokens": span.input_tokens, "output_tokens": span.output_tokens}
    node = span.attributes.get("node")
    row: dict[str, Json] = {
        "name": node, "model": span.model, "cost_usd": span.cost_usd,
        "finish_reason": span.finish_reason, "usage": counted,
    }  # fmt: skip
    return {key: value for key, value in row.items() if value is not None}


def lines(traces: Iterable[Trace]) -> bytes:
    """One run a line."""
    return b"".join(json.dumps(document(trace)).encode() + b"\n" for trace in traces)
