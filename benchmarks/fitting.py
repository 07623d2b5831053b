"""Small fits for benchmarks: logistic weights with a ridge, folds by group, figures with intervals.

Nothing here knows a data set. A fit is a convex problem solved from zero, so that equal inputs give
equal weights; folds are dealt by a seeded shuffle of the groups.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import rankdata

Facts = Mapping[str, float]
Matrix = NDArray[np.float64]


def matrix(rows: Sequence[Facts], names: Sequence[str]) -> Matrix:
    """One row for each of `rows`, one column for each name; a fact that is missing is 0."""
    table = [[float(row.get(name, 0.0)) for name in names] for row in rows]
    return np.asarray(table, dtype=np.float64).reshape(len(rows), len(names))


def fit_logistic(rows: Matrix, right: Sequence[bool], ridge: float) -> tuple[Matrix, float]:
    """(weights, intercept) of a logistic model; the ridge holds the weights only."""
    signs = np.asarray(right, dtype=np.float64)

    def loss(point: Matrix) -> tuple[float, Matrix]:
        weights, base = point[:-1], point[-1]
        scores = rows @ weights + base
        value = float(np.sum(np.logaddexp(0.0, scores) - signs * scores))
        value += ridge * float(weights @ weights) / 2
        off = 1.0 / (1.0 + np.exp(-scores)) - signs
        slope = np.append(rows.T @ off + ridge * weights, np.sum(off))
        return value, slope

    found = minimize(loss, np.zeros(rows.shape[1] + 1), jac=True, method="L-BFGS-B").x
    return np.asarray(found[:-1]), float(found[-1])


def folds(groups: Sequence[str], count: int, seed: int) -> list[int]:
    """The fold of each item; items of one group are in one fold."""
    names = sorted(set(groups))
    random.Random(seed).shuffle(names)  # noqa: S311  # a split, no key
    place = {name: at % count for at, name in enumerate(names)}
    return [place[group] for group in groups]


def splits(
    groups: Sequence[str], count: int, repeats: int
) -> Iterator[tuple[list[int], list[int]]]:
    """(items to fit on, items to judge) of every fold of every repeat."""
    for seed in range(repeats):
        where = folds(groups, count, seed)
        for fold in range(count):
            yield (
                [at for at, one in enumerate(where) if one != fold],
                [at for at, one in enumerate(where) if one == fold],
            )


def auc(scores: Sequence[float], right: Sequence[bool]) -> float | None:
    """Share of (right, wrong) pairs that the scores order rightly, ties half; None without both."""
    positive = sum(right)
    if positive in (0, len(right)):
        return None
    ranks = rankdata(scores)
    total = float(sum(rank for rank, one in zip(ranks, right, strict=True) if one))
    return (total - positive * (positive + 1) / 2) / (positive * (len(right) - positive))


def interval(
    groups: Sequence[str], figure: Callable[[Sequence[int]], float | None], draws: int = 1000
) -> tuple[float, float]:
    """95 % bootstrap interval of a figure over items, drawn by group."""
    members: dict[str, list[int]] = {}
    for at, group in enumerate(groups):
        members.setdefault(group, []).append(at)
    names = sorted(members)
    rng = random.Random(11)  # noqa: S311  # a resampling, no key
    found = []
    for _ in range(draws):
        items = [at for name in rng.choices(names, k=len(names)) for at in members[name]]
        value = figure(items)
        if value is not None:
            found.append(value)
    low, high = np.quantile(found, [0.025, 0.975])
    return float(low), float(high)
