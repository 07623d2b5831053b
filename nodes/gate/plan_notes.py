"""What a plan can and cannot prove, in sentences for the card that asks for a yes."""

from dataclasses import dataclass
from typing import Final

from contracts.gate import Exemption, GatePlan, PlannedCase
from nodes.gate.sizes import (
    MOST_CASES,
    POWER,
    STANDARD_FAMILIES,
    best_reachable_p,
    can_prove,
    enough_cases,
    enough_repeats,
    guarded_cases,
    l2_repeats,
    needed_cases,
    planned_runs,
)

_CONSENT_MARGIN: Final = 0.15
_L3_WINS: Final = "a clean sweep of its sealed cases could not reach the level"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked of the plan and is not in it any more."""

    profile: str
    assumed: bool
    """The share of discordant cases is the default."""
    given: bool
    """It was handed in, not measured over stored runs."""
    runs: int
    """Cases with stored baseline runs."""
    unstable: int
    """Guard cases that are not known to pass stably, and so are not planned."""
    listed_rounds: int
    short: tuple[str, ...]
    """What the budget cut."""
    exempt: tuple[Exemption, ...]
    issue: bool
    """Sealed cases could be told to be of the finding's issue."""


def notes_of_plan(plan: GatePlan, asked: Asked) -> tuple[str, ...]:
    """All notes, in the order in which the gate works."""
    return (
        _first_note(plan),
        *asked.short,
        *_weak_notes(plan),
        *_quarantine_notes(plan),
        *_sealed_notes(plan, asked),
        *_guard_notes(plan, asked),
        *_critical_notes(plan, asked),
        *_strict_notes(plan, asked),
        *_run_notes(plan),
    )


def _first_note(plan: GatePlan) -> str:
    if plan.purpose == "simplify":
        size = "how many tokens is unknown" if plan.tokens is None else _tokens(plan.tokens)
        return f"This edit only makes the harness smaller: {size}. No known case has to be fixed."
    if not plan.targets:
        return "Every target case is quarantined: this gate would be invalid."
    level = plan.alpha if plan.target_alpha is None else plan.target_alpha
    repeats = [case.repeats for case in plan.targets]
    best = best_reachable_p(repeats)
    what = f"{counted(len(repeats), 'target case')} x {counted(repeats[0], 'repeat')}"
    sweep = f"a clean sweep gives p {best:.2g}, the level is {level:.2g}"
    if best > level:
        more = enough_repeats(len(repeats), level)
        return (
            f"This plan cannot win: {what}: {sweep}. Enough would be {more} repeats of each case"
            f" without a loss, or {enough_cases(repeats[0], level)} cases."
        )
    return f"L1 (fixes known cases): {what}: {sweep}."


def _tokens(tokens: tuple[int, int]) -> str:
    return f"{tokens[0]} tokens before, {tokens[1]} after"


def _weak_notes(plan: GatePlan) -> list[str]:
    if not plan.weak_targets:
        return []
    return [
        f"{counted(plan.weak_targets, 'target case')} graded by absence alone: an agent that does"
        " nothing could pass."
    ]


def _quarantine_notes(plan: GatePlan) -> list[str]:
    return [
        f"Left out in both arms: a {each.phase} case (fingerprint {each.fingerprint[:12]}),"
        f" quarantined by {each.owner} until {each.until:%Y-%m-%d}."
        for each in plan.quarantined
    ]


