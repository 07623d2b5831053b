"""Our own traces written down as LangSmith has them: v2 items, v1 runs, batch bodies, bulk rows."""

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from contracts.json_types import Json
from contracts.traces import Message, Payload, Span, Trace

Run = dict[str, Json]

PROJECT_ID = "7e0fb0f4-7c5a-4b5b-9a3e-0d7d7a6a1c11"
_TYPES = {"llm": "LLM", "tool": "TOOL", "retriever": "RETRIEVER", "embedding": "EMBEDDING"}


def v2_items(traces: Iterable[Trace]) -> list[Run]:
    """Every span as an item of `POST /api/v2/runs/query` with all fields selected."""
    return [run for trace in traces for run in _runs(trace)]


def v1_run(item: Mapping[str, Json]) -> Run:
    """The same run as `POST /runs/query` answers it."""
    parents = item.get("parent_run_ids")
    v1: Run = {
        **{key: item.get(key) for key in _SAME},
        "session_id": item.get("project_id"),
        "run_type": str(item.get("run_type")).lower(),
        "status": str(item.get("status")).lower(),
        "parent_run_id": parents[-1] if isinstance(parents, list) and parents else None,
        "inputs": item.get("inputs") or {},
        "prompt_tokens": item.get("prompt_tokens") or 0,
        "completion_tokens": item.get("completion_tokens") or 0,
        "child_run_ids": None,
        "child_runs": None,
    }
    cost = item.get("total_cost")
    v1["total_cost"] = None if cost is None else f"{cost:.10f}"
    metadata = item.get("metadata")
    extra = item.get("extra")
    v1["extra"] = {**(extra if isinstance(extra, dict) else {}), "metadata": metadata or {}}
    return v1


_SAME = (
    "id", "trace_id", "parent_run_ids", "dotted_order", "name", "start_time", "end_time", "error",
    "outputs", "tags", "events", "feedback_stats", "reference_example_id",
)  # fmt: skip
_BEGUN = (
    "id", "trace_id", "dotted_order", "parent_run_id", "name", "start_time", "run_type", "inputs",
    "extra", "tags",
)  # fmt: skip
_ENDED = ("id", "trace_id", "dotted_order", "end_time", "error", "outputs", "extra")


def batch_bodies(traces: Iterable[Trace], *, project: str = "default") -> Iterator[dict[str, Json]]:
    """One body of `POST /runs/batch` a trace: starts in `post`, ends in `patch`."""
    for trace in traces:
        post: list[Json] = []
        patch: list[Json] = []
        for item in _runs(trace):
            run = v1_run(item)
            post.append({"session_name": project, **{key: run[key] for key in _BEGUN}})
            if run["end_time"] is not None:
                usage = {"usage_metadata": _usage(item)} if _usage(item) else {}
                outputs = run["outputs"]
                late = {**(outputs if isinstance(outputs, dict) else {}), **usage}
                patch.append({**{key: run[key] for key in _ENDED}, "outputs": late or None})
        yield {"post": post, "patch": patch}


def bulk_rows(traces: Iterable[Trace], *, project: str = "default") -> list[dict[str, object]]:
    """Rows of a bulk export: objects as JSON text, times without a zone."""
    rows = []
    for item in v2_items(traces):
        row: dict[str, object] = dict(v1_run(item))
        for key in ("child_run_ids", "child_runs"):
            row.pop(key)
        for key in ("inputs", "outputs", "extra", "feedback_stats", "events"):
            row[key] = None if row[key] is None else json.dumps(row[key])
        for key in ("start_time", "end_time"):
            when = row[key]
            row[key] = datetime.fromisoformat(str(when)).replace(tzinfo=None) if when else None
        row["session_name"] = project
        rows.append(row)
    return rows


def _usage(item: Mapping[str, Json]) -> dict[str, Json]:
    pairs = (("input_tokens", "prompt_tokens"), ("output_tokens", "completion_tokens"))
    return {ours: item[theirs] for ours, theirs in pairs if item[theirs] is not None}


def _runs(trace: Trace) -> Iterator[Run]:
    ids = _ids(trace)
    by_id: dict[str, Span] = {span.id: span for span in trace.spans}
    for span in trace.spans:
        if span.virtual:
            continue
        above = _above(span, by_id)
        orphan = above[:1] and above[0].virtual
        chain = [one for one in above if not one.virtual]
        parents = [ids[one.id] for one in chain]
        if orphan and not chain:
            parents = [str(uuid.uuid5(uuid.NAMESPACE_OID, f"{trace.id} gone"))]
        order = ".".join(f"{_compact(one.started_at)}{ids[one.id]}" for one in (*chain, span))
        yield _run(trace, span, ids[span.id], parents, order)


def _ids(trace: Trace) -> dict[str, str]:
    """Run ids; the root's is the trace's own, where that is a UUID."""
    ids: dict[str, str] = {
        s.id: str(uuid.uuid5(uuid.NAMESPACE_OID, f"{trace.id} {s.id}")) for s in trace.spans
    }
    if not trace.root.virtual:
        ids[trace.root.id] = trace.id
    return ids


