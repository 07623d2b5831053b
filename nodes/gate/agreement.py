"""How far a judge agrees with people, and whether that is enough to let it grade. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

FEWEST_LABELS: Final = 50
LEAST_KAPPA: Final = 0.6
LEAST_LOWER: Final = 0.4
MOST_FLIPS: Final = 0.05
"""Share of regraded answers that may change before every answer is graded three times."""
FEWEST_REGRADES: Final = 20
_Z = 1.959964  # two-sided 95 %


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Judge against people on labelled answers, chance taken out."""

    labels: int
    """Answers that both have graded."""
    agree: int
    kappa: float | None
    """Cohen's; None: people or judge gave one grade only, so chance explains everything."""
    lower: float | None
    """Lower end of its 95 % interval."""
    unanswered: int = 0
    """Labelled answers that the judge did not grade."""


def agreement(pairs: Sequence[tuple[bool, bool | None]]) -> Agreement:
    """From (person, judge) per answer; None: the judge gave no grade.

    Kappa with its large-sample standard error sqrt(po(1 - po)/(n(1 - pe)^2)). Source: Cohen 1960,
    Educational and Psychological Measurement 20:37.
    """
    graded = [(person, judge) for person, judge in pairs if judge is not None]
    n = len(graded)
    agree = sum(person == judge for person, judge in graded)
    missing = len(pairs) - n
    if n == 0:
        return Agreement(labels=0, agree=0, kappa=None, lower=None, unanswered=missing)
    people = sum(person for person, _ in graded) / n
    judged = sum(bool(judge) for _, judge in graded) / n
    observed = agree / n
    chance = people * judged + (1.0 - people) * (1.0 - judged)
    if chance >= 1.0 - 1e-12:
        return Agreement(labels=n, agree=agree, kappa=None, lower=None, unanswered=missing)
    kappa = (observed - chance) / (1.0 - chance)
    error = math.sqrt(observed * (1.0 - observed) / (n * (1.0 - chance) ** 2))
    return Agreement(
        labels=n, agree=agree, kappa=kappa, lower=kappa - _Z * error, unanswered=missing
    )


def too_little(found: Agreement) -> str | None:
    """Why the judge may not grade; None: it may."""
    if found.labels < FEWEST_LABELS:
        return f"{found.labels} labelled answers graded, at least {FEWEST_LABELS} are needed"
    if found.kappa is None or found.lower is None:
        return "every label or every grade is the same, so agreement cannot be told from chance"
    if found.kappa < LEAST_KAPPA:
        return f"kappa {found.kappa:.2f} with people, at least {LEAST_KAPPA:.2f} is needed"
    if found.lower < LEAST_LOWER:
        return (
            f"kappa {found.kappa:.2f} may be as low as {found.lower:.2f}, at least"
            f" {LEAST_LOWER:.2f} must be sure: label more answers"
        )
    return None


def votes(regraded: int, flipped: int) -> int:
    """How often each answer is graded: three times once regrading changes more than 5 %."""
    unsteady = regraded >= FEWEST_REGRADES and flipped > MOST_FLIPS * regraded
    return 3 if unsteady else 1


def majority(grades: Sequence[bool | None]) -> bool | None:
    """What more than half of the grades say; None: no such half, so nobody knows."""
    for answer in (True, False):
        if 2 * sum(grade is answer for grade in grades) > len(grades):
            return answer
    return None
