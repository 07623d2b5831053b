"""Everything that a plan's stored blocks decide, read at one moment."""

from collections.abc import Sequence
from dataclasses import dataclass

from contracts.gate import NO_CONDITIONS, Block, Conditions, GatePlan, Phase
from nodes.gate.claims import Fixed, fixed
from nodes.gate.cost import Cost, cost_per_run_claim
from nodes.gate.critical import Critical, critical
from nodes.gate.guards import Guards, guards
from nodes.gate.listed import Listed, listed
from nodes.gate.sealed import Look, Unharmed, unharmed
from nodes.gate.sizes import l2_repeats
from nodes.gate.tally import MOST_MISSING, Tally, cases_of, places_of, tally

MOST_QUARANTINED = 0.25  # of the target cases, and of the sealed cases
_COUNTED: tuple[Phase, ...] = ("target", "sealed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Everything that the stored blocks decide; the order of work is read off it."""

    tally: Tally
    invalid: str | None
    fixed: Fixed
    unharmed: Unharmed
    cost: Cost
    critical: Critical
    guards: Guards
    listed: Listed

    @property
    def sealed_ready(self) -> bool:
        """L1 holds in a way that can still be accepted: the sealed cases may be opened."""
        return self.fixed.state in {"held", "not_asked"} and self.fixed.survives

    @property
    def guards_ready(self) -> bool:
        """What runs before the critical cases and guards holds; in starter L2 is only reported."""
        if not self.sealed_ready or self.unharmed.waiting is not None or self.sealed_harm:
            return False
        profile, wide = self.tally.plan.profile, self.unharmed.spread
        spread = profile != "strict" or wide.state(self.tally.plan.alpha) == "held"
        unharmed = profile == "starter" or self.unharmed.robust
        return self.cost.state == "held" and unharmed and spread

    @property
    def sealed_harm(self) -> str | None:
        """What harm the sealed cases show, if any."""
        look = self.last
        if look is not None and look.harmful:
            return f"harm on sealed cases (p {look.harm:.3g})"
        if look is not None and look.too_dear:
            return f"cost above what is allowed ({look.cost.detail})"
        return None

    @property
    def harmful(self) -> str | None:
        """What harm is shown, if any: on sealed cases, critical ones, or a protected one."""
        if self.sealed_harm is not None:
            return self.sealed_harm
        if self.critical.failed:
            return "critical failure"
        return "guard regression" if self.guards.confirmed else None

    @property
    def smaller(self) -> bool:
        """Purpose simplify: the edited files have fewer tokens, and that is known."""
        tokens = self.tally.plan.tokens
        return self.tally.plan.purpose == "fix" or (tokens is not None and tokens[1] < tokens[0])

    @property
    def last(self) -> Look | None:
        """The last look read."""
        return self.unharmed.looks[-1] if self.unharmed.looks else None


def stand(
    plan: GatePlan, blocks: Sequence[Block], conditions: Conditions = NO_CONDITIONS
) -> Standing:
    """Read the stored blocks against the plan.

    Raises:
        ValueError: the plan contradicts itself, so that nothing passes unseen.
    """
    _check(plan)
    counted = tally(plan, blocks)
    l1, l2 = fixed(counted), unharmed(counted)
    look = l2.cost or (l2.looks[-1] if l2.looks else None)
    return Standing(
        tally=counted,
        invalid=_invalid(counted, conditions),
        fixed=l1,
        unharmed=l2,
        cost=look.cost if look else _cost_without_sealed(counted),
        critical=critical(counted),
        guards=guards(counted, l2.looks[-1].cases if l2.looks else 0),
        listed=listed(counted),
    )


def _cost_without_sealed(counted: Tally) -> Cost:
    plan = counted.plan
    places = () if plan.looks else tuple(places_of(plan, "target"))
    return cost_per_run_claim(plan, [[block] for block in counted.observed(places)])


def _check(plan: GatePlan) -> None:
    left_out = any(each.phase == "target" for each in plan.quarantined)
    if plan.purpose == "fix" and not (plan.targets or left_out):
        raise ValueError("a plan of purpose 'fix' needs a target case")
    repeats = {case.repeats for case in plan.sealed}
    if plan.listed_rounds and repeats - {plan.listed_rounds}:
        raise ValueError(f"each sealed case has {plan.listed_rounds} rounds, not {sorted(repeats)}")
    if l2_repeats(plan) > 1 and len(plan.looks) > 1:
        raise ValueError("repeated sealed cases are read once, not in several looks")
    sizes = [cases for cases, _ in plan.looks]
    if sizes != sorted(set(sizes)) or sizes[-1:] != ([len(plan.sealed)] if plan.sealed else []):
        raise ValueError(f"the last look reads all {len(plan.sealed)} sealed cases, not {sizes!r}")
    if sum(level for _, level in plan.looks) > plan.alpha * (1 + 1e-9):
        raise ValueError(f"the looks spend more than the level {plan.alpha!r}")
    critical_runs = {case.repeats for case in plan.critical}
    if critical_runs and min(critical_runs) < 1:
        raise ValueError("a critical case needs a run")


def _invalid(counted: Tally, conditions: Conditions) -> str | None:
    plan, opening_alpha = counted.plan, conditions.opening_alpha
    asked = bool(plan.sealed) or plan.target_alpha is None  # else nothing is decided at alpha
    if conditions.use_taken or (
        asked and opening_alpha is not None and opening_alpha != plan.alpha
    ):
        return "use_taken"
    if plan.base == plan.candidate:
        return "no change"
    said = _against(counted, conditions)
    if said is not None:
        return said
    for phase in _COUNTED:
        share = counted.missing_share(phase)
        if share > MOST_MISSING:
            return f"missing blocks: {share:.0%} of the {phase} blocks, at most 5 % may be"
    return None


def _against(counted: Tally, conditions: Conditions) -> str | None:
    """What is known against the gate itself, the first of it."""
    leaked = len(conditions.leaked)
    known = (
        ("plan mismatch", counted.problem or conditions.mismatch),
        ("leak", f"{leaked} sealed case{'s' * (leaked > 1)}" if leaked else None),
        ("quarantined", _quarantined(counted.plan)),
        ("self-test", conditions.self_test),
        ("judge", conditions.judge),
    )
    return next((f"{name}: {why}" for name, why in known if why is not None), None)


def _quarantined(plan: GatePlan) -> str | None:
    for phase in _COUNTED:
        out = sum(each.phase == phase for each in plan.quarantined)
        planned = len(cases_of(plan, phase))
        if out > MOST_QUARANTINED * (out + planned):
            share = out / (out + planned)
            return f"{share:.0%} of the {phase} cases, at most 25 % may be"
    return None
