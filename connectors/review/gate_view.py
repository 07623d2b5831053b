"""The gate's plan and its report as tables and facts of a card. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from connectors.review.clean import one_line
from contracts.gate import (
    CaseState,
    Claim,
    ClaimName,
    ClaimState,
    GatePlan,
    GateReport,
    PlannedCase,
)


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
    "held": "yes", "not_held": "NO", "unknown": "unknown", "not_asked": "not asked",
}  # fmt: skip
_CLAIMS: dict[ClaimName, str] = {
    "L1": "target: fixed?", "L2": "sealed: no harm?", "G": "guards: kept?", "K": "cost: kept?",
    "L3": "same issue: fixed?", "LK": "these sealed: no harm?",
}  # fmt: skip
_MEANING: dict[ClaimName, str] = {
    "L1": "the target cases pass more often", "L2": "sealed cases are not harmed beyond the margin",
    "G": "none of these fails, or passes less often than before",
    "K": "cost per passing run stays within the margin",
    "L3": "sealed cases of the same issue pass more often",
    "LK": "these very sealed cases are not harmed, in repeated runs",
}  # fmt: skip
_METHOD = (
    "L1 exact stratified test of fresh runs of both; L2 exact test of non-inferiority (Tango's "
    "score, Berger and Boos), interval for display only; guards Fisher and Holm; cost jackknife, "
    "95 %"
)
_MOST_NAMES = 5


def plan_table(plan: GatePlan) -> GateTable:
    """One row per group of cases that the gate will run."""
    rows: list[tuple[str, Sequence[PlannedCase], ClaimName]] = [
        ("target", plan.targets, "L1"),
        ("sealed", plan.sealed, "L2"),
    ]
    issue = tuple(case for case in plan.sealed if case.of_issue)
    if issue and plan.profile == "strict":
        rows.append(("sealed of this issue", issue, "L3"))
    if plan.critical:
        rows.append(("critical", plan.critical, "G"))
    if plan.guards:
        rows.append(("guard", plan.guards, "G"))
    cells = [
        (name, str(len(cases)), _repeats(cases), _MEANING[claim] + f" ({claim})")
        for name, cases, claim in rows
        if cases or claim in ("L1", "L2")
    ]
    protected = sum(case.protected for case in (*plan.targets, *plan.sealed))
    if protected:
        said = f"{_MEANING['G']} (G); run again only where the edit fails one"
        cells.append(("protected among them", str(protected), "as above", said))
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
    """What a person reads in ten seconds: one row a question, with its answer at the end."""
    rows = [
        _target_row(plan, report),
        _sealed_row(plan, report),
        *_more_rows(report),
        _cost_row(plan, report),
        *_latency_row(report),
    ]
    return GateTable(
        title=f"Gate: {report.verdict} ({_line(report.reason)})",
        columns=("question", "size", "before", "after", "what that shows", "answer"),
        rows=tuple(rows),
    )


def report_facts(
    report: GateReport, *, sealed_shown: bool, plan: GatePlan | None = None
) -> tuple[Fact, ...]:
    """The verdict, what was reached in words, every case that got worse, and what is not known."""
    facts = [Fact(label="verdict", text=f"{report.verdict}: {_line(report.reason)}")]
    facts += [Fact(label="shown", text=_line(said)) for said in report.in_words]
    facts.append(Fact(label="worse", text=_worse(plan, report)))
    if report.needed:
        facts.append(Fact(label="needed", text=_line(report.needed)))
    facts += [Fact(label="not tested", text=_line(said)) for said in report.not_tested]
    facts += [
        Fact(
            label=claim.name,
            text=f"{_CLAIMS[claim.name]} {_STATES[claim.state]}; {_line(claim.detail)}",
        )
        for claim in report.claims
        if claim.state != "not_asked" or not report.in_words
    ]
    facts.append(Fact(label="sealed cases", text=_sealed(sealed_shown)))
    facts += [Fact(label="note", text=_line(note)) for note in report.notes]
    seed = "" if plan is None else f"; seed {plan.seed}"
    facts.append(Fact(label="method", text=f"{_METHOD}{seed}"))
    return tuple(facts)


def cost_facts(report: GateReport) -> tuple[Fact, ...]:
    """What the edit does to the cost of a passing run, and what the gate itself took."""
    before, after = report.cost_per_pass
    if report.cost_ratio is None:
        bound = next((claim.detail for claim in report.claims if claim.name == "K"), "")
        ratio = _line(bound) or "unknown: some run reported no cost"
    else:
        estimate, most = report.cost_ratio
        ratio = f"{estimate:.2f} times the cost of a passing run before, at most {most:.2f}"
    facts = [Fact(label="cost", text=ratio)]
    if before is not None or after is not None:
        shown = f"{_small(before)} before, {_small(after)} after"
        facts.append(Fact(label="a passing run", text=shown))
    seconds = f", {report.spent_seconds:,.0f} s of the agent" if report.spent_seconds else ""
    took = f"{report.runs} of {report.planned_runs} planned runs, {usd(report.spent_usd)}{seconds}"
    facts.append(Fact(label="the gate itself", text=took))
    return tuple(facts)


def planned_runs(plan: GatePlan) -> int:
    """Single runs at most, before guards; repeats of missing ones are within `max_runs`."""
    # Where sealed cases run in rounds, their repeats are the rounds.
    paired = sum(case.repeats for case in (*plan.targets, *plan.sealed))
    alone = sum(case.repeats for case in (*plan.critical, *plan.guards))
    return min(plan.max_runs, 2 * paired + alone)


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
    return f"{passes} of {runs}" if runs else "not run"


def _target_row(plan: GatePlan | None, report: GateReport) -> tuple[str, ...]:
    before, after, runs = report.target_passes
    return (
        _CLAIMS["L1"], _grid(plan.targets) if plan else f"{runs} runs",
        _share(before, runs), _share(after, runs),
        _p_value(_claim(report, "L1")), _state(report, "L1"),
    )  # fmt: skip


def _sealed_row(plan: GatePlan | None, report: GateReport) -> tuple[str, ...]:
    better, worse, count = report.sealed
    if not count:
        planned = str(len(plan.sealed)) if plan else "0"
        return (_CLAIMS["L2"], planned, "not run", "not run", "nothing", _state(report, "L2"))
    change = f"{(better - worse) / count:+.2f}"
    if report.sealed_interval is not None:
        low, high = report.sealed_interval
        change += f" [{low:+.2f}, {high:+.2f}]"
    passes = report.sealed_passes
    excluded = (
        f"; harm above {report.proven_margin:.2f} excluded" if report.proven_margin < 1.0 else ""
    )
    return (
        _CLAIMS["L2"], f"{count} x 1", _share(passes[0], count), _share(passes[1], count),
        f"{better} better, {worse} worse: {change}{excluded}", _state(report, "L2"),
    )  # fmt: skip


def _more_rows(report: GateReport) -> list[tuple[str, ...]]:
    """Cases that were tested one by one, and claims that only some plans make."""
    rows: list[tuple[str, ...]] = []
    for name, phases in (("guard", ("guard", "sealed")), ("critical", ("critical",))):
        seen = [
            case
            for case in report.cases
            if case.phase in phases and (name != "guard" or case.state in _TESTED)
        ]
        if seen:
            bad = [case for case in seen if case.state in ("confirmed", "failed")]
            shown = "none got worse" if not bad else f"worse: {_names(c.name for c in bad)}"
            label = _CLAIMS["G"] if name == "guard" else "critical: no failure?"
            rows.append(
                (label, str(len(seen)), _sum(c.before for c in seen), _sum(c.after for c in seen),
                 shown, _state(report, "G"))
            )  # fmt: skip
    more: tuple[ClaimName, ...] = ("L3", "LK")
    for claim in more:
        found = _claim(report, claim)
        if found is not None and found.state != "not_asked":
            rows.append((_CLAIMS[claim], "", "", "", _line(found.detail), _state(report, claim)))
    return rows


_TESTED: tuple[CaseState, ...] = ("signal", "cleared", "confirmed", "passed", "missing")


def _sum(counts: Iterable[tuple[int, int] | None]) -> str:
    known = [count for count in counts if count is not None]
    return _share(sum(p for p, _ in known), sum(n for _, n in known))


def _cost_row(plan: GatePlan | None, report: GateReport) -> tuple[str, ...]:
    before, after = report.cost_per_pass
    if report.cost_ratio is None:
        shown = "no bound can be given"
    else:
        estimate, most = report.cost_ratio
        allowed = "" if plan is None else f", allowed x {1 + plan.cost_margin:.2f}"
        shown = f"x {estimate:.2f}, at most x {most:.2f}{allowed}"
    return (
        _CLAIMS["K"], "a pass", _small(before), _small(after), shown, _state(report, "K")
    )  # fmt: skip


def _latency_row(report: GateReport) -> list[tuple[str, ...]]:
    if report.latency_p95 is None:
        return []
    before, after = report.latency_p95
    ratio = f"x {after / before:.2f}" if before > 0 else ""
    return [("latency", "p95", f"{before:.2f} s", f"{after:.2f} s", ratio, "not asked")]


def _small(amount: float | None) -> str:
    if amount is None:
        return "unknown"
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.4g}"


def _worse(plan: GatePlan | None, report: GateReport) -> str:
    """Every case that got worse: known ones by name, sealed ones by count and fingerprint."""
    known = {case.case for case in (*plan.targets, *plan.critical, *plan.guards)} if plan else set()
    named = [name for name in report.worse if plan is None or name in known]
    sealed = [name[:12] for name in report.worse if plan is not None and name not in known]
    if plan is None:
        return _names(named) if named else "no case passes less often"
    said = f"known cases: {_names(named) if named else 'none'}"
    return f"{said}; sealed cases: {f'{len(sealed)} ({_names(sealed)})' if sealed else 'none'}"


def _names(names: Iterable[str]) -> str:
    shown = [_line(name) for name in names]
    more = len(shown) - _MOST_NAMES
    return ", ".join(shown[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _claim(report: GateReport, name: ClaimName) -> Claim | None:
    return next((claim for claim in report.claims if claim.name == name), None)


def _state(report: GateReport, name: ClaimName) -> str:
    claim = _claim(report, name)
    return f"{_STATES[claim.state] if claim else 'not asked'} ({name})"


def _p_value(claim: Claim | None) -> str:
    if claim is None or claim.p is None:
        return "no p value"
    return "exact p < .001" if claim.p < 0.001 else f"exact p {claim.p:.3f}"
