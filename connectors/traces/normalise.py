"""Recorded attributes to a vendor-free span: one reader for every semantic convention.

Where several conventions are on one span, the order is langfuse.* > OpenInference > OpenTelemetry
GenAI > its older spelling. Unknown stays None, never zero.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import orjson

from connectors.traces.attributes import SmallAttributes
from connectors.traces.chat_rows import json_text
from connectors.traces.chat_values import (
    is_tool_answer,
    opened_answer,
    said_messages,
    sent_messages,
    tool_request,
)
from connectors.traces.dialects import canonical
from connectors.traces.genai import (
    INSTRUCTIONS,
    event_messages,
    genai_messages,
    old_genai_messages,
    with_instructions,
)
from connectors.traces.messages import (
    Rows,
    Texts,
    joined_pieces,
    message_rows,
    openinference_messages,
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

EXACT_NS: Final = 4_000_000_000_000_000_000
"""Up to the year 2096 a float of seconds is off by less than half a microsecond."""
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
_BILLED: Final = frozenset({"llm", "embedding"})
_UNKNOWN: Final = (None, None, None)
_USAGE: Final = "langfuse.observation.usage_details"
_COSTS: Final = "langfuse.observation.cost_details"
_PROMPT_NAME: Final = ("langfuse.observation.prompt.name", "gen_ai.prompt.name", "prompt.name")
_PROMPT_VERSION: Final = (
    "langfuse.observation.prompt.version", "gen_ai.prompt.version", "prompt.version",
    "llm.prompt_template.version",
)  # fmt: skip
_SAID_OF_ERROR: Final = (
    "langfuse.observation.status_message", "error.message", "exception.message",
    "gen_ai.tool.error",
)  # fmt: skip

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
    """The span that `raw` records; payloads and messages longer than the cap are cut.

    Its attributes are `raw`'s from then on, so that a trace reads its own fields from the same.
    """
    a = raw.attributes = canonical(raw.attributes, raw.events, raw.name)
    kind = kind_of(a)
    status, error = _status(raw)
    sent: tuple[Message, ...] = ()
    said: tuple[Message, ...] = ()
    if kind == "llm":
        rows_in, rows_out = message_rows(a)
        sent, said = _messages(raw, rows_in, rows_out, texts)
    asked, given, got = _given_and_got(a, kind)
    source = None if given is None else payload_of(given, texts, parse=not sent)
    result = None if got is None else payload_of(got, texts, parse=kind != "llm" or not said)
    if kind == "llm":
        sent = sent or sent_messages(_recorded(source, given), texts)
        said = said or said_messages(_recorded(result, got), texts)
        sent = with_instructions(sent, a.get(INSTRUCTIONS), texts)
    elif kind == "other" and result is not None and is_tool_answer(result):
        kind = "tool"
    elif kind == "tool" and result is not None:
        result = opened_answer(result)
    tokens_in, tokens_out, cost = usage_of(a) if kind in _BILLED else _UNKNOWN
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
        tool_name=(_tool_name(raw) or asked or raw.name) if kind == "tool" else None,
        model=as_text(first(a, _MODEL)) or None,
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        cost_usd=cost,
        messages_in=sent,
        messages_out=said,
        finish_reason=_finish_reason(a, result) if kind == "llm" else None,
        prompt_name=_named(a, _PROMPT_NAME),
        prompt_version=_named(a, _PROMPT_VERSION),
        attributes=SmallAttributes(raw),
    )


def _given_and_got(a: Mapping[str, Json], kind: SpanKind) -> tuple[str | None, Json, Json]:
    """(name of the tool where only its input says it, input, output) as they were recorded."""
    given, got = first(a, _INPUT), first(a, _OUTPUT)
    name: str | None = None
    if kind == "tool":
        given = a.get("tool.parameters") if given is None else given
        name, arguments = tool_request(given)
        given = given if arguments is None else arguments
    elif kind in ("agent", "chain", "other") and given is None:
        given, got = a.get("gen_ai.input.messages"), got or a.get("gen_ai.output.messages")
    return name, given, got


def when(ns: int) -> datetime:
    """Unix nanoseconds as aware UTC, cut to microseconds."""
    if ns < EXACT_NS:  # a float holds its microseconds exactly enough; half the cost
        return datetime.fromtimestamp(ns // 1000 / 1e6, UTC)
    return EPOCH + timedelta(0, 0, ns // 1000)


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
    if not isinstance(value, str):
        data = json_text(value).encode()
        if len(data) <= texts.cap:
            texts.bytes += len(data)
            return Payload(text=data.decode(), value=value, size_bytes=len(data))
        return _cut(data, texts)
    size = len(value)
    if not value.isascii():
        data = value.encode("utf-8", "surrogatepass")
        size = len(data)
    if size > texts.cap:
        return _cut(value.encode("utf-8", "surrogatepass"), texts)
    texts.bytes += size
    if parse:
        return Payload(text=value, size_bytes=size)
    return Payload(text=value, value=None, size_bytes=size)


def _cut(data: bytes, texts: Texts) -> Payload:
    """The beginning of a text that is over the cap, with the size and hash of the whole."""
    texts.cut += 1
    texts.bytes += texts.cap
    return Payload(
        text=data[: texts.cap].decode("utf-8", "ignore"),
        size_bytes=len(data),
        truncated=True,
        sha256=sha256_hex(data),
    )


def _recorded(payload: Payload | None, value: Json) -> Json:
    """What was recorded, parsed where the payload holds it so."""
    return value if payload is None or payload.value is None else payload.value


def usage_of(a: Mapping[str, Json]) -> tuple[int | None, int | None, float | None]:
    """(input tokens, output tokens, USD) of a model call, each None where it is not known."""
    usage, costs = a.get(_USAGE), a.get(_COSTS)
    if isinstance(usage, dict) or isinstance(costs, dict):
        found = usage if isinstance(usage, dict) else {}
        spent = costs.get("total") if isinstance(costs, dict) else None
        given, got = found.get("input"), found.get("output")
    else:
        given = got = spent = None
    given = first(a, _TOKENS_IN) if given is None else given
    got = first(a, _TOKENS_OUT) if got is None else got
    cost = as_float(first(a, _COST) if spent is None else spent)
    return _count(given), _count(got), cost if cost is not None and cost >= 0 else None


def _named(a: Mapping[str, Json], keys: tuple[str, ...]) -> str | None:
    value = first(a, keys)
    if value is None or isinstance(value, dict | list):
        return None
    return str(value)[:256] or None


def _count(value: Json) -> int | None:
    number = as_int(value)
    return number if number is not None and 0 <= number < 1 << 53 else None


def _messages(
    raw: RawSpan, rows_in: Rows, rows_out: Rows, texts: Texts
) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    a = raw.attributes
    sent = openinference_messages(rows_in, texts)
    said = joined_pieces(openinference_messages(rows_out, texts), texts)
    sent = sent or genai_messages(a.get("gen_ai.input.messages"), texts)
    said = said or genai_messages(a.get("gen_ai.output.messages"), texts, "assistant")
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
    failed = failed or a.get("tool.status") == "error"
    # OpenTelemetry: `error.type` is there only where the operation ended with an error.
    failed = failed or (raw.status == "unset" and bool(as_text(a.get("error.type"))))
    if error is None and failed:
        message = raw.status_message or as_text(first(a, _SAID_OF_ERROR))
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


def _tool_name(raw: RawSpan) -> str:
    return as_text(first(raw.attributes, ("tool.name", "gen_ai.tool.name")))


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
