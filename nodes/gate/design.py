"""Make the gate's plan: which cases run how often, at which level, and what that can prove."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final, Literal

from contracts.gate import Case, CaseId, Exemption, GatePlan, Phase, PlannedCase, Quarantined
from contracts.harness import Revision
from memory.case_runs import Passes
from memory.cases import fingerprint
from nodes.gate.flaky import DEFAULT_DISCORDANCE, protected
from nodes.gate.flaky import discordance as measured_discordance
from nodes.gate.plan_notes import Asked, notes_of_plan
from nodes.gate.sizes import (
    POWER,
    STANDARD_FAMILIES,
    best_reachable_p,
    enough_cases,
    enough_repeats,
    l2_repeats,
    level_of,
    plan_hash,
    planned_runs,
    smallest_margin,
)
from nodes.gate.stats import look_plan
from nodes.insights.signature import matches

__all__ = [
    "CRITICAL_RUNS", "DEFAULT_DISCORDANCE", "POWER", "STANDARD_FAMILIES", "PlanRefused", "Profile",
    "Purpose", "best_reachable_p", "design_plan", "enough_cases", "enough_repeats", "level_of",
    "plan_hash", "planned_runs",
]  # fmt: skip

Profile = Literal["starter", "standard", "strict"]
Purpose = Literal["fix", "simplify"]

CRITICAL_RUNS: Final = 10
_REPEATS = ((3, 8), (10, 5), (30, 3))  # up to so many targets, so many repeats; 1 above
_NO_RUNS: Mapping[str, Passes] = MappingProxyType({})
_NONE_OUT: Mapping[CaseId, Quarantined] = MappingProxyType({})


class PlanRefused(Exception):
    """There is nothing to test, or nothing that could come of it.

    `reason` is "no change", "no target case", "no sealed case", "not smaller" or "level spent".
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"plan refused: {reason}")
        self.reason = reason


