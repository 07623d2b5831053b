"""L3: does the edit also help on sealed cases of the same issue, which nobody who drafts saw?"""

from dataclasses import dataclass

from contracts.gate import ClaimState
from nodes.gate.claims import passes
from nodes.gate.stats import stratified_exact_p
from nodes.gate.tally import Place, Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """L3 over the sealed cases of the issue that were read so far."""

    cases: int
    """Sealed cases of the issue in the plan."""
    passes: tuple[int, int]
    """(baseline, candidate)."""
    runs: int
    """Observed, of each arm."""
    p: float
    sure: bool
    """Held whatever the rest says, with every missing or unread block against the candidate."""
    possible: bool
    """Not out of reach: held if every unread block is won."""
    complete: bool
    """Every block of these cases is read."""

    def state(self, level: float) -> ClaimState:
        """Where L3 stands at the level; unknown without a case, and before the last is read."""
        if not self.cases:
            return "unknown"
        if self.sure or (self.complete and self.p <= level):
            return "held"
        return "not_held" if self.complete or not self.possible else "unknown"


def spread(tally: Tally, read: int) -> Spread:
    """Read L3 once: on the cases of the issue among the first `read` sealed cases of the plan.

    It stops early only where the rest cannot change the answer, so it needs no split level.
    """
    plan = tally.plan
    seen, worst, best = [], [], []
    total_b = total_c = runs = cases = lost_or_left = 0
    for number, case in enumerate(plan.sealed):
        if not case.of_issue:
            continue
        repeats = 1 if plan.listed_rounds else case.repeats
        places = [Place(phase="sealed", case=case, index=i) for i in range(repeats)]
        blocks = tally.observed(places) if number < read else ()
        unread = 0 if number < read else repeats
        k_b, k_c = passes(blocks)
        n = len(blocks)
        seen += [(k_c, k_b, n)] if n else []
        worst.append((k_c, k_b + repeats - n, repeats))
        best += [(k_c + unread, k_b, n + unread)] if n + unread else []
        total_b, total_c, runs, cases = total_b + k_b, total_c + k_c, runs + n, cases + 1
        lost_or_left += unread
    level = plan.alpha
    return Spread(
        cases=cases, passes=(total_b, total_c), runs=runs, p=stratified_exact_p(seen),
        sure=bool(cases) and stratified_exact_p(worst) <= level,
        possible=stratified_exact_p(best) <= level, complete=not lost_or_left,
    )  # fmt: skip
