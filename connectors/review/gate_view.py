"""The gate's plan and its report as tables and facts of a card. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from connectors.review.clean import one_line
from contracts.gate import Claim, ClaimName, ClaimState, GatePlan, GateReport, PlannedCase


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One labelled sentence."""

    label: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GateTable:
    """What the gate will do, or what it found: cells as text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


_STATES: dict[ClaimState, str] = {
    "held": "holds", "not_held": "DOES NOT HOLD", "unknown": "unknown", "not_asked": "not asked",
}  # fmt: skip
_MEANING: dict[ClaimName, str] = {
    "L1": "the target cases pass more often", "L2": "sealed cases are not harmed beyond the margin",
    "G": "protected cases keep passing", "K": "cost per passing run stays within the margin",
    "L3": "no critical case gets worse",
}  # fmt: skip


def plan_table(plan: GatePlan) -> GateTable:
    """One row per group of cases that the gate will run."""
    rows: list[tuple[str, Sequence[PlannedCase], ClaimName]] = [
        ("target", plan.targets, "L1"),
        ("sealed", plan.sealed, "L2"),
    ]
    if plan.critical:
        rows.append(("critical", plan.critical, "L3"))
    cells = [
        (name, str(len(cases)), _repeats(cases), _MEANING[claim] + f" ({claim})")
        for name, cases, claim in rows
    ]
    if plan.guards:
        cells.append(("guard", str(len(plan.guards)), "candidate", _MEANING["G"] + " (G)"))
    return GateTable(
        title="Gate plan (runs after your yes)",
        columns=("cases", "how many", "runs an arm", "what they prove"),
        rows=tuple(cells),
    )


def plan_facts(plan: GatePlan, *, sealed_shown: bool) -> tuple[Fact, ...]:
    """What the plan spends, and what it can and cannot prove."""
    facts = [
        Fact(label="runs", text=f"at most {planned_runs(plan)}, stopped early where it is clear"),
        Fact(
            label="limits",
            text=f"{plan.max_runs} runs, {usd(plan.max_usd)}, {plan.max_seconds:g} s, "
            f"{plan.deadline_s:g} s a run",
        ),
        Fact(label="level", text=_level(plan)),
        Fact(label="harm", text=_margin(plan)),
        Fact(
            label="cost",
            text=f"a rise per passing run above {plan.cost_margin:.0%} must be excluded",
        ),
        Fact(label="sealed cases", text=_sealed(sealed_shown)),
        Fact(label="seed", text=f"{plan.seed}; base and candidate run in random order"),
    ]
    if plan.agent_model:
        facts.append(Fact(label="agent model", text=_line(plan.agent_model)))
    facts += [Fact(label="note", text=_line(note)) for note in plan.notes]
    return tuple(facts)


def report_table(plan: GatePlan | None, report: GateReport) -> GateTable:
    """One row per group of cases that was run, with the claim that it decides."""
    before, after, runs = report.target_passes
    rows = [
        (
            "target",
            _grid(plan.targets) if plan else f"{runs} runs",
            _share(before, runs), _share(after, runs),
            _p_value(_claim(report, "L1")), _state(report, "L1"),
        ),
        _sealed_row(report),
    ]  # fmt: skip
    for name, claim in (("critical", "L3"), ("guard", "G")):
        if (found := _claim(report, claim)) and found.state != "not_asked":
            rows.append((name, "", "", "", _line(found.detail), _state(report, claim)))
    return GateTable(
        title=f"Gate: {report.verdict}",
        columns=("cases", "cases x runs", "before", "after", "difference", "claim"),
        rows=tuple(rows),
    )


def report_facts(report: GateReport, *, sealed_shown: bool) -> tuple[Fact, ...]:
    """The verdict, each claim in words, and every case that got worse."""
    facts = [Fact(label="verdict", text=f"{report.verdict}: {_line(report.reason)}")]
    facts += [
        Fact(label=claim.name, text=f"{_STATES[claim.state]}: {_line(claim.detail)}")
        for claim in report.claims
    ]
    worse = ", ".join(_line(name) for name in report.worse) or "none"
    facts.append(
        Fact(label="worse", text=f"cases that pass less often, sealed ones by fingerprint: {worse}")
    )
    facts.append(Fact(label="runs", text=f"{report.runs} of {report.planned_runs} planned"))
    facts.append(Fact(label="sealed cases", text=_sealed(sealed_shown)))
    if report.needed:
        facts.append(Fact(label="needed", text=_line(report.needed)))
    facts += [Fact(label="note", text=_line(note)) for note in report.notes]
    return tuple(facts)


def cost_facts(report: GateReport) -> tuple[Fact, ...]:
    """What the edit does to the cost of a passing run, and what the gate spent."""
    if report.cost_ratio is None:
        ratio = "unknown: some run reported no cost"
    else:
        estimate, bound = report.cost_ratio
        ratio = f"{estimate:.2f} times the cost of a passing run before, at most {bound:.2f}"
    return (
        Fact(label="cost", text=ratio),
        Fact(label="spent by the gate", text=usd(report.spent_usd)),
    )


def planned_runs(plan: GatePlan) -> int:
    """Single runs of both arms at most; repeats of missing ones are within `max_runs`."""
    paired = (*plan.targets, *plan.sealed, *plan.critical)
    return min(plan.max_runs, 2 * sum(case.repeats for case in paired) + len(plan.guards))


def usd(amount: float | None) -> str:
    """An amount; None is unknown, never zero."""
    return "cost unknown" if amount is None else f"${amount:,.2f}"


def _line(text: str) -> str:
    return one_line(text, 500)


def _level(plan: GatePlan) -> str:
    fix = plan.alpha if plan.target_alpha is None else plan.target_alpha
    return f"use {plan.use} of {plan.uses}: {fix:.3g} for L1, {plan.alpha:.3g} for L2"


def _margin(plan: GatePlan) -> str:
    if not plan.sealed:
        return "no sealed case: no margin can be proven"
    asked = "as asked" if plan.margin == plan.margin_asked else f"{plan.margin_asked:.2f} was asked"
    return f"a loss above {plan.margin:.2f} must be excluded ({asked})"


def _sealed(shown: bool) -> str:
    if shown:
        return "opened for this card, and retired from the sealed set"
    return "by count and fingerprint only; nobody who drafts has seen them"


def _repeats(cases: Sequence[PlannedCase]) -> str:
    found = sorted({case.repeats for case in cases})
    return " to ".join(str(n) for n in dict.fromkeys((found[0], found[-1]))) if found else "0"


def _grid(cases: Sequence[PlannedCase]) -> str:
    return f"{len(cases)} x {_repeats(cases)}"


def _share(passes: int, runs: int) -> str:
    return f"{passes / runs:.2f}" if runs else "not run"


def _sealed_row(report: GateReport) -> tuple[str, ...]:
    better, worse, count = report.sealed
    if not count:
        return ("sealed", "0", "not run", "not run", "not run", _state(report, "L2"))
    change = f"{(better - worse) / count:+.2f}"
    if report.sealed_interval is not None:
        low, high = report.sealed_interval
        change += f" [{low:+.2f}, {high:+.2f}]"
    passes = report.sealed_passes
    return (
        "sealed", f"{count} x 1", _share(passes[0], count), _share(passes[1], count),
        f"{change}, {better} better, {worse} worse", _state(report, "L2"),
    )  # fmt: skip


def _claim(report: GateReport, name: str) -> Claim | None:
    return next((claim for claim in report.claims if claim.name == name), None)


def _state(report: GateReport, name: str) -> str:
    claim = _claim(report, name)
    return f"{name} {_STATES[claim.state]}" if claim else f"{name} not asked"


def _p_value(claim: Claim | None) -> str:
    if claim is None or claim.p is None:
        return "no p value"
    return "exact p < .001" if claim.p < 0.001 else f"exact p {claim.p:.3f}"
