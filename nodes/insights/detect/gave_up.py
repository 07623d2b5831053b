"""The final answer says that it could not, though nothing failed and tools were left unused.

Meaning: the agent gave up on its own account. Always a hint: saying no is often right (policy,
missing data). Evidence: the sentence; the tools that were offered and never called. Known limits:
English, German, French and Spanish wordings of the first person; without recorded tools nothing is
said.
"""

import re
from collections.abc import Iterator, Sequence

from contracts.findings import Symptom
from nodes.insights.detect import claims
from nodes.insights.detect.final import final_of
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.view import View

KIND = "gave_up"
_COULD_NOT = re.compile(
    r"\b(?:i|we)(?:'m| am| was| were|'re| are)? (?:could(?: not|n't)|can(?:not|'t)|unable to"
    r"|not able to|do(?: not|n't) have (?:access|the ability|enough)|did(?: not|n't) manage"
    r"|give up|gave up|failed to|have no way)\b"
    r"|\bunable to (?:determine|find|answer|complete|retrieve|locate)\b"
    r"|\b(?:ich (?:kann|konnte) (?:\w+ )?nicht|je n'ai pas (?:pu|r\u00e9ussi)"
    r"|no (?:pude|puedo|he podido))\b",
    re.IGNORECASE,
)


def gave_up(view: View, symptoms: Sequence[Symptom]) -> Iterator[Hit]:
    """At most one hit, at the answer."""
    if any(symptom.counts for symptom in symptoms):
        return
    final = final_of(view)
    if final is None:
        return
    said = next(
        (s for s in claims.sentences(final.text) if _COULD_NOT.search(s.replace("\u2019", "'"))),
        None,
    )
    if said is None:
        return
    offered = frozenset().union(*(run.usable for run in view.runs)) if view.runs else frozenset()
    unused = sorted(offered - {call.tool for call in view.calls.values()})
    if unused:
        yield Hit(
            kind=KIND,
            span=final.span,
            message=f'"{said[:120]}" though nothing failed and {len(unused)} tools were not tried:'
            f" {', '.join(unused[:5])}",
            field="output",
            template="says that it could not, though nothing failed",
        )
