"""A model call in the middle of a run that says nothing and asks for nothing.

Meaning: the model answered with neither text nor a request, and the run went on or just stopped.
Evidence: the model call. The silent end of a whole run is `empty_answer`, which counts.
A hint: the host may have asked again.
Limits: calls that failed, calls of which neither output nor answer was recorded, and calls that are
recorded without their input or with output tokens (then something was said) are not seen.
"""

from collections.abc import Iterator, Sequence

from contracts.findings import Symptom
from contracts.traces import Span
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.view import View

KIND = "empty_output"


def empty_output(view: View, symptoms: Sequence[Symptom]) -> Iterator[Hit]:
    """One hit for each silent model call that no other symptom tells of."""
    told = {symptom.span_id for symptom in symptoms}
    for run in view.runs:
        for turn in run.turns:
            call = turn.call
            if turn.said.strip() or turn.asked or turn.tools or turn.agents:
                continue  # something came of it, whatever was written down of the answer
            if call.status == "error" or call.id in told or not told_whole(call):
                continue
            if turn.shown_at is not None and not turn.news:
                continue  # the next call was told nothing new: a piece of one answer, or a retry
            if call.output is None and not call.messages_out:
                continue
            if call.output is not None and not call.messages_out and call.output.text.strip():
                continue
            yield Hit(
                kind=KIND, span=call, message="the model said nothing", field="output",
                template="a model call says nothing",
            )  # fmt: skip


def told_whole(call: Span) -> bool:
    """Whether silence in the record means silence: its input is there, and no tokens came out."""
    return not call.output_tokens and bool(call.messages_in or call.input)
