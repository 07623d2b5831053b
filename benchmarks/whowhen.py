"""Which step made a run of several agents fail, and which agent: the Who&When task.

    python -m benchmarks.whowhen --in DIR --out F
    python -m benchmarks.whowhen --measure DIR [--repeats N]
    python -m benchmarks.whowhen --fit DIR

`--in` reads every log below DIR (`.json`, `.json.gz`) and writes `{log: {agent, step, top}}`: the
author of the chosen step, the step (from zero), and the three likeliest steps, best first. A log is
named by its path below DIR without its ending. Of a document only the question, its id, the
messages and the agents' prompts are read.

The score of a step is a sum of a few facts about it (`whowhen_facts.py`) times the weights in
`whowhen_weights.json`. `--measure` needs labels: it fits on other questions than it judges (five
folds by question), so that its figures do not come from the shipped table.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.arguments import run_command
from benchmarks.fitting import Facts, fit_logistic, interval, matrix, splits
from benchmarks.logs import documents, only, trace_of
from benchmarks.weights import Weights, read_weights, write_weights
from benchmarks.whowhen_facts import FACTS, ORCHESTRATED, facts_of
from benchmarks.whowhen_steps import Log, log_of
from contracts.json_types import Json

KEYS: Final = frozenset({"question", "question_ID", "history", "system_prompt"})
"""What of a document is no label."""
TABLE: Final = Path(__file__).with_name("whowhen_weights.json")
RIDGE: Final = 4.0  # of 2, 4 and 8, which are within .02 of each other (docs/quality.md)
FOLDS: Final = 5
COLUMNS: Final = tuple(
    f"{sort}:{name}" for sort in "go" for name in FACTS if sort == "o" or name not in ORCHESTRATED
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """A log with what its annotators said."""

    name: str
    subset: str
    question: str
    log: Log
    facts: Sequence[Facts]
    step: int
    agent: str


def logs(folder: Path) -> dict[str, Log]:
    """Every log below a folder by name, read without its labels."""
    found = {}
    for name, document in documents(folder):
        trace = trace_of(only(document, KEYS))
        if trace is not None:
            found[name] = log_of(trace)
    return found


def ranked(log: Log, facts: Sequence[Facts], score: Callable[[Facts], float]) -> list[int]:
    """Indexes of the log's candidates, likeliest first; the earlier of equals first."""
    scores = [score(one) for one in facts]
    return sorted(range(len(log.candidates)), key=lambda at: (-scores[at], at))


def answer_of(log: Log, weights: Weights) -> dict[str, Json]:
    """What is said of one log."""
    order = ranked(log, facts_of(log), weights.score)
    best = [log.candidates[at] for at in order[:3]]
    return {
        "agent": best[0].speaker,
        "step": best[0].number,
        "top": [step.number for step in best],
    }


def answers(folder: Path) -> dict[str, dict[str, Json]]:
    """`{log: answer}` for a folder; a log without any step is left out."""
    weights = read_weights(TABLE)
    return {name: answer_of(log, weights) for name, log in logs(folder).items() if log.steps}


def labelled(folder: Path) -> list[Labelled]:
    """Every log with its labels."""
    read = logs(folder)
    found = []
    for name, document in documents(folder):
        if name in read and isinstance(document, dict) and "mistake_step" in document:
            log = read[name]
            found.append(
                Labelled(
                    name=name,
                    subset=name.rpartition("/")[0],
                    question=str(document.get("question_ID", name)),
                    log=log,
                    facts=facts_of(log),
                    step=int(str(document["mistake_step"])),
                    agent=str(document.get("mistake_agent", "")),
                )
            )
    return found


def fitted(items: Sequence[Labelled]) -> Weights:
    """Weights that tell the failing step of these logs from the others."""
    rows = matrix([facts for one in items for facts in one.facts], COLUMNS)
    right = [step.number == one.step for one in items for step in one.log.candidates]
    weights, base = fit_logistic(rows, right, RIDGE)
    return Weights(
        made=f"logistic, ridge {RIDGE:g}, {len(items)} logs of Who&When: benchmarks.whowhen --fit",
        ridge=RIDGE,
        base=base,
        weights=dict(zip(COLUMNS, map(float, weights), strict=True)),
    )


MEASURES: Final = ("step", "agent", "+-1", "+-3", "top-3")


