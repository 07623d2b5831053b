"""One LangSmith run, of any API generation, tracer or export, as a recorded span.

Source: LangSmith API, `POST /api/v2/runs/query` (fields of `langsmith.types.run.Run`),
`POST /runs/query` (v1), `POST /runs/batch` (ingest), rule webhooks, and the Parquet rows of bulk
exports; tried with langsmith 0.15.1. A field that is missing, null or "" was not recorded. Only the
fields named here are read: addresses of attachments and of shared runs are secrets.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from connectors.traces.langsmith.errors import split_error
from connectors.traces.langsmith.feedback import stats_scores
from connectors.traces.langsmith.usage import model_attributes
from connectors.traces.langsmith.values import (
    as_list,
    as_object,
    as_run_id,
    as_time_ns,
    parsed,
    step_ns,
    steps,
)
from connectors.traces.raw import Raw, RawNote, RawSpan, RawStatus, as_int, as_text
from contracts.json_types import Json

RUN_ID: Final = "tracemend.run_id"
MAX_TAGS = 64

_STATUS: Final[dict[str, RawStatus]] = {"success": "ok", "error": "error"}
_MODEL_TYPES: Final = ("llm", "embedding")
_SESSION: Final = ("session_id", "conversation_id", "thread_id")
"""Keys of metadata that group traces to threads, in the order in which LangSmith looks at them."""
_USER: Final = ("user_id", "userId", "langgraph_auth_user_id")
_ENVIRONMENT: Final = (
    "deployment.environment.name",
    "deployment.environment",
    "environment",
    "env",
)


def records(run: Mapping[str, Json], *, project: str = "") -> Iterator[Raw]:
    """The run's span, and a note with its feedback where there is some.

    Args:
        run: as recorded.
        project: name of the tracing project where the run itself does not carry it.
    """
    raw = to_raw(run, project=project)
    yield raw
    if raw is None:
        return
    scores = tuple(stats_scores(run, raw.span_id if raw.parent_id else None))
    if scores:
        yield RawNote(trace_id=raw.trace_id, scores=scores)


def to_raw(run: Mapping[str, Json], *, project: str = "") -> RawSpan | None:
    """The span of a run; None where it has no usable id."""
    order = steps(run.get("dotted_order"))
    span_id = as_run_id(run.get("id")) or (as_run_id(order[-1]) if order else None)
    if span_id is None:
        return None
    parent_id = _parent(run, order)
    if parent_id == span_id:
        parent_id = None
    metadata = metadata_of(run)
    start, end = as_time_ns(run.get("start_time")), as_time_ns(run.get("end_time"))
    error = _error_text(run)
    status = _status(run, error, end)
    word = as_text(run.get("status")).lower()
    return RawSpan(
        trace_id=_trace_id(run, order, parent_id, span_id),
        span_id=span_id,
        parent_id=parent_id,
        name=as_text(run.get("name")),
        start_ns=start if start is not None else step_ns(run.get("dotted_order")),
        end_ns=end,
        status=status,
        status_message="" if error.isspace() else error[:8192],
        attributes=_attributes(run, metadata),
        events=_events(error, word),
        resource=_resource(run, metadata, project),
        open=end is None and status == "unset" and word in ("", "pending"),
    )


def metadata_of(run: Mapping[str, Json]) -> dict[str, Json]:
    """The metadata of a run: that of `extra`, where tracers put it, and the API's own field."""
    inner = as_object(as_object(run.get("extra")).get("metadata"))
    return {**inner, **as_object(run.get("metadata"))}


def _trace_id(run: Mapping[str, Json], order: list[str], parent: str | None, own: str) -> str:
    recorded = as_run_id(run.get("trace_id"))
    if recorded is not None:
        return recorded
    above: list[Json] = [order[0]] if order else as_list(run.get("parent_run_ids"))[:1]
    return (as_run_id(above[0]) if above else None) or parent or own


def _parent(run: Mapping[str, Json], order: list[str]) -> str | None:
    above = as_list(run.get("parent_run_ids"))
    named = as_run_id(above[-1]) if above else None
    named = named or as_run_id(run.get("parent_run_id"))
    return named or (as_run_id(order[-2]) if len(order) > 1 else None)


def _error_text(run: Mapping[str, Json]) -> str:
    for key in ("error", "error_preview"):
        value = run.get(key)
        if isinstance(value, str) and value.strip():
            return value
        if isinstance(value, dict) and value:
            text = value.get("message") or value.get("error")
            return text if isinstance(text, str) and text else str(value)[:8192]
    return ""


