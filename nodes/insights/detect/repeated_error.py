"""The same error again and again: the agent does not take in what the last one said.

Meaning: two or more steps of one run in a row fail at the same place in the same way.
Evidence: the last failure (the tool, or the model call whose code failed), since waste is told
where it ends. Code: how often, `2` or `more`.
A hint beside the errors themselves, which count where they were not recovered from.
Limits: plans between the steps do not break the row; steps that act and work do.
"""

from collections.abc import Iterator, Sequence

from contracts.findings import Signature, Symptom
from contracts.traces import SpanId
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.runs import Run, Turn
from nodes.insights.detect.view import View

KIND = "repeated_error"
ERRORS = frozenset({"exception", "tool_error", "tool_timeout", "rate_limit", "malformed_output"})


def repeated_error(view: View, symptoms: Sequence[Symptom]) -> Iterator[Hit]:
    """One hit for each row of equal errors."""
    at: dict[SpanId, Signature] = {
        s.span_id: s.signature for s in reversed(symptoms) if s.kind in ERRORS
    }
    if len(at) < 2:
        return
    for run in view.runs:
        for signature, row in _rows(run, at):
            place = str(signature).split(":")[1]
            last = row[-1]
            failed = [call.span for call in last.tools if call.span.id in at]
            yield Hit(
                kind=KIND,
                span=failed[-1] if failed else last.call,
                message=f"{len(row)} times in a row: {signature}",
                field="output",
                place=place,
                code="2" if len(row) == 2 else "more",
                template="the same error several times in a row",
            )


def _rows(run: Run, at: dict[SpanId, Signature]) -> Iterator[tuple[Signature, list[Turn]]]:
    row: list[Turn] = []
    current: Signature | None = None
    for turn in run.turns:
        if not turn.acts:
            continue
        spans = [turn.call.id, *(call.span.id for call in turn.tools)]
        failed = next((at[one] for one in spans if one in at), None)
        if failed is not None and failed == current:
            row.append(turn)
            continue
        if current is not None and len(row) > 1:
            yield current, row
        current, row = failed, [turn]
    if current is not None and len(row) > 1:
        yield current, row
