"""All detectors over one trace: one failure gives one symptom, at the culprit."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from configs.taxonomy import taxonomy
from contracts.findings import Evidence, Symptom
from contracts.traces import Span, SpanId, Trace
from nodes.insights.detect import (
    exception,
    malformed_output,
    rate_limit,
    tool_error,
    tool_timeout,
    unfinished,
)
from nodes.insights.detect.answers import parsed
from nodes.insights.detect.code_steps import code_culprit
from nodes.insights.detect.empty_answer import KIND as EMPTY_ANSWER
from nodes.insights.detect.empty_answer import empty_answer
from nodes.insights.detect.faults import Fault, Scans, fault_of, make_fault
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.observed import observed_faults
from nodes.insights.detect.registry import SILENT
from nodes.insights.detect.repeated_call import KIND as REPEATED_CALL
from nodes.insights.detect.repeated_call import Loop, loops
from nodes.insights.detect.view import View, view_of
from nodes.insights.signature import clean, make_signature, template_of

QUOTE_CHARS = 200

ERROR_FAMILY: tuple[tuple[str, Callable[[Fault], bool]], ...] = (
    (rate_limit.KIND, rate_limit.claims),
    (tool_timeout.KIND, tool_timeout.claims),
    (malformed_output.KIND, malformed_output.claims),
    (tool_error.KIND, tool_error.claims),
    (exception.KIND, exception.claims),
)
"""From the most specific kind to the rest; the first that claims a fault names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detected:
    """A trace as the detectors saw it, and what they found."""

    view: View
    symptoms: tuple[Symptom, ...]

    @property
    def failed(self) -> bool:
        """Whether some symptom counts: no mere hint, and not recovered from."""
        return any(symptom.counts for symptom in self.symptoms)


def detect_trace(trace: Trace) -> tuple[Symptom, ...]:
    """Every symptom of the trace, in its order. Pure: equal traces give equal symptoms."""
    return detect(trace, Scans()).symptoms


def detect(trace: Trace, scans: Scans) -> Detected:
    """Like `detect_trace`, with what was worked out on the way, and a memory of scanned texts."""
    view = view_of(trace)
    faults = _own_faults(view, scans)
    limits = [fault for fault in faults if unfinished.is_step_limit(fault)]
    errors = [fault for fault in faults if not unfinished.is_step_limit(fault)]
    loops_found = list(loops(view, {fault.span.id for fault in errors}))
    errors += malformed_output.model_faults(view)
    errors += observed_faults(view, scans)
    symptoms = [_error_symptom(view, fault) for fault in errors]
    symptoms += [_loop_symptom(view, loop, limits) for loop in loops_found]
    symptoms += _ends(view, limits, looped=bool(loops_found))
    for look in SILENT:
        symptoms += [_hit_symptom(view, hit) for hit in look(view, tuple(symptoms))]
    order = {span.id: index for index, span in enumerate(trace.spans)}
    unique = {(s.span_id, s.signature): s for s in reversed(symptoms)}
    found = sorted(unique.values(), key=lambda s: (order[s.span_id], s.signature))
    return Detected(view=view, symptoms=tuple(found))


def _own_faults(view: View, scans: Scans) -> list[Fault]:
    """Faults of the deepest failing spans; a parent that only passes one on has none."""
    faults: dict[SpanId, Fault] = {}
    for span in view.trace.spans:
        fault = fault_of(view, span, scans)
        if fault is not None:
            faults[span.id] = fault
            if fault.explicit or fault.on_tool:
                view.failed.add(span.id)
    own = [fault for fault in faults.values() if not _passed_on(view, fault, faults)]
    return [code_culprit(view, fault) for fault in own]


def _passed_on(view: View, fault: Fault, faults: Mapping[SpanId, Fault]) -> bool:
    if not view.children.get(fault.span.id):
        return False
    below = view.under(fault.span)
    for span in below:
        deeper = faults.get(span.id)
        if deeper is not None and (_same(fault, deeper) or _ends_with(view, below, span)):
            return not unfinished.is_step_limit(fault) or unfinished.is_step_limit(deeper)
    return False


def _same(outer: Fault, inner: Fault) -> bool:
    core = inner.message.strip()[:80]
    if len(core) >= 8 and core in outer.message + (
        (outer.span.error and outer.span.error.stack) or ""
    ):
        return True
    return not outer.message.strip() or (outer.type is not None and outer.type == inner.type)


