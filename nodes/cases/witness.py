"""Recorded runs as witnesses of a case: what a probe would have seen in them, and what failed."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from contracts.findings import Evidence, Signature, Symptom
from contracts.harness import Observation, Usage
from contracts.json_types import Json, canonical_json
from contracts.traces import Payload, Span, SpanId, Trace, TraceId
from memory.families import family_key
from nodes.insights.detect.all import Detected, detect
from nodes.insights.detect.faults import Scans
from nodes.insights.detect.low_score import KIND as LOW_SCORE
from nodes.insights.sketch import Sketch, request_of

NOT_SEEN: Final = frozenset({LOW_SCORE})
"""Kinds that nobody finds in a run of the gate: they rest on what people or evaluators scored."""
NAMELESS: Final = frozenset({"", "function", "tool", "unnamed"})
"""What readers call a tool whose name was not recorded: no later run has a tool of that name."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """One recorded run, as `grade` takes it."""

    observation: Observation
    symptoms: tuple[Symptom, ...]
    family: str
    """Key of its input; empty where none was recorded."""
    tools: frozenset[str]
    """Names of the tools that it called."""
    answered: bool = True
    """Whether the answer was recorded; else nothing can be said of it."""
    whole_answer: bool = True
    """False: only the beginning of the answer is known."""
    whole_calls: bool = True
    """False: arguments are cut, and late calls may be missing."""
    timed: bool = True
    """Whether its times were recorded."""

    @property
    def trace_id(self) -> TraceId | None:
        """Of the recorded run."""
        return self.observation.trace.id if self.observation.trace is not None else None


def witness_of(trace: Trace, scans: Scans | None = None) -> Witness:
    """A recorded trace; symptoms as the gate finds them in a run, so without recorded scores."""
    return witness_of_detected(detect(trace, scans or Scans()))


def witness_of_detected(detected: Detected) -> Witness:
    """A trace that was looked at already."""
    trace = detected.view.trace
    request = request_of(trace)
    answer = answer_of(trace)
    return Witness(
        observation=observation_of(trace),
        symptoms=tuple(s for s in detected.symptoms if s.kind not in NOT_SEEN),
        family=family_key(request) if request is not None else "",
        tools=frozenset(s.tool_name or s.name for s in trace.spans if s.kind == "tool"),
        answered=answer is not None,
        whole_answer=answer is not None and not answer.truncated,
        timed=not trace.timeless and any(span.ended_at is not None for span in trace.spans),
    )


def observation_of(trace: Trace) -> Observation:
    """What a probe would have seen: the root's answer, or the error that it ended with."""
    root = trace.root
    if root.error is not None and root.status == "error" and root.output is None:
        name = root.error.type or "Error"
        return Observation(error=f"{name}: {root.error.message}", trace=trace, usage=_usage(trace))
    ends = [span.ended_at for span in trace.spans if span.ended_at is not None]
    took = (max(ends) - trace.started_at).total_seconds() if ends and not trace.timeless else 0.0
    return Observation(
        output=_value(answer_of(trace)), trace=trace, usage=_usage(trace), seconds=max(0.0, took)
    )


def answer_of(trace: Trace) -> Payload | None:
    """The recorded answer: the root's, or that of the agent under a bare root."""
    return trace.root.output or trace.asked.output


def _value(payload: Payload | None) -> Json:
    if payload is None:
        return None
    return payload.value if payload.value is not None else payload.text


def _usage(trace: Trace) -> Usage:
    """Sums over the model calls; unknown where one of them is."""
    calls = [span for span in trace.spans if span.kind == "llm"]
    costs = [span.cost_usd for span in calls]
    known = [cost for cost in costs if cost is not None]
    return Usage(cost_usd=sum(known) if calls and len(known) == len(costs) else None)


def witness_of_sketch(sketch: Sketch) -> Witness:
    """A condensed trace: its calls, the keys of its symptoms, and the beginning of its answer."""
    trace = _trace_of(sketch)
    ended_empty = any(key.partition(":")[0] == "empty_answer" for key in sketch.signatures)
    return Witness(
        observation=Observation(output=sketch.answer or None, trace=trace),
        symptoms=tuple(
            _symptom(sketch, key)
            for key in sketch.signatures
            if key.partition(":")[0] not in NOT_SEEN
        ),
        family=family_key(sketch.request) if sketch.request is not None else "",
        tools=frozenset(call.tool for call in sketch.calls),
        answered=bool(sketch.answer) or ended_empty,
        whole_answer=False,
        whole_calls=False,
        timed=False,
    )


def _trace_of(sketch: Sketch) -> Trace:
    root = Span(
        id=sketch.root_span or SpanId("root"), trace_id=sketch.trace_id, parent_id=None,
        name="run", kind="agent", status="unset", started_at=_EPOCH, ended_at=None,
    )  # fmt: skip
    calls = [
        Span(
            id=call.span_id, trace_id=sketch.trace_id, parent_id=root.id, name=call.tool,
            kind="tool", status="ok" if call.ok else "error", started_at=_EPOCH, ended_at=None,
            tool_name=call.tool, input=_payload(call.arguments),
        )
        for call in sketch.calls
    ]  # fmt: skip
    return Trace(id=sketch.trace_id, spans=(root, *calls))


def _payload(arguments: Mapping[str, Json] | None) -> Payload | None:
    if arguments is None:
        return None
    text = canonical_json(arguments).decode("utf-8", "replace")
    return Payload(text=text, size_bytes=len(text), value=dict(arguments))


def _symptom(sketch: Sketch, key: str) -> Symptom:
    return Symptom(
        trace_id=sketch.trace_id, unit=sketch.trace_id, span_id=sketch.root_span,
        kind=key.partition(":")[0], signature=Signature(key), severity="medium",
        detector=key.partition(":")[0], evidence=Evidence(field="output", quote="", start=0),
        template="", at=_EPOCH,
    )  # fmt: skip
