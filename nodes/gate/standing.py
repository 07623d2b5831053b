"""Everything that a plan's stored blocks decide, read at one moment."""

from collections.abc import Sequence
from dataclasses import dataclass

from contracts.gate import NO_CONDITIONS, Block, Conditions, GatePlan
from nodes.gate.claims import (
    Cost,
    Fixed,
    Look,
    Unharmed,
    cost_per_run_claim,
    fixed,
    unharmed,
)
from nodes.gate.tally import MOST_MISSING, Place, Tally, places_of, tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Everything that the stored blocks decide; the order of work is read off it."""

    tally: Tally
    invalid: str | None
    fixed: Fixed
    unharmed: Unharmed
    cost: Cost
    critical_open: tuple[Place, ...]
    critical_failed: tuple[str, ...]
    critical_lost: bool

    @property
    def sealed_ready(self) -> bool:
        """L1 holds in a way that can still be accepted: the sealed cases may be opened."""
        return self.fixed.state == "held" and self.fixed.survives

    @property
    def critical_ready(self) -> bool:
        """Everything before the guards holds (in starter, L2 is only reported)."""
        if not self.sealed_ready or self.unharmed.waiting is not None or self.harmful:
            return False
        starter = self.tally.plan.profile == "starter"
        return self.cost.state == "held" and (starter or self.unharmed.robust)

    @property
    def harmful(self) -> str | None:
        """What harm is shown, if any."""
        look = self.last
        if look is not None and look.harmful:
            return f"harm on sealed cases (p {look.harm:.3g})"
        if look is not None and look.too_dear:
            return f"cost above what is allowed ({look.cost.detail})"
        return "critical failure" if self.critical_failed else None

    @property
    def last(self) -> Look | None:
        """The last look read."""
        return self.unharmed.looks[-1] if self.unharmed.looks else None


def stand(
    plan: GatePlan, blocks: Sequence[Block], conditions: Conditions = NO_CONDITIONS
) -> Standing:
    """Read the stored blocks against the plan.

    Raises:
        ValueError: the plan asks for what cannot be decided here, so that nothing passes unseen.
    """
    _check_supported(plan)
    counted = tally(plan, blocks)
    l1, l2 = fixed(counted), unharmed(counted)
    look = l2.cost or (l2.looks[-1] if l2.looks else None)
    targets = [b for b in map(counted.block, places_of(plan, "target")) if b is not None]
    critical = tuple(places_of(plan, "critical"))
    failed = {
        place.case.case
        for place in critical
        if (block := counted.block(place)) is not None and block.candidate.result == "fail"
    }
    return Standing(
        tally=counted,
        invalid=_invalid(counted, conditions),
        fixed=l1,
        unharmed=l2,
        cost=look.cost if look else cost_per_run_claim(plan, targets if not plan.looks else ()),
        critical_open=counted.open(critical),
        critical_failed=tuple(sorted(failed)),
        critical_lost=any(counted.lost(place) for place in critical),
    )


def _check_supported(plan: GatePlan) -> None:
    if plan.purpose != "fix" or not plan.targets:
        raise ValueError("the gate decides plans of purpose 'fix' with a target case")
    if plan.guards:
        raise ValueError("protected cases cannot be tested yet, so a plan may not name any")
    if any(case.repeats != 1 for case in plan.sealed):
        raise ValueError("a sealed case runs once an arm")
    sizes = [cases for cases, _ in plan.looks]
    if sizes != sorted(set(sizes)) or sizes[-1:] != ([len(plan.sealed)] if plan.sealed else []):
        raise ValueError(f"the last look reads all {len(plan.sealed)} sealed cases, not {sizes!r}")
    if sum(level for _, level in plan.looks) > plan.alpha * (1 + 1e-9):
        raise ValueError(f"the looks spend more than the level {plan.alpha!r}")


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
    for phase in ("target", "sealed"):
        share = counted.missing_share("target" if phase == "target" else "sealed")
        if share > MOST_MISSING:
            return f"missing blocks: {share:.0%} of the {phase} blocks, at most 5 % may be"
    return None


def _against(counted: Tally, conditions: Conditions) -> str | None:
    """What is known against the gate itself, the first of it."""
    leaked = len(conditions.leaked)
    known = (
        ("plan mismatch", counted.problem or conditions.mismatch),
        ("leak", f"{leaked} sealed case{'s' * (leaked > 1)}" if leaked else None),
        ("self-test", conditions.self_test),
        ("judge", conditions.judge),
    )
    return next((f"{name}: {why}" for name, why in known if why is not None), None)
