"""Blast radius: which later steps of a trace were given a bad output, or what others made of it.

Content is followed, not time: a later step is reached when its input holds a run of characters of
the output, the same tool call id, or the same arguments. Runs that stood in the trace before the
output are no evidence and are left out (an order number that the user named, say). A step that was
reached passes its own output on; that is `indirect`.

Known limits. Output that a model rewords is followed only as far as the step that read it; outputs
shorter than a dozen characters only by tool call id or as a whole message. What a recorder did not
write down cannot be followed: then the reach says so instead of zero. Bounds: four outputs a trace,
a few runs of characters each, `MAX_SOURCES` steps that pass it on; each distinct text is looked
through once for each run. All of it is linear in the size of the trace.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from contracts.json_types import canonical_json, sha256_hex
from contracts.traces import Span, SpanId, SpanKind, TraceId
from nodes.insights.detect.answers import parsed
from nodes.insights.detect.view import View
from nodes.insights.signature import clean

MAX_OUTPUTS = 4
MAX_SOURCES = 24
RUNS = 4
"""Runs of characters that one output is known by."""
RUN_CHARS = 64
LOOKED_AT = 20_000
"""Characters at either end of an output in which runs are looked for."""
PATH = 6
_STEPS: frozenset[SpanKind] = frozenset({"llm", "tool", "retriever", "embedding", "guardrail"})
_RUN = re.compile(r'[^"\\\x00-\x1f\x7f]{12,}')
"""What stands in JSON as it stands outside of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """How far one bad output went."""

    trace_id: TraceId
    span_id: SpanId
    direct: int
    """Later steps that were given the output itself."""
    indirect: int
    """Later steps that were given what such a step made of it."""
    later: int
    """Steps that began after it."""
    answered: bool
    """The last step, or the final answer, is among those reached."""
    path: tuple[str, ...]
    """Names and ids from the bad step to the last one reached; a long one is cut in the middle."""
    traceable: bool
    """False: the output was not recorded, or nothing in it can be told from what stood before."""

    @property
    def share(self) -> float:
        """Of the later steps, 0..1; 0 where there are none."""
        return (self.direct + self.indirect) / self.later if self.later else 0.0


def sentence_of(reach: Reach) -> str:
    """The reach in one sentence for a person."""
    if not reach.later:
        return "nothing came after it"
    if not reach.traceable and not reach.direct:
        return "cannot be followed: its output was not recorded, or stood in the trace before"
    if not reach.direct:
        return f"none of the {reach.later} later steps was given it"
    more = f", {reach.indirect} more what those made of it" if reach.indirect else ""
    ends = "; the answer rests on it" if reach.answered else "; the last step is not among them"
    return f"{reach.direct} of {reach.later} later steps were given its output{more}{ends}"


def reach_of(view: View, span_ids: Iterable[SpanId]) -> tuple[Reach, ...]:
    """The reach of the outputs of these spans, the first `MAX_OUTPUTS` distinct ones. Pure."""
    wanted = list(dict.fromkeys(one for one in span_ids if one in view.by_id))[:MAX_OUTPUTS]
    return tuple(_reach(view, view.by_id[one]) for one in wanted)


@dataclass(slots=True)
class _Source:
    """A step whose output is followed."""

    span: Span
    came_from: "_Source | None"
    runs: list[str]
    whole: frozenset[str]
    """Outputs as whole messages."""
    calls: frozenset[str]
    """Ids of tool calls that it answers or asks for."""
    arguments: frozenset[str]
    """Keys of the arguments that it asks tools for."""


@dataclass(slots=True)
class _Seen:
    """Texts that were looked through, and which runs they hold; each text once for each run."""

    found: dict[str, tuple[int, frozenset[int]]] = field(default_factory=dict)
    runs: list[str] = field(default_factory=list)

    def add(self, runs: Sequence[str]) -> range:
        """Runs to look for from now on; their numbers."""
        first = len(self.runs)
        self.runs.extend(runs)
        return range(first, len(self.runs))

    def holds(self, text: str) -> frozenset[int]:
        """Numbers of the runs in this text."""
        upto, held = self.found.get(text, (0, frozenset()))
        if upto < len(self.runs):
            more = {n for n in range(upto, len(self.runs)) if self.runs[n] in text}
            held |= more
            self.found[text] = (len(self.runs), held)
        return held


def _reach(view: View, bad: Span) -> Reach:
    later = _later(view, bad)
    first = _source(view, bad, None, before=_texts_before(view, bad))
    traceable = bool(first.runs or first.calls or first.arguments or first.whole)
    seen = _Seen()
    owners: dict[int, _Source] = dict.fromkeys(seen.add(first.runs), first)
    sources = [first]
    direct, indirect = 0, 0
    last: _Source = first
    for span in later:
        given = _given_by(view, span, sources, owners, seen)
        if given is None:
            continue
        if given is first:
            direct += 1
        else:
            indirect += 1
        last = _source(view, span, given, before=())
        if len(sources) < MAX_SOURCES:
            sources.append(last)
            owners |= dict.fromkeys(seen.add(last.runs), last)
    answered = bool(later) and (last.span is later[-1] or _in_answer(view, first, seen, owners))
    return Reach(
        trace_id=view.trace.id, span_id=bad.id, direct=direct, indirect=indirect,
        later=len(later), answered=answered and direct > 0,
        path=_path(last) if direct else (), traceable=traceable,
    )  # fmt: skip


