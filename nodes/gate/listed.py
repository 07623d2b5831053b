"""LK: no harm on the listed sealed cases themselves, from several rounds over them. Reported only.

The order of the differences is fixed by the plan: round by round, in each round case by case.
Read at the end of complete rounds only, the e-process is valid for the mean change over just these
cases, however they differ. A block that stays missing counts as a loss.
"""

from dataclasses import dataclass

from contracts.gate import ClaimState
from nodes.gate.claims import passes
from nodes.gate.stats import e_process
from nodes.gate.tally import Place, Tally, round_of

_MARGINS = tuple(percent / 100 for percent in range(5, 55, 5))


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """Where LK stands."""

    asked: bool
    state: ClaimState
    evidence: float
    """E at the end of the last complete round, at the margin that was asked."""
    rounds: int
    """Complete ones."""
    margin: float
    """Smallest of .05, .10 … .50 that is shown; 1.0 if none."""
    p: float
    """1 over the largest E that was read."""
    waiting: tuple[Place, ...]
    """Open places of the next round."""


_NOT_ASKED = Listed(
    asked=False, state="not_asked", evidence=1.0, rounds=0, margin=1.0, p=1.0, waiting=()
)  # fmt: skip


def listed(tally: Tally) -> Listed:
    """Read LK at the margin that the plan asks for; it stops in the round that shows it."""
    plan = tally.plan
    if not plan.listed_rounds:
        return _NOT_ASKED
    differences: list[float] = []
    waiting: tuple[Place, ...] = ()
    rounds, best = 0, 0.0
    while rounds < plan.listed_rounds:
        places = round_of(plan, "sealed", rounds)
        waiting = tally.open(places)
        if waiting:
            break
        differences += [_difference(tally, place) for place in places]
        rounds += 1
        best = max(best, e_process(differences, plan.margin_asked)[-1])
        if best * plan.alpha >= 1.0:
            break
    each = len(plan.sealed)
    shown = [m for m in _MARGINS if _best(differences, m, each) * plan.alpha >= 1.0]
    state: ClaimState = "held" if best * plan.alpha >= 1.0 else "not_held"
    if waiting or not rounds:
        state = "unknown"
    return Listed(
        asked=True,
        state=state,
        evidence=e_process(differences, plan.margin_asked)[-1] if differences else 1.0,
        rounds=rounds,
        margin=min(shown, default=1.0),
        p=min(1.0, 1.0 / best) if best > 0.0 else 1.0,
        waiting=waiting,
    )


def _difference(tally: Tally, place: Place) -> float:
    block = tally.block(place)
    if block is None:
        return -1.0
    before, after = passes((block,))
    return float(after - before)


def _best(differences: list[float], margin: float, cases: int) -> float:
    """The largest E at the end of a round."""
    return max(e_process(differences, margin)[cases - 1 :: cases], default=0.0) if cases else 0.0