def _ends_with(view: View, below: list[Span], failed: Span) -> bool:
    """Whether nothing began after the failed step had ended: its failure went up."""
    if failed.ended_at is None:
        return True
    inside = {span.id for span in view.under(failed)}
    return all(
        span.started_at < failed.ended_at or span.id in inside or span.id == failed.id
        for span in below
    )


def _error_symptom(view: View, fault: Fault) -> Symptom:
    kind = next(name for name, claims in ERROR_FAMILY if claims(fault))
    recovered = _recovered(view, fault)
    symptom = _symptom(view, fault, kind, fault.code)
    return replace(symptom, recovered=recovered, severity="low") if recovered else symptom


def _recovered(view: View, fault: Fault) -> bool:
    """Whether the same step worked later: the tool was called again, or the place ran again."""
    span = fault.span
    if fault.on_tool and span.kind == "tool":
        later = [
            call.span
            for call in view.calls.values()
            if call.tool == fault.place and call.span.started_at > span.started_at
        ]
        return any(one.id not in view.failed and one.output is not None for one in later)
    if fault.on_tool:
        return any(
            call.tool == fault.place
            and call.span.started_at > span.started_at
            and call.span.id not in view.failed
            for call in view.calls.values()
        )
    if fault.broken:
        return _parsed_later(view, fault)
    if span.kind not in ("llm", "chain"):
        return False
    culprits = view.failed
    place = view.place(span)
    return any(
        one.kind == span.kind
        and one.started_at > span.started_at
        and one.id not in culprits
        and not one.virtual
        and make_signature("", view.place(one), None) == make_signature("", place, None)
        for one in view.trace.spans
    )


def _parsed_later(view: View, fault: Fault) -> bool:
    """Whether the model was asked again at the same place and gave JSON."""
    return any(
        one.kind == "llm"
        and one.started_at > fault.span.started_at
        and view.place(one) == fault.place
        and bool(one.messages_out)
        and parsed(one.messages_out[-1].content) is not None
        for one in view.trace.spans
    )


def _loop_symptom(view: View, loop: Loop, limits: list[Fault]) -> Symptom:
    last = loop.calls[-1]
    given = last.span.input.text if last.span.input else ""
    message = f"{len(loop.calls)} equal calls of {last.tool} with equal answers: {given}"
    if limits:
        message += f"; the run ended by: {limits[0].message}"
    fault = make_fault(view, last.span, message, "input", place=last.tool)
    return _symptom(view, fault, REPEATED_CALL, None, template="equal calls, equal answers")


def _ends(view: View, limits: list[Fault], *, looped: bool) -> list[Symptom]:
    """How the run ended, where no loop explains it."""
    symptoms = []
    if not looped:
        symptoms += [
            _symptom(view, limit, unfinished.KIND, limit.type or "step_limit")
            for limit in limits[-1:]
        ]
    symptoms += [_symptom(view, f, unfinished.KIND, code) for f, code in unfinished.stops(view)]
    silent = empty_answer(view) if not symptoms else None
    if silent is not None:
        symptoms.append(_symptom(view, silent, EMPTY_ANSWER, None))
    return symptoms


def _hit_symptom(view: View, hit: Hit) -> Symptom:
    meaning = taxonomy()
    kind = meaning.kinds[hit.kind]
    place = view.place(hit.span) if hit.place is None else hit.place
    sure = meaning.confidence(hit.kind) if hit.confidence is None else hit.confidence
    return Symptom(
        trace_id=view.trace.id,
        unit=view.trace.unit,
        span_id=hit.span.id,
        kind=hit.kind,
        signature=make_signature(hit.kind, place, hit.code),
        severity=kind.severity,
        detector=hit.kind,
        evidence=Evidence(field=hit.field, quote=clean(hit.message, QUOTE_CHARS), start=hit.start),
        template=template_of(hit.message) if hit.template is None else hit.template,
        at=hit.span.started_at,
        counted=kind.counted if hit.counted is None else hit.counted,
        confidence=sure,
        shown_at=hit.shown_at,
    )


def _symptom(
    view: View, fault: Fault, kind: str, code: str | None, *, template: str | None = None
) -> Symptom:
    quote = clean(fault.message, QUOTE_CHARS)
    return Symptom(
        trace_id=view.trace.id,
        unit=view.trace.unit,
        span_id=fault.span.id,
        kind=kind,
        signature=make_signature(kind, fault.place, code),
        severity=taxonomy().severity(kind),
        detector=kind,
        evidence=Evidence(field=fault.field, quote=quote, start=fault.start),
        template=template_of(fault.message) if template is None else template,
        at=fault.span.started_at,
        confidence=taxonomy().confidence(kind),
    )