def _above(span: Span, by_id: Mapping[str, Span]) -> list[Span]:
    """The spans above, from the root down."""
    above: list[Span] = []
    while span.parent_id is not None and span.parent_id in by_id:
        span = by_id[span.parent_id]
        above.insert(0, span)
    return above


def _compact(when: datetime) -> str:
    return when.strftime("%Y%m%dT%H%M%S%fZ")


def _run(trace: Trace, span: Span, run_id: str, parents: list[str], order: str) -> Run:
    is_root = not parents
    ended = span.ended_at.isoformat() if span.ended_at else None
    error = _error(span)
    return {
        "id": run_id,
        "trace_id": trace.id,
        "project_id": PROJECT_ID,
        "thread_id": trace.session_id,
        "parent_run_ids": list[Json](parents),
        "dotted_order": order,
        "name": span.tool_name if span.kind == "tool" and span.tool_name else span.name,
        "run_type": _TYPES.get(span.kind, "CHAIN"),
        "status": "ERROR" if error else "SUCCESS" if ended else "PENDING",
        "is_root": is_root,
        "start_time": span.started_at.isoformat(),
        "end_time": ended,
        "error": error,
        "inputs": _inputs(span),
        "outputs": _outputs(span),
        "metadata": _metadata(trace, span),
        "extra": _extra(span),
        "tags": list[Json](trace.tags) if is_root else [],
        "events": [],
        "feedback_stats": _feedback(trace) if is_root else {},
        "prompt_tokens": span.input_tokens,
        "completion_tokens": span.output_tokens,
        "total_tokens": None,
        "total_cost": span.cost_usd,
        "reference_example_id": None,
    }


def _error(span: Span) -> str | None:
    """As the Python tracer writes it: the repr of the exception with the traceback behind it."""
    one = span.error
    if one is None:
        return "GraphInterrupt()" if span.status == "interrupted" else None
    stack = one.stack or ""
    if stack and not stack.startswith("Traceback"):
        stack = f"Traceback (most recent call last):\n{stack}"
    if one.type is None:
        return one.message + stack
    quoted = one.type == "KeyError" and one.message[:1] in ("'", '"')
    return f"{one.type}({one.message if quoted else repr(one.message)}){stack}"


def _metadata(trace: Trace, span: Span) -> dict[str, Json]:
    found: dict[str, Json] = {
        "environment": trace.environment,
        "revision_id": trace.release,
        "user_id": trace.user_id,
        "langgraph_node": span.attributes.get("node"),
        "ls_model_name": span.model,
        "lc_hub_repo": span.prompt_name,
        "lc_hub_commit_hash": span.prompt_version,
        "openinference.span.kind": span.kind.upper() if span.kind in _OTHER else None,
        "tracemend.run_id": "own" if trace.own else None,
    }
    return {key: value for key, value in found.items() if value is not None}


_OTHER = ("agent", "guardrail")


def _extra(span: Span) -> dict[str, Json]:
    tools = span.attributes.get("llm.tools")
    if not isinstance(tools, list):
        return {}
    return {"invocation_params": {"tools": [_loaded(tool) for tool in tools]}}


def _loaded(text: Json) -> Json:
    try:
        found: Json = json.loads(str(text))
    except ValueError:
        return text
    return found


def _feedback(trace: Trace) -> dict[str, Json]:
    stats: dict[str, Json] = {}
    for score in trace.scores:
        number = isinstance(score.value, int | float)
        stats[score.name] = {
            "n": 1,
            "avg": float(score.value) if isinstance(score.value, int | float) else None,
            "values": {} if number or score.value is None else {str(score.value): 1},
            "comments": [score.comment] if score.comment else [],
        }
    return stats


def _inputs(span: Span) -> Json:
    if span.kind == "llm" and span.messages_in:
        return {"messages": [_message(one) for one in span.messages_in]}
    return _wrapped(span.input, "input")


def _outputs(span: Span) -> Json:
    if span.kind == "llm" and span.messages_out:
        choice: dict[str, Json] = {"index": 0, "message": _message(span.messages_out[-1])}
        if span.finish_reason:
            choice["finish_reason"] = span.finish_reason
        return {"choices": [choice]}
    return _wrapped(span.output, "output")


def _wrapped(payload: Payload | None, key: str) -> Json:
    """Inputs and outputs are objects; any other value stands under one key."""
    if payload is None:
        return None
    value = payload.value if payload.value is not None else payload.text
    if isinstance(value, dict) and value and key not in value:
        return value
    return {key: payload.text if isinstance(value, dict) else value}


def _message(one: Message) -> Json:
    found: dict[str, Json] = {"role": one.role, "content": one.content}
    if one.tool_call_id:
        found["tool_call_id"] = one.tool_call_id
    if one.tool_calls:
        found["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": given}}
            for call_id, name, given in one.tool_calls
        ]
    return found