def design_plan(
    *,
    base: Revision,
    candidate: Revision,
    targets: Sequence[Case],
    sealed: Sequence[Case],
    critical: Sequence[Case] = (),
    guards: Sequence[Case] = (),
    purpose: Purpose = "fix",
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
    runs: Mapping[str, Passes] = _NO_RUNS,
    issue: str | None = None,
    repeats: int | None = None,
    sealed_repeats: int = 1,
    listed_rounds: int = 0,
    cost_margin: float = 0.25,
    tokens: tuple[int, int] | None = None,
    exempt: Sequence[Exemption] = (),
    quarantined: Mapping[CaseId, Quarantined] = _NONE_OUT,
    agent_model: str | None = None,
    judge_model: str | None = None,
) -> GatePlan:
    """The plan, frozen before any run; what it cannot prove stands in its notes.

    Args:
        base: the baseline; for `simplify` the revision at the start of the epoch.
        candidate: what is tested.
        targets: failing cases of the finding; `simplify` asks for none and leaves them out.
        sealed: cases that nobody who drafts has seen. Siblings of a target are left out.
        critical: cases that may never fail.
        guards: the operator's guards; only those that pass stably in `runs` are planned.
        purpose: `simplify` is an edit that only makes the harness smaller: L1 is not asked.
        profile: `starter` instead, whatever is asked, below thirty sealed families.
        margin: harm that must be excluded, a share of runs above 0 and at most .5.
        uses: how often one sealed set may be used.
        use: which use of the sealed set this is, from 1.
        issue_use: which use of the level for this issue's targets, from 1.
        max_targets: families of targets that run at most, drawn by `seed`.
        max_runs: single runs of an arm; sealed cases and repeats are cut until they are enough.
        max_usd: money that the gate may spend.
        max_seconds: running time of the gate.
        deadline_s: seconds that one run may take.
        seed: orders cases, draws members of families and who runs first.
        discordance: assumed share of cases that differ between two runs; None: measured over
            `runs` of the sealed cases, else .10.
        runs: stored baseline runs by fingerprint, of exactly the base revision.
        issue: signature of the finding: sealed cases that once failed so are what L3 is about.
        repeats: blocks a target case; None: by the number of targets.
        sealed_repeats: blocks a sealed case; above 1 the e-process decides L2.
        listed_rounds: rounds over the sealed cases of a starter, for LK; 0 and 1: not asked.
        cost_margin: rise of the cost per passing run that must be excluded.
        tokens: of the edited files before and after, for `simplify`; None is unknown.
        exempt: critical cases that may fail where the baseline fails too.
        quarantined: cases left out in both arms; more than a quarter makes the gate invalid.
        agent_model: of the agent, for the record.
        judge_model: of `judge` assertions, pinned.

    Raises:
        PlanRefused: equal hashes, no case to make the claim with, no fewer tokens, or every use
            of the level is spent.
        ValueError: a number is out of its range.
    """
    _check(
        margin=margin, cost_margin=cost_margin, discordance=discordance,
        counts={
            "max_targets": max_targets, "repeats": repeats or 1, "sealed_repeats": sealed_repeats,
            "listed_rounds": listed_rounds + 1,
        },
    )  # fmt: skip
    if base == candidate:
        raise PlanRefused("no change")
    fix = purpose == "fix"
    drawn = _one_a_family(targets, seed) if fix else []
    chosen, out = _without(drawn, quarantined, "target", most=max_targets)
    known = {case.family for case in targets}
    kept = [case for case in sealed if case.family not in known] if use <= uses else []
    unseen, more_out = _without(_one_a_family(kept, seed), quarantined, "sealed")
    _refuse(
        fix, targets=drawn, sealed=sealed, tokens=tokens, spent=(issue_use if fix else use) > uses
    )
    stable = protected(runs)
    own, unstable = _own_guards(guards, (*chosen, *unseen, *critical), stable, quarantined)
    share = discordance
    if share is None:
        share = measured_discordance(runs, [fingerprint(case) for case in unseen])
    planned = GatePlan(
        purpose=purpose, profile=profile, base=base, candidate=candidate,
        targets=_planned(chosen, repeats or _default_repeats(len(chosen)), stable=stable),
        sealed=_planned(unseen, sealed_repeats, stable=stable, issue=issue),
        critical=_planned(_one_a_family(critical, seed), CRITICAL_RUNS),
        guards=_planned(_one_a_family(own, seed), 1, stable=stable),
        alpha=level_of(uses=uses, use=min(use, uses)),
        target_alpha=level_of(uses=uses, use=issue_use) if fix else None,
        use=use, uses=uses, margin_asked=margin, margin=margin,
        discordance=DEFAULT_DISCORDANCE if share is None else share,
        looks=(), cost_margin=cost_margin, seed=seed, max_runs=max_runs, max_usd=max_usd,
        max_seconds=max_seconds, deadline_s=deadline_s, agent_model=agent_model,
        judge_model=judge_model, tokens=tokens, quarantined=(*out, *more_out),
        weak_targets=sum(case.weak for case in chosen),
        exempt=tuple(e for e in exempt if e.case in {case.id for case in critical}),
    )  # fmt: skip
    planned, short = _sized(planned, listed_rounds)
    asked = Asked(
        profile=profile, assumed=share is None, given=discordance is not None, runs=len(runs),
        unstable=unstable, listed_rounds=listed_rounds, short=tuple(short),
        exempt=tuple(exempt), issue=issue is not None,
    )  # fmt: skip
    return replace(planned, notes=notes_of_plan(planned, asked))


def _check(
    *, margin: float, cost_margin: float, discordance: float | None, counts: Mapping[str, int]
) -> None:
    if not 0.0 < margin <= 0.5:
        raise ValueError(f"margin: needs to be above 0 and at most .5, got {margin!r}")
    if cost_margin <= 0.0:
        raise ValueError(f"cost_margin: needs to be above 0, got {cost_margin!r}")
    if discordance is not None and not 0.0 <= discordance <= 1.0:
        raise ValueError(f"discordance: needs to be 0..1, got {discordance!r}")
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name}: too small: {dict(counts)!r}")


def _refuse(
    fix: bool,
    *,
    targets: Sequence[Case],
    sealed: Sequence[Case],
    tokens: tuple[int, int] | None,
    spent: bool,
) -> None:
    """Nothing runs for a plan that could not be accepted whatever its runs say."""
    if fix and not targets:
        raise PlanRefused("no target case")
    if not fix and not sealed:
        raise PlanRefused("no sealed case")
    if not fix and tokens is not None and tokens[1] >= tokens[0]:
        raise PlanRefused("not smaller")
    if spent:
        raise PlanRefused("level spent")


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


