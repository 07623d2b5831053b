"""One run step by step, masked and cut, with what can be told of each step at any length. Pure.

A step keeps its span's id and the head and tail of its texts. What a model is told of it, and what
is kept to be read again, are both made from here, so that neither holds what the other would not.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from configs.redaction import redact_head
from connectors.review.clean import one_line, safe
from contracts.json_types import Json, canonical_json
from contracts.traces import Payload, Span, SpanId, TraceId
from nodes.insights.detect.all import Detected
from nodes.insights.sketch import Sketch, SketchCall, request_of

MAX_STEPS = 200
KEPT_CHARS = 1_500
"""Of one text of a step; of those that are opened, `OPEN_CHARS`."""
OPEN_CHARS = 4_000
MARGIN = 400
"""Read beside a tail, so that a secret which the cut would split is still seen whole."""
WORTH = frozenset({"llm", "tool", "retriever", "guardrail"})
"""Kinds of spans that are steps; others only where something failed at them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A text of a span: masked head and tail of what was recorded."""

    what: str
    """`input`, `output` or `error`."""
    head: str
    tail: str = ""
    """Empty: the head is all there is."""
    size_bytes: int
    """Of the whole, as recorded."""
    sha256: str = ""
    """Of the whole, as recorded; empty where nothing is left out."""

    def told(self, chars: int) -> str:
        """At most about `chars` characters; says how large the whole is where some are missing."""
        if not self.tail and len(self.head) <= chars:
            return self.head
        front = max(1, chars * 2 // 3)
        back = max(1, chars - front)
        end = (self.tail or self.head)[-back:]
        named = f", #{self.sha256[:8]}" if self.sha256 else ""
        return f"{self.head[:front]} [...{self.size_bytes} bytes{named}...] {end}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One span that matters."""

    span_id: SpanId
    what: str
    """`tool payment_api` or `model refund_agent`, on one line."""
    failed: bool
    given: Passage | None
    came: Passage | None
    asks: str = ""
    """Tool calls that a model call asked for, on one line."""

    def line(self, chars: int) -> str:
        """The step on one line of at most about twice `chars` characters."""
        given = f"({one_line(self.given.told(chars), chars + 40)})" if self.given else ""
        asked = f" asks {one_line(self.asks, chars)}" if self.asks else ""
        mark = " FAILED" if self.failed else ""
        came = f": {one_line(self.came.told(chars), chars + 40)}" if self.came else ""
        return f"{self.what}{given if not self.asks else ''}{asked}{mark}{came}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skeleton:
    """One run. Steps are in their order."""

    trace_id: TraceId
    failing: bool
    asked: str
    answered: str
    steps: tuple[Step, ...]
    culprit: int | None
    """Index of the step that a finding names; None in a run that went well."""
    opened: tuple[int, ...] = ()
    """Indexes whose text matters in full: the culprit, the step before, the call that asked."""
    hidden: int = 0
    """Steps beyond `MAX_STEPS`, which are not here."""
    whole: str = field(default="", compare=False)
    """Name of the artifact that holds all of this at more length."""


