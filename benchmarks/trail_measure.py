"""All figures on TRAIL: the rules beside what position alone gives, and what does not transfer."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks import trail_position
from benchmarks.trail_labels import folds, tasks
from benchmarks.trail_map import ROWS, Counts, Row, claims, confidence, count, rank
from benchmarks.trail_score import CATEGORIES, Pair, Scores, bootstrap, everywhere, score
from contracts.traces import Trace
from nodes.insights.detect.all import detect
from nodes.insights.detect.contracts import ALL, NONE, Contracts
from nodes.insights.detect.faults import Scans

Found = Mapping[str, Mapping[str, Sequence[Row]]]
Predicted = Mapping[str, set[Pair]]
REPEATS, ROUNDS = 5, 500
LEAST_HITS, LEAST_SHARE = 2, 0.06


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Annotated traces."""

    traces: Sequence[Trace]
    gold: Mapping[str, set[Pair]]
    subset: Mapping[str, str]


class Bench:
    """Everything that one measurement needs more than once."""

    def __init__(self, known: Measured) -> None:
        self.ids = [str(trace.id) for trace in known.traces]
        self.gold = {i: known.gold[i] for i in self.ids}
        self.subset = {i: known.subset[i] for i in self.ids}
        self.names = sorted(set(self.subset.values()))
        self.task = tasks(known.traces)
        self.found = self._found(known.traces, ALL)
        self.plain = self._found(known.traces, NONE)
        self.where = {str(t.id): trail_position.places(t) for t in known.traces}

    @staticmethod
    def _found(traces: Sequence[Trace], contracts: Contracts) -> Found:
        scans = Scans()
        return {str(t.id): claims(detect(t, scans, contracts)) for t in traces}

    def train(self, out: Sequence[str]) -> dict[str, set[Pair]]:
        """The annotations of all traces but some."""
        left = set(out)
        return {i: pairs for i, pairs in self.gold.items() if i not in left}

    def crossed(self, learn: Callable[[dict[str, set[Pair]], list[str]], Predicted],
                seed: int) -> dict[str, set[Pair]]:  # fmt: skip
        """Predictions for every trace, learned without the traces of its fold."""
        said: dict[str, set[Pair]] = {}
        for fold in folds(self.task, seed):
            said |= learn(self.train(fold), fold)
        return said

    def rules(self, found: Found) -> Callable[[dict[str, set[Pair]], list[str]], Predicted]:
        """The rules, with confidences counted on the training traces."""
        return lambda train, test: ranked(found, test, count(train, found))

    def mined(self, train: dict[str, set[Pair]], test: list[str]) -> Predicted:
        """The rules' facts with categories chosen by the training traces, no level believed."""
        return ranked(*_mined(self.found, train, test))


def ranked(found: Found, ids: Sequence[str], counts: Counts) -> dict[str, set[Pair]]:
    """The chosen pairs of some traces."""
    return {i: {pair for pair, _ in rank(found[i], counts)} for i in ids}


def _mined(
    found: Found, train: Mapping[str, set[Pair]], test: Sequence[str]
) -> tuple[Found, Sequence[str], Counts]:
    wide = _saying(found, {row.name: dict.fromkeys(CATEGORIES, 0.0) for row in ROWS})
    counts = count(train, wide)
    kept: dict[str, dict[str, float]] = {}
    for row in ROWS:
        keys = {name: f"{row.name}|{name}" for name in CATEGORIES}
        kept[row.name] = {
            name: 0.0
            for name, key in keys.items()
            if counts.get(key, (0, 0))[0] >= LEAST_HITS
            and confidence(counts, key, 0.0) >= LEAST_SHARE
        }
    return _saying({i: found[i] for i in test}, kept), test, counts


def _saying(found: Found, says: Mapping[str, Mapping[str, float]]) -> Found:
    """The same facts with other categories."""
    return {
        i: {span: [replace(row, says=says[row.name]) for row in rows] for span, rows in own.items()}
        for i, own in found.items()
    }


def measure(known: Measured, *, repeats: int = REPEATS, rounds: int = ROUNDS) -> None:
    """Print every figure; means over `repeats` of the folds, intervals of `rounds` resamples."""
    bench = Bench(known)
    counts = count(bench.gold, bench.found)
    pairs = sum(map(len, bench.gold.values()))
    print(
        f"{len(bench.ids)} traces, {len(set(bench.task.values()))} tasks, {pairs} pairs; ", end=""
    )
    print("at most 6 predictions a trace\n")
    print(HEAD.format(*(name for name in bench.names)))
    line(bench, "rules, in sample", ranked(bench.found, bench.ids, counts))
    line(bench, "rules, levels as believed, nothing counted", ranked(bench.found, bench.ids, {}))
    rules = [bench.crossed(bench.rules(bench.found), seed) for seed in range(repeats)]
    several(bench, f"rules, by task, {repeats} x 10 folds", rules)
    several(bench, "  categories mined in each fold",
            [bench.crossed(bench.mined, seed) for seed in range(repeats)])  # fmt: skip
    several(bench, "  without any framework's contract",
            [bench.crossed(bench.rules(bench.plain), seed) for seed in range(repeats)])  # fmt: skip
    line(bench, "  counted on the other subset only", other_subset(bench))
    position = [
        bench.crossed(lambda train, test: trail_position.predicted(train, test, bench.where), seed)
        for seed in range(repeats)
    ]
    several(bench, "position and kind of span only, by task", position)
    several(bench, "control: labels shuffled between traces",
            [shuffled(bench, seed) for seed in range(repeats)])  # fmt: skip
    trivial(bench)
    intervals(bench, rules[0], position[0], rounds)
    calibration(bench)


