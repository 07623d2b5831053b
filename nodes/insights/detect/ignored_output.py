"""The answer has nothing of what the last tool gave.

Meaning: a tool worked and gave something, and no figure, name or longer word of it is in the final
answer. Always a hint: a tool may be called for its effect alone. Evidence: the beginning of the
tool's answer. Known limits: answers in another language than the tool's share no words; short
answers of tools ("ok") are not looked at.
"""

import re
from collections.abc import Iterator, Sequence

from contracts.findings import Symptom
from nodes.insights.detect import claims
from nodes.insights.detect.final import final_of
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.view import View

KIND = "ignored_output"
MIN_WORDS = 6
READ = 4_000
_WORD = re.compile(r"\d[\d.,]*\d|\d|[^\W\d_]{4,}")


def ignored_output(view: View, symptoms: Sequence[Symptom]) -> Iterator[Hit]:
    """At most one hit, at the answer, about the last tool that only looks something up."""
    if any(symptom.counts for symptom in symptoms):
        return
    final = final_of(view)
    calls = [call for call in view.calls.values() if call.tool not in view.contracts.final_tools]
    if final is None or not calls or claims.writes(calls[-1].tool):
        return
    last = calls[-1]
    given = _words(last.answer.text)
    said = _words(final.text)
    if len(given) < MIN_WORDS or len(said) < MIN_WORDS or given & said:
        return
    yield Hit(
        kind=KIND,
        span=final.span,
        message=f"the answer has nothing of what {last.tool} gave: {last.answer.text[:120]}",
        field="output",
        place=last.tool,
        template="the answer has nothing of what the last tool gave",
        shown_at=None,
        facts={"tool": last.tool, "call": last.span.id},
    )


def _words(text: str) -> frozenset[str]:
    return frozenset(match[0].lower() for match in _WORD.finditer(text[:READ]))
