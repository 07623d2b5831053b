"""A result of single characters, a line or an item each: a text was taken for a list.

Meaning: code looped over a string instead of its lines, so that its result says nothing.
Evidence: the model call that wrote the code; where it showed is the next model call, or the tool.
Limits: at least 12 characters in a row, each on its line or quoted in a list, within the first
20,000 characters.
"""

import re
from collections.abc import Iterator, Sequence

from contracts.findings import Symptom
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.view import View

KIND = "listed_letters"
_HEAD = 20_000
_ROWS = 12  # of the pattern below
_SHORT_LINE = re.compile(r"\n(?:[-*] )?[^\n]\n")
_LETTERS = re.compile(r"(?:^(?:[-*] )?[^\n]\n){12}|(?:'[^'\n]', ){12}", re.MULTILINE)


def listed_letters(view: View, symptoms: Sequence[Symptom]) -> Iterator[Hit]:
    """One hit for each step whose result is a column of characters."""
    del symptoms
    for run in view.runs:
        for turn in run.turns:
            if not turn.acts:
                continue
            for message in turn.news:
                head = message.content[:_HEAD]
                many = head.count("', ") >= _ROWS or (
                    head.count("\n") >= _ROWS and _SHORT_LINE.search(head) is not None
                )
                match = _LETTERS.search(head) if many else None
                if match is None:
                    continue
                yield Hit(
                    kind=KIND,
                    span=turn.call,
                    message="the result is a column of single characters",
                    field=f"input of {turn.shown_at.id}" if turn.shown_at else "output",
                    start=match.start(),
                    template="the result is a column of single characters",
                    shown_at=turn.shown_at.id if turn.shown_at else None,
                )
                break