def _later(view: View, bad: Span) -> list[Span]:
    """Steps that began when the bad one was over, in the order of the trace."""
    order = {span.id: index for index, span in enumerate(view.trace.spans)}
    over = bad.ended_at or bad.started_at
    inside = {one.id for one in view.under(bad)}
    return [
        span
        for span in view.trace.spans
        if _is_step(view, span)
        and span.id != bad.id
        and span.id not in inside
        and (order[span.id] > order[bad.id] if view.trace.timeless else span.started_at >= over)
    ]


def _is_step(view: View, span: Span) -> bool:
    """Model and tool calls and the like; of other spans those that hold none."""
    return not span.virtual and (span.kind in _STEPS or not view.children.get(span.id))


def _given_by(
    view: View,
    span: Span,
    sources: Sequence[_Source],
    owners: dict[int, _Source],
    seen: _Seen,
) -> _Source | None:
    """Whose output the step was given, first of all the bad one's; None: nobody's."""
    held = {id(owners[n]) for text in _given(span) for n in seen.holds(text)}
    call = view.calls.get(span.id)
    key = call.arguments_key if call is not None else None
    asked = {m.tool_call_id for m in span.messages_in if m.tool_call_id}
    asked |= {one for m in span.messages_in for one, _, _ in m.tool_calls if one}
    said = {m.content for m in span.messages_in if m.role in ("tool", "function", "assistant")}
    for source in sources:
        if id(source) in held or asked & source.calls or said & source.whole:
            return source
        if key is not None and key in source.arguments:
            return source
    return None


def _given(span: Span) -> Iterator[str]:
    """Texts of the step's input. Messages stand in the input as well; they are enough."""
    if span.messages_in:
        for message in span.messages_in:
            yield message.content
            for _, _, arguments in message.tool_calls:
                yield arguments
    elif span.input is not None:
        yield span.input.text


def _texts_before(view: View, bad: Span) -> Iterator[str]:
    """What stood in the trace before the bad output: inputs, and outputs that were over."""
    for span in view.trace.spans:
        if span.id == bad.id or span.started_at <= bad.started_at:
            yield from _given(span)
        if span.ended_at is not None and span.ended_at <= bad.started_at and span.id != bad.id:
            yield from _made(view, span)


def _made(view: View, span: Span) -> Iterator[str]:
    """Texts of the step's output, out of the envelope that its framework wrote."""
    call = view.calls.get(span.id)
    if call is not None:
        yield call.answer.text
    elif span.messages_out:
        for message in span.messages_out:
            yield message.content
            for _, _, arguments in message.tool_calls:
                yield arguments
    elif span.output is not None:
        yield span.output.text
    if span.error is not None:
        yield span.error.message


def _source(view: View, span: Span, came_from: _Source | None, *, before: Iterable[str]) -> _Source:
    made = [text for text in _made(view, span) if text.strip()]
    runs, whole = _runs(made), {text for text in made if len(text.strip()) >= 2}
    # What it was given itself is followed already, under the step that gave it.
    for text in before if came_from is None else _given(span):
        runs = [run for run in runs if run not in text]
        whole.discard(text)
        if not runs and not whole:
            break
    call = view.calls.get(span.id)
    ids = {one for message in span.messages_out for one, _, _ in message.tool_calls if one}
    if call is not None and call.answer.call_id:
        ids = {call.answer.call_id}
    arguments = frozenset(
        sha256_hex(canonical_json(value))
        for message in span.messages_out
        for _, _, text in message.tool_calls
        if isinstance(value := parsed(text), dict) and value
    )
    return _Source(span, came_from, runs, frozenset(whole), frozenset(ids), arguments)


def _runs(made: Sequence[str]) -> list[str]:
    """The longest runs of characters, the first of equal length."""
    found: dict[str, None] = {}
    for text in made:
        ends = text if len(text) <= 2 * LOOKED_AT else text[:LOOKED_AT] + "\n" + text[-LOOKED_AT:]
        for match in _RUN.finditer(ends):
            run = match[0].strip()[:RUN_CHARS].strip()
            if len(run) >= 12:
                found.setdefault(run)
    return sorted(found, key=len, reverse=True)[:RUNS]


def _in_answer(view: View, first: _Source, seen: _Seen, owners: dict[int, _Source]) -> bool:
    """Whether the trace's final output holds the bad output itself."""
    root = view.trace.root
    if root.id == first.span.id or root.output is None:
        return False
    return any(owners[n] is first for n in seen.holds(root.output.text))


def _path(last: _Source) -> tuple[str, ...]:
    steps: list[str] = []
    at: _Source | None = last
    while at is not None:
        steps.append(f"{clean(at.span.tool_name or at.span.name, 64)} ({at.span.id})")
        at = at.came_from
    steps.reverse()
    return tuple(steps if len(steps) <= PATH else [*steps[:2], "…", *steps[3 - PATH :]])
