"""Let a small model read condensed runs for what no rule can see, and check what it says.

A hit is a hint: it is listed with `by="model:..."`, makes no trace a failed one, is no finding, and
changes no count. Its kind is one of a closed list, its quote must stand in the run that it names,
and its line must be one of that run; what does not hold is dropped and counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel, Field

from configs.taxonomy import taxonomy
from connectors.models.answers import Share
from connectors.models.chat import TIMEOUT_S, Answer, Budget, ask
from connectors.review.clean import one_line
from contracts.findings import Evidence, Symptom
from contracts.json_types import Json, JsonObject, canonical_json
from contracts.traces import SpanId, TraceId
from nodes.fence import fenced
from nodes.insights.analyze import Analysis
from nodes.insights.lowest import rank
from nodes.insights.prompt_files import Prompt
from nodes.insights.signature import make_signature
from nodes.insights.sketch import Sketch
from nodes.insights.spending import ANSWER_TOKENS, count

KINDS: Final[Mapping[str, str]] = {
    "misunderstood_request": "the agent works on another task than the one it was asked",
    "misread_output": "the agent says or does something that a tool's answer does not say",
    "poor_search": "a search or query is put in a way that cannot find what is needed",
    "unsupported_claim": "the answer claims what nothing in the run shows",
    "ignored_request": "a part of what was asked is left out, and the answer does not say so",
}
"""What only reading can find. Kinds of the taxonomy; what a model says of them never counts."""

BATCH: Final = 20
"""Runs that are told at once."""
MAX_CALLS: Final = 12
LINE_CHARS: Final = 110
ANSWER_CHARS: Final = 200
MIN_QUOTE: Final = 8
MAX_QUOTE: Final = 200
MAX_TRIES: Final = 2
SUREST: Final = 0.9
"""Of a hit: nobody checked it but the model."""
END = "end"


class Hit(BaseModel):
    """A line of a run at which it goes wrong."""

    trace: str = Field(description="name of the run, such as t3")
    at: str = Field(description="name of the line, such as c2 or end")
    kind: str = Field(description="one of the kinds")
    quote: str = Field(description="from that run, word for word")
    confidence: Share


class ScreenAnswer(BaseModel):
    """What was marked; empty when every run is fine."""

    hits: list[Hit]


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """A hit that holds: its run and line are there, and the quote is in it."""

    trace_id: TraceId
    span_id: SpanId
    place: str
    kind: str
    quote: str
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Screened:
    """What reading one batch came to."""

    marked: tuple[Marked, ...] = ()
    dropped: int = 0
    """Hits that did not hold."""
    problem: str | None = None
    """Why the batch was not read; None: it was."""
    tokens: int = 0
    cost_usd: float | None = None


def chosen(analysis: Analysis, most: int) -> list[Sketch]:
    """Runs to read, the same for every order of input: those that passed first, by rank of id."""
    failing = {s.trace_id: s for one in analysis.evidence.values() for s in one.failing}
    passing = {sketch.trace_id: sketch for sketch in analysis.passing}
    rest = [sketch for trace, sketch in failing.items() if trace not in passing]
    ordered = [*sorted(passing.values(), key=_rank), *sorted(rest, key=_rank)]
    return ordered[:most]


def _rank(sketch: Sketch) -> tuple[int, str]:
    return rank(sketch.trace_id), sketch.trace_id


def system_text(prompt: Prompt) -> str:
    """The instructions, with the closed list of kinds."""
    return prompt.filled(kinds="\n".join(f"- {kind}: {says}." for kind, says in KINDS.items()))


def told(batch: Sequence[Sketch]) -> str:
    """The runs of a batch as `t1`, `t2` ..., each in a fence of its own."""
    return "\n".join(
        fenced(f"t{number}", "\n".join(_lines(sketch))) for number, sketch in enumerate(batch, 1)
    )


def _lines(sketch: Sketch) -> list[str]:
    out = [f"trace {one_line(sketch.trace_id, 64)}", f"asked: {_asked(sketch.request)}"]
    for number, call in enumerate(sketch.calls[:MAX_CALLS], 1):
        given = canonical_json(dict(call.arguments or {})).decode("utf-8", "replace")
        mark = "" if call.ok else " FAILED"
        line = f"{call.tool}({one_line(given, LINE_CHARS)}){mark}: {call.note}"
        out.append(f"c{number} {one_line(line, 3 * LINE_CHARS)}")
    if len(sketch.calls) > MAX_CALLS:
        out.append(f"... {len(sketch.calls) - MAX_CALLS} more calls")
    out.append(f"{END} {one_line(sketch.answer, ANSWER_CHARS) or '(no answer was recorded)'}")
    return out


def _asked(request: Json) -> str:
    if isinstance(request, Mapping) and isinstance(request.get("message"), str):
        return one_line(str(request["message"])[:2_000], 2 * LINE_CHARS)
    text = "not recorded" if request is None else canonical_json(request).decode("utf-8", "replace")
    return one_line(text[:2_000], 2 * LINE_CHARS)


async def screen_batch(
    model: BaseChatModel,
    batch: Sequence[Sketch],
    prompt: Prompt,
    *,
    tokens: int,
    timeout_s: float = TIMEOUT_S,
) -> Screened:
    """Read one batch. Never raises for what a model does; a weak answer costs one more try."""
    messages: list[BaseMessage] = [SystemMessage(system_text(prompt)), HumanMessage(told(batch))]
    left, structured, problem = tokens, True, ""
    cost: float | None = 0.0
    for _ in range(MAX_TRIES):
        budget = Budget(
            tokens=left, count_tokens=count, answer_tokens=ANSWER_TOKENS, timeout_s=timeout_s
        )
        answer = await ask(model, messages, ScreenAnswer, budget=budget, structured=structured)
        if answer.tokens == 0:
            problem = problem or answer.problem or "no answer"
            break
        left -= answer.tokens
        cost = None if cost is None or answer.cost_usd is None else cost + answer.cost_usd
        if answer.parsed is not None:
            marked, dropped = _checked(answer.parsed.hits, batch)
            return Screened(marked=marked, dropped=dropped, tokens=tokens - left, cost_usd=cost)
        problem = answer.problem or "no answer"
        if answer.failed:
            structured = False
        else:
            messages = [*messages, *_correction(answer, problem)]
    spent = tokens - left
    return Screened(problem=one_line(problem, 200), tokens=spent, cost_usd=cost if spent else None)


def _correction(answer: Answer[ScreenAnswer], problem: str) -> Sequence[BaseMessage]:
    return [
        AIMessage(answer.text[:2_000] or "(no text)"),
        HumanMessage(f"Not taken: {one_line(problem, 400)}\nAnswer again with the JSON object."),
    ]


def _checked(hits: Sequence[Hit], batch: Sequence[Sketch]) -> tuple[tuple[Marked, ...], int]:
    """Those that hold, one a run and kind, and the number of those that do not."""
    runs = {f"t{number}": sketch for number, sketch in enumerate(batch, 1)}
    held: dict[tuple[TraceId, str], Marked] = {}
    dropped = 0
    for hit in hits[: 4 * BATCH]:
        sketch = runs.get(hit.trace)
        marked = None if sketch is None else _held(hit, sketch)
        if marked is None:
            dropped += 1
        else:
            held.setdefault((marked.trace_id, marked.kind), marked)
    return tuple(held.values()), dropped + max(0, len(hits) - 4 * BATCH)


def _held(hit: Hit, sketch: Sketch) -> Marked | None:
    quote = _flat(hit.quote)
    text = _flat("\n".join(_lines(sketch)[1:]))
    lines = {f"c{n}": call for n, call in enumerate(sketch.calls[:MAX_CALLS], 1)}
    call = lines.get(hit.at)
    known = hit.kind in KINDS and (call is not None or hit.at == END)
    if not known or len(quote) < MIN_QUOTE or quote not in text:
        return None
    return Marked(
        trace_id=sketch.trace_id,
        span_id=sketch.root_span if call is None else call.span_id,
        place="agent" if call is None else call.tool,
        kind=hit.kind,
        quote=one_line(quote, MAX_QUOTE),
        confidence=min(SUREST, hit.confidence),
    )


def _flat(text: str) -> str:
    return " ".join(text.split())


def symptom_of(marked: Marked, sketch: Sketch | None, model: str) -> Symptom:
    """The hit as a symptom that counts for nothing."""
    at = sketch.at if sketch is not None else None
    return Symptom(
        trace_id=marked.trace_id,
        unit=str(marked.trace_id),
        span_id=marked.span_id,
        kind=marked.kind,
        signature=make_signature(marked.kind, marked.place, None),
        severity=taxonomy().severity(marked.kind),
        detector="screen",
        evidence=Evidence(field="read", quote=marked.quote, start=0),
        template="",
        at=at or datetime.fromtimestamp(0, UTC),
        counted=False,
        confidence=marked.confidence,
        by=f"model:{model}",
    )


def summary(symptoms: Sequence[Symptom], *, model: str, read: int) -> JsonObject:
    """What reading marked, by kind: like a finding to look at, and nothing that is worked on."""
    traces: dict[str, dict[str, SpanId]] = {}
    for symptom in symptoms:
        traces.setdefault(symptom.kind, {}).setdefault(symptom.trace_id, symptom.span_id)
    kinds: list[Json] = [
        {
            "kind": kind,
            "traces": len(places),
            "exemplars": [[trace, span] for trace, span in sorted(places.items())[:3]],
            "says": f"{len(places)} of {read} traces by reading: {KINDS[kind]}",
        }
        for kind, places in sorted(traces.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
    return {"by": f"model:{model}", "traces": read, "kinds": kinds, "actionable": False}
