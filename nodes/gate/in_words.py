"""The report for somebody who is no statistician: what was reached, and what was not tested."""

from nodes.gate.critical import CriticalCase
from nodes.gate.figures import target_passes
from nodes.gate.guards import Guarded
from nodes.gate.plan_notes import counted
from nodes.gate.standing import Standing

_NAMED = 3  # cases that are named one by one; the table has them all
_LONGEST_NAME = 40


def in_words(standing: Standing, proven_margin: float) -> tuple[str, ...]:
    """What was reached, in short sentences; where nothing was, what is not known.

    `proven_margin` is the smallest harm that the sealed cases exclude; 1.0: none.
    """
    return (
        *_fixed(standing),
        *_unseen(standing, proven_margin),
        *_spread(standing),
        *_critical(standing),
        *_guards(standing),
        *_cost(standing),
        *_listed(standing),
    )


def _fixed(standing: Standing) -> list[str]:
    plan, fix = standing.tally.plan, standing.fixed
    if fix.state == "not_asked":
        if plan.tokens is None:
            return ["How many tokens the files have is not known, so nobody knows if they shrank."]
        return [f"The edited files have {plan.tokens[1]} tokens; before they had {plan.tokens[0]}."]
    before, after, runs = target_passes(standing.tally)
    many = len(plan.targets)
    which = "the known case" if many == 1 else f"the {many} known cases"
    passed = f"{before} of {runs} runs passed before, {after} of {runs} after"
    if not runs:
        return [f"Nothing was run yet, so nobody knows whether it fixes {which}."]
    if fix.state == "held":
        unsure = "" if fix.survives else "; missing runs leave this open"
        return [f"Fixes {which}: {passed}{unsure}."]
    if fix.state == "not_held" and not fix.reproduced:
        stands = "passes" if many == 1 else "pass"
        return [f"{which.capitalize()} {stands} without the edit too, so there was nothing to fix."]
    said = "Not shown to fix" if fix.state == "not_held" else "Not known yet if it fixes"
    return [f"{said} {which}: {passed}."]


def _unseen(standing: Standing, margin: float) -> list[str]:
    plan, look = standing.tally.plan, standing.last
    if not plan.sealed:
        return ["No unseen case was tested: what the edit does elsewhere is not known."]
    if look is None or not look.n:
        return ["Unseen cases were not run, so nobody knows whether it harms anything else."]
    seen = f"{look.n} unseen {'case' if look.n == 1 else 'cases'}"
    if look.harmful:
        return [f"It does harm: of {seen} {look.c} got worse and {look.b} better."]
    better = f", {look.b} got better" if look.b else ""
    if plan.profile != "starter" and standing.unharmed.shown and margin < 1.0:
        worse = f"{look.c} got worse" if look.c else "none got worse"
        return [f"On {seen} any harm is below {points(margin)}: {worse}{better}."]
    change = f"Of {seen} {look.c} got worse" if look.c else f"None of {seen} got worse"
    if margin >= 1.0:
        return [f"{change}{better}; no harm elsewhere can be excluded."]
    return [f"{change}{better}; only harm above {points(margin)} can be excluded."]


def points(share: float) -> str:
    """A share in points of a hundred: "4.9 points"."""
    number = f"{100.0 * share:.1f}".removesuffix(".0")
    return f"{number} {'point' if number == '1' else 'points'}"


def _spread(standing: Standing) -> list[str]:
    plan, wide = standing.tally.plan, standing.unharmed.spread
    before, after = wide.passes
    passed = f"{before} of {wide.runs} runs passed before, {after} after"
    held = wide.state(plan.alpha) == "held"
    if held:
        return [f"It also helps on unseen cases of this issue: {passed}."]
    if plan.profile != "strict":
        return []
    if not wide.runs:
        return ["Whether it helps on unseen cases of this issue is not known: none was run."]
    return [f"Not shown to help on unseen cases of this issue: {passed}."]


def _critical(standing: Standing) -> list[str]:
    cases = standing.critical.cases
    said = [_blocking(each) for each in standing.critical.failed]
    said += [
        f"{short(each.case.fingerprint, each.case.case, secret=each.case.hidden)} fails with and"
        " without the edit; a named person lets it pass."
        for each in cases
        if each.state == "exempt"
    ]
    clean = [each for each in cases if each.state == "passed"]
    if clean and len(clean) == len(cases):
        one = len(clean) == 1
        which = "The critical case" if one else f"Each of {len(clean)} critical cases"
        said.append(f"{which} passed {clean[0].after[1]} runs without a failure.")
    return said


