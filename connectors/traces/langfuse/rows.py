"""One Langfuse observation, in any of its shapes, to a recorded span.

Source: Langfuse 4.16 public API (observations v2 and v1), its blob storage export and API exports.
Traps that are read here: "" is unset; an empty `usageDetails` and a `totalCost` of 0 are unknown,
not zero; an OpenTelemetry span keeps its own attributes inside `metadata`, as objects, as JSON
text, or under dotted keys.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from connectors.traces.langfuse.fields import (
    camel,
    flag,
    is_unset,
    mapping,
    numbers,
    parsed,
    strings,
    text,
    time_ns,
)
from connectors.traces.raw import RawSpan, as_float, as_id, as_int
from contracts.json_types import Json

TYPES: Final = frozenset({
    "SPAN", "GENERATION", "EVENT", "AGENT", "TOOL", "CHAIN", "RETRIEVER", "EVALUATOR", "EMBEDDING",
    "GUARDRAIL",
})  # fmt: skip
CUT_METADATA = 200
"""Characters to which the v2 API cuts a metadata value that was not asked for by name."""
AS_ROOT = "langfuse.internal.as_root"
"""The row is a root of its trace although it names a parent, which was recorded elsewhere."""

_MARKS: Final = ("parentObservationId", "projectId", "level", "environment", "usageDetails")
_PLAIN: Final = (
    ("level", "langfuse.observation.level"),
    ("statusMessage", "langfuse.observation.status_message"),
    ("promptName", "langfuse.observation.prompt.name"),
    ("version", "langfuse.version"),
    ("environment", "langfuse.environment"),
    ("userId", "langfuse.user.id"),
    ("sessionId", "langfuse.session.id"),
    ("traceName", "langfuse.trace.name"),
    ("release", "langfuse.release"),
)
_USAGE_NAMES: Final = {
    "prompt_tokens": "input", "input_tokens": "input", "promptTokens": "input",
    "inputTokens": "input", "completion_tokens": "output", "output_tokens": "output",
    "completionTokens": "output", "outputTokens": "output", "total_tokens": "total",
    "totalTokens": "total",
}  # fmt: skip
_OLD_USAGE: Final = (
    ("input", ("promptTokens", "inputUsage")),
    ("output", ("completionTokens", "outputUsage")),
    ("total", ("totalTokens", "totalUsage")),
)
_MESSAGE_FAMILIES: Final = (
    "llm.input_messages.", "llm.output_messages.", "gen_ai.prompt.", "gen_ai.completion.",
)  # fmt: skip
_SAME_AS_IO: Final = {"input.value": "input", "output.value": "output"}


def is_row(value: Mapping[str, Json]) -> bool:
    """Whether the object is one observation."""
    row = camel(value)
    return (
        isinstance(row.get("id"), str)
        and isinstance(row.get("traceId"), str)
        and text(row.get("type")).upper() in TYPES
        and "startTime" in row
        and any(key in row for key in _MARKS)
    )


def row_span(recorded: Mapping[str, Json], *, cut_metadata: bool = False) -> RawSpan | None:
    """The span of one row; None for a row without a usable id.

    Args:
        recorded: the row.
        cut_metadata: values of its metadata may have been cut by the server; those that carry
            content are left out where they were, since half a message is worse than none.
    """
    row = camel(recorded)
    trace_id, span_id = as_id(row.get("traceId"), 16), as_id(row.get("id"), 8)
    if trace_id is None or span_id is None:
        return None
    kind = text(row.get("type")).upper()
    parent = as_id(row.get("parentObservationId"), 8)
    is_root = parent is None or flag(row.get("isRootObservation")) is True
    failed = text(row.get("level")).upper() == "ERROR"
    start, end = time_ns(row.get("startTime")), time_ns(row.get("endTime"))
    if kind == "EVENT":
        end = start if end is None else end
    attributes, resource = _attributes(row, kind, cut_metadata=cut_metadata)
    if is_root and parent is not None:
        attributes[AS_ROOT] = True
    return RawSpan(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=parent,
        name=text(row.get("name")),
        start_ns=start,
        end_ns=end,
        status="error" if failed else "unset",
        status_message=text(row.get("statusMessage")),
        attributes=attributes,
        resource=resource,
        updated_ns=time_ns(row.get("updatedAt")),
        open=is_root and end is None and not failed and is_unset(row.get("output")),
    )


def free_roots(spans: Iterable[RawSpan | None]) -> None:
    """Let roots whose parent was recorded elsewhere stand without one; takes a whole trace."""
    known = [span for span in spans if span is not None]
    ids = {span.span_id for span in known}
    for span in known:
        if AS_ROOT in span.attributes and span.parent_id not in ids:
            span.parent_id = None


def _attributes(
    row: Mapping[str, Json], kind: str, *, cut_metadata: bool
) -> tuple[dict[str, Json], dict[str, Json]]:
    """(attributes, resource) of a row: what its columns say, then what its metadata adds."""
    user, foreign, resource = _metadata(row.get("metadata"))
    a = _columns(row, kind)
    a |= _usage_and_cost(row, kind)
    for number, schema in enumerate(mapping(row.get("toolDefinitions")).values()):
        if isinstance(schema, str):
            foreign.setdefault(f"llm.tools.{number}.tool.json_schema", schema)
    for key, value in (_uncut(foreign) if cut_metadata else foreign).items():
        column = _SAME_AS_IO.get(key, "")
        if not column or f"langfuse.observation.{column}" not in a:
            a.setdefault(key, value)
    _from_user_metadata(user, a)
    a.setdefault("langfuse.observation.type", kind or "SPAN")
    return a, resource


def _columns(row: Mapping[str, Json], kind: str) -> dict[str, Json]:
    a: dict[str, Json] = {"langfuse.observation.type": kind} if kind not in ("", "SPAN") else {}
    for column, key in _PLAIN:
        value = row.get(column)
        if isinstance(value, str) and value:
            a[key] = value
    for column in ("input", "output"):
        if not is_unset(row.get(column)):
            a[f"langfuse.observation.{column}"] = row[column]
    calls = _calls(row)
    if calls and "langfuse.observation.output" not in a:
        said: dict[str, Json] = {"role": "assistant", "content": "", "tool_calls": calls}
        a["langfuse.observation.output"] = said
    model = text(row.get("providedModelName")) or text(row.get("model"))
    if model:
        a["langfuse.observation.model.name"] = model
    version = as_int(row.get("promptVersion"))
    if version is not None:
        a["langfuse.observation.prompt.version"] = str(version)
    tags = strings(row.get("tags"))
    if tags:
        a["langfuse.trace.tags"] = tags
    return a


def _calls(row: Mapping[str, Json]) -> list[Json]:
    """The tool calls of a model that recorded no output: they stand in columns of their own."""
    recorded = parsed(row.get("toolCalls"))
    names = strings(row.get("toolCallNames"))
    calls: list[Json] = []
    for number, call in enumerate(recorded if isinstance(recorded, list) else ()):
        one = dict(mapping(call))
        if number < len(names):
            one.setdefault("name", names[number])
        calls.append(one)
    return calls


def _metadata(value: Json) -> tuple[dict[str, Json], dict[str, Json], dict[str, Json]]:
    """(what the user recorded, attributes of the OpenTelemetry span, those of its resource)."""
    found = mapping(value)
    if not found:
        return ({} if is_unset(value) or parsed(value) in ({}, []) else {"": value}), {}, {}
    user: dict[str, Json] = {}
    foreign: dict[str, Json] = {}
    resource: dict[str, Json] = {}
    for key, item in found.items():
        head, dot, rest = key.partition(".")
        if head == "attributes":
            foreign |= {rest: item} if dot else mapping(item)
        elif head == "resourceAttributes":
            resource |= {rest: item} if dot else mapping(item)
        elif head != "scope":
            user[key] = item
    return user, foreign, resource


def _uncut(foreign: Mapping[str, Json]) -> dict[str, Json]:
    """The attributes without those that were cut, and without messages of which a part was."""
    cut = {k for k, v in foreign.items() if isinstance(v, str) and len(v) == CUT_METADATA}
    families = tuple(f for f in _MESSAGE_FAMILIES if any(key.startswith(f) for key in cut))
    return {k: v for k, v in foreign.items() if k not in cut and not k.startswith(families)}


def _from_user_metadata(user: dict[str, Json], a: dict[str, Json]) -> None:
    if not user:
        return
    a["langfuse.observation.metadata"] = user.get("") if set(user) == {""} else user
    node, run = user.get("langgraph_node"), user.get("tracemend.run_id")
    if isinstance(node, str) and node:
        a.setdefault("graph.node.id", node)
    if isinstance(run, str) and run:
        a.setdefault("tracemend.run_id", run)


def _usage_and_cost(row: Mapping[str, Json], kind: str) -> dict[str, Json]:
    """Tokens and cost that are known; what Langfuse fills in as 0 is not."""
    usage = _usage(row)
    if kind == "GENERATION" and usage.get("input") == 0:
        del usage["input"]  # there is no call without a prompt: it was not counted
    if usage.get("output") == 0 and _says_something(row.get("output")):
        del usage["output"]
    cost = numbers(row.get("costDetails"))
    summed = as_float(row.get("totalCost") or row.get("calculatedTotalCost")) or 0
    total = cost.get("total", summed if summed > 0 else sum(cost.values()))
    known = total > 0 or (bool(cost) and bool(usage))
    counted: dict[str, Json] = {
        "llm.token_count.prompt": usage.get("input"),
        "llm.token_count.completion": usage.get("output"),
        "llm.cost.total": total if known else None,
    }
    return {key: value for key, value in counted.items() if value is not None}


def _usage(row: Mapping[str, Json]) -> dict[str, int]:
    """Units by name; empty where none was counted, and where all are zero."""
    details = numbers(row.get("usageDetails"))
    if not details:
        old = mapping(row.get("usage"))
        if old.get("unit") in (None, "", "TOKENS"):
            details = numbers({k: v for k, v in old.items() if k != "unit"})
    if not details:
        for name, columns in _OLD_USAGE:
            count = next((n for c in columns if (n := as_int(row.get(c))) is not None), None)
            if count is not None and count >= 0:
                details[name] = count
    out: dict[str, int] = {}
    for name, number in details.items():
        out.setdefault(_USAGE_NAMES.get(name, name), int(number))
    return out if any(out.values()) else {}


def _says_something(output: Json) -> bool:
    """Whether a model's recorded answer holds a word or a call, for which it needed tokens."""
    value = parsed(output)
    if isinstance(value, str):
        return bool(value.strip(' "'))
    if isinstance(value, dict) and "content" in value:
        return bool(value["content"]) or bool(value.get("tool_calls"))
    return bool(value)
