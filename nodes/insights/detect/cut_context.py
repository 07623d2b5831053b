"""Something was cut before the model, or the next step, saw it whole.

Meaning: a model call that was not the last one ended at its output limit, or a tool says that its
answer was truncated. Always a hint: most cuts do no harm. Evidence: the finish reason, or the mark.
The last call of a run that was cut off is `unfinished` and counts. Known limits: marks of cuts are
known by English wordings at the end of an answer.
"""

import re
from collections.abc import Iterator, Sequence

from contracts.findings import Symptom
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.unfinished import CUT_OFF
from nodes.insights.detect.view import View

KIND = "cut_context"
TAIL = 300
_CUT = re.compile(
    r"(?:output|result|response|content|text|file|log)s? (?:was |is |were |has been )?truncated"
    r"|[\[(<.\u2026]\s*(?:output )?truncated\b"
    r"|\b\d[\d,.]* (?:more )?(?:characters|chars|lines|bytes|tokens) (?:were )?"
    r"(?:omitted|truncated|elided|not shown)|truncated (?:to|after|at) \d",
    re.IGNORECASE,
)

_HINTS = ("truncated", "omitted", "elided", "not shown")
"""One of them is in whatever `_CUT` matches."""


def cut_context(view: View, symptoms: Sequence[Symptom]) -> Iterator[Hit]:
    """Every cut model call but the last, and the first cut answer of each tool."""
    del symptoms
    models = [span for span in view.trace.spans if span.kind == "llm"]
    for span in models[:-1]:
        if span.finish_reason in CUT_OFF:
            yield Hit(
                kind=KIND,
                span=span,
                message=f"cut off at its output limit: {span.finish_reason}",
                field="finish_reason",
                code="length",
            )
    told: set[str] = set()
    for call in view.calls.values():
        if call.tool in told:
            continue
        tail = call.answer.text[-TAIL:]
        low = tail.lower()
        match = _CUT.search(tail) if any(hint in low for hint in _HINTS) else None
        if match is not None:
            told.add(call.tool)
            yield Hit(
                kind=KIND,
                span=call.span,
                message=f"{call.tool} says that its answer was cut: {match[0]}",
                field="output",
                code="truncated",
                template="the tool says that its answer was cut",
            )
