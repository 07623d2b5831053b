"""The one table from our kinds to TRAIL's categories, and how six predictions are chosen by it.

A row says: a symptom of this kind speaks for these categories at this span. The span is where the
failure began (`here`), the model call that asked for the failed step (`asked`), or where it showed
(`shown`): TRAIL's annotators mark wrong arguments at the call that gave them, and failing code at
the next call, whose input has the error. A product points at the culprit; only this export maps.

Confidence is (hits + WEIGHT x start) / (seen + WEIGHT). `start` is one of three crude levels that
the row's author believed before counting; hits and seen are counts over annotated traces, so that a
row without any keeps its level. Every figure in the benchmark is made by the same formula.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from benchmarks.trail_counts import COUNTS
from benchmarks.trail_score import Pair
from contracts.findings import Symptom
from nodes.insights.detect.all import Detected

Where = Literal["here", "asked", "shown"]
Counts = Mapping[str, tuple[int, int]]
"""(hits, seen) by claim; the key of a span's own count is the row's name alone."""

LIKELY, POSSIBLE, RARE = 0.45, 0.25, 0.12
WEIGHT = 16.0
SPAN_START = 0.4
SPAN_GAIN = 0.3
"""What a new span is worth beside a right pair: two of four figures look at spans alone."""
CAP = 6

FORMAT, RULES, GOAL = "Formatting Errors", "Instruction Non-compliance", "Goal Deviation"
SELECT, TOOL, ORCHESTRATE = "Tool Selection Errors", "Tool-related", "Task Orchestration"
LANGUAGE, ABUSE, CONTEXT = "Language-only", "Resource Abuse", "Context Handling Failures"
SEARCH, PROBLEM = "Poor Information Retrieval", "Incorrect Problem Identification"
MISREAD = "Tool Output Misinterpretation"


@dataclass(frozen=True, slots=True)
class Row:
    """What a symptom of one kind speaks for."""

    kind: str
    where: Where
    says: Mapping[str, float]
    codes: frozenset[str] = field(default_factory=frozenset)
    """Only with one of these codes of the signature; empty: with any."""
    without: frozenset[str] = field(default_factory=frozenset)
    """With none of these codes."""

    @property
    def name(self) -> str:
        """The row's key in the counts."""
        code = "+".join(sorted(self.codes))
        return f"{self.kind}{':' if code else ''}{code}@{self.where}"

    def takes(self, kind: str, code: str) -> bool:
        """Whether the row speaks about symptoms of this kind and code."""
        if kind != self.kind or code in self.without:
            return False
        return not self.codes or code in self.codes


ANSWER = frozenset({"answer"})
REFUSED = frozenset({"401", "403"})
ROWS: tuple[Row, ...] = (
    Row("wrong_arguments", "here", {FORMAT: LIKELY}),
    Row("tool_error", "shown", {FORMAT: LIKELY}),
    Row("tool_error", "here", {TOOL: RARE, ABUSE: RARE}),
    Row("tool_error", "asked", {"Authentication Errors": LIKELY}, REFUSED),
    Row("auth", "asked", {"Authentication Errors": LIKELY}),
    Row("tool_timeout", "asked", {"Timeout Issues": LIKELY}),
    Row("rate_limit", "asked", {"Rate Limiting": POSSIBLE}),
    Row("invented_tool", "here", {SELECT: LIKELY}),
    Row("context_overflow", "here", {"Resource Exhaustion": LIKELY, CONTEXT: POSSIBLE}),
    Row("exception", "here", {FORMAT: POSSIBLE, TOOL: POSSIBLE}),
    Row("exception", "shown", {FORMAT: LIKELY, TOOL: RARE}),
    Row("malformed_output", "shown", {FORMAT: LIKELY}),
    Row("repeated_error", "asked", {FORMAT: POSSIBLE}),
    Row("repeated_error", "here", {ABUSE: POSSIBLE}),
    Row("repeated_call", "asked", {ABUSE: LIKELY}),
    Row("similar_calls", "here", {ABUSE: POSSIBLE, SEARCH: POSSIBLE}),
    Row("similar_calls", "asked", {SEARCH: RARE, FORMAT: RARE}),
    Row("listed_letters", "here", {FORMAT: POSSIBLE}),
    Row("listed_letters", "shown", {FORMAT: LIKELY, ABUSE: RARE}),
    Row("changed_approach", "here", {FORMAT: POSSIBLE, RULES: RARE}),
    Row("answered_at_once", "here",
        {GOAL: LIKELY, SELECT: POSSIBLE, TOOL: POSSIBLE, ORCHESTRATE: POSSIBLE}),
    Row("answer_without_evidence", "here", {GOAL: LIKELY, TOOL: POSSIBLE, LANGUAGE: POSSIBLE}),
    Row("plan_not_followed", "here", {GOAL: LIKELY, TOOL: POSSIBLE, LANGUAGE: POSSIBLE},
        frozenset({"none"})),
    Row("plan_not_followed", "here", {LANGUAGE: POSSIBLE, GOAL: RARE}, frozenset({"some"})),
    Row("named_not_called", "here", {SELECT: POSSIBLE, ORCHESTRATE: POSSIBLE}, without=ANSWER),
    Row("named_not_called", "here", {GOAL: POSSIBLE, TOOL: POSSIBLE, LANGUAGE: RARE}, ANSWER),
    Row("claimed_source", "here", {SELECT: LIKELY, LANGUAGE: POSSIBLE}, without=ANSWER),
    Row("claimed_source", "here", {GOAL: LIKELY, LANGUAGE: POSSIBLE, TOOL: POSSIBLE,
        SELECT: POSSIBLE, ORCHESTRATE: POSSIBLE}, ANSWER),
    Row("assumed", "here", {ORCHESTRATE: RARE, SELECT: RARE}, without=ANSWER),
    Row("assumed", "here", {GOAL: LIKELY, LANGUAGE: LIKELY, TOOL: POSSIBLE}, ANSWER),
    Row("unsupported_numbers", "here", {LANGUAGE: LIKELY, GOAL: POSSIBLE}),
    Row("missing_marker", "here", {RULES: POSSIBLE}),
    Row("over_limit", "here", {RULES: LIKELY}, frozenset({"slice"})),
    Row("over_limit", "here", {RULES: POSSIBLE}, frozenset({"shown"})),
    Row("unrecorded_output", "here", {CONTEXT: LIKELY, RULES: POSSIBLE, LANGUAGE: POSSIBLE},
        frozenset({"last"})),
    Row("empty_output", "here", {CONTEXT: LIKELY, RULES: LIKELY, LANGUAGE: LIKELY}),
    Row("no_answer", "here", {CONTEXT: LIKELY, RULES: LIKELY, LANGUAGE: LIKELY}),
)  # fmt: skip


