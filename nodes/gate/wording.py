"""The report's claims and notes: each claim with its test and a sentence."""

from contracts.gate import Claim, ClaimState
from nodes.gate.claims import target_level
from nodes.gate.figures import target_passes
from nodes.gate.guards import GUARD_LEVEL, Guarded
from nodes.gate.plan_notes import counted, name_of
from nodes.gate.sealed import NOT_GENERAL, Look
from nodes.gate.sizes import l2_repeats
from nodes.gate.standing import Standing

_NO_GUARD = "no case has ten stored baseline runs yet, so none is protected"


def claims_of(standing: Standing) -> tuple[Claim, ...]:
    """L1, L2, G, K, L3, and LK where it was asked: each with its test and a sentence."""
    claims = (
        _claim_l1(standing),
        _claim_l2(standing),
        _claim_guards(standing),
        _claim_cost(standing),
        _claim_spread(standing),
    )
    return (*claims, _claim_listed(standing)) if standing.listed.asked else claims


def _claim_l1(standing: Standing) -> Claim:
    fix = standing.fixed
    if fix.state == "not_asked":
        return Claim(
            name="L1", state="not_asked", p=None, level=None,
            detail="fixes known cases: not asked of an edit that only makes the harness smaller",
        )  # fmt: skip
    b, c, n = target_passes(standing.tally)
    stopped = f"; stopped after {fix.rounds} rounds: {fix.stopped}" if fix.stopped else ""
    return Claim(
        name="L1",
        state="unknown" if fix.state == "open" else fix.state,
        p=fix.p,
        level=target_level(standing.tally.plan),
        detail=f"fixes known cases: baseline {b} and candidate {c} passes of {n} each{stopped}",
    )


def _claim_l2(standing: Standing) -> Claim:
    plan, harm = standing.tally.plan, standing.unharmed
    look = harm.shown or standing.last
    if look is None:
        why = "no sealed case was run" if plan.sealed else "there is no sealed case"
        return Claim(
            name="L2",
            state="unknown" if plan.sealed else "not_held",
            p=None if plan.sealed else 1.0,
            level=plan.alpha,
            detail=f"does no harm: {why}",
        )
    state: ClaimState = "held" if harm.shown else "not_held"
    if not harm.shown and (harm.waiting is not None or harm.stopped == NOT_GENERAL):
        state = "unknown"
    return Claim(
        name="L2", state=state, p=look.p, level=look.level, detail=_l2_detail(standing, look)
    )


def _l2_detail(standing: Standing, look: Look) -> str:
    plan = standing.tally.plan
    test = "" if l2_repeats(plan) == 1 else f" x {l2_repeats(plan)}, by the e-process"
    return (
        f"does no harm: {look.b} better, {look.c} worse of {look.n} sealed cases{test},"
        f" margin {plan.margin:.2f}"
    )


def _claim_guards(standing: Standing) -> Claim:
    guards, plan = standing.guards, standing.tally.plan
    said = [_guards_detail(standing)]
    if standing.critical.failed:
        names = ", ".join(name_of(each.case) for each in standing.critical.failed)
        said.append(f"critical cases failed: {names}")
    elif plan.critical:
        said.append(_critical_detail(standing))
    tested = [each.p for each in guards.cases if each.p is not None]
    return Claim(
        name="G",
        state=_guards_state(standing),
        p=min(tested, default=None),
        level=GUARD_LEVEL,
        detail=f"guards: {'; '.join(said)}",
    )


def _guards_state(standing: Standing) -> ClaimState:
    guards, critical = standing.guards, standing.critical
    if critical.failed or guards.confirmed:
        return "not_held"
    if not (guards.protected or critical.cases):
        return "held"
    if not standing.guards_ready or critical.waiting or critical.lost:
        return "unknown"
    return guards.state


