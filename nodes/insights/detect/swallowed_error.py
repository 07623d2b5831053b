"""A failure that the program caught and nobody was told of.

Meaning: a step that is no tool (a node, a retriever, the run itself) gives back an error text or an
object that says it failed, or a stack trace, while its status is fine. What tools answer is judged
as `tool_error`; this is the rest of the tree. Evidence: the output's beginning.
Known limits: an exception event that was recorded on a step which then succeeded is ordinary
handling and is not counted; a step whose failed child is known already only passes it on.
"""

from collections.abc import Iterable, Iterator, Sequence

from contracts.findings import Symptom
from contracts.traces import Span, SpanId
from nodes.insights.detect import words
from nodes.insights.detect.empty_answer import final_text
from nodes.insights.detect.faults import error_in
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.view import View

KIND = "swallowed_error"
_STEPS = frozenset({"chain", "retriever", "embedding", "guardrail", "other", "agent"})
MAX_TEXT = 4_000  # an output longer than this is no mere error text


def swallowed_error(view: View, symptoms: Sequence[Symptom]) -> Iterator[Hit]:
    """The deepest steps whose output is an error, where nothing below failed."""
    known = {s.span_id for s in symptoms if s.counted}
    found: dict[SpanId, str] = {}
    for span in view.trace.spans:
        if span.kind not in _STEPS or span.virtual or span.status in ("error", "interrupted"):
            continue
        said = _says_failed(span)
        if said is not None:
            found[span.id] = said
    passing_on = _above(view, {*known, *found}) if found else set()
    for key, said in found.items():
        if key not in passing_on and key not in known:
            span = view.by_id[key]
            yield Hit(kind=KIND, span=span, message=said, field="output", code=_code(said))


def _above(view: View, below: Iterable[SpanId]) -> set[SpanId]:
    """Every span that has one of these beneath it."""
    above: set[SpanId] = set()
    for key in below:
        span = view.by_id.get(key)
        parent = span.parent_id if span is not None else None
        while parent is not None and parent not in above:
            above.add(parent)
            over = view.by_id.get(parent)
            parent = over.parent_id if over is not None else None
    return above


def _says_failed(span: Span) -> str | None:
    payload = span.output
    if payload is None or payload.truncated or len(payload.text) > MAX_TEXT:
        return None
    said = error_in(payload.value)
    if said is not None:
        return said
    text = payload.text
    if span.kind == "agent" or span.parent_id is None:
        text = final_text(payload.value, payload.text) or ""
    return text if words.says_error(text) else None


def _code(said: str) -> str | None:
    status = words.http_status(said)
    return str(status) if status is not None else words.error_class(said) or words.code_word(said)
