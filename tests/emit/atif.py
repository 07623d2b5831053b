"""Our own traces written down as ATIF trajectories.

The format holds no graph nodes and no exception classes of their own: a result says that it is an
error, and its text begins with the class.
"""

import json
from collections.abc import Iterable

from contracts.json_types import Json
from contracts.traces import Span, Trace
from tests.emit.chat import Said, conversation, offered_tools

VERSION = "ATIF-v1.7"


def document(trace: Trace) -> dict[str, Json]:
    """The run as one trajectory; a tool's answer stands in the step that called it."""
    steps: list[dict[str, Json]] = []
    results: dict[str, list[Json]] = {}
    for said in conversation(trace):
        if said.call is not None:
            results.setdefault(said.call.id, []).append(_result(said))
            continue
        step: dict[str, Json] = {
            "step_id": len(steps) + 1, "timestamp": said.at.isoformat(), "message": said.text,
            "source": "agent" if said.role == "assistant" else said.role,
        }  # fmt: skip
        if said.span is not None:
            step |= {"model_name": said.span.model, "metrics": _metrics(said.span)}
            step["extra"] = {"stop_reason": said.span.finish_reason}
        if said.calls:
            step["tool_calls"] = [
                {"tool_call_id": c.id, "function_name": c.tool, "arguments": c.arguments}
                for c in said.calls
            ]
            results.update({c.id: [] for c in said.calls})
            step["observation"] = {"results": [results[c.id] for c in said.calls]}
        steps.append(step)
    for step in steps:
        observation = step.get("observation")
        if isinstance(observation, dict):
            observation["results"] = [one for many in observation["results"] for one in many]
    root: dict[str, Json] = {
        "schema_version": VERSION, "trajectory_id": trace.id, "session_id": trace.session_id,
        "agent": {"name": _agent(trace), "version": trace.release or "1",
                  "tool_definitions": offered_tools(trace)},
        "steps": steps,
        "extra": {"user_id": trace.user_id, "environment": trace.environment},
    }  # fmt: skip
    return {key: value for key, value in root.items() if value is not None}


def _agent(trace: Trace) -> str:
    return trace.root.name


def _result(said: Said) -> dict[str, Json]:
    call = said.call.id if said.call is not None else None
    failed: dict[str, Json] = {"extra": {"is_error": True}} if said.error is not None else {}
    return {"source_call_id": call, "content": said.text, **failed}


def _metrics(span: Span) -> dict[str, Json]:
    counted = {
        "prompt_tokens": span.input_tokens, "completion_tokens": span.output_tokens,
        "cost_usd": span.cost_usd,
    }  # fmt: skip
    return {key: value for key, value in counted.items() if value is not None}


def lines(traces: Iterable[Trace]) -> bytes:
    """One trajectory a line."""
    return b"".join(json.dumps(document(trace)).encode() + b"\n" for trace in traces)
