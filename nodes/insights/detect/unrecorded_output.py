"""The call that ends a run has no recorded output: an instrumentation gap, no fault of the agent.

Meaning: a tool whose call gives the final answer, by a documented contract, left a span without
output; who looks at the trace cannot see what the user got.
Evidence: the tool's span. Code `last` where nothing comes after it in the trace.
A hint, and the remedy is in the recording.
Limits: only tools that end a run by a documented contract.
"""

from collections.abc import Iterator, Sequence

from contracts.findings import Symptom
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.view import View

KIND = "unrecorded_output"


def unrecorded_output(view: View, symptoms: Sequence[Symptom]) -> Iterator[Hit]:
    """One hit for each final call without output."""
    del symptoms
    last = view.trace.spans[-1]
    for run in view.runs:
        for turn in run.turns:
            for call in turn.tools:
                if call.tool in run.final_tools and call.span.output is None:
                    ends = call.span.started_at >= last.started_at or call.span.id == last.id
                    yield Hit(
                        kind=KIND,
                        span=call.span,
                        message=f"{call.tool} gave the answer and no output was recorded",
                        field="output",
                        place=call.tool,
                        code="last" if ends else None,
                        template="the final call has no recorded output",
                    )