def judged(one: Labelled, best: Sequence[int]) -> dict[str, float]:
    """Each measure for one log, given candidates' indexes, best first."""
    steps = [one.log.candidates[at] for at in best[:3]]
    off = abs(steps[0].number - one.step)
    return {
        "step": float(off == 0),
        "agent": float(steps[0].speaker == one.agent),
        "+-1": float(off <= 1),
        "+-3": float(off <= 3),
        "top-3": float(one.step in [step.number for step in steps]),
    }


def by_chance(one: Labelled) -> dict[str, float]:
    """What a step drawn by lot would reach."""
    each = [judged(one, [at]) for at in range(len(one.log.candidates))]
    mean = {name: float(np.mean([row[name] for row in each])) for name in MEASURES}
    return mean | {"top-3": min(1.0, 3 * mean["step"])}


def second_step(one: Labelled) -> dict[str, float]:
    """What "the second step of an agent" reaches; with its neighbours as top three."""
    count = len(one.log.candidates)
    return judged(one, [at for at in (1, 0, 2) if at < count] or [0])


def cross_validated(items: Sequence[Labelled], repeats: int) -> list[dict[str, float]]:
    """Each log judged by weights of other questions' logs, the mean over the repeats."""
    sums: list[dict[str, float]] = [dict.fromkeys(MEASURES, 0.0) for _ in items]
    for fit, judge in splits([one.question for one in items], FOLDS, repeats):
        weights = fitted([items[at] for at in fit])
        for at in judge:
            row = judged(items[at], ranked(items[at].log, items[at].facts, weights.score))
            for name, value in row.items():
                sums[at][name] += value / repeats
    return sums


def transferred(items: Sequence[Labelled], subset: str) -> list[dict[str, float]]:
    """The logs of one subset judged by weights of the others alone."""
    weights = fitted([one for one in items if one.subset != subset])
    shared = {
        f"{sort}:{name}": weights.weights[f"{other}:{name}"]
        for sort, other in (("g", "o"), ("o", "g"))
        for name in FACTS
        if name not in ORCHESTRATED
    }
    given = Weights(made="", ridge=RIDGE, base=0.0, weights=shared)
    chosen = [one for one in items if one.subset == subset]
    return [judged(one, ranked(one.log, one.facts, given.score)) for one in chosen]


def measure(folder: Path, repeats: int) -> None:
    """Print the table."""
    items = labelled(folder)
    if not items:
        raise SystemExit(f"{folder}: no log with labels")
    groups = [one.question for one in items]
    print(f"{len(items)} logs, {len(set(groups))} questions, {FOLDS} folds x {repeats} repeats")
    print(f"{'':34}" + "".join(f"{name:>8}" for name in MEASURES))
    rows = cross_validated(items, repeats)
    tables = {
        "fitted on other questions": rows,
        "second step": [second_step(one) for one in items],
        "by chance": [by_chance(one) for one in items],
    }
    for title, table in tables.items():
        _line(title, table)
        for subset in sorted({one.subset for one in items}):
            kept = [row for one, row in zip(items, table, strict=True) if one.subset == subset]
            _line(f"  {subset or 'logs'} ({len(kept)})", kept)
    for subset in sorted({one.subset for one in items}):
        if len({one.subset for one in items}) > 1:
            _line(f"fitted on the others: {subset}", transferred(items, subset))
    for name in MEASURES:
        low, high = interval(groups, partial(_of, rows, name))
        print(f"{name}: {_mean(rows, name):.3f}, 95 % {low:.2f} to {high:.2f} (by question)")


def _mean(rows: Sequence[Mapping[str, float]], name: str) -> float:
    return float(np.mean([row[name] for row in rows]))


def _of(rows: Sequence[Mapping[str, float]], name: str, chosen: Sequence[int]) -> float:
    return _mean([rows[at] for at in chosen], name)


def _line(title: str, rows: Sequence[Mapping[str, float]]) -> None:
    print(f"{title:34}" + "".join(f"{_mean(rows, name):8.3f}" for name in MEASURES))


def _fit(folder: Path) -> None:
    write_weights(TABLE, fitted(labelled(folder)), COLUMNS)


def main() -> None:
    """Answer, measure or fit."""
    run_command("whowhen", answers=answers, measure=measure, fit=_fit)


if __name__ == "__main__":
    main()
