"""A run ends without an answer: its last model call failed or said nothing.

Meaning: who asked got nothing from this agent.
Evidence: the last model call of the run.
A hint: where the last call failed, its error counts; a silent end is `empty_answer`, which counts.
Limits: a run whose last call left no record of its answer is not judged.
"""

from collections.abc import Iterator, Sequence

from contracts.findings import Symptom
from nodes.insights.detect.empty_output import told_whole
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.view import View

KIND = "no_answer"


def no_answer(view: View, symptoms: Sequence[Symptom]) -> Iterator[Hit]:
    """One hit for each run that came to no answer."""
    del symptoms
    for run in view.runs:
        last = run.turns[-1]
        recorded = last.call.output is not None or bool(last.call.messages_out)
        acted = bool(last.asked or last.tools or last.agents)
        silent = recorded and told_whole(last.call) and not (last.said.strip() or acted)
        if run.answer is None and (silent or last.call.status == "error"):
            yield Hit(
                kind=KIND,
                span=last.call,
                message="the run ends here without an answer",
                field="output",
                template="the run ends without an answer",
            )