def claims(detected: Detected) -> dict[str, list[Row]]:
    """The rows that speak about each span of a trace; a row speaks once about a span."""
    asked, shown = _neighbours(detected)
    found: dict[str, list[Row]] = {}
    for symptom in detected.symptoms:
        parts = str(symptom.signature).split("~")[0].split(":")
        code = parts[2] if len(parts) > 2 else ""
        for row in ROWS:
            if row.takes(symptom.kind, code):
                span = _span(row, symptom, asked, shown)
                if span is not None and row not in found.setdefault(span, []):
                    found[span].append(row)
    return {span: rows for span, rows in found.items() if rows}


def _span(
    row: Row, symptom: Symptom, asked: Mapping[str, str], shown: Mapping[str, str]
) -> str | None:
    if row.where == "here":
        return symptom.span_id
    if row.where == "asked":
        return asked.get(symptom.span_id)
    return shown.get(symptom.span_id) or symptom.shown_at


def _neighbours(detected: Detected) -> tuple[dict[str, str], dict[str, str]]:
    """For model calls and tools: the call that asked for it, and the one that was shown it."""
    asked: dict[str, str] = {}
    shown: dict[str, str] = {}
    for run in detected.view.runs:
        for turn in run.turns:
            for span in (turn.call, *(call.span for call in turn.tools)):
                asked[span.id] = turn.call.id
                if turn.shown_at is not None:
                    shown[span.id] = turn.shown_at.id
    return asked, shown


def count(
    gold: Mapping[str, set[Pair]], found: Mapping[str, Mapping[str, Sequence[Row]]]
) -> dict[str, tuple[int, int]]:
    """Hits and seen of every claim over annotated traces."""
    counts: dict[str, tuple[int, int]] = {}
    for trace, pairs in gold.items():
        marked = {span for span, _ in pairs}
        for span, rows in found[trace].items():
            for row in rows:
                _add(counts, row.name, span in marked)
                for name in row.says:
                    _add(counts, f"{row.name}|{name}", (span, name) in pairs)
    return counts


def _add(counts: dict[str, tuple[int, int]], key: str, hit: bool) -> None:
    hits, seen = counts.get(key, (0, 0))
    counts[key] = hits + hit, seen + 1


def confidence(counts: Counts, key: str, start: float) -> float:
    """How often such a claim is right, held back by the level it started from."""
    hits, seen = counts.get(key, (0, 0))
    return (hits + WEIGHT * start) / (seen + WEIGHT)


def rank(
    found: Mapping[str, Sequence[Row]], counts: Counts = COUNTS, cap: int = CAP
) -> list[tuple[Pair, float]]:
    """At most `cap` (pair, confidence), chosen one by one by what each would add, best first."""
    pairs, spans = _sure(found, counts)
    chosen: list[tuple[Pair, float]] = []
    covered: set[str] = set()
    while pairs and len(chosen) < cap:
        best = max(
            pairs,
            key=lambda p: (pairs[p] + (SPAN_GAIN * spans[p[0]] if p[0] not in covered else 0.0), p),
        )
        chosen.append((best, pairs.pop(best)))
        covered.add(best[0])
    return chosen


def _sure(
    found: Mapping[str, Sequence[Row]], counts: Counts
) -> tuple[dict[Pair, float], dict[str, float]]:
    """Confidence of each pair and of each span."""
    pairs: dict[Pair, list[float]] = {}
    spans: dict[str, list[float]] = {}
    for span, rows in found.items():
        for row in rows:
            spans.setdefault(span, []).append(confidence(counts, row.name, SPAN_START))
            for name, start in row.says.items():
                sure = confidence(counts, f"{row.name}|{name}", start)
                pairs.setdefault((span, name), []).append(sure)
    return (
        {pair: together(sure) for pair, sure in pairs.items()},
        {span: together(sure) for span, sure in spans.items()},
    )


def together(sure: Sequence[float]) -> float:
    """Several rows for one claim: the best, and half of what independent ones would add to it."""
    best, none = max(sure), 1.0
    for one in sure:
        none *= 1.0 - one
    return best + (1.0 - none - best) / 2


def written(counts: Counts) -> Iterator[str]:
    """The lines of `trail_counts.py`."""
    yield '"""How often each claim of `trail_map.py` was right, by `benchmarks.trail --fit`."""'
    yield ""
    yield "COUNTS: dict[str, tuple[int, int]] = {"
    yield from (f'    "{key}": {counts[key]},' for key in sorted(counts))
    yield "}"