def _guards_detail(standing: Standing) -> str:
    guards = standing.guards
    if not guards.protected:
        return _NO_GUARD
    cases = counted(guards.protected, "protected case")
    if guards.confirmed:
        names = ", ".join(
            f"{guard_name(each)} (p {each.p or 0.0:.2g})" for each in guards.confirmed
        )
        return f"{cases}, shown to have got worse: {names}"
    if not standing.guards_ready:
        return f"{cases}, not tested, since another claim did not hold"
    if guards.waiting:
        return f"{cases}, {counted(guards.signals, 'failed', 'failed')} and not tested to the end"
    if guards.unsure:
        return f"{cases}, missing runs leave open whether one got worse"
    tested = sum(each.p is not None for each in guards.cases)
    return f"{cases}, {guards.signals} failed a run, {tested} tested in fresh blocks, none worse"


def guard_name(each: Guarded) -> str:
    """How sentences call a guarded case; a sealed one by the start of its fingerprint."""
    return f"fingerprint {each.case.fingerprint[:12]}" if each.secret else each.case.case


def _critical_detail(standing: Standing) -> str:
    critical = standing.critical
    if critical.waiting or critical.lost:
        return "critical cases were not all observed"
    if not standing.guards_ready:
        return "critical cases were not run, since another claim did not hold"
    clean = [each for each in critical.cases if each.state == "passed"]
    said = [f"{len(clean)} critical without a failure in {clean[0].after[1]} runs, which bounds its"
            " rate below about 26 %"] if clean else []  # fmt: skip
    let = [name_of(each.case) for each in critical.cases if each.state == "exempt"]
    if let:
        said.append(f"failing with and without the edit, exempted by name: {', '.join(let)}")
    return "; ".join(said)


def _claim_cost(standing: Standing) -> Claim:
    ran = standing.last is not None or not standing.tally.plan.sealed
    return Claim(
        name="K",
        state=standing.cost.state if ran else "unknown",
        p=None,
        level=0.05,
        detail=f"cost: {standing.cost.detail}" if ran else "cost: no sealed case was run",
    )


def _claim_spread(standing: Standing) -> Claim:
    plan, wide = standing.tally.plan, standing.unharmed.spread
    strict = plan.profile == "strict"
    before, after = wide.passes
    detail = f"baseline {before} and candidate {after} passes of {wide.runs} on sealed cases of it"
    if not wide.cases:
        detail = "no sealed case is marked as of this issue"
    elif not wide.runs:
        detail = "no sealed case of this issue was run"
    return Claim(
        name="L3",
        state=wide.state(plan.alpha) if strict else "not_asked",
        p=wide.p if strict and wide.runs else None,
        level=plan.alpha if strict and wide.cases else None,
        detail=f"generalises: {detail}",
    )


def _claim_listed(standing: Standing) -> Claim:
    plan, seen = standing.tally.plan, standing.listed
    what = f"margin {plan.margin_asked:.2f} on these {len(plan.sealed)} sealed cases"
    rounds = f"{seen.rounds} of {plan.listed_rounds} rounds"
    return Claim(
        name="LK",
        state=seen.state,
        p=seen.p if seen.rounds else None,
        level=plan.alpha,
        detail=f"no harm on the listed cases: {what}, {rounds}; nothing is said of others",
    )


def notes_of(standing: Standing) -> tuple[str, ...]:
    """What else a person should know."""
    plan = standing.tally.plan
    notes = []
    if standing.unharmed.stopped:
        cases = standing.unharmed.looks[-1].cases
        notes.append(f"Sealed cases stopped after {cases}: {standing.unharmed.stopped}.")
    by = {each.case: each for each in plan.exempt}
    notes += [
        f"{name_of(each.case)} fails without the edit too; {by[each.case.case].by} lets it pass:"
        f" {by[each.case.case].why}"
        for each in standing.critical.cases
        if each.state == "exempt"
    ]
    lost = standing.tally.lost_blocks
    if lost:
        notes.append(f"{lost} blocks stayed missing after three attempts.")
    return tuple(notes)
