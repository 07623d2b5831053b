"""Our own traces written down as an Inspect eval log, and as the archive of one.

A sample holds model calls and tools as events; no graph nodes and no stack traces of tools.
"""

import io
import json
import zipfile
from collections.abc import Iterable, Sequence
from datetime import datetime

from contracts.json_types import Json
from contracts.traces import Span, Trace
from tests.emit.chat import Said, conversation


def sample(trace: Trace, number: int = 1) -> dict[str, Json]:
    """The run as one sample with its messages and events."""
    said = list(conversation(trace))
    messages = [_message(one) for one in said]
    events: list[Json] = []
    for place, one in enumerate(said):
        if one.role == "assistant" and one.span is not None:
            events.append(_model(one, one.span, messages[:place]))
        elif one.call is not None and one.span is not None:
            events.append(_tool(one, one.span))
    asked = next((one.text for one in said if one.role == "user"), "")
    beside = {
        "session_id": trace.session_id, "user_id": trace.user_id,
        "environment": trace.environment,
    }  # fmt: skip
    return {
        "id": number, "epoch": 1, "input": asked, "target": "", "messages": messages,
        "output": {"choices": []}, "scores": {}, "events": events, "attachments": {},
        "metadata": {key: value for key, value in beside.items() if value is not None},
        "uuid": trace.id, "started_at": _at(trace.started_at),
        "completed_at": _at(trace.root.ended_at or trace.started_at),
    }  # fmt: skip


def document(traces: Sequence[Trace]) -> dict[str, Json]:
    """All runs as one log."""
    return {**_header(traces), "samples": [sample(t, n) for n, t in enumerate(traces, 1)]}


def archive(traces: Sequence[Trace]) -> bytes:
    """All runs as an `.eval` file."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("_journal/start.json", json.dumps({"version": 2, "eval": {"task": "own"}}))
        summaries = []
        for number, trace in enumerate(traces, 1):
            one = sample(trace, number)
            packed.writestr(f"samples/{number}_epoch_1.json", json.dumps(one))
            kept = ("id", "epoch", "input", "target", "scores")
            summaries.append({key: one[key] for key in kept})
        packed.writestr("summaries.json", json.dumps(summaries))
        packed.writestr("header.json", json.dumps(_header(traces)))
    return out.getvalue()


def _header(traces: Sequence[Trace]) -> dict[str, Json]:
    created = min((trace.started_at for trace in traces), default=None)
    told: dict[str, Json] = {"task": "own", "task_id": "own", "eval_id": "own", "run_id": "own"}
    told |= {"created": _at(created)} if created is not None else {}
    return {"version": 2, "status": "success", "eval": told, "plan": {}, "results": {}, "stats": {}}


def _message(said: Said) -> dict[str, Json]:
    row: dict[str, Json] = {"role": said.role, "content": said.text}
    if said.calls:
        row["tool_calls"] = [
            {"id": c.id, "function": c.tool, "arguments": c.arguments, "type": "function"}
            for c in said.calls
        ]
    if said.call is not None:
        row |= {"tool_call_id": said.call.id, "function": said.call.tool}
        row |= _error(said)
    return row


def _error(said: Said) -> dict[str, Json]:
    return {} if said.error is None else {"error": {"type": "unknown", "message": said.error}}


def _model(said: Said, span: Span, before: Iterable[Json]) -> dict[str, Json]:
    counted = {
        "input_tokens": span.input_tokens, "output_tokens": span.output_tokens,
        "total_cost": span.cost_usd,
    }  # fmt: skip
    choice: Json = {"message": _message(said), "stop_reason": span.finish_reason}
    output: Json = {
        "model": span.model, "choices": [choice],
        "usage": {key: value for key, value in counted.items() if value is not None},
    }  # fmt: skip
    return {
        "event": "model", "timestamp": _at(span.started_at), "model": span.model,
        "tools": [json.loads(schema) for schema in _tools(span)],
        "input": list(before), "output": output,
        **({"completed": _at(span.ended_at)} if span.ended_at else {}),
    }  # fmt: skip


def _tools(span: Span) -> list[str]:
    schemas = span.attributes.get("llm.tools")
    return [s for s in schemas if isinstance(s, str)] if isinstance(schemas, list) else []


def _tool(said: Said, span: Span) -> dict[str, Json]:
    assert said.call is not None
    return {
        "event": "tool", "id": said.call.id, "function": said.call.tool,
        "arguments": said.call.arguments, "result": said.text,
        "timestamp": _at(span.started_at), "completed": _at(span.ended_at or span.started_at),
        **_error(said),
    }  # fmt: skip


def _at(time: datetime) -> str:
    return time.isoformat()