def _status(run: Mapping[str, Json], error: str, end_ns: int | None) -> RawStatus:
    """As recorded. Batch bodies carry none: there an end without an error is a success."""
    if error:
        return "error"
    word = as_text(run.get("status")).lower()
    if word:
        return _STATUS.get(word, "unset")
    return "ok" if end_ns is not None else "unset"


def _events(error: str, status: str) -> list[tuple[str, Mapping[str, Json]]]:
    if not error:
        pause = {"exception.type": "GraphInterrupt", "exception.message": "interrupted"}
        return [("exception", pause)] if status == "interrupted" else []
    kind, message, stack = split_error(error)
    event: dict[str, Json] = {"exception.message": message}
    if kind:
        event["exception.type"] = kind
    if stack:
        event["exception.stacktrace"] = stack
    return [("exception", event)]


def _attributes(run: Mapping[str, Json], metadata: dict[str, Json]) -> dict[str, Json]:
    found: dict[str, Json] = {}
    kind = as_text(run.get("run_type")).lower()
    if kind:
        found["openinference.span.kind"] = _kind(kind, metadata)
    inputs, outputs = parsed(run.get("inputs")), parsed(run.get("outputs"))
    _put(found, "input", inputs)
    _put(found, "output", outputs)
    if kind == "tool" and run.get("name"):
        found["tool.name"] = as_text(run.get("name"))
    if kind in _MODEL_TYPES:
        found.update(model_attributes(run, metadata, inputs, outputs))
    found.update(_identity(run, metadata))
    tags = [tag for tag in as_list(run.get("tags")) if isinstance(tag, str)]
    if tags:
        found["tag.tags"] = list[Json](tags[:MAX_TAGS])
    if metadata:
        found["metadata"] = metadata
    return found


def _kind(run_type: str, metadata: Mapping[str, Json]) -> str:
    """Runs have no type for agents: a chain is one where the tracer's own word says so."""
    told = as_text(metadata.get("openinference.span.kind")).upper()
    if run_type == "chain" and told in ("AGENT", "GUARDRAIL", "RERANKER", "EVALUATOR"):
        return told
    return run_type.upper()


def _put(found: dict[str, Json], side: str, recorded: Json) -> None:
    """Inputs and outputs are objects; one that only wraps a value is opened for reading.

    The API answers `{}` where nothing was recorded, so that an empty object says nothing.
    """
    if recorded is None or recorded in ({}, ""):
        return
    value = recorded
    if isinstance(recorded, dict) and len(recorded) == 1 and side in recorded:
        value = recorded[side]
        if value is None:
            return
        found[f"langsmith.{side}.wrapped"] = True
    found[f"{side}.value"] = value


def _identity(run: Mapping[str, Json], metadata: Mapping[str, Json]) -> dict[str, Json]:
    """Thread, user, node of the graph, prompt, and our own mark."""
    prompt = _text_of(metadata, ("lc_hub_repo", "prompt_name"))
    owner = _text_of(metadata, ("lc_hub_owner",))
    found = {
        "session.id": as_text(run.get("thread_id")) or _text_of(metadata, _SESSION),
        "user.id": _text_of(metadata, _USER),
        "agent.name": _text_of(metadata, ("lc_agent_name",)),
        "graph.node.id": _text_of(metadata, ("langgraph_node",)),
        "prompt.name": f"{owner}/{prompt}" if prompt and owner not in ("", "-") else prompt,
        "prompt.version": _text_of(metadata, ("lc_hub_commit_hash", "prompt_version")),
        RUN_ID: _text_of(metadata, (RUN_ID, "tracemend_run_id")),
    }
    return {key: value for key, value in found.items() if value}


def _resource(
    run: Mapping[str, Json], metadata: Mapping[str, Json], project: str
) -> dict[str, Json]:
    """Environment (the project's name where no metadata says it) and release."""
    name = as_text(run.get("session_name")) or project
    found = {
        "langsmith.project": name,
        "deployment.environment": _text_of(metadata, _ENVIRONMENT) or name,
        "service.version": _text_of(metadata, ("revision_id", "service.version")),
    }
    return {key: value for key, value in found.items() if value}


def _text_of(metadata: Mapping[str, Json], keys: tuple[str, ...]) -> str:
    """The first text or whole number under one of the keys, as text."""
    for key in keys:
        value = metadata.get(key)
        if isinstance(value, str) and value:
            return value[:256]
        if isinstance(value, int) and not isinstance(value, bool):
            number = as_int(value)
            return str(number) if number is not None and abs(number) < 1 << 63 else ""
    return ""
