"""Our traces as Langfuse records them: rows of the API, API exports, rows of a blob export.

Shapes follow the recorded answers of a 4.16 server and the field reference of the blob export.
"""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from contracts.json_types import Json
from contracts.traces import Message, Score, Span, Trace

Row = dict[str, Json]

PROJECT = "proj1"
_TYPES = {
    "llm": "GENERATION", "tool": "TOOL", "agent": "AGENT", "retriever": "RETRIEVER",
    "chain": "CHAIN", "embedding": "EMBEDDING", "guardrail": "GUARDRAIL", "other": "SPAN",
}  # fmt: skip
_SNAKE = {
    "traceId": "trace_id", "projectId": "project_id", "startTime": "start_time",
    "endTime": "end_time", "parentObservationId": "parent_observation_id",
    "statusMessage": "status_message", "model": "provided_model_name",
    "modelParameters": "model_parameters", "usageDetails": "usage_details",
    "costDetails": "cost_details", "completionStartTime": "completion_start_time",
    "promptName": "prompt_name", "promptVersion": "prompt_version", "promptId": "prompt_id",
    "totalCost": "total_cost", "timeToFirstToken": "time_to_first_token", "modelId": "model_id",
    "createdAt": "created_at", "updatedAt": "updated_at", "userId": "user_id",
    "sessionId": "session_id", "traceName": "trace_name", "inputPrice": "input_price",
    "outputPrice": "output_price", "totalPrice": "total_price",
    "usagePricingTierId": "usage_pricing_tier_id",
    "usagePricingTierName": "usage_pricing_tier_name", "observationId": "observation_id",
    "dataType": "data_type", "stringValue": "string_value", "datasetRunId": "dataset_run_id",
}  # fmt: skip
_NOT_IN_BLOBS = (
    "isRootObservation", "internalModelId", "inputUsage", "outputUsage", "totalUsage", "inputCost",
    "outputCost",
)  # fmt: skip


def observation_rows(trace: Trace) -> list[Row]:
    """The trace's spans as rows of observations v2 with every field group."""
    return [_row(trace, span) for span in trace.spans if not span.virtual]


def score_rows(trace: Trace) -> list[Row]:
    """The trace's scores as rows of scores v3."""
    return [_score(trace, score, number) for number, score in enumerate(trace.scores)]


def export(trace: Trace) -> Row:
    """The trace as an API export of the older endpoint: `{trace, observations}`."""
    rows = [_v1(row) for row in observation_rows(trace)]
    root = trace.root
    head: Row = {
        "id": trace.id,
        "projectId": PROJECT,
        "name": trace.name or root.name,
        "timestamp": api_time(trace.started_at),
        "environment": trace.environment or "default",
        "tags": list(trace.tags),
        "bookmarked": False,
        "release": trace.release,
        "version": trace.version,
        "userId": trace.user_id,
        "sessionId": trace.session_id,
        "public": False,
        "input": None if root.input is None else json.dumps(root.input.text),
        "output": None if root.output is None else json.dumps(root.output.text),
        "metadata": "{}",
        "createdAt": api_time(trace.started_at),
        "updatedAt": api_time(trace.started_at),
        "scores": [v1_score(row) for row in score_rows(trace)],
        "corrections": [],
        "latency": 0.0,
        "observations": [row["id"] for row in rows],
    }
    return {"trace": head, "observations": rows}


def blob_rows(trace: Trace) -> list[Row]:
    """The trace's spans as rows of `observations_v2/` of a blob export, as in JSON lines."""
    return [_blob(row) for row in observation_rows(trace)]


def blob_scores(trace: Trace) -> list[Row]:
    """The trace's scores as rows of `scores/`."""
    return [_blob(v1_score(row)) for row in score_rows(trace)]


