"""Code prints more characters at a time than the task allows.

Meaning: the instructions limit how many characters may be read or printed at a time, and a step's
code takes a larger slice, or what it printed is longer.
Evidence: the model call that wrote the code; the limit as the instructions say it.
Code `slice` where the code itself says so, `shown` where only the printed result does.
A hint: the limit may have been meant for something else.
Limits: limits in characters only; slices with constant bounds only; code in Python.
"""

import ast
from collections.abc import Iterator, Sequence

from contracts.findings import Symptom
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.requirements import Requirements
from nodes.insights.detect.runs import Run, Turn, opening
from nodes.insights.detect.view import View

KIND = "over_limit"
SHOWN_MORE = 100  # what the host writes around a result


def over_limit(view: View, symptoms: Sequence[Symptom]) -> Iterator[Hit]:
    """One hit for each step that goes over a stated limit."""
    del symptoms
    known = Requirements()
    for run in view.runs:
        limit = _limit(run, known)
        if limit is None:
            continue
        for turn in run.turns:
            found = _over(turn, limit) if turn.code else None
            if found is not None:
                code, size = found
                yield Hit(
                    kind=KIND,
                    span=turn.call,
                    message=f"{size} characters at a time; the task allows {limit}",
                    field="output",
                    code=code,
                    template="more characters at a time than the task allows",
                )


def _limit(run: Run, known: Requirements) -> int | None:
    for turn in run.turns[:1]:
        found = [known.of(message.content).characters for message in opening(turn.call)]
        limits = [one[0] for one in found if one is not None]
        if limits:
            return min(limits)
    return None


def _over(turn: Turn, limit: int) -> tuple[str, int] | None:
    largest = max(_slices(turn), default=0)
    if largest > limit:
        return "slice", largest
    shown = max((len(m.content) for m in turn.news), default=0)
    return ("shown", shown) if shown > limit + SHOWN_MORE and "print" in turn.called else None


def _slices(turn: Turn) -> Iterator[int]:
    for node in turn.nodes:
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            low, high = _number(node.slice.lower), _number(node.slice.upper)
            if high is not None and (node.slice.lower is None or low is not None):
                yield high - (low or 0)


def _number(node: ast.expr | None) -> int | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    return None
