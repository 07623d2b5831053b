"""Make the gate's plan: which cases run how often, at which level, and what that can prove."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from contracts.codec import to_json
from contracts.gate import Case, GatePlan, PlannedCase
from contracts.harness import Revision
from contracts.json_types import canonical_json, sha256_hex
from memory.cases import fingerprint
from nodes.gate.stats import (
    look_plan,
    provable,
    required_cases,
    smallest_provable_margin,
    stratified_exact_p,
)

Profile = Literal["starter", "standard", "strict"]

FAMILY_LEVEL = 0.05  # shared by all uses of one sealed set (docs/gate.md, section 7)
POWER = 0.8
DEFAULT_DISCORDANCE = 0.10  # where no case has two stored baseline runs
STANDARD_FAMILIES = 30  # sealed families below which only the known cases are tested
CRITICAL_RUNS = 10
_CONSENT_MARGIN = 0.15
_REPEATS = ((3, 8), (10, 5), (30, 3))  # up to so many targets, so many repeats; 1 above


class PlanRefused(Exception):
    """There is nothing to test: `reason` is "no change", "no target case" or "level spent"."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"plan refused: {reason}")
        self.reason = reason


def level_of(*, uses: int, use: int) -> float:
    """Level of the use-th confirmation, from 1, where `uses` are allowed.

    A person who can tell a reject from an inconclusive may write the next edit, so every further
    use doubles the histories that could have led to it, and halves the level.
    """
    if uses < 1 or use < 1:
        raise ValueError(f"uses count from 1: use={use!r} uses={uses!r}")
    return FAMILY_LEVEL / uses / float(2 ** (use - 1))


def plan_hash(plan: GatePlan) -> str:
    """SHA-256 of the plan's canonical JSON."""
    return sha256_hex(canonical_json(to_json(plan)))


def planned_runs(plan: GatePlan) -> int:
    """Single runs of an arm if no stop comes early and nothing is missing."""
    pairs = sum(case.repeats for case in (*plan.targets, *plan.sealed))
    return 2 * pairs + sum(case.repeats for case in plan.critical)


def best_reachable_p(repeats: Sequence[int]) -> float:
    """Smallest p that L1 can give: the candidate passes every run, the baseline none."""
    return stratified_exact_p([(r, 0, r) for r in repeats])


def design_plan(
    *,
    base: Revision,
    candidate: Revision,
    targets: Sequence[Case],
    sealed: Sequence[Case],
    critical: Sequence[Case] = (),
    profile: Profile = "standard",
    margin: float,
    uses: int,
    use: int,
    issue_use: int,
    max_targets: int,
    max_runs: int,
    max_usd: float,
    max_seconds: float,
    deadline_s: float,
    seed: int,
    discordance: float | None,
    repeats: int | None = None,
    agent_model: str | None = None,
) -> GatePlan:
    """The plan of a fix, frozen before any run; what it cannot prove stands in its notes.

    `use` and `issue_use` count from 1: which use this is of the sealed set, and of the level for
    this issue's targets. `repeats` overrides the default number of blocks a target case.

    Raises:
        PlanRefused: equal hashes, no target case, or every use of the issue's level is spent.
        ValueError: a number is out of its range.
    """
    if base == candidate:
        raise PlanRefused("no change")
    if not targets:
        raise PlanRefused("no target case")
    if issue_use > uses:
        raise PlanRefused("level spent")
    _check(margin=margin, max_targets=max_targets, repeats=repeats, discordance=discordance)
    chosen = _one_a_family(targets, seed)[:max_targets]
    r = repeats or _default_repeats(len(chosen))
    known = {case.family for case in targets}
    kept = [case for case in sealed if case.family not in known] if use <= uses else []
    plan = GatePlan(
        profile=profile,
        base=base,
        candidate=candidate,
        targets=_planned(chosen, r),
        sealed=_planned(_one_a_family(kept, seed), 1),
        critical=_planned(_one_a_family(critical, seed), CRITICAL_RUNS),
        alpha=level_of(uses=uses, use=min(use, uses)),
        target_alpha=level_of(uses=uses, use=issue_use),
        use=use,
        uses=uses,
        margin_asked=margin,
        margin=margin,
        discordance=DEFAULT_DISCORDANCE if discordance is None else discordance,
        looks=(),
        seed=seed,
        max_runs=max_runs,
        max_usd=max_usd,
        max_seconds=max_seconds,
        deadline_s=deadline_s,
        agent_model=agent_model,
    )
    plan, short = _within_budget(plan)
    plan = _with_margin(plan)
    notes = [_target_note(plan), *short, *_sealed_notes(plan, profile)]
    return replace(plan, notes=(*notes, *_other_notes(plan, assumed=discordance is None)))