def _blocking(each: CriticalCase) -> str:
    name = short(each.case.fingerprint, each.case.case, secret=each.case.hidden)
    failed = f"Critical case {name} failed {each.after[1] - each.after[0]} of {each.after[1]} runs"
    if each.before is None:
        return f"{failed}; without the edit it was not run."
    return f"{failed}, without the edit {each.before[1] - each.before[0]} of {each.before[1]}."


def short(fingerprint: str, name: str, *, secret: bool) -> str:
    """A case's name, cut; of a sealed one the start of its fingerprint."""
    if secret:
        return f"fingerprint {fingerprint[:12]}"
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _guards(standing: Standing) -> list[str]:
    guards = standing.guards
    if not guards.protected:
        return []
    if guards.confirmed:
        said = [_got_worse(each) for each in guards.confirmed[:_NAMED]]
        more = len(guards.confirmed) - len(said)
        return [*said, f"{more} more guards got worse."] if more else said
    cases = "The protected case" if guards.protected == 1 else f"{guards.protected} protected cases"
    if not standing.guards_ready:
        return []
    if guards.waiting:
        return [f"{cases}: {guards.signals} failed once and could not be tested to the end."]
    if guards.unsure:
        return [f"{cases}: missing runs leave open whether one got worse."]
    tested = sum(each.before is not None for each in guards.cases)
    again = f", {tested} tested again" if tested else ""
    return [f"No guard got worse: {counted(guards.protected, 'protected case')}{again}."]


def _got_worse(each: Guarded) -> str:
    name = short(each.case.fingerprint, each.case.case, secret=each.secret)
    before, runs = each.before or (0, 0)
    return f"A guard got worse: {name}, {before} of {runs} runs before, {each.after[0]} after."


def _cost(standing: Standing) -> list[str]:
    plan, cost = standing.tally.plan, standing.cost
    if plan.sealed and standing.last is None:
        return []
    if cost.ratio is None:
        return [cost.plain]
    allowed = f"{1.0 + plan.cost_margin:.2f} times is allowed"
    about = f"A passing run costs {cost.ratio:.2f} times what it did"
    if cost.upper is None:
        return [f"{about}; too few cases to be sure, {allowed}."]
    if cost.lower is not None:
        return [f"{about}, {cost.lower:.2f} times at least; {allowed}."]
    return [f"{about}, {cost.upper:.2f} times at most; {allowed}."]


def _listed(standing: Standing) -> list[str]:
    seen, many = standing.listed, len(standing.tally.plan.sealed)
    if not seen.asked or not seen.rounds:
        return []
    which = "this unseen case" if many == 1 else f"these {many} unseen cases"
    rounds = counted(seen.rounds, "round")
    if seen.margin < 1.0:
        return [
            f"No drop above {points(seen.margin)} on {which} ({rounds}); it says nothing of others."
        ]
    return [f"After {rounds} no bound on a drop over just {which} can be given."]


def not_tested(standing: Standing) -> tuple[str, ...]:
    """What the gate says nothing about."""
    plan, guards = standing.tally.plan, standing.guards
    said = []
    if plan.sealed and standing.last is None:
        said.append("Unseen cases were not opened, since the gate ended before.")
    if not guards.protected:
        said.append("No case has ten stored baseline runs that pass, so no guard was tested.")
    elif not standing.guards_ready:
        said.append("Guards were not tested, since the gate ended before.")
    if not plan.critical:
        said.append("No case is marked critical.")
    elif not any(each.after[1] for each in standing.critical.cases):
        said.append("Critical cases were not run, since the gate ended before.")
    if plan.weak_targets:
        weak = counted(plan.weak_targets, "known case")
        said.append(f"{weak} only tell that the failure is gone, not that the answer is right.")
    if plan.quarantined:
        said.append(f"{counted(len(plan.quarantined), 'quarantined case')}, left out in both arms.")
    if plan.profile != "strict":
        said.append("Whether it helps on unseen cases of this issue was not asked.")
    said.append("How fast it is: shown, not tested. Live traffic: only after it is applied.")
    return tuple(said)
