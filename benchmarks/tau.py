"""Which runs of a customer agent failed, and how precise the checks behind it are: tau-bench.

    python -m benchmarks.tau --in DIR --out F
    python -m benchmarks.tau --measure DIR [--repeats N]
    python -m benchmarks.tau --fit DIR

`--in` reads every run below DIR and writes `{run: {"failed": 0..1}}`. A run is named by its task
and trial, `<task_id>-<trial>`, else by its file and place in it. Only `task_id`, `trial` and `traj`
of a run are read; `reward` and `info` hold the verdict.

The score is a sum of four facts times the weights in `tau_weights.json`. `--measure` needs rewards:
it fits on other tasks than it judges, sets the figure beside the mere length of a run, and counts
how often each check fires in failed and in passed runs.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.arguments import run_command
from benchmarks.fitting import Facts, auc, fit_logistic, folds, interval, matrix
from benchmarks.logs import documents, only, trace_of
from benchmarks.weights import Weights, read_weights, write_weights
from contracts.json_types import Json
from contracts.traces import Trace
from nodes.insights.detect.all import Detected, detect
from nodes.insights.detect.faults import Scans
from nodes.insights.detect.figures import figures
from nodes.insights.detect.writes import changing_verb

KEYS: Final = frozenset({"task_id", "trial", "traj"})
"""What of a run is no verdict."""
TABLE: Final = Path(__file__).with_name("tau_weights.json")
RIDGE: Final = 2.0
FOLDS: Final = 7
FACTS: Final = {
    "steps": "logarithm of the number of model and tool calls",
    "writes": "logarithm of one more than the calls of tools that change something",
    "money": "logarithm of one more than the sums of money that the agent states",
    "unconfirmed": "whether something was changed without the yes that the policy asks for",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run, without its verdict."""

    name: str
    task: str
    trace: Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A run with its facts and its reward."""

    run: Run
    facts: Facts
    detected: Detected
    failed: bool


def runs(folder: Path) -> Iterator[tuple[Run, Json]]:
    """(run, its whole document) for every run below a folder; the run knows nothing of the rest."""
    seen: set[str] = set()
    for file, document in documents(folder):
        for place, item in enumerate(document if isinstance(document, list) else [document]):
            kept = only(item, KEYS)
            trace = trace_of(kept) if "traj" in kept else None
            if trace is None:
                continue
            task = str(kept.get("task_id", f"{file}/{place}"))
            name = f"{task}-{kept['trial']}" if {"task_id", "trial"} <= kept.keys() else task
            name = f"{file}/{name}" if name in seen else name
            seen.add(name)
            yield Run(name=name, task=task, trace=trace), item


def facts_of(detected: Detected) -> Facts:
    """The facts of one run (`FACTS`)."""
    view = detected.view
    said = [turn.said for run in view.runs for turn in run.turns]
    writes = sum(changing_verb(call.tool) is not None for call in view.calls.values())
    money = sum(figure.money for text in said for figure in figures(text))
    return {
        "steps": math.log(max(1, len(view.trace.spans))),
        "writes": math.log1p(writes),
        "money": math.log1p(money),
        "unconfirmed": float(any(s.kind == "unconfirmed_write" for s in detected.symptoms)),
    }


def answers(folder: Path) -> dict[str, dict[str, Json]]:
    """`{run: {"failed": probability}}` for a folder."""
    weights = read_weights(TABLE)
    scans = Scans()
    found: dict[str, dict[str, Json]] = {}
    for run, _ in runs(folder):
        score = weights.score(facts_of(detect(run.trace, scans)))
        found[run.name] = {"failed": round(1 / (1 + math.exp(-score)), 4)}
    return found


def judged(folder: Path) -> list[Judged]:
    """Every run that has a reward."""
    scans = Scans()
    found = []
    for run, item in runs(folder):
        if isinstance(item, dict) and "reward" in item:
            detected = detect(run.trace, scans)
            found.append(
                Judged(
                    run=run,
                    facts=facts_of(detected),
                    detected=detected,
                    failed=float(str(item["reward"])) < 1,
                )
            )
    return found


def fitted(items: Sequence[Judged]) -> Weights:
    """Weights that tell failed runs from passed ones."""
    rows = matrix([one.facts for one in items], list(FACTS))
    weights, base = fit_logistic(rows, [one.failed for one in items], RIDGE)
    return Weights(
        made=f"logistic, ridge {RIDGE:g}, {len(items)} runs of tau-bench: benchmarks.tau --fit",
        ridge=RIDGE,
        base=base,
        weights=dict(zip(FACTS, map(float, weights), strict=True)),
    )


def cross_validated(items: Sequence[Judged], repeats: int) -> list[list[float]]:
    """Scores of every run by weights of other tasks' runs, one list a repeat.

    The intercept is left out: it follows the share of failures among the others, not this run.
    """
    tasks = [one.run.task for one in items]
    found = []
    for seed in range(repeats):
        where = folds(tasks, FOLDS, seed)
        scores = [0.0] * len(items)
        for fold in range(FOLDS):
            weights = fitted([one for one, at in zip(items, where, strict=True) if at != fold])
            for at, one in enumerate(items):
                if where[at] == fold:
                    scores[at] = weights.score(one.facts) - weights.base
        found.append(scores)
    return found


def within_task(items: Sequence[Judged], scores: Sequence[float]) -> tuple[float, int]:
    """(share of pairs of one task that are ordered rightly, number of pairs)."""
    right, pairs = 0.0, 0
    for at, one in enumerate(items):
        for other, two in enumerate(items):
            if one.run.task == two.run.task and one.failed and not two.failed:
                pairs += 1
                right += (scores[at] > scores[other]) + (scores[at] == scores[other]) / 2
    return right / max(1, pairs), pairs


def measure(folder: Path, repeats: int) -> None:
    """Print the table."""
    items = judged(folder)
    if not items:
        raise SystemExit(f"{folder}: no run with a reward")
    failed = [one.failed for one in items]
    tasks = [one.run.task for one in items]
    print(f"{len(items)} runs of {len(set(tasks))} tasks, {sum(failed)} failed")
    lengths = [one.facts["steps"] for one in items]
    scored = cross_validated(items, repeats)
    table = {f"fitted on other tasks ({FOLDS} folds x {repeats})": scored, "length": [lengths]}
    for title, lists in table.items():
        pooled = float(np.mean([auc(scores, failed) or 0.0 for scores in lists]))
        low, high = interval(tasks, partial(_auc_of, lists[0], failed))
        inside = float(np.mean([within_task(items, scores)[0] for scores in lists]))
        pairs = within_task(items, lists[0])[1]
        print(
            f"{title:40} AUC {pooled:.3f}, 95 % {low:.2f} to {high:.2f} (by task); "
            f"within a task {inside:.2f} of {pairs} pairs"
        )
    _print_checks(items)


def _auc_of(scores: Sequence[float], failed: Sequence[bool], chosen: Sequence[int]) -> float | None:
    return auc([scores[at] for at in chosen], [failed[at] for at in chosen])


def _print_checks(items: Sequence[Judged]) -> None:
    """How often each kind shows in failed and in passed runs; hints in brackets."""
    total = Counter(one.failed for one in items)
    hits: dict[tuple[str, bool], Counter[bool]] = {}
    alarms: Counter[bool] = Counter()
    for one in items:
        alarms[one.failed] += one.detected.failed
        for key in {(symptom.kind, symptom.counts) for symptom in one.detected.symptoms}:
            hits.setdefault(key, Counter())[one.failed] += 1
    print(f"{'kind':28}{'failed':>10}{'passed':>10}   runs of {total[True]} and {total[False]}")
    for (kind, counts), seen in sorted(hits.items()):
        print(f"{kind if counts else f'({kind})':28}{seen[True]:>10}{seen[False]:>10}")
    print(f"{'any that counts':28}{alarms[True]:>10}{alarms[False]:>10}")


def _fit(folder: Path) -> None:
    write_weights(TABLE, fitted(judged(folder)), list(FACTS))


def main() -> None:
    """Answer, measure or fit."""
    run_command("tau", answers=answers, measure=measure, fit=_fit)


if __name__ == "__main__":
    main()