def _check(
    *, margin: float, max_targets: int, repeats: int | None, discordance: float | None
) -> None:
    if not 0.0 < margin <= 0.5:
        raise ValueError(f"margin: needs to be above 0 and at most .5, got {margin!r}")
    if max_targets < 1 or (repeats is not None and repeats < 1):
        raise ValueError(f"at least one: max_targets={max_targets!r} repeats={repeats!r}")
    if discordance is not None and not 0.0 <= discordance <= 1.0:
        raise ValueError(f"discordance: needs to be 0..1, got {discordance!r}")


def _default_repeats(targets: int) -> int:
    return next((r for up_to, r in _REPEATS if targets <= up_to), 1)


def _one_a_family(cases: Sequence[Case], seed: int) -> list[Case]:
    """One member of each family, drawn by the seed; families in the order of the seed's hash."""
    drawn: dict[str, Case] = {}
    for case in sorted(cases, key=lambda case: _order(seed, case.family, case.id)):
        drawn.setdefault(case.family, case)
    return [drawn[family] for family in sorted(drawn, key=lambda family: _order(seed, family))]


def _order(seed: int, *parts: str) -> bytes:
    text = "|".join((str(seed), *parts))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _planned(cases: Sequence[Case], repeats: int) -> tuple[PlannedCase, ...]:
    return tuple(
        PlannedCase(
            case=case.id, family=case.family, fingerprint=fingerprint(case), repeats=repeats
        )
        for case in cases
    )


