"""L1: where the claim about the known cases stands, given what was observed so far."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from contracts.gate import Block, GatePlan
from nodes.gate.stats import stratified_exact_p
from nodes.gate.tally import Place, Tally, round_of

FixedState = Literal["open", "held", "not_held", "not_asked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """L1: does the candidate pass more often on the target cases themselves?"""

    state: FixedState
    p: float
    """Where L1 stopped early, the p of the worst (held) or best (not held) outcome that was left;
    else of what was observed."""
    survives: bool
    """Still held with every missing block scored against the candidate."""
    rounds: int
    stopped: str
    """Why no further round runs; empty while open, and when every round ran."""
    reproduced: bool
    """The baseline failed some target run."""


_NOT_ASKED = Fixed(
    state="not_asked", p=1.0, survives=True, rounds=0, stopped="", reproduced=True
)  # fmt: skip


def fixed(tally: Tally) -> Fixed:
    """Read L1 after the last complete round.

    Stops: (a) the worst outcome of what is left would still hold, (b) the best would not, (c) from
    half of the rounds on the candidate does not lead. With the total of a case given, a lost
    block never lowers p and a won one never raises it (the law moves by at most one), so the
    worst and the best outcome are those; (a) and (b) decide as the whole plan would.
    """
    plan = tally.plan
    if plan.purpose == "simplify":
        return _NOT_ASKED
    level = target_level(plan)
    total = max((case.repeats for case in plan.targets), default=0)
    rounds = 0
    while rounds < total and not tally.open(round_of(plan, "target", rounds)):
        rounds += 1
    counts = [_passes(tally, rounds, case_index) for case_index in range(len(plan.targets))]
    reproduced = sum(c.k_b for c in counts) < sum(c.seen for c in counts) or not rounds
    p = stratified_exact_p([(c.k_c, c.k_b, c.seen) for c in counts if c.seen])
    worst = stratified_exact_p([(c.k_c, c.r - c.seen + c.k_b, c.r) for c in counts])
    ahead = [(c.k_c + c.left, c.k_b, c.seen + c.left) for c in counts if c.seen + c.left]
    best = stratified_exact_p(ahead)
    state: FixedState = "open"
    stopped = ""
    if rounds == total:
        state = "held" if p <= level else "not_held"
    elif worst <= level:
        state, p, stopped = "held", worst, "held whatever the remaining runs say"
    elif best > level:
        state, p, stopped = "not_held", best, "not to be held any more"
    elif 2 * rounds >= total and sum(c.k_c for c in counts) <= sum(c.k_b for c in counts):
        state, stopped = "not_held", "no lead after half of the rounds"
    return Fixed(
        state=state, p=p, survives=worst <= level, rounds=rounds, stopped=stopped,
        reproduced=reproduced,
    )  # fmt: skip


def target_level(plan: GatePlan) -> float:
    """Level of L1."""
    return plan.alpha if plan.target_alpha is None else plan.target_alpha


@dataclass(frozen=True, slots=True, kw_only=True)
class _Passes:
    k_b: int
    k_c: int
    seen: int
    left: int
    r: int


def _passes(tally: Tally, rounds: int, case_index: int) -> _Passes:
    """One target case over the complete rounds; `left` are blocks of rounds still to come."""
    case = tally.plan.targets[case_index]
    places = [Place(phase="target", case=case, index=i) for i in range(min(rounds, case.repeats))]
    blocks = tally.observed(places)
    k_b, k_c = passes(blocks)
    return _Passes(
        k_b=k_b, k_c=k_c, seen=len(blocks), left=case.repeats - len(places), r=case.repeats
    )


def passes(blocks: Iterable[Block]) -> tuple[int, int]:
    """(baseline, candidate) passing runs of observed blocks."""
    before = after = 0
    for block in blocks:
        before += block.baseline is not None and block.baseline.result == "pass"
        after += block.candidate.result == "pass"
    return before, after
