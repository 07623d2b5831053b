"""Tools that the agent's own plan names are never called before it answers.

Meaning: the run wrote a plan that names tools or agents, and answers without having called one of
them. Evidence: the model call that gives the answer, and the last plan before it.
Code `none` where it called none of the tools of its plan, `some` where it left out a part.
A hint: a plan may change for good reasons.
Limits: a plan is a model call of the run that only writes text, with at least three numbered
lines; tools are named as in `named_not_called`.
"""

import re
from collections.abc import Iterator, Sequence

from contracts.findings import Symptom
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.named_not_called import named_tools
from nodes.insights.detect.view import View

KIND = "plan_not_followed"
LEAST_STEPS = 3
_STEP = re.compile(r"^[ \t]*(?:\d{1,2}[.)]|[-*\u2022]|#+ ?\d)[ \t]", re.MULTILINE)


def plan_not_followed(view: View, symptoms: Sequence[Symptom]) -> Iterator[Hit]:
    """One hit for each run that answered without the tools of its last plan."""
    del symptoms
    for run in view.runs:
        if run.answer is None:
            continue
        plans = [t for t in run.turns[: run.answer] if not t.acts and is_plan(t.said)]
        named = [name for plan in plans[-1:] for name in named_tools(run, plan.said)]
        used = {call.tool for t in run.turns for call in t.tools}
        used |= {name for t in run.turns for name in t.called}
        left = [name for name in named if name not in used]
        if not left:
            continue
        code = "none" if len(left) == len(named) else "some"
        yield Hit(
            kind=KIND,
            span=run.turns[run.answer].call,
            message=f"the plan names {', '.join(left[:4])}; answered without",
            field="output",
            code=code,
            template="answered without tools that the plan names",
        )


def is_plan(text: str) -> bool:
    """Whether the text is a list of steps."""
    return len(_STEP.findall(text[:20_000])) >= LEAST_STEPS
