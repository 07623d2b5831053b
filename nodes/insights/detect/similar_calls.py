"""One tool is called again and again with arguments that say almost the same.

Meaning: three or more calls of one tool in one run, each like the one before it (of the shorter one
half of the words of its arguments in the other): rewording instead of another way. Equal calls with
equal answers are `repeated_call`, which counts.
Evidence: the last of them, since waste is told where it ends.
A hint: looking for a thing in several wordings can be right.
Limits: words are compared, not meanings; calls without words in their arguments are left alone.
"""

import re
from collections.abc import Iterator, Sequence

from contracts.findings import Symptom
from contracts.json_types import canonical_json
from nodes.insights.detect.hits import Hit
from nodes.insights.detect.runs import Run, Turn
from nodes.insights.detect.view import View

KIND = "similar_calls"
LEAST = 3
SHARE = 0.5
_WORD = re.compile(r"\w{2,}")


def similar_calls(view: View, symptoms: Sequence[Symptom]) -> Iterator[Hit]:
    """One hit for each chain of similar calls of one tool."""
    told = {symptom.span_id for symptom in symptoms if symptom.kind == "repeated_call"}
    for run in view.runs:
        for tool, chain in _chains(run):
            last = chain[-1]
            spans = [call.span for call in last.tools if call.tool == tool]
            if any(span.id in told for span in spans):
                continue
            yield Hit(
                kind=KIND,
                span=spans[-1],
                message=f"{len(chain)} similar calls of {tool} one after another",
                field="input",
                place=tool,
                template="similar calls of one tool one after another",
            )


def _chains(run: Run) -> Iterator[tuple[str, list[Turn]]]:
    open_chains: dict[str, tuple[frozenset[str], list[Turn]]] = {}
    for turn in run.turns:
        for tool, words in _calls(run, turn):
            before, chain = open_chains.get(tool, (frozenset(), []))
            if words == before:
                continue  # an equal call is a poll or a loop, no rewording
            if chain and _alike(words, before):
                chain.append(turn)
            else:
                if len(chain) >= LEAST:
                    yield tool, chain
                chain = [turn]
            open_chains[tool] = (words, chain)
    for tool, (_, chain) in open_chains.items():
        if len(chain) >= LEAST:
            yield tool, chain


def _calls(run: Run, turn: Turn) -> Iterator[tuple[str, frozenset[str]]]:
    for call in turn.tools:
        if call.arguments is None or call.tool in run.final_tools:
            continue
        text = canonical_json(call.arguments)[:4_000].decode("utf-8", "replace")
        words = frozenset(_WORD.findall(text.lower())) - frozenset(call.arguments)
        if words:
            yield call.tool, words


def _alike(words: frozenset[str], before: frozenset[str]) -> bool:
    return len(words & before) >= SHARE * min(len(words), len(before))
