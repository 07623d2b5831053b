"""Recorded attributes to a vendor-free span: one reader for every semantic convention.

Where several conventions are on one span, the order is langfuse.* > OpenInference > OpenTelemetry
GenAI > its older spelling. Unknown stays None, never zero.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import orjson

from connectors.traces.messages import (
    Rows,
    Texts,
    chat_value_messages,
    event_messages,
    genai_messages,
    old_genai_messages,
    openinference_messages,
    split_attributes,
)
from connectors.traces.raw import RawSpan, as_float, as_int, as_text
from contracts.json_types import Json, sha256_hex
from contracts.traces import (
    Message,
    Payload,
    Span,
    SpanError,
    SpanId,
    SpanKind,
    SpanStatus,
    TraceId,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_ATTRIBUTES = 64
MAX_ATTRIBUTE_CHARS = 512

CONTROL_FLOW: Final = ("GraphInterrupt", "NodeInterrupt", "ParentCommand", "GraphBubbleUp")
"""Exceptions by which LangGraph pauses or hands over. They are no failure."""

_KINDS: Final[dict[str, SpanKind]] = {
    "LLM": "llm", "GENERATION": "llm", "CHAT": "llm", "TOOL": "tool", "AGENT": "agent",
    "CHAIN": "chain", "WORKFLOW": "chain", "TASK": "chain", "DECISION": "chain",
    "RETRIEVER": "retriever", "RERANKER": "retriever", "EMBEDDING": "embedding",
    "GUARDRAIL": "guardrail", "EVALUATOR": "other", "PROMPT": "other", "EVENT": "other",
}  # fmt: skip
_OPERATIONS: Final[dict[str, SpanKind]] = {
    "chat": "llm", "generate_content": "llm", "text_completion": "llm",
    "embeddings": "embedding", "retrieval": "retriever", "create_agent": "agent",
    "invoke_agent": "agent", "execute_tool": "tool", "invoke_workflow": "chain",
}  # fmt: skip

_INPUT: Final = ("langfuse.observation.input", "input.value", "gen_ai.tool.call.arguments")
_OUTPUT: Final = ("langfuse.observation.output", "output.value", "gen_ai.tool.call.result")
_MODEL: Final = (
    "langfuse.observation.model.name",
    "llm.model_name",
    "gen_ai.response.model",
    "gen_ai.request.model",
)
_TOKENS_IN: Final = (
    "llm.token_count.prompt",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
)
_TOKENS_OUT: Final = (
    "llm.token_count.completion",
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
)
_COST: Final = ("llm.cost.total", "gen_ai.usage.cost", "gen_ai.usage.total_cost")
_BULKY: Final = (
    "llm.prompts.", "gen_ai.prompt.",
    "gen_ai.completion.", "gen_ai.input.", "gen_ai.output.", "gen_ai.system_instructions",
    "gen_ai.tool.", "langfuse.observation.input", "langfuse.observation.output", "input.",
    "output.", "retrieval.documents.", "metadata", "llm.token_count.", "embedding.",
)  # fmt: skip
"""Attributes that other fields of a span already hold, or that nothing reads."""

_NAMED_ERROR = re.compile(
    r"((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Warning))\s*[:(]"
)


def first(attributes: Mapping[str, Json], keys: tuple[str, ...]) -> Json:
    """The value of the first of the keys that is there and not null."""
    for key in keys:
        value = attributes.get(key)
        if value is not None:
            return value
    return None


def to_span(raw: RawSpan, texts: Texts) -> Span:
    """The span that `raw` records; payloads and messages longer than the cap are cut."""
    a = raw.attributes
    kind = kind_of(a)
    status, error = _status(raw)
    sent: tuple[Message, ...] = ()
    said: tuple[Message, ...] = ()
    others, rows_in, rows_out, tools = split_attributes(a, messages=kind == "llm")
    if kind == "llm":
        sent, said = _messages(raw, rows_in, rows_out, texts)
    given, got = first(a, _INPUT), first(a, _OUTPUT)
    if kind == "tool" and given is None:
        given = a.get("tool.parameters")
    if kind in ("agent", "chain", "other") and given is None:
        given, got = a.get("gen_ai.input.messages"), got or a.get("gen_ai.output.messages")
    source = payload_of(given, texts, parse=not sent)
    result = payload_of(got, texts, parse=kind != "llm" or not said)
    if kind == "llm":
        sent = sent or (chat_value_messages(source.value, texts) if source else ())
    cost = as_float(first(a, _COST))
    start = EPOCH if raw.start_ns is None else when(raw.start_ns)
    return Span(
        id=SpanId(raw.span_id),
        trace_id=TraceId(raw.trace_id),
        parent_id=SpanId(raw.parent_id) if raw.parent_id else None,
        name=texts.keep(raw.name[:256]),
        kind=kind,
        status=status,
        started_at=start,
        ended_at=None if raw.end_ns is None else max(start, when(raw.end_ns)),
        error=error,
        input=source,
        output=result,
        tool_name=_tool_name(raw, kind),
        model=as_text(first(a, _MODEL)) or None,
        input_tokens=_count(first(a, _TOKENS_IN)),
        output_tokens=_count(first(a, _TOKENS_OUT)),
        cost_usd=cost if cost is not None and cost >= 0 else None,
        messages_in=sent,
        messages_out=said,
        finish_reason=_finish_reason(a, result) if kind == "llm" else None,
        attributes=_kept(raw, others, tools, texts),
    )


def when(ns: int) -> datetime:
    """Unix nanoseconds as aware UTC, cut to microseconds."""
    return EPOCH + timedelta(microseconds=ns // 1000)


def kind_of(a: Mapping[str, Json]) -> SpanKind:
    """What the step is, by the first convention that says so."""
    for key in ("langfuse.observation.type", "openinference.span.kind", "traceloop.span.kind"):
        named = _KINDS.get(as_text(a.get(key)).upper())
        if named is not None:
            return named
    named = _OPERATIONS.get(as_text(a.get("gen_ai.operation.name")))
    if named is not None:
        return named
    if a.get("tool.name") is not None or a.get("gen_ai.tool.name") is not None:
        return "tool"
    if a.get("gen_ai.request.model") is not None or a.get("llm.model_name") is not None:
        return "llm"
    return "other"


def payload_of(value: Json, texts: Texts, *, parse: bool = True) -> Payload | None:
    """What was recorded, cut at the cap; `value` holds it parsed when it is JSON.

    Where the messages of a model call were recorded apart, its payload is not parsed a second time.
    """
    if value is None:
        return None
    if isinstance(value, str):
        data = value.encode("utf-8", "surrogatepass")
        parsed: Json = None
    else:
        data = orjson.dumps(value, default=str)
        parsed = value
    cut = len(data) > texts.cap
    texts.bytes += min(len(data), texts.cap)
    if cut:
        texts.cut += 1
        parsed = None
    elif parsed is None and parse and data[:1] in (b"{", b"["):
        try:
            parsed = orjson.loads(data)
        except ValueError:
            parsed = None
    return Payload(
        text=data[: texts.cap].decode("utf-8", "ignore") if cut or parsed is value else str(value),
        value=parsed,
        size_bytes=len(data),
        truncated=cut,
        sha256=sha256_hex(data),
    )


def _count(value: Json) -> int | None:
    number = as_int(value)
    return number if number is not None and 0 <= number < 1 << 53 else None


def _messages(
    raw: RawSpan, rows_in: Rows, rows_out: Rows, texts: Texts
) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    a = raw.attributes
    sent = openinference_messages(rows_in, texts)
    said = openinference_messages(rows_out, texts)
    sent = sent or genai_messages(a.get("gen_ai.input.messages"), texts)
    said = said or genai_messages(a.get("gen_ai.output.messages"), texts)
    sent = sent or old_genai_messages(a, "gen_ai.prompt.", texts)
    said = said or old_genai_messages(a, "gen_ai.completion.", texts)
    if raw.events and not (sent and said):
        before, after = event_messages(raw, texts)
        sent, said = sent or before, said or after
    return sent, said


def _status(raw: RawSpan) -> tuple[SpanStatus, SpanError | None]:
    a = raw.attributes
    error: SpanError | None = None
    for name, event in reversed(raw.events):
        if name == "exception":
            error = SpanError(
                type=as_text(event.get("exception.type")) or None,
                message=as_text(event.get("exception.message"))[:8192],
                stack=as_text(event.get("exception.stacktrace"))[:8192] or None,
            )
            break
    failed = raw.status == "error" or a.get("langfuse.observation.level") == "ERROR"
    if error is None and failed:
        message = raw.status_message or as_text(a.get("langfuse.observation.status_message"))
        error = _from_message(message, as_text(a.get("error.type")))
    kind = (error.type or "") if error else ""
    if kind.rpartition(".")[2] in CONTROL_FLOW:
        return "interrupted", error
    if failed:
        return "error", error
    return raw.status if raw.status == "ok" else "unset", error


def _from_message(message: str, recorded_type: str) -> SpanError:
    """An error whose class is only in its status text: `KeyError: ...` or `KeyError('...')...`."""
    head, _, stack = message.partition("Traceback (most recent call last)")
    match = _NAMED_ERROR.match(head) or re.match(rf"({'|'.join(CONTROL_FLOW)})\b", head)
    named = recorded_type if recorded_type not in ("", "_OTHER") else ""
    return SpanError(
        type=named or (match[1] if match else None),
        message=(head.strip() or message)[:8192],
        stack=stack[:8192] or None,
    )


def _tool_name(raw: RawSpan, kind: SpanKind) -> str | None:
    if kind != "tool":
        return None
    return as_text(first(raw.attributes, ("tool.name", "gen_ai.tool.name"))) or raw.name


def _finish_reason(a: Mapping[str, Json], result: Payload | None) -> str | None:
    value = first(a, ("llm.finish_reason", "gen_ai.response.finish_reasons"))
    if isinstance(value, str) and value.startswith("["):
        try:
            value = orjson.loads(value)
        except ValueError:
            return None
    if isinstance(value, list):
        value = value[0] if value else None
    if isinstance(value, str):
        return value[:64].lower()
    choices = result.value.get("choices") if result and isinstance(result.value, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    reason = choice.get("finish_reason") if isinstance(choice, dict) else None
    return reason[:64].lower() if isinstance(reason, str) else None


def _kept(
    raw: RawSpan, others: list[tuple[str, Json]], tools: list[str], texts: Texts
) -> dict[str, Json]:
    """Small attributes, the node of the graph, and the tools that were offered to the model."""
    kept: dict[str, Json] = {}
    for key, value in others:
        if len(kept) == MAX_ATTRIBUTES:
            break
        if key.startswith(_BULKY):
            continue
        if isinstance(value, str):
            kept[key] = texts.keep(value[:MAX_ATTRIBUTE_CHARS])
        elif isinstance(value, bool | int | float):
            kept[key] = value
    if tools:
        kept["llm.tools"] = [texts.keep(tool) for tool in tools[:MAX_ATTRIBUTES]]
    node = node_of(raw.attributes)
    if node:
        kept["node"] = texts.keep(node)
    if raw.replaced:
        kept["tracemend.invalid_utf8"] = True
    return kept


def node_of(a: Mapping[str, Json]) -> str:
    """The graph node in which the step ran, where the recorder wrote it down."""
    named = as_text(a.get("graph.node.id"))
    metadata = a.get("metadata")
    if not named and isinstance(metadata, str) and "langgraph_node" in metadata:
        try:
            value = orjson.loads(metadata)
        except ValueError:
            return ""
        named = as_text(value.get("langgraph_node")) if isinstance(value, dict) else ""
    return named[:128]