def skeleton_of(detected: Detected, span_id: SpanId | None) -> Skeleton:
    """The run as its trace tells it; `span_id` is where the finding's symptom is."""
    trace = detected.view.trace
    bad = {s.span_id for s in detected.symptoms if s.counts} | set(detected.view.failed)
    spans = [
        span
        for span in trace.spans
        if not span.virtual
        and (span.kind in WORTH or span.id == span_id or (span.id in bad and span.error))
    ] or [span for span in trace.spans if not span.virtual]
    at = next((i for i, span in enumerate(spans) if span.id == span_id), None)
    first = 0 if at is None else max(0, min(at - MAX_STEPS // 2, len(spans) - MAX_STEPS))
    shown = spans[first : first + MAX_STEPS]
    culprit = None if at is None else at - first
    opened = _opened(shown, culprit)
    steps = tuple(
        _step(detected, span, failed=span.id in bad, chars=_chars(index in opened))
        for index, span in enumerate(shown)
    )
    root = trace.root
    return Skeleton(
        trace_id=trace.id,
        failing=span_id is not None,
        asked=_asked(request_of(trace)),
        answered=one_line(redact_head(root.output.text if root.output else "", 600), 300),
        steps=steps,
        culprit=culprit,
        opened=opened,
        hidden=len(spans) - len(shown),
    )


def skeleton_of_sketch(sketch: Sketch, span_id: SpanId | None) -> Skeleton:
    """The run as its condensed form tells it, where the trace is out of reach or went well."""
    steps = tuple(
        Step(
            span_id=call.span_id,
            what=one_line(f"tool {call.tool}", 100),
            failed=not call.ok,
            given=_brief("input", _arguments(call)),
            came=_brief("output", call.note),
        )
        for call in sketch.calls
    )
    at = next((i for i, step in enumerate(steps) if step.span_id == span_id), None)
    return Skeleton(
        trace_id=sketch.trace_id,
        failing=span_id is not None,
        asked=_asked(sketch.request),
        answered=one_line(sketch.answer, 300),
        steps=steps,
        culprit=at,
    )


def whole_text(skeleton: Skeleton) -> str:
    """Everything that is known of the run, at the greatest length; masked."""
    lines = [f"trace {one_line(skeleton.trace_id)}", f"asked: {skeleton.asked}"]
    for step in skeleton.steps:
        lines.append(f"\n{step.span_id} {step.what}{' FAILED' if step.failed else ''}")
        if step.asks:
            lines.append(f"asks {step.asks}")
        for passage in (step.given, step.came):
            if passage is not None:
                lines += [f"{passage.what}, {passage.size_bytes} bytes:", passage.told(OPEN_CHARS)]
    lines.append(f"\nanswered: {skeleton.answered}")
    if skeleton.hidden:
        lines.append(f"{skeleton.hidden} more steps are not here")
    return "\n".join(lines)


def _opened(spans: list[Span], culprit: int | None) -> tuple[int, ...]:
    if culprit is None:
        return ()
    asker = next((i for i in range(culprit - 1, -1, -1) if spans[i].kind == "llm"), None)
    wanted = (culprit, culprit - 1, asker)
    return tuple(dict.fromkeys(i for i in wanted if i is not None and i >= 0))


def _chars(opened: bool) -> int:
    return OPEN_CHARS if opened else KEPT_CHARS


def _step(detected: Detected, span: Span, *, failed: bool, chars: int) -> Step:
    view = detected.view
    call = view.calls.get(span.id)
    kind = {"llm": "model"}.get(span.kind, span.kind)
    given: Passage | None = None
    if call is not None and call.arguments is not None:
        text = canonical_json(call.arguments).decode("utf-8", "replace")
        given = passage("input", text, chars)
    elif span.kind != "llm" and span.input is not None:
        given = _payload("input", span.input, chars)
    return Step(
        span_id=span.id,
        what=one_line(f"{kind} {view.place(span)}", 100),
        failed=failed,
        given=given,
        came=_came(span, chars),
        asks=_asks(span),
    )


def _came(span: Span, chars: int) -> Passage | None:
    """The error where there is one, else what a model said, else the output."""
    if span.error is not None:
        error = span.error
        return passage("error", ": ".join(filter(None, [error.type, error.message])), chars)
    said = "\n".join(m.content for m in span.messages_out if m.content.strip())
    if span.kind == "llm" and span.messages_out:
        return passage("output", said, chars) if said else None
    return None if span.output is None else _payload("output", span.output, chars)


def _asks(span: Span) -> str:
    calls = [call for message in span.messages_out for call in message.tool_calls]
    return one_line(", ".join(f"{name}({redact_head(raw, 200)})" for _, name, raw in calls), 600)


def _payload(what: str, payload: Payload, chars: int) -> Passage:
    kept = passage(what, payload.text, chars)
    if not kept.tail and not payload.truncated:
        return kept
    return Passage(
        what=what, head=kept.head, tail=kept.tail, size_bytes=payload.size_bytes,
        sha256=payload.sha256,
    )  # fmt: skip


def passage(what: str, text: str, chars: int) -> Passage:
    """A text, masked; cut to a head and a tail where it is longer than `chars`."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if len(text) <= chars:
        return Passage(what=what, head=safe(text), size_bytes=size)
    front = chars * 2 // 3
    tail = safe(text[-(chars - front + MARGIN) :])[-(chars - front) :]
    return Passage(what=what, head=safe(redact_head(text, front)), tail=tail, size_bytes=size)


def _brief(what: str, text: str) -> Passage | None:
    """What a sketch holds is masked and short already."""
    return Passage(what=what, head=text, size_bytes=len(text.encode())) if text else None


def _arguments(call: SketchCall) -> str:
    if call.arguments is None:
        return ""
    return canonical_json(dict(call.arguments)).decode("utf-8", "replace")


def _asked(request: Json) -> str:
    if isinstance(request, Mapping) and isinstance(request.get("message"), str):
        return one_line(str(request["message"])[:2_000], 300)
    if request is None:
        return "not recorded"
    return one_line(canonical_json(request).decode("utf-8", "replace")[:2_000], 300)