def _within_budget(plan: GatePlan) -> tuple[GatePlan, list[str]]:
    """Fewer sealed cases, then fewer repeats, until `max_runs` is enough; and what was cut."""
    notes: list[str] = []
    rest = plan.max_runs - planned_runs(replace(plan, sealed=()))
    fit = max(0, min(len(plan.sealed), rest // 2))
    if fit < len(plan.sealed):
        notes.append(
            f"The budget of {plan.max_runs} runs pays for {fit} of {len(plan.sealed)} sealed cases."
        )
        plan = replace(plan, sealed=plan.sealed[:fit])
    asked = plan.targets[0].repeats
    r = asked
    while r > 1 and planned_runs(plan) > plan.max_runs:
        r -= 1
        plan = replace(plan, targets=tuple(replace(case, repeats=r) for case in plan.targets))
    if r < asked:
        notes.append(
            f"The budget of {plan.max_runs} runs pays for {r} of {asked} repeats a target case."
        )
    if planned_runs(plan) > plan.max_runs:
        notes.append(
            f"This plan cannot finish: it needs {planned_runs(plan)} runs and the budget is "
            f"{plan.max_runs}."
        )
    return plan, notes


def _with_margin(plan: GatePlan) -> GatePlan:
    """The asked margin where the sealed cases can prove it, else the smallest that they can."""
    n = len(plan.sealed)
    margin = plan.margin_asked
    if not provable(n, margin, plan.discordance, plan.alpha, POWER):
        smallest = smallest_provable_margin(n, plan.discordance, plan.alpha, POWER)
        margin = smallest if smallest < 1.0 else margin
    profile = plan.profile if n >= STANDARD_FAMILIES else "starter"
    looks = tuple(
        (cases, round(share * plan.alpha, 12)) for cases, share in look_plan(n, margin, plan.alpha)
    )
    return replace(plan, margin=margin, profile=profile, looks=looks)


def _target_note(plan: GatePlan) -> str:
    level = plan.alpha if plan.target_alpha is None else plan.target_alpha
    repeats = [case.repeats for case in plan.targets]
    best = best_reachable_p(repeats)
    what = f"{_count(len(repeats), 'target case')} x {_count(repeats[0], 'repeat')}"
    sweep = f"a clean sweep gives p {best:.2g}, the level is {level:.2g}"
    if best > level:
        more = enough_repeats(len(repeats), level)
        return (
            f"This plan cannot win: {what}: {sweep}. Enough would be {more} repeats of each case"
            f" without a loss, or {enough_cases(repeats[0], level)} cases."
        )
    return f"L1 (fixes known cases): {what}: {sweep}."


def enough_repeats(cases: int, level: float) -> int:
    """Fewest repeats of so many cases at which a clean sweep reaches the level."""
    return next(r for r in range(1, 1000) if best_reachable_p([r] * cases) <= level)


def enough_cases(repeats: int, level: float) -> int:
    """Fewest cases with so many repeats at which a clean sweep reaches the level."""
    return math.ceil(math.log(level) / math.log(best_reachable_p([repeats])) - 1e-9)


def _sealed_notes(plan: GatePlan, asked: Profile) -> list[str]:
    n = len(plan.sealed)
    notes = []
    if plan.use > plan.uses:
        notes.append(
            f"The sealed set had its {_count(plan.uses, 'use')}: it is left out until new cases"
            " are sealed."
        )
    if asked != plan.profile:
        notes.append(
            f"Profile starter instead of {asked}: {_count(n, 'sealed family', 'sealed families')},"
            f" {STANDARD_FAMILIES} are needed."
        )
    if plan.profile == "starter":
        notes.append(
            'The best verdict is inconclusive, "known cases only": only a named person\'s override'
            " can apply the edit."
        )
    notes.append(_margin_note(plan))
    if plan.margin > _CONSENT_MARGIN and n:
        notes.append(
            f"The margin is above {_CONSENT_MARGIN:.2f}: approving this plan is consent to that."
        )
    return notes


def _margin_note(plan: GatePlan) -> str:
    n = len(plan.sealed)
    if n == 0:
        return "L2 (does no harm): no sealed case, so no margin can be proven."
    given = (
        f"at power {POWER:.2f} in one reading, with {plan.discordance:.0%} of cases discordant"
        f" and level {plan.alpha:.2g}"
    )
    can = f"L2 (does no harm): {_count(n, 'sealed case')} can prove"
    if not provable(n, plan.margin, plan.discordance, plan.alpha, POWER):
        return f"{can} no margin up to .50 {given}."
    note = f"{can} a margin of {plan.margin:.2f} {given}"
    if plan.margin == plan.margin_asked:
        return f"{note}, as asked."
    return f"{note}; {plan.margin_asked:.2f} was asked{_needed(plan)}."


def _needed(plan: GatePlan) -> str:
    limit = 300  # beyond it the answer takes seconds and helps nobody
    n = required_cases(plan.margin_asked, plan.discordance, plan.alpha, POWER, limit=limit)
    return f" and needs {n} cases" if n else f" and needs more than {limit} cases"


def _other_notes(plan: GatePlan, *, assumed: bool) -> list[str]:
    notes = []
    if assumed and plan.sealed:
        notes.append(
            f"{plan.discordance:.0%} discordant cases is an assumption: no stored baseline runs."
        )
    notes.append("G (guards): no case has ten stored baseline runs yet, so none is protected.")
    if plan.critical:
        notes.append(
            f"{_count(len(plan.critical), 'critical case')}: {CRITICAL_RUNS} clean runs of the"
            " candidate each; that only bounds a failure rate below about 26 %."
        )
    if plan.profile == "strict":
        notes.append(
            "Strict asks for L3 (generalises): no sealed case is marked as of this issue, so"
            " this plan cannot be accepted without a person's override."
        )
    runs = planned_runs(plan)
    return [*notes, f"At most {runs} runs if nothing has to be repeated; fewer with early stops."]


def _count(n: int, one: str, many: str | None = None) -> str:
    return f"{n} {one if n == 1 else many or one + 's'}"
