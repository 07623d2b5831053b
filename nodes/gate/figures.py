"""The report's figures: each case before and after, money, time, and the evidence on the margin."""

import math
from collections.abc import Iterable, Sequence

from contracts.gate import Block, CaseOutcome, CaseState, Graded
from nodes.gate.claims import passes
from nodes.gate.cost import cost_rows
from nodes.gate.sealed import Look
from nodes.gate.sizes import l2_repeats
from nodes.gate.standing import Standing
from nodes.gate.stats import e_process, proven_margin, tango_lower, tango_upper
from nodes.gate.tally import Place, Tally, places_of

Pair = tuple[float | None, float | None]


def runs_of(blocks: Iterable[Block]) -> list[Graded]:
    """Every single run, missing ones too."""
    return [run for block in blocks for run in (block.baseline, block.candidate) if run]


def spent_usd(blocks: Sequence[Block]) -> float | None:
    """Cost of all runs; None as soon as one is unknown."""
    costs = [run.cost_usd for run in runs_of(blocks)]
    known = [cost for cost in costs if cost is not None]
    return math.fsum(known) if len(known) == len(costs) else None


def target_passes(counted: Tally) -> tuple[int, int, int]:
    """(baseline passes, candidate passes, blocks) over the target cases."""
    blocks = counted.observed(places_of(counted.plan, "target"))
    return (*passes(blocks), len(blocks))


def sealed_blocks(standing: Standing) -> tuple[tuple[Block, ...], ...]:
    """The observed sealed blocks that the last look read, case by case."""
    look, plan = standing.last, standing.tally.plan
    if look is None:
        return ()
    cases = plan.sealed[: look.cases]
    repeats = [1 if plan.listed_rounds else case.repeats for case in cases]
    places = [
        [Place(phase="sealed", case=case, index=i) for i in range(r)]
        for case, r in zip(cases, repeats, strict=True)
    ]
    seen = [standing.tally.observed(each) for each in places]
    return tuple(blocks for blocks in seen if blocks)


def proven(standing: Standing) -> float:
    """Smallest margin of .001 … .999 that the last look excludes; 1.0 if there is none."""
    look, plan = standing.last, standing.tally.plan
    if look is None or not look.n:
        return 1.0
    if l2_repeats(plan) == 1:
        return proven_margin(look.b, look.c, look.n, look.level)
    low, high = 0, 1000  # thousandths; a wider margin is never harder to show
    while high - low > 1:
        middle = (low + high) // 2
        if max(e_process(look.differences, middle / 1000)) * plan.alpha >= 1.0:
            high = middle
        else:
            low = middle
    return high / 1000


def interval(standing: Standing) -> tuple[float, float] | None:
    """Two-sided 95 % interval of the sealed change, where every case ran once an arm."""
    look = standing.last
    if look is None or not look.n or l2_repeats(standing.tally.plan) > 1:
        return None
    b, c, n = look.b, look.c, look.n
    return tango_lower(b, c, n, 0.025), tango_upper(b, c, n, 0.025)


def evidence(look: Look | None, margin: float) -> float | None:
    """Last of the e-process on the sealed differences at the plan's margin."""
    return e_process(look.differences, margin)[-1] if look is not None and look.n else None


def money(standing: Standing) -> tuple[Pair, Pair]:
    """(baseline, candidate) USD a passing sealed run, and a run; of target runs without sealed."""
    blocks = sealed_blocks(standing)
    rows = cost_rows(blocks)
    if blocks:
        runs = sum(len(each) for each in blocks)
    else:
        targets = standing.tally.observed(places_of(standing.tally.plan, "target"))
        rows, runs = cost_rows([targets]), len(targets)
    if not rows:
        return (None, None), (None, None)
    cost_c, k_c, cost_b, k_b = (sum(row[i] for row in rows) for i in range(4))
    a_pass: Pair = (cost_b / k_b if k_b else None, cost_c / k_c if k_c else None)
    return a_pass if blocks else (None, None), (cost_b / runs, cost_c / runs)


def latency(standing: Standing) -> tuple[float, float] | None:
    """(baseline, candidate) 95 % of the runs took at most so many seconds; sealed, else target."""
    blocks: Sequence[Block] = [block for case in sealed_blocks(standing) for block in case]
    blocks = blocks or standing.tally.observed(places_of(standing.tally.plan, "target"))
    pairs = [(b.baseline.seconds, b.candidate.seconds) for b in blocks if b.baseline is not None]
    if not pairs:
        return None
    nearest = math.ceil(0.95 * len(pairs)) - 1
    before, after = (sorted(pair[arm] for pair in pairs) for arm in (0, 1))
    return before[nearest], after[nearest]


def worse(counted: Tally, sealed: Iterable[Sequence[Block]]) -> tuple[str, ...]:
    """Target cases by id, sealed ones by fingerprint: what passes less often than before."""
    plan = counted.plan
    found = [one.name for one in _targets(counted) if one.state == "worse"]
    names = {case.case: case.fingerprint for case in plan.sealed}
    for blocks in sealed:
        before, after = passes(blocks)
        if after < before:
            found.append(names[blocks[0].case])
    return tuple(found)


def outcomes(standing: Standing) -> tuple[CaseOutcome, ...]:
    """Targets, critical cases and guards one by one; sealed ones only where a guard was tested."""
    guards = [
        CaseOutcome(
            name=each.case.fingerprint if each.secret else each.case.case,
            phase="guard", before=each.before, after=each.after, state=each.state, p=each.p,
        )
        for each in standing.guards.cases
        if each.ran or each.origin != "sealed"
    ]  # fmt: skip
    critical = [
        CaseOutcome(
            name=each.case.fingerprint if each.case.hidden else each.case.case,
            phase="critical", before=each.before, after=each.after, state=each.state,
        )
        for each in standing.critical.cases
        if each.after[1] or each.before
    ]  # fmt: skip
    return (*_targets(standing.tally), *critical, *guards)


def _targets(counted: Tally) -> list[CaseOutcome]:
    found = []
    for case in counted.plan.targets:
        places = [Place(phase="target", case=case, index=i) for i in range(case.repeats)]
        blocks = counted.observed(places)
        before, after = passes(blocks)
        runs = len(blocks)
        state: CaseState = "same" if after == before else "better"
        if after < before:
            state = "worse"
        found.append(
            CaseOutcome(
                name=case.case, phase="target", before=(before, runs) if runs else None,
                after=(after, runs), state=state if runs else "missing",
            )
        )  # fmt: skip
    return found
