"""A step names a tool as what it uses, and does not call it; its code only prints or computes.

Meaning: the text or a comment of a step says that a tool or an agent is asked, and neither code
nor request calls any; what follows treats the printed text as if it were a result.
Evidence: the model call of that step. Code `answer` where the same step gives the final answer.
A hint: a step may name a tool to say why it is not needed.
Limits: names as the trace offers them, of at least four letters and with an underscore or in
quotes; a plan that is only text names tools rightly and is not looked at.
"""

import re
from collections.abc import Iterator, Sequence

from contracts.findings import Symptom
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.runs import Run
from nodes.insights.detect.view import View

KIND = "named_not_called"


def named_not_called(view: View, symptoms: Sequence[Symptom]) -> Iterator[Hit]:
    """One hit for each step that acts, names a tool and gets nothing from any."""
    del symptoms
    for run in view.runs:
        for index, turn in enumerate(run.turns):
            if not turn.code or turn.called & run.usable or turn.agents:
                continue
            if any(call.tool in run.usable for call in turn.tools):
                continue
            named = named_tools(run, turn.said)
            if not named:
                continue
            yield Hit(
                kind=KIND,
                span=turn.call,
                message=f"names {', '.join(named[:3])} and calls no tool",
                field="output",
                place=named[0],
                code="answer" if index == run.answer else None,
                template="a step names a tool and calls none",
            )


def named_tools(run: Run, text: str) -> list[str]:
    """The offered tools and agents that the text names, in order of their names."""
    return [name for name in sorted(run.usable) if name in text and _names(name, text)]


def _names(name: str, text: str) -> bool:
    if len(name) < 4:
        return False
    quoted = "" if "_" in name else "['\"`]"
    return re.search(rf"(?<!\w){quoted}{re.escape(name)}{quoted}(?!\w)", text) is not None
