"""A step says that something was looked up, found or verified, and nothing had been fetched.

Meaning: an agent with tools writes "according to the records" or "I have verified" before any tool
or agent gave it anything: the source is invented.
Evidence: the model call that says so. Code `answer` where it is the final answer.
A hint: the words may speak of the request itself, or of what code computed.
Limits: English wordings; of each run every such step is told.
"""

import re
from collections.abc import Iterator, Sequence

from contracts.findings import Symptom
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.view import View

KIND = "claimed_source"
_CLAIM = re.compile(
    r"\b(?:according to|verified|confirmed|has been (?:found|identified|established)"
    r"|after (?:reviewing|checking|consulting|verif\w+|examin\w+)"
    r"|based on (?:the )?(?:results?|records?|search\w*|data|sources?|research)"
    r"|I have (?:found|identified|determined)|we (?:have )?(?:found|determined|identified))\b",
    re.IGNORECASE,
)
_HINTS = ("according", "verified", "confirmed", "has been", "after ", "based on", "i have", "we ")


def claimed_source(view: View, symptoms: Sequence[Symptom]) -> Iterator[Hit]:
    """One hit for each step that claims a source before there was any."""
    del symptoms
    for run in view.runs:
        if not run.usable:
            continue
        for index, turn in enumerate(run.turns):
            if not turn.acts:
                continue
            if run.results_before(index):
                break  # from here on there is something to rest on
            match = first_of(_CLAIM, _HINTS, turn.said)
            if match is not None:
                yield Hit(
                    kind=KIND,
                    span=turn.call,
                    message=f"says {match[0]!r} before any tool gave anything",
                    field="output",
                    start=match.start(),
                    code="answer" if index == run.answer else None,
                    template="claims a source before any tool gave anything",
                )


def first_of(pattern: re.Pattern[str], hints: Sequence[str], text: str) -> re.Match[str] | None:
    """The first match, where one of the literals stands in the text at all."""
    head = text[:20_000]
    low = head.lower()
    return pattern.search(head) if any(hint in low for hint in hints) else None