HEAD = (
    f"{'':44} {'pair F1':>7} {'prec':>5} {'rec':>5} {'span F1':>7} {'cat F1':>6}   "
    "{:>10} loc joint  cat  pair   {:>10} loc joint  cat  pair"
)


def line(bench: Bench, name: str, said: Predicted) -> None:
    """One line of figures, all traces and each subset."""
    several(bench, name, [said])


def several(bench: Bench, name: str, runs: Sequence[Predicted]) -> None:
    """One line: the mean of several runs."""
    whole = [score(bench.gold, said) for said in runs]
    parts = []
    for subset in bench.names:
        own = {i: pairs for i, pairs in bench.gold.items() if bench.subset[i] == subset}
        scores = [score(own, said) for said in runs]
        parts.append(
            f"{'':10} {_mean(scores, 'location'):.2f} {_mean(scores, 'joint'):5.2f} "
            f"{_mean(scores, 'category_f1'):4.2f}  {_mean(scores, 'pair_f1'):.2f}"
        )
    print(
        f"{name:44} {_mean(whole, 'pair_f1'):7.3f} {_mean(whole, 'pair_precision'):5.2f} "
        f"{_mean(whole, 'pair_recall'):5.2f} {_mean(whole, 'span_f1'):7.3f} "
        f"{_mean(whole, 'category_f1'):6.3f}   " + "   ".join(parts)
    )


def _mean(scores: Sequence[Scores], name: str) -> float:
    return sum(float(getattr(one, name)) for one in scores) / len(scores)


def other_subset(bench: Bench) -> dict[str, set[Pair]]:
    """Each subset by rules whose confidences were counted on the others."""
    said: dict[str, set[Pair]] = {}
    for subset in bench.names:
        own = [i for i in bench.ids if bench.subset[i] == subset]
        said |= ranked(bench.found, own, count(bench.train(own), bench.found))
    return said


def shuffled(bench: Bench, seed: int) -> dict[str, set[Pair]]:
    """Categories mined from labels that were moved to random spans and exchanged between traces.

    Nothing can be learned from these but how common a category is: what is left is chance, and
    would be more if something leaked through the folds.
    """
    rng = random.Random(seed)  # noqa: S311  (a control, no secret)
    names = [name for i in bench.ids for _, name in sorted(bench.gold[i])]
    rng.shuffle(names)
    moved: dict[str, set[Pair]] = {}
    for i in bench.ids:
        spans = sorted(bench.where[i])
        named = sorted({span for span, _ in bench.gold[i]})
        to = dict(zip(named, rng.choices(spans, k=len(named)), strict=True)) if spans else {}
        moved[i] = {(to[span], names.pop()) for span, _ in sorted(bench.gold[i]) if span in to}
    said: dict[str, set[Pair]] = {}
    for fold in folds(bench.task, seed):
        left = set(fold)
        said |= bench.mined({i: pairs for i, pairs in moved.items() if i not in left}, fold)
    return said


def trivial(bench: Bench) -> None:
    """Predictors whose scores are known beforehand: a check of the scorer, printed."""
    line(bench, "check: the annotations themselves", bench.gold)
    line(bench, "check: nothing", {})
    spans = {i: sorted(bench.where[i]) for i in bench.ids}
    line(bench, "check: one category at every span", everywhere(spans, ["Formatting Errors"]))


def intervals(bench: Bench, rules: Predicted, position: Predicted, rounds: int) -> None:
    """95 % intervals over tasks of the first repeat, and of the gain over position."""
    print("\n95 % bootstrap intervals over tasks (first repeat)")
    figures: tuple[tuple[str, Callable[[Scores], float]], ...] = (
        ("pair F1", lambda s: s.pair_f1),
        ("span F1", lambda s: s.span_f1),
        ("category F1", lambda s: s.category_f1),
        ("location", lambda s: s.location),
        ("joint", lambda s: s.joint),
    )
    for name, figure in figures:
        low, high = bootstrap(bench.gold, rules, figure, groups=bench.task, rounds=rounds)
        text = f"  {name:12} all {figure(score(bench.gold, rules)):.3f} [{low:.3f}, {high:.3f}]"
        for subset in bench.names:
            own = {i: pairs for i, pairs in bench.gold.items() if bench.subset[i] == subset}
            low, high = bootstrap(own, rules, figure, groups=bench.task, rounds=rounds)
            text += f"   {subset} {figure(score(own, rules)):.3f} [{low:.3f}, {high:.3f}]"
        low, high = bootstrap(bench.gold, position, figure, groups=bench.task, rounds=rounds)
        text += f"   position {figure(score(bench.gold, position)):.3f} [{low:.3f}, {high:.3f}]"
        print(text)


def calibration(bench: Bench) -> None:
    """How often predictions of a stated confidence are right; confidences of other tasks."""
    said = []
    for fold in folds(bench.task):
        counts = count(bench.train(fold), bench.found)
        said += [(sure, pair in bench.gold[i]) for i in fold
                 for pair, sure in rank(bench.found[i], counts)]  # fmt: skip
    print("\nstated confidence: how many, how often right")
    for low, high in ((0.0, 0.2), (0.2, 0.3), (0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (0.6, 1.01)):
        right = [hit for sure, hit in said if low <= sure < high]
        if right:
            print(
                f"  {low:.1f} - {min(high, 1):.1f}   {len(right):4}   {sum(right) / len(right):.2f}"
            )
    right = [hit for sure, hit in said if sure >= 0.5]
    print(f"  0.5 or more {len(right):4}   {sum(right) / max(1, len(right)):.2f}")
