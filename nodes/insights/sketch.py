"""A trace condensed to what diagnosis, cases and a card need: request, calls, end of the answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from configs.redaction import redact
from connectors.traces.redact import redact_json
from contracts.findings import Symptom
from contracts.json_types import Json, canonical_json
from contracts.traces import SpanId, Trace, TraceId
from nodes.insights.blast import Reach, reach_of
from nodes.insights.detect.all import Detected
from nodes.insights.detect.answers import parsed
from nodes.insights.signature import clean
from nodes.insights.steering import Steering, steering_of

MAX_CALLS = 64
MAX_TOOLS = 64
MAX_REQUEST_BYTES = 16_384
NOTE_CHARS = 200
NO_SPAN = SpanId("")
_USER_ROLES = ("user", "human")  # compared, not hashed: a role may be anything


@dataclass(frozen=True, slots=True, kw_only=True)
class SketchCall:
    """One tool call in short. `note` is what went wrong, or the beginning of the answer."""

    span_id: SpanId
    tool: str
    arguments: Mapping[str, Json] | None
    arguments_key: str
    ok: bool
    note: str
    signature: str = ""
    """Key of the symptom at this call, recovered or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sketch:
    """A condensed trace; texts are redacted and cut."""

    trace_id: TraceId
    request: Json
    """What the agent was asked, as a case can ask it again; None where it was not recorded."""
    calls: tuple[SketchCall, ...]
    answer: str
    signatures: tuple[str, ...]
    """Keys of the symptoms that count."""
    offered: Mapping[str, tuple[str, ...]]
    """Names of parameters by offered tool, as the schemas given to the model declare them."""
    facts: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    """What the symptoms that count say for the diagnosis (`Evidence.facts`), by signature."""
    root_span: SpanId = NO_SPAN
    """The span of the request and the answer."""
    at: datetime | None = None
    """When it began; None: no time was recorded."""
    reach: tuple[Reach, ...] = ()
    """How far the outputs of its failed steps went; of the first few."""
    steering: Steering = field(default_factory=Steering)
    """What text steered its steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Condensed traces behind a finding."""

    failing: tuple[Sketch, ...]
    """A sample of its failing traces, the same for every order of input; exemplars come first."""
    passing: tuple[Sketch, ...]
    """A sample of traces in which nothing failed, shared by all findings."""


def sketch_of(detected: Detected) -> Sketch:
    """Condense one trace."""
    trace = detected.view.trace
    lasting = [symptom for symptom in detected.symptoms if symptom.counts]
    by_span: dict[SpanId, Symptom] = {
        s.span_id: s for s in reversed(detected.symptoms) if s.counted
    }
    calls = []
    for call in list(detected.view.calls.values())[:MAX_CALLS]:
        symptom = by_span.get(call.span.id)
        failed = call.span.id in detected.view.failed or (
            symptom is not None and symptom.kind != "repeated_call"
        )
        calls.append(
            SketchCall(
                span_id=call.span.id,
                tool=call.tool[:128],
                arguments=_short(call.arguments),
                arguments_key=call.arguments_key,
                ok=not failed,
                note=symptom.evidence.quote if symptom else clean(call.answer.text, NOTE_CHARS),
                signature=str(symptom.signature) if symptom else "",
            )
        )
    root = trace.root
    said = root.output or trace.asked.output
    return Sketch(
        trace_id=trace.id,
        request=request_of(trace),
        calls=tuple(calls),
        answer=clean(said.text if said else "", NOTE_CHARS),
        signatures=tuple(sorted({str(symptom.signature) for symptom in lasting})),
        offered=_offered(trace),
        facts={str(s.signature): s.evidence.facts for s in reversed(lasting) if s.evidence.facts},
        root_span=root.id,
        at=None if trace.timeless else trace.started_at,
        reach=reach_of(detected.view, (symptom.span_id for symptom in lasting)),
        steering=steering_of(detected.view, [(str(s.signature), s.span_id) for s in lasting]),
    )


