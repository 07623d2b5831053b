"""A step says that it assumes, simulates or recalls what it had the means to find out.

Meaning: instead of a result the agent goes on with a made-up or remembered value.
Evidence: the model call that says so, in its text or in a comment of its code. Code `answer` where
it is the final answer.
A hint: to assume openly can be right, and a task may ask for a simulation.
Limits: English wordings; only agents with tools or code, and only steps that act.
"""

import re
from collections.abc import Iterator, Sequence

from contracts.findings import Symptom
from nodes.insights.detect.claimed_source import first_of
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.view import View

KIND = "assumed"
_ASSUMED = re.compile(
    r"\b(?:assum(?:e|ing|ed)|simulat\w+|hypothetical|placeholder|dummy|for demonstration"
    r"|from memory|recall(?:ed|ing|s)?|recollection|well[- ]known"
    r"|(?:my|general|prior|internal|existing|domain) knowledge|let's say|suppose)\b",
    re.IGNORECASE,
)
_HINTS = (
    "assum", "simulat", "hypothe", "placeholder", "dummy", "for demo", "from memory", "recall",
    "recollection", "known", "knowledge", "let's say", "suppose",
)  # fmt: skip


def assumed(view: View, symptoms: Sequence[Symptom]) -> Iterator[Hit]:
    """One hit for each step that goes on with something it did not find."""
    del symptoms
    for run in view.runs:
        for index, turn in enumerate(run.turns):
            match = first_of(_ASSUMED, _HINTS, turn.said) if turn.acts else None
            if match is not None:
                yield Hit(
                    kind=KIND,
                    span=turn.call,
                    message=f"says {match[0]!r} instead of finding out",
                    field="output",
                    start=match.start(),
                    code="answer" if index == run.answer else None,
                    template="assumes, simulates or recalls instead of finding out",
                )
