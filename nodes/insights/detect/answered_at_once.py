"""The final answer comes in the agent's first step, though it had tools that could tell.

Meaning: an agent with tools (or other agents to ask) answers before it has used any of them.
Evidence: the model call that gives the answer. Where a plan was written before, that plan is no
step: the first call that acts counts.
A hint: for a greeting, or a question that needs no tool, this is right.
Limits: tools must be known from schemas, a documented list in the prompt, or use in the trace.
"""

from collections.abc import Iterator, Sequence

from contracts.findings import Symptom
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.view import View

KIND = "answered_at_once"


def answered_at_once(view: View, symptoms: Sequence[Symptom]) -> Iterator[Hit]:
    """One hit for each run whose first step is its answer."""
    del symptoms
    for run in view.runs:
        at = run.answer
        if at is None or not run.usable or run.results_before(at):
            continue
        if any(turn.acts for turn in run.turns[:at]):
            continue
        names = ", ".join(sorted(run.usable)[:6])
        yield Hit(
            kind=KIND,
            span=run.turns[at].call,
            message=f"answered in the first step, without any of: {names}",
            field="output",
            template="answered in the first step, without any tool",
        )