def sketch_json(sketch: Sketch) -> dict[str, Json]:
    """The sketch as JSON for the ledger, a model or a card."""
    return {
        "trace_id": sketch.trace_id,
        "request": sketch.request,
        "calls": [
            {
                "span_id": c.span_id,
                "tool": c.tool,
                "arguments": c.arguments,
                "ok": c.ok,
                "note": c.note,
            }
            for c in sketch.calls
        ],
        "answer": sketch.answer,
        "signatures": list(sketch.signatures),
    }


def request_of(trace: Trace) -> Json:
    """The recorded request, as the input of a case; None where there is none.

    A JSON object stands as it is. Of a chat history the last words of the user are the request, and
    plain text is one too; both become `{"message": text}`.
    """
    payload = trace.asked.input
    if payload is None or payload.truncated:
        return None
    value = payload.value if payload.value is not None else parsed(payload.text)
    if isinstance(value, dict):
        messages = value.get("messages")
        if not isinstance(messages, list):
            request: Json = redact_json(value)
        else:
            said = _last_user_text(messages)
            request = {"message": redact(said)} if said else None
    elif isinstance(value, list):
        said = _last_user_text(value)
        request = {"message": redact(said)} if said else None
    else:
        request = {"message": redact(payload.text)} if payload.text.strip() else None
    if request is None or len(canonical_json(request)) > MAX_REQUEST_BYTES:
        return None
    return request


def _last_user_text(messages: list[Json]) -> str | None:
    for message in reversed(messages):
        if isinstance(message, list) and len(message) == 2 and message[0] in _USER_ROLES:
            return message[1] if isinstance(message[1], str) else None
        if not isinstance(message, dict):
            continue
        inner = message.get("data") or message.get("kwargs")
        fields = inner if isinstance(inner, dict) else message
        role = fields.get("role") or fields.get("type") or message.get("type")
        content = fields.get("content")
        if role in _USER_ROLES:
            return content if isinstance(content, str) else _parts(content)
    return None


def _parts(content: Json) -> str | None:
    if not isinstance(content, list):
        return None
    texts = [part.get("text") for part in content if isinstance(part, dict)]
    return "\n".join(text for text in texts if isinstance(text, str)) or None


def _short(arguments: Mapping[str, Json] | None) -> dict[str, Json] | None:
    if arguments is None:
        return None
    out: dict[str, Json] = {}
    for key, value in list(arguments.items())[:32]:
        if isinstance(value, str):
            out[clean(key, 64)] = clean(value, NOTE_CHARS)
        elif value is None or isinstance(value, bool | int | float):
            out[clean(key, 64)] = value
        else:
            out[clean(key, 64)] = clean(
                canonical_json(value).decode("utf-8", "replace"), NOTE_CHARS
            )
    return out


def _offered(trace: Trace) -> dict[str, tuple[str, ...]]:
    """Parameters by tool, from the tool schemas recorded with model calls."""
    offered: dict[str, tuple[str, ...]] = {}
    seen: set[str] = set()
    for span in trace.spans:
        schemas = span.attributes.get("llm.tools") if span.kind == "llm" else None
        for schema in schemas if isinstance(schemas, list) else ():
            if isinstance(schema, str) and schema not in seen and len(offered) < MAX_TOOLS:
                seen.add(schema)
                named = _schema(schema)
                if named is not None:
                    offered[named[0]] = named[1]
    return offered


def _schema(text: str) -> tuple[str, tuple[str, ...]] | None:
    value = parsed(text)
    if not isinstance(value, dict):
        return None
    function = value.get("function")
    inner = function if isinstance(function, dict) else value
    name = inner.get("name")
    parameters = inner.get("parameters") or inner.get("input_schema")
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    if not isinstance(name, str) or not isinstance(properties, dict):
        return None
    return name, tuple(sorted(properties))
