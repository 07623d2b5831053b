"""A step says that the last one led nowhere and tries another way.

Meaning: the agent itself tells that its step before failed or brought nothing usable, though no
error was recorded for it.
Evidence: the model call that says so; it failed in the step before, where it shows here.
A hint, and no failure by itself: it is how agents work. It shows where to look.
Limits: English wordings, in the text outside code.
"""

import re
from collections.abc import Iterator, Sequence

from contracts.findings import Symptom
from nodes.insights.detect.claimed_source import first_of
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.view import View

KIND = "changed_approach"
_CHANGED = re.compile(
    r"\b(?:different|another|alternative|more (?:general|direct|robust|flexible)) (?:approach|way|"
    r"method|strategy)|try again|(?:let me|let's|I'll|I will) (?:re)?try\b|\bretry\b",
    re.IGNORECASE,
)
_HINTS = ("approach", "way", "method", "strategy", "try")


def changed_approach(view: View, symptoms: Sequence[Symptom]) -> Iterator[Hit]:
    """One hit for each step, after the first of a run, that tries another way."""
    del symptoms
    for run in view.runs:
        before = False
        for turn in run.turns:
            if not turn.acts:
                continue
            match = first_of(_CHANGED, _HINTS, turn.words) if before else None
            before = True
            if match is not None:
                yield Hit(
                    kind=KIND,
                    span=turn.call,
                    message=f"says {match[0]!r}: the step before led nowhere",
                    field="output",
                    start=match.start(),
                    template="tries another way",
                )
