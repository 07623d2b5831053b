"""Properties that recorded traces show: workflow, errors, prompts, context."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from contracts.traces import Span, Trace
from nodes.insights.analyze import parts_of
from nodes.insights.detect.all import ERROR_FAMILY, detect
from nodes.insights.detect.faults import Scans
from nodes.insights.detect.view import View, view_of
from nodes.readiness.properties import Property, State, by_share, of
from nodes.readiness.windows import window_of

WORKFLOW = "traces reconstruct the workflow"
ERRORS = "errors categorised"
PROMPTS = "prompts versioned"
CONTEXT = "context management"

NEAR = 0.8
"""From this share of a model's window on, the next tool answer may not fit."""
MANY_NEAR = 0.1
_KINDS = frozenset(kind for kind, _ in ERROR_FAMILY)
_CUT_REASONS = frozenset({"length", "max_tokens", "max_output_tokens", "model_length"})
_NO_TRACES = "no trace could be read"
_READ_SOME = "configure a source of traces, or let the agent run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The newest traces of a project, and in words how they were come by."""

    traces: tuple[Trace, ...]
    said: str


def workflow(sample: Sample) -> Property:
    """Share of traces that have one root, no orphans, and whole tool calls."""
    if not sample.traces:
        return Property(name=WORKFLOW, state="unknown", evidence=_NO_TRACES, advice=_READ_SOME)
    lacks: Counter[str] = Counter()
    whole = 0
    for trace in sample.traces:
        missing = set(_missing(view_of(trace)))
        lacks.update(missing)
        whole += not missing
    told = "".join(f"; {count} {what}" for what, count in lacks.most_common())
    evidence = f"{of(whole, len(sample.traces))} {sample.said}{told}"
    worst = lacks.most_common(1)[0][0] if lacks else ""
    return by_share(WORKFLOW, whole, len(sample.traces), evidence, _MEND.get(worst, ""))


_NO_ROOT, _ORPHANS = "without a root", "with steps whose parent is missing"
_NO_ARGUMENTS, _NO_RESULT = "with a tool call without arguments", "with a tool call without answer"
_MEND = {
    _NO_ROOT: "open one span around the whole run, and flush before the process ends",
    _ORPHANS: "pass the trace context on to threads and services, and sample whole traces",
    _NO_ARGUMENTS: "record the input of tool spans",
    _NO_RESULT: "record the output of tool spans",
}


def _missing(view: View) -> list[str]:
    trace = view.trace
    found = []
    if trace.root.virtual:
        found.append(_NO_ROOT)
    if trace.orphans:
        found.append(_ORPHANS)
    calls = view.calls.values()
    if any(call.arguments is None and call.span.input is None for call in calls):
        found.append(_NO_ARGUMENTS)
    if any(call.span.output is None and call.span.error is None for call in calls):
        found.append(_NO_RESULT)
    return found


def errors(sample: Sample) -> Property:
    """Share of failed steps whose signature says more than a kind and a place."""
    if not sample.traces:
        return Property(name=ERRORS, state="unknown", evidence=_NO_TRACES, advice=_READ_SOME)
    scans = Scans()
    bare: Counter[str] = Counter()
    specific = total = 0
    for trace in sample.traces:
        for symptom in detect(trace, scans).symptoms:
            if symptom.kind in _KINDS:
                total += 1
                coded = bool(parts_of(symptom.signature)[2])
                specific += coded
                bare[symptom.signature] += not coded
    if not total:
        said = f"no step failed in {len(sample.traces)} traces"
        return Property(name=ERRORS, state="unknown", evidence=said)
    worst = f", most often {bare.most_common(1)[0][0]}" if specific < total else ""
    evidence = f"{of(specific, total)} failed steps tell a status or an exception class{worst}"
    advice = "let tools answer failures with a status code or an exception class, not only in words"
    return by_share(ERRORS, specific, total, evidence, advice)


def prompts(sample: Sample, harness: Path) -> Property:
    """Whether it can be told which text of the agent a trace ran with."""
    calls = [(t, s) for t in sample.traces for s in t.spans if s.kind == "llm"]
    linked = sum(s.prompt_name is not None and s.prompt_version is not None for _, s in calls)
    released = sum(t.release is not None or t.version is not None for t, _ in calls)
    known = sum(_versioned(t, s) for t, s in calls)
    tracked = _under_git(harness)
    evidence = (
        f"{of(known, len(calls))} model calls name a version ({linked} a prompt's, {released} a "
        f"release); the harness is {'' if tracked else 'not '}under git"
    )
    if tracked:
        return Property(name=PROMPTS, state="ok", evidence=evidence)
    advice = "set the release on traces, link prompts with their version, or keep the text in git"
    return by_share(PROMPTS, known, len(calls), evidence, advice)


def _versioned(trace: Trace, span: Span) -> bool:
    linked = span.prompt_name is not None and span.prompt_version is not None
    return linked or trace.release is not None or trace.version is not None


def _under_git(folder: Path) -> bool:
    return any((above / ".git").exists() for above in (folder, *folder.parents))


def context(sample: Sample) -> Property:
    """Share of model calls that leave room in the model's window and were not cut off."""
    calls = [s for t in sample.traces for s in t.spans if s.kind == "llm"]
    if not calls:
        what = "no model call was recorded" if sample.traces else _NO_TRACES
        return Property(name=CONTEXT, state="unknown", evidence=what, advice=_READ_SOME)
    cut = sum(s.finish_reason in _CUT_REASONS for s in calls)
    measured = [
        s.input_tokens / size
        for s in calls
        if s.input_tokens is not None and (size := window_of(s.model)) is not None
    ]
    near = sum(share >= NEAR for share in measured)
    tokens = sum(s.input_tokens is not None for s in calls)
    largest = f", the largest {max(measured):.0%}" if measured else ""
    short = sum(p is not None and p.truncated for s in calls for p in (s.input, s.output))
    evidence = (
        f"{near} of {len(measured)} measured model calls take {NEAR:.0%} of the window or more"
        f"{largest}; {cut} of {len(calls)} answers were cut off, {short} texts by the "
        f"reader; {len(calls) - tokens} calls tell "
        f"no tokens, {tokens - len(measured)} a model whose window is not known"
    )
    return Property(
        name=CONTEXT, state=_room(near, len(measured), cut, len(calls)), evidence=evidence,
        advice=_room_advice(near, len(measured), cut),
    )  # fmt: skip


def _room(near: int, measured: int, cut: int, calls: int) -> State:
    if near > MANY_NEAR * max(1, measured) or cut > MANY_NEAR * calls:
        return "no"
    if near or cut:
        return "warn"
    return "ok" if measured >= calls / 2 else "unknown"


def _room_advice(near: int, measured: int, cut: int) -> str:
    if near:
        return "condense or drop old tool answers before the window is full"
    if cut:
        return "raise the limit of output tokens, or ask for shorter answers"
    return "" if measured else "nothing was measured: record the model's name and input tokens"