def _sealed_notes(plan: GatePlan, asked: Asked) -> list[str]:
    n = len(plan.sealed)
    notes = []
    if plan.use > plan.uses:
        notes.append(
            f"The sealed set had its {counted(plan.uses, 'use')}: it is left out until new cases"
            " are sealed."
        )
    if asked.profile != plan.profile:
        notes.append(
            f"Profile starter instead of {asked.profile}:"
            f" {counted(n, 'sealed family', 'sealed families')}, {STANDARD_FAMILIES} are needed."
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
    if n:
        notes += _reading_notes(plan, asked)
    return notes


def _margin_note(plan: GatePlan) -> str:
    n, r = len(plan.sealed), l2_repeats(plan)
    if n == 0:
        return "L2 (does no harm): no sealed case, so no margin can be proven."
    given = (
        f"at power {POWER:.2f} in one reading, with {plan.discordance:.0%} of cases discordant"
        f" and level {plan.alpha:.2g}"
    )
    often = f" x {counted(r, 'repeat')}" if r > 1 else ""
    can = f"L2 (does no harm): {counted(n, 'sealed case')}{often} can prove"
    if not can_prove(plan):
        return f"{can} no margin up to .50 {given}."
    note = f"{can} a margin of {plan.margin:.2f} {given}"
    if plan.margin == plan.margin_asked:
        return f"{note}, as asked."
    return f"{note}; {plan.margin_asked:.2f} was asked{_needed(plan)}."


def _needed(plan: GatePlan) -> str:
    n = needed_cases(plan, plan.discordance)
    once = " run once" if l2_repeats(plan) > 1 else ""
    return f" and needs {n} cases{once}" if n else f" and needs more than {MOST_CASES} cases"


def _reading_notes(plan: GatePlan, asked: Asked) -> list[str]:
    notes = []
    if asked.assumed:
        notes.append(
            f"{plan.discordance:.0%} discordant cases is an assumption: no stored baseline runs."
        )
    elif not asked.given:
        notes.append(
            f"{plan.discordance:.0%} discordant cases is an estimate from stored baseline runs."
        )
    if l2_repeats(plan) > 1:
        notes.append(
            "Repeated sealed runs are read by the e-process, in the plan's order; harm and cost"
            " once, at the end."
        )
    if plan.listed_rounds:
        notes.append(
            f"LK (no harm on the listed cases): {plan.listed_rounds} rounds over"
            f" {counted(len(plan.sealed), 'sealed case')}; it says nothing about other cases."
        )
    elif asked.listed_rounds > 1:
        why = "sealed cases are repeated" if plan.profile == "starter" else "the profile is not"
        why = why if plan.profile == "starter" else f"{why} starter"
        notes.append(f"Rounds over the listed cases (LK) are left out: {why}.")
    return notes


def _guard_notes(plan: GatePlan, asked: Asked) -> list[str]:
    stable = sum(case.protected for case in guarded_cases(plan))
    if stable:
        notes = [
            f"G (guards): {counted(stable, 'case passes', 'cases pass')} stably and must stay so;"
            " a failure is tested again, 3 runs a signal and 20 a case that stays."
        ]
    else:
        notes = ["G (guards): no case has ten stored baseline runs yet, so none is protected."]
        if asked.runs:
            notes = ["G (guards): no case passes nine of ten stored baseline runs: none protected."]
    if asked.unstable:
        notes.append(
            f"{counted(asked.unstable, 'guard case')} left out: not known to pass nine of ten"
            " stored baseline runs."
        )
    return notes


def _critical_notes(plan: GatePlan, asked: Asked) -> list[str]:
    notes = []
    if plan.critical:
        runs = plan.critical[0].repeats
        notes.append(
            f"{counted(len(plan.critical), 'critical case')}: {runs} clean runs of the"
            " candidate each; that only bounds a failure rate below about 26 %."
        )
    names = {case.case: name_of(case) for case in plan.critical}
    notes += [
        f"{names[each.case]} may fail where it fails without the edit too, says {each.by}:"
        f" {each.why}"
        for each in plan.exempt
    ]
    if len(asked.exempt) > len(plan.exempt):
        unknown = len(asked.exempt) - len(plan.exempt)
        notes.append(f"{counted(unknown, 'exemption')} of no critical case: without effect.")
    return notes


def name_of(case: PlannedCase) -> str:
    """How sentences call a guard or critical case."""
    return f"fingerprint {case.fingerprint[:12]}" if case.hidden else case.case


def _strict_notes(plan: GatePlan, asked: Asked) -> list[str]:
    if plan.profile != "strict":
        return []
    mine = [case.repeats for case in plan.sealed if case.of_issue]
    if not mine:
        known = "" if asked.issue else " (the issue is unknown)"
        return [
            f"Strict asks for L3 (generalises): no sealed case is of this issue{known}, so this"
            " plan cannot be accepted without a person's override."
        ]
    note = f"L3 (generalises): {counted(len(mine), 'sealed case')} of this issue"
    if best_reachable_p(mine) > plan.alpha:
        return [f"{note}: {_L3_WINS}, so this plan cannot be accepted."]
    return [f"{note}, level {plan.alpha:.2g}."]


def _run_notes(plan: GatePlan) -> list[str]:
    runs = planned_runs(plan)
    return [f"At most {runs} runs if nothing has to be repeated; fewer with early stops."]


def counted(n: int, one: str, many: str | None = None) -> str:
    """A number with its noun."""
    return f"{n} {one if n == 1 else many or one + 's'}"