def legacy_blob(trace: Trace) -> tuple[Row, list[Row]]:
    """(row of `traces/`, rows of `observations/`) of the older kind of blob export."""
    document = export(trace)
    head, rows = document["trace"], document["observations"]
    assert isinstance(head, dict)
    assert isinstance(rows, list)
    gone = ("scores", "corrections", "latency", "observations")
    first = _blob({k: v for k, v in head.items() if k not in gone})
    first["timestamp"] = blob_time(head["timestamp"])
    for key in ("input", "output"):
        said = first[key]
        first[key] = json.loads(said) if isinstance(said, str) else None
    plain = [_blob(dict(row)) for row in rows if isinstance(row, dict)]
    for row in plain:
        row["metadata"] = json.loads(str(row["metadata"]))
    return first, plain


def as_csv(rows: Sequence[Row]) -> str:
    """Rows as CSV: objects and lists as JSON text, nothing for null."""
    out = io.StringIO()
    names = list(dict.fromkeys(key for row in rows for key in row))
    writer = csv.DictWriter(out, names)
    writer.writeheader()
    for row in rows:
        writer.writerow({key: _cell(value) for key, value in row.items()})
    return out.getvalue()


def as_lines(rows: Iterable[Mapping[str, Json]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def api_time(when: datetime) -> str:
    """As the API writes times: milliseconds and Z."""
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond // 1000:03}Z"


def blob_time(recorded: Json) -> Json:
    """As a blob export writes times: microseconds, UTC, no zone."""
    if not isinstance(recorded, str):
        return recorded
    return datetime.fromisoformat(recorded).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


def _row(trace: Trace, span: Span) -> Row:
    usage, cost = _usage(span), _cost(span)
    start, end = span.started_at, span.ended_at
    return {
        "id": span.id,
        "traceId": trace.id,
        "startTime": api_time(start),
        "endTime": None if end is None else api_time(end),
        "projectId": PROJECT,
        "parentObservationId": span.parent_id,
        "type": _TYPES[span.kind],
        "name": span.name,
        "level": "ERROR" if span.status in ("error", "interrupted") else "DEFAULT",
        "statusMessage": _message(span),
        "version": trace.version or "",
        "environment": trace.environment or "default",
        "bookmarked": False,
        "public": False,
        "userId": trace.user_id or "",
        "sessionId": trace.session_id or "",
        "isRootObservation": span.parent_id is None,
        "completionStartTime": None,
        "createdAt": api_time(start),
        "updatedAt": api_time(end or start),
        "input": _given(span),
        "output": _said(span),
        "metadata": _metadata(trace, span),
        "model": span.model or "",
        "internalModelId": "",
        "modelParameters": {},
        "usageDetails": usage,
        "inputUsage": usage.get("input", 0),
        "outputUsage": usage.get("output", 0),
        "totalUsage": usage.get("total", 0),
        "costDetails": cost,
        "inputCost": None,
        "outputCost": None,
        "totalCost": cost.get("total", 0),
        "usagePricingTierId": None,
        "usagePricingTierName": None,
        "promptId": "",
        "promptName": span.prompt_name or "",
        "promptVersion": None if span.prompt_version is None else int(span.prompt_version),
        "latency": None if end is None else round((end - start).total_seconds(), 3),
        "timeToFirstToken": None,
        "traceName": trace.name or "",
        "release": trace.release or "",
        "tags": list(trace.tags),
        "modelId": None,
        "inputPrice": None,
        "outputPrice": None,
        "totalPrice": None,
    }


def _metadata(trace: Trace, span: Span) -> Row:
    """As of an OpenTelemetry span: its attributes, its resource, its scope."""
    own = {
        key: value for key, value in span.attributes.items()
        if not key.startswith(("tracemend.", "llm.cost.", "llm.token_count.", "llm.tools"))
    }  # fmt: skip
    node = own.pop("node", None)
    found: Row = {
        "attributes": own,
        "resourceAttributes": dict(trace.resource),
        "scope": {"name": "langfuse-sdk", "version": "5.0.4"},
    }
    tools = span.attributes.get("llm.tools")
    if isinstance(tools, list):
        own |= {f"llm.tools.{n}.tool.json_schema": tool for n, tool in enumerate(tools)}
    if isinstance(node, str):
        found["langgraph_node"] = node
    return found


def _given(span: Span) -> str | None:
    if span.messages_in:
        return json.dumps([_chat(message) for message in span.messages_in])
    return None if span.input is None else span.input.text


def _said(span: Span) -> str | None:
    if len(span.messages_out) == 1:
        return json.dumps(_chat(span.messages_out[0]))
    if span.messages_out:
        return json.dumps([_chat(message) for message in span.messages_out])
    return None if span.output is None else span.output.text


def _chat(message: Message) -> Row:
    out: Row = {"role": message.role, "content": message.content}
    if message.tool_call_id is not None:
        out["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        out["tool_calls"] = [
            {"id": call, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call, name, arguments in message.tool_calls
        ]
    return out


def _message(span: Span) -> str:
    error = span.error
    if error is None:
        return ""
    named = f"{error.type}: {error.message}" if error.type else error.message
    return f"{named}\n{error.stack}" if error.stack else named


def _usage(span: Span) -> dict[str, int]:
    known = {"input": span.input_tokens, "output": span.output_tokens}
    out = {key: count for key, count in known.items() if count is not None}
    return {**out, "total": sum(out.values())} if out else {}


def _cost(span: Span) -> dict[str, float]:
    return {} if span.cost_usd is None else {"total": span.cost_usd}


def _score(trace: Trace, score: Score, number: int) -> Row:
    kind = {bool: "BOOLEAN", str: "CATEGORICAL"}.get(type(score.value), "NUMERIC")
    at = api_time(score.at or trace.started_at)
    subject: Row = {"kind": "trace", "id": trace.id}
    if score.span_id is not None:
        subject = {"kind": "observation", "id": score.span_id, "traceId": trace.id}
    return {
        "id": f"score-{trace.id[:12]}-{number}",
        "projectId": PROJECT,
        "name": score.name,
        "value": score.value,
        "dataType": kind,
        "source": "API" if score.source == "user" else score.source.upper(),
        "timestamp": at,
        "environment": trace.environment or "default",
        "createdAt": at,
        "updatedAt": at,
        "comment": score.comment,
        "configId": None,
        "metadata": {},
        "subject": subject,
        "authorUserId": None,
        "queueId": None,
    }


def v1_score(row: Row) -> Row:
    """A score as the endpoints before v3 give it: a number, and a text beside it."""
    value, subject = row["value"], row["subject"]
    assert isinstance(subject, dict)
    kept = {k: v for k, v in row.items() if k not in ("subject", "value")}
    is_span = subject["kind"] == "observation"
    number, words = value, None
    if isinstance(value, bool):
        number, words = int(value), str(value)
    elif isinstance(value, str):
        number, words = 0, value
    return {
        **kept,
        "value": number,
        "stringValue": words,
        "longStringValue": "",
        "traceId": subject.get("traceId", subject["id"]),
        "observationId": subject["id"] if is_span else None,
        "sessionId": None,
        "datasetRunId": None,
    }


def _v1(row: Row) -> Row:
    """A row as the older endpoint gives it: null for unset, metadata as JSON text."""
    gone = ("isRootObservation", "traceName", "release", "tags", "userId", "sessionId")
    kept = {k: (None if v == "" else v) for k, v in row.items() if k not in gone}
    return {**kept, "metadata": json.dumps(row["metadata"]), "toolCalls": [], "toolCallNames": [],
            "toolDefinitions": {}, "providedCostDetails": {}}  # fmt: skip


def _blob(row: Row) -> Row:
    out: Row = {}
    for key, value in row.items():
        if key in _NOT_IN_BLOBS:
            continue
        name = _SNAKE.get(key, key)
        if name.endswith(("_time", "_at")) or name == "timestamp":
            out[name] = blob_time(value)
        elif key in ("input", "output", "parentObservationId"):
            out[name] = "" if value is None else value
        else:
            out[name] = json.dumps(value) if key == "modelParameters" else value
    return out


def _cell(value: Json) -> str | int | float:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str | int | float) else json.dumps(value)
