"""All detectors over one trace: one failure gives one symptom, at the culprit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from configs.settings import ScoreRule
from configs.taxonomy import taxonomy
from contracts.findings import Evidence, Symptom
from contracts.json_types import Json
from contracts.traces import Span, SpanId, Trace
from nodes.insights.detect import (
    auth,
    context_overflow,
    exception,
    invented_tool,
    malformed_output,
    rate_limit,
    tool_error,
    tool_timeout,
    unfinished,
)
from nodes.insights.detect.beside import Beside
from nodes.insights.detect.code_steps import code_culprit
from nodes.insights.detect.contracts import ALL, Contracts
from nodes.insights.detect.empty_answer import KIND as EMPTY_ANSWER
from nodes.insights.detect.empty_answer import empty_answer
from nodes.insights.detect.faults import Fault, Scans, fault_of, make_fault
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.low_score import low_scores
from nodes.insights.detect.nesting import Marked, Nesting
from nodes.insights.detect.observed import observed_faults
from nodes.insights.detect.recovery import Recovery
from nodes.insights.detect.registry import SILENT
from nodes.insights.detect.repeated_call import KIND as REPEATED_CALL
from nodes.insights.detect.repeated_call import Loop, loop_facts, loops
from nodes.insights.detect.runs import runs_of
from nodes.insights.detect.view import View, view_of
from nodes.insights.signature import clean, make_signature, template_of

QUOTE_CHARS = 200

ERROR_FAMILY: tuple[tuple[str, Callable[[Fault], bool]], ...] = (
    (context_overflow.KIND, context_overflow.claims),
    (rate_limit.KIND, rate_limit.claims),
    (invented_tool.KIND, invented_tool.claims),
    (auth.KIND, auth.claims),
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


def detect(
    trace: Trace, scans: Scans, contracts: Contracts = ALL, *, scores: Sequence[ScoreRule] = ()
) -> Detected:
    """Like `detect_trace`, with what was worked out on the way, and a memory of scanned texts.

    `contracts` are the frameworks' conventions that are recognised; less than all is for measuring.
    `scores` say which recorded scores are failures; none: scores are not looked at.
    """
    view = view_of(trace, contracts)
    faults = _own_faults(view, scans)
    limits = [fault for fault in faults if unfinished.is_step_limit(fault)]
    errors = [fault for fault in faults if not unfinished.is_step_limit(fault)]
    loops_found = list(loops(view, {fault.span.id for fault in errors}))
    view.runs.extend(runs_of(view))
    errors += malformed_output.model_faults(view)
    errors += observed_faults(view, scans)
    recovery, beside = Recovery(view), Beside(view)
    symptoms = [_error_symptom(view, recovery, beside, fault) for fault in errors]
    symptoms += [_loop_symptom(view, loop, limits) for loop in loops_found]
    symptoms += _ends(view, limits, looped=bool(loops_found))
    for look in SILENT:
        symptoms += [_hit_symptom(view, hit) for hit in look(view, tuple(symptoms))]
    symptoms += [
        replace(_hit_symptom(view, judged.hit), severity=judged.severity)
        for judged in low_scores(view, scores)
    ]
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
    own = list(faults.values())
    if any(view.children.get(one) for one in faults):
        nesting = Nesting(view)
        marked = nesting.among(faults)
        own = [fault for fault in own if not _passed_on(nesting, marked, fault, faults)]
    return [code_culprit(view, fault) for fault in own]


def _passed_on(
    nesting: Nesting, marked: Marked, fault: Fault, faults: Mapping[SpanId, Fault]
) -> bool:
    for span in marked.under(fault.span):
        deeper = faults[span.id]
        if _same(fault, deeper) or _ends_with(nesting, fault.span, span):
            return not unfinished.is_step_limit(fault) or unfinished.is_step_limit(deeper)
    return False


def _same(outer: Fault, inner: Fault) -> bool:
    core = inner.message.strip()[:80]
    if len(core) >= 8 and core in outer.message + (
        (outer.span.error and outer.span.error.stack) or ""
    ):
        return True
    return not outer.message.strip() or (outer.type is not None and outer.type == inner.type)


def _ends_with(nesting: Nesting, outer: Span, failed: Span) -> bool:
    """Whether nothing began after the failed step had ended: its failure went up."""
    return failed.ended_at is None or not nesting.began_after(outer, failed, failed.ended_at)


def _error_symptom(view: View, recovery: Recovery, beside: Beside, fault: Fault) -> Symptom:
    kind = next(name for name, claims in ERROR_FAMILY if claims(fault))
    recovered = recovery.recovered(fault)
    fault = beside.added(kind, fault)
    symptom = _symptom(view, fault, kind, fault.code)
    return replace(symptom, recovered=recovered, severity="low") if recovered else symptom


def _loop_symptom(view: View, loop: Loop, limits: list[Fault]) -> Symptom:
    last = loop.calls[-1]
    given = last.span.input.text if last.span.input else ""
    message = f"{len(loop.calls)} equal calls of {last.tool} with equal answers: {given}"
    if limits:
        message += f"; the run ended by: {limits[0].message}"
    fault = make_fault(view, last.span, message, "input", place=last.tool)
    fault = replace(fault, facts=loop_facts(view, loop))
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
        evidence=Evidence(
            field=hit.field,
            quote=clean(hit.message, QUOTE_CHARS),
            start=hit.start,
            facts=_cleaned(hit.facts),
        ),
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
        evidence=Evidence(
            field=fault.field, quote=quote, start=fault.start, facts=_cleaned(fault.facts)
        ),
        template=template_of(fault.message) if template is None else template,
        at=fault.span.started_at,
        confidence=taxonomy().confidence(kind),
        shown_at=fault.shown_at,
    )


def _cleaned(facts: Mapping[str, Json]) -> dict[str, Json]:
    """Facts with their texts masked and cut like quotes."""
    return {k: clean(v, QUOTE_CHARS) if isinstance(v, str) else v for k, v in facts.items()}
