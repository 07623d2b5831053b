"""A final answer with no result of a tool or an agent before it, after steps that fetched nothing.

Meaning: the agent had tools, took steps, and answers though none of them brought a result.
Evidence: the model call that gives the answer.
A hint: what it needed may have stood in the request. An answer in the first step is
`answered_at_once`.
Limits: as there; code that computes counts as no evidence.
"""

from collections.abc import Iterator, Sequence

from contracts.findings import Symptom
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.view import View

KIND = "answer_without_evidence"


def answer_without_evidence(view: View, symptoms: Sequence[Symptom]) -> Iterator[Hit]:
    """One hit for each run that acted, got nothing from any tool, and answered."""
    del symptoms
    for run in view.runs:
        at = run.answer
        if at is None or not run.usable or run.results_before(at):
            continue
        steps = sum(turn.acts for turn in run.turns[:at])
        if steps:
            yield Hit(
                kind=KIND,
                span=run.turns[at].call,
                message=f"answered after {steps} steps, none of which used a tool or an agent",
                field="output",
                template="answered though no tool and no agent gave anything",
            )