def _without(
    drawn: Sequence[Case],
    quarantined: Mapping[CaseId, Quarantined],
    phase: Phase,
    *,
    most: int | None = None,
) -> tuple[list[Case], tuple[Quarantined, ...]]:
    """The first `most` drawn cases that are not quarantined, and those passed over on the way."""
    kept: list[Case] = []
    out: list[Quarantined] = []
    for case in drawn:
        if most is not None and len(kept) == most:
            break
        if case.id in quarantined:
            out.append(replace(quarantined[case.id], phase=phase, fingerprint=fingerprint(case)))
        else:
            kept.append(case)
    return kept, tuple(out)


def _own_guards(
    guards: Sequence[Case],
    planned: Sequence[Case],
    stable: frozenset[str],
    quarantined: Mapping[CaseId, Quarantined],
) -> tuple[list[Case], int]:
    """Guards that pass stably and run in no other phase; and how many do not pass stably."""
    elsewhere = {case.id for case in planned}
    own = [case for case in guards if case.id not in elsewhere and case.id not in quarantined]
    kept = [case for case in own if fingerprint(case) in stable]
    return kept, len(own) - len(kept)


def _planned(
    cases: Sequence[Case],
    repeats: int,
    *,
    stable: frozenset[str] = frozenset(),
    issue: str | None = None,
) -> tuple[PlannedCase, ...]:
    return tuple(
        PlannedCase(
            case=case.id, family=case.family, fingerprint=fingerprint(case), repeats=repeats,
            protected=fingerprint(case) in stable,
            of_issue=issue is not None and _is_of(case.issue, issue),
            hidden="sealed" in case.tags and bool(case.tags & {"guard", "critical"}),
        )
        for case in cases
    )  # fmt: skip


def _is_of(known: str | None, issue: str) -> bool:
    """Whether a case once failed as this issue does; two marks of one key are two issues."""
    if known is None:
        return False
    one_key = known.partition("~")[0] == issue.partition("~")[0]
    return matches(known, issue) or (one_key and not ("~" in known and "~" in issue))


def _sized(plan: GatePlan, listed_rounds: int) -> tuple[GatePlan, list[str]]:
    """Cut to the budget, with its margin, looks and rounds; and what was cut."""
    starter = len(plan.sealed) < STANDARD_FAMILIES or plan.profile == "starter"
    rounds = listed_rounds if starter and l2_repeats(plan) == 1 else 0
    notes: list[str] = []
    plan, short = _within_budget(plan)
    if rounds > 1 and plan.sealed:
        each = 2 * len(plan.sealed)
        fit = min(rounds, 1 + max(0, plan.max_runs - planned_runs(plan)) // each)
        if fit < rounds:
            notes.append(f"The budget of {plan.max_runs} runs pays for {fit} of {rounds} rounds.")
        if fit > 1:
            cases = tuple(replace(case, repeats=fit) for case in plan.sealed)
            plan = replace(plan, sealed=cases, listed_rounds=fit)
    return _with_margin(plan), [*notes, *short]


def _within_budget(plan: GatePlan) -> tuple[GatePlan, list[str]]:
    """Fewer sealed cases, then fewer repeats, until `max_runs` is enough; and what was cut."""
    notes: list[str] = []
    rest = plan.max_runs - planned_runs(replace(plan, sealed=()))
    fit = max(0, min(len(plan.sealed), rest // (2 * l2_repeats(plan))))
    if fit < len(plan.sealed):
        notes.append(
            f"The budget of {plan.max_runs} runs pays for {fit} of {len(plan.sealed)} sealed cases."
        )
        plan = replace(plan, sealed=plan.sealed[:fit])
    asked = max((case.repeats for case in plan.targets), default=1)
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
    """The margin that the sealed cases can prove, the profile, and when they are read."""
    n, margin = len(plan.sealed), smallest_margin(plan)
    looks: tuple[tuple[int, float], ...] = ((n, plan.alpha),) if n else ()
    if l2_repeats(plan) == 1:
        looks = tuple(
            (cases, round(share * plan.alpha, 12))
            for cases, share in look_plan(n, margin, plan.alpha)
        )
    profile = plan.profile if n >= STANDARD_FAMILIES else "starter"
    return replace(plan, margin=margin, profile=profile, looks=looks)
