"""L2, harm and K: the readings of the sealed cases so far."""

from collections.abc import Sequence
from dataclasses import dataclass

from contracts.gate import Block, GatePlan
from nodes.gate.claims import passes
from nodes.gate.cost import COST_LEVEL, Cost, cost_claim
from nodes.gate.sizes import l2_repeats
from nodes.gate.spread import Spread, spread
from nodes.gate.stats import e_process, harm_p, noninferior_p, tango_z
from nodes.gate.tally import Place, Tally

HARM_LEVEL = 0.05
NOT_GENERAL = "no prospect of showing that it generalises"
_FUTILE_Z = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One reading of the sealed cases, at its share of the level."""

    cases: int
    level: float
    share: float
    b: int
    """Cases that the candidate passes more often."""
    c: int
    """Cases that the baseline passes more often."""
    n: int
    """Cases observed."""
    passes: tuple[int, int]
    """(baseline, candidate)."""
    runs: int
    """Observed, of each arm."""
    differences: tuple[float, ...]
    """(k_C - k_B)/r of each observed case, in the order of the plan."""
    p: float
    """With repeats: 1 over the largest value of the e-process."""
    p_missing: float
    """The same with every missing block scored against the candidate."""
    harm: float
    harm_missing: float
    cost: Cost

    @property
    def harmful(self) -> bool:
        """The sign test shows that the candidate loses more than it wins."""
        return self.harm <= HARM_LEVEL * self.share

    @property
    def spared(self) -> bool:
        """Not harmful only because blocks are missing."""
        return self.harm_missing > HARM_LEVEL * self.share

    @property
    def too_dear(self) -> bool:
        """Even the lower bound of the cost ratio is above what is allowed."""
        return self.cost.state == "not_held" and self.cost.lower is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unharmed:
    """L2, harm and K over the looks so far. A claim shown at a look stays shown."""

    looks: tuple[Look, ...]
    waiting: tuple[Place, ...] | None
    """Open places, in the order of the plan, that the next look needs; None: no look is left."""
    stopped: str
    """Why no further look is read; empty while open, and after the last one."""
    shown: Look | None
    """Where L2 was first shown."""
    robust: bool
    """With every missing block scored against the candidate L2 is shown too, and no harm."""
    cost: Look | None
    """Where K was first shown."""
    spread: Spread
    """L3 over the cases read."""


def unharmed(tally: Tally) -> Unharmed:
    """Read the sealed looks whose cases are all settled, in order."""
    plan = tally.plan
    looks: list[Look] = []
    shown: Look | None = None
    cost: Look | None = None
    proved = robust = False
    stopped = ""
    waiting: tuple[Place, ...] | None = None
    wide = spread(tally, 0)
    for cases, level in plan.looks:
        places = [_places(plan, number) for number in range(cases)]
        waiting = tally.open([place for each in places for place in each]) or None
        if waiting:
            break
        look = _read(tally, places, level)
        looks.append(look)
        wide = spread(tally, cases)
        shown = shown or (look if look.p <= level else None)
        proved = proved or max(look.p, look.p_missing) <= level
        robust = proved and look.spared
        cost = cost or (look if look.cost.state == "held" else None)
        ready = robust and cost is not None and (plan.profile != "strict" or wide.sure)
        stopped = _stop(plan, look, wide, ready=ready, shown=shown is not None)
        if stopped:
            break
    return Unharmed(
        looks=tuple(looks), waiting=waiting, stopped=stopped, shown=shown, robust=robust,
        cost=cost, spread=wide,
    )  # fmt: skip


def _places(plan: GatePlan, number: int) -> tuple[Place, ...]:
    """What L2 reads of one sealed case; rounds over the listed cases come later and are not."""
    case = plan.sealed[number]
    repeats = 1 if plan.listed_rounds else case.repeats
    return tuple(Place(phase="sealed", case=case, index=i) for i in range(repeats))


def _stop(plan: GatePlan, look: Look, wide: Spread, *, ready: bool, shown: bool) -> str:
    if look.harmful:
        return "harm shown"
    if look.too_dear:
        return "cost shown to be too high"
    if ready:
        return "shown"
    return "" if look.cases == plan.looks[-1][0] else _futile(plan, look, wide, shown=shown)


def _futile(plan: GatePlan, look: Look, wide: Spread, *, shown: bool) -> str:
    """Why the other cases are not run; a stop for want of prospects never adds to an error."""
    if plan.profile == "strict" and not wide.possible:
        return NOT_GENERAL
    if shown or not look.n:
        return ""
    futile = tango_z(look.b, look.c, look.n, -plan.margin) < _FUTILE_Z
    return "no prospect of excluding harm" if futile else ""


def _read(tally: Tally, places: Sequence[Sequence[Place]], level: float) -> Look:
    plan = tally.plan
    seen = [tally.observed(each) for each in places]
    counts = [(*passes(blocks), len(blocks)) for blocks in seen]
    differences = tuple((k_c - k_b) / n for k_b, k_c, n in counts if n)
    b, c = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    lost = [(k_b, k_c, n, len(each)) for (k_b, k_c, n), each in zip(counts, places, strict=True)]
    against = tuple((k_c - k_b - (r - n)) / r for k_b, k_c, n, r in lost)
    share = round(level / plan.alpha, 9)
    return Look(
        cases=len(places),
        level=level,
        share=share,
        b=b,
        c=c,
        n=len(differences),
        passes=(sum(k_b for k_b, _, _ in counts), sum(k_c for _, k_c, _ in counts)),
        runs=sum(n for _, _, n in counts),
        differences=differences,
        p=_l2_p(plan, differences),
        p_missing=_l2_p(plan, against),
        harm=harm_p(b, c),
        harm_missing=harm_p(sum(d > 0 for d in against), sum(d < 0 for d in against)),
        cost=cost_claim(plan, _of_cases(seen), planned=len(places), level=COST_LEVEL * share),
    )


def _of_cases(seen: Sequence[Sequence[Block]]) -> list[Sequence[Block]]:
    return [blocks for blocks in seen if blocks]


def _l2_p(plan: GatePlan, differences: Sequence[float]) -> float:
    """Exact where every case ran once; else 1/E, by which P(p <= a) <= a at any stop."""
    if l2_repeats(plan) > 1:
        return min(1.0, 1.0 / max(e_process(differences, plan.margin), default=1.0))
    b, c = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
    return noninferior_p(b, c, len(differences), plan.margin)
