"""TRAIL's published metrics, with span and pair micro-F1 beside them. Strict: exact spans.

- category F1: for each category, whether a trace has it at all, predicted against annotated;
  F1 over the traces, then the mean over categories weighted by the number of annotated traces.
- location accuracy: of a trace, the share of its annotated spans that are predicted; the mean over
  the traces that have annotations.
- joint accuracy: the same of (span, category) pairs.
- span F1, pair F1: micro-averaged over all traces, with precision, so that guessing more costs.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

CATEGORIES = (
    "Language-only", "Tool-related", "Poor Information Retrieval",
    "Tool Output Misinterpretation", "Incorrect Problem Identification", "Tool Selection Errors",
    "Formatting Errors", "Instruction Non-compliance", "Tool Definition Issues",
    "Environment Setup Errors", "Rate Limiting", "Authentication Errors", "Service Errors",
    "Resource Not Found", "Resource Exhaustion", "Timeout Issues", "Context Handling Failures",
    "Resource Abuse", "Goal Deviation", "Task Orchestration",
)  # fmt: skip
_BY_KEY = {name.lower().replace("-", " "): name for name in CATEGORIES}
_SPELT = {
    "context handling failure": "Context Handling Failures",
    "task orchestration errors": "Task Orchestration",
    "task orchestration error": "Task Orchestration",
    "tool selection": "Tool Selection Errors",
    "tool selection error": "Tool Selection Errors",
    "formatting error": "Formatting Errors",
    "authentication error": "Authentication Errors",
    "service error": "Service Errors",
    "timeout issue": "Timeout Issues",
}

T = TypeVar("T")
Pair = tuple[str, str]
"""(span id, category)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """All on 0..1."""

    category_f1: float
    location: float
    joint: float
    span_f1: float
    pair_f1: float
    pair_precision: float
    pair_recall: float


def category(name: str) -> str:
    """TRAIL's own spelling of a category; a name that is none stays as it is."""
    key = " ".join(name.lower().replace("-", " ").split())
    return _SPELT.get(key) or _BY_KEY.get(key) or name.strip()


def score(gold: Mapping[str, set[Pair]], predicted: Mapping[str, set[Pair]]) -> Scores:
    """The scores of the predictions over all traces of `gold`; a trace without any counts as none.

    Raises:
        ValueError: there is no trace to score.
    """
    if not gold:
        raise ValueError("no annotated trace: nothing to score")
    guesses = {trace: predicted.get(trace, set()) for trace in gold}
    spans = {t: {s for s, _ in pairs} for t, pairs in gold.items()}
    guessed_spans = {t: {s for s, _ in pairs} for t, pairs in guesses.items()}
    precision, recall, pair_f1 = _micro(gold, guesses)
    return Scores(
        category_f1=_category_f1(gold, guesses),
        location=_mean_recall(spans, guessed_spans),
        joint=_mean_recall(gold, guesses),
        span_f1=_micro(spans, guessed_spans)[2],
        pair_f1=pair_f1,
        pair_precision=precision,
        pair_recall=recall,
    )


def _mean_recall(gold: Mapping[str, set[T]], guesses: Mapping[str, set[T]]) -> float:
    shares = [len(own & guesses[t]) / len(own) for t, own in gold.items() if own]
    return sum(shares) / len(shares) if shares else 0.0


def _micro(gold: Mapping[str, set[T]], guesses: Mapping[str, set[T]]) -> tuple[float, float, float]:
    hit = sum(len(own & guesses[t]) for t, own in gold.items())
    guessed, wanted = sum(map(len, guesses.values())), sum(map(len, gold.values()))
    both = guessed + wanted
    return (
        hit / guessed if guessed else 0.0,
        hit / wanted if wanted else 0.0,
        2 * hit / both if both else 0.0,
    )


def _category_f1(gold: Mapping[str, set[Pair]], guesses: Mapping[str, set[Pair]]) -> float:
    have = {t: {c for _, c in pairs} for t, pairs in gold.items()}
    said = {t: {c for _, c in pairs} for t, pairs in guesses.items()}
    total = weighted = 0.0
    for name in {c for own in have.values() for c in own}:
        wanted = {t for t, own in have.items() if name in own}
        guessed = {t for t, own in said.items() if name in own}
        total += len(wanted)
        weighted += len(wanted) * 2 * len(wanted & guessed) / (len(wanted) + len(guessed))
    return weighted / total if total else 0.0


def bootstrap(
    gold: Mapping[str, set[Pair]],
    predicted: Mapping[str, set[Pair]],
    figure: Callable[[Scores], float],
    *,
    groups: Mapping[str, str],
    rounds: int = 500,
    seed: int = 7,
) -> tuple[float, float]:
    """A 95 % percentile interval of one figure; whole groups (tasks) are drawn with replacement."""
    rng = random.Random(seed)  # noqa: S311  (a resample, no secret)
    by_group: dict[str, list[str]] = {}
    for trace in gold:
        by_group.setdefault(groups[trace], []).append(trace)
    names = sorted(by_group)
    values = []
    for _ in range(rounds):
        drawn = [t for g in rng.choices(names, k=len(names)) for t in by_group[g]]
        again = {f"{n}|{t}": t for n, t in enumerate(drawn)}
        values.append(
            figure(
                score(
                    {n: gold[t] for n, t in again.items()},
                    {n: predicted.get(t, set()) for n, t in again.items()},
                )
            )
        )
    values.sort()
    return values[int(0.025 * rounds)], values[int(0.975 * rounds) - 1]


def everywhere(spans: Mapping[str, Sequence[str]], names: Iterable[str]) -> dict[str, set[Pair]]:
    """The trivial predictor that says the same categories at every span."""
    kept = tuple(names)
    return {trace: {(s, c) for s in own for c in kept} for trace, own in spans.items()}
