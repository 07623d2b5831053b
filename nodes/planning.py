"""What a plan is made of: the cases as they are now, the state of the sealed set, the settings."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time

from sqlalchemy import Connection

from contracts.gate import (
    Case,
    CaseId,
    CaseTag,
    Exemption,
    GatePlan,
    Phase,
    Quarantined,
)
from contracts.json_types import sha256_hex
from contracts.proposals import Proposal
from memory.budget import count_tokens
from memory.case_runs import Passes
from memory.cases import fingerprint
from memory.workspace import Workspace
from nodes.casebook import Casebook, members, read_casebook
from nodes.evolution.shrinking import shrinks
from nodes.gate.conditions import LEAKED, judge_problems, judges_of, seen_by_editor
from nodes.gate.design import design_plan
from nodes.gate.leaks import leaked
from nodes.gate.opening import all_planned, sealed_members
from nodes.gate.sizes import POWER
from nodes.gate.stats import smallest_provable_margin

_PHASES: Mapping[CaseTag, Phase] = {
    "target": "target", "sealed": "sealed", "critical": "critical", "guard": "guard",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Cases and rules of one plan, read at one moment."""

    book: Casebook
    sealed: tuple[Case, ...]
    """Those that may prove something: not leaked, not retired."""
    issue: str
    """Signature of the finding."""
    exempt: tuple[Exemption, ...]
    quarantined: Mapping[CaseId, Quarantined]
    notes: tuple[str, ...]

    @property
    def cases(self) -> Mapping[CaseId, Case]:
        """Every case by its id."""
        return {case.id: case for case in self.book.cases}


def read_inputs(ws: Workspace, proposal: Proposal) -> Inputs:
    """Read the cases, and bring the manifest of the sealed ones up to date first.

    Whatever is sealed enters the manifest; what was used up, or stands in the edit or in what its
    author was shown, is retired there, and only trains from now on.

    Raises:
        ConfigError: a case file cannot be used.
    """
    _retire_used_up(ws)
    book = read_casebook(ws, proposal.finding_id)
    sealed = book.tagged("sealed")
    gone = leaked(sealed, seen_by_editor(ws, proposal))
    with ws.ledger.db.write() as tx:
        ws.ledger.sealed.seal(tx, members(sealed))
        ws.ledger.sealed.retire(tx, [fingerprint(case) for case in gone], LEAKED)
    leaks = tuple(
        f"A sealed case (fingerprint {fingerprint(case)[:12]}) is left out and retired: its text is"
        " in the edit or in what its author was shown."
        for case in gone
    )
    exempt, unknown = _exempt(ws, book)
    quarantined, said = _quarantined(ws, book, ws.ledger.db.clock())
    return Inputs(
        book=book, sealed=tuple(case for case in sealed if case not in gone),
        issue=ws.ledger.knowledge.finding(proposal.finding_id).finding.signature,
        exempt=exempt, quarantined=quarantined,
        notes=(*book.notes, *leaks, *unknown, *said),
    )  # fmt: skip


def _retire_used_up(ws: Workspace) -> None:
    uses = ws.settings.gate.uses
    spent = [
        line.fingerprint
        for line in ws.ledger.sealed.listed()
        if line.retired_at is None and line.uses >= uses
    ]
    if spent:
        why = "used once" if uses == 1 else f"used {uses} times"

        def write(tx: Connection) -> None:
            ws.ledger.sealed.retire(tx, spent, why)

        with ws.ledger.db.write() as tx:
            write(tx)


def _exempt(ws: Workspace, book: Casebook) -> tuple[tuple[Exemption, ...], tuple[str, ...]]:
    critical = {case.id for case in book.tagged("critical")}
    found, notes = [], []
    for one in ws.settings.gate.exempt:
        if one.case in critical:
            found.append(Exemption(case=CaseId(one.case), by=one.by, why=one.why))
        else:
            notes.append(f"gate.exempt names {one.case!r}, which is no critical case.")
    return tuple(found), tuple(notes)


def _quarantined(
    ws: Workspace, book: Casebook, now: datetime
) -> tuple[dict[CaseId, Quarantined], tuple[str, ...]]:
    """Cases left out today. One whose time is over is back, and the plan says so."""
    there = {case.id: case for case in book.cases}
    found: dict[CaseId, Quarantined] = {}
    notes = []
    for one in ws.settings.gate.quarantine:
        case = there.get(CaseId(one.case))
        if case is None:
            notes.append(f"gate.quarantine names {one.case!r}, which is no case.")
            continue
        mark = fingerprint(case)
        shown = f"fingerprint {mark[:12]}" if "sealed" in case.tags else case.id
        phase = next((_PHASES[tag] for tag in _PHASES if tag in case.tags), None)
        if now.astimezone(UTC).date() > one.until:
            notes.append(f"Quarantine of {shown} ended on {one.until}: it is tested again.")
        elif phase is not None:
            until = datetime.combine(one.until, time.max, tzinfo=UTC)
            found[case.id] = Quarantined(
                fingerprint=mark, owner=one.owner, until=until, phase=phase
            )
    return found, tuple(notes)


def make_plan(
    ws: Workspace, proposal: Proposal, inputs: Inputs, runs: Mapping[str, Passes]
) -> GatePlan:
    """The plan, with what it can and cannot prove in its notes.

    Args:
        ws: the project.
        proposal: what is tested.
        inputs: the cases.
        runs: stored runs of exactly the base revision, by fingerprint.

    Raises:
        PlanRefused: there is nothing to test.
    """
    plans = [_designed(ws, proposal, inputs, one, runs) for one in _sets(ws, inputs.sealed)]
    plan = min(plans, key=_margin)  # the first where they are equal: all the cases
    notes = [*inputs.notes, *_set_notes(ws, plan, plans), *_judge_notes(ws, plan, inputs)]
    model = next((name for name in judges_of(ws, _planned(plan, inputs)) if name), None)
    return replace(plan, judge_model=model, notes=(*plan.notes, *notes))


def _sets(ws: Workspace, sealed: tuple[Case, ...]) -> list[tuple[Case, ...]]:
    """The sealed sets that a gate may use.

    All cases, at the level of their uses; or those that were never used, at the full level, once
    an accept ended the epoch or all uses are spent.
    """
    fresh = ws.ledger.sealed.never_used(members(sealed))
    unused = tuple(case for case in sealed if fingerprint(case) in fresh)
    ended = ws.ledger.sealed.epoch() > 1
    spent = ws.ledger.sealed.uses_of(members(sealed)) >= ws.settings.gate.uses
    return [sealed, unused] if 0 < len(unused) < len(sealed) and (ended or spent) else [sealed]


def _designed(
    ws: Workspace,
    proposal: Proposal,
    inputs: Inputs,
    sealed: tuple[Case, ...],
    runs: Mapping[str, Passes],
) -> GatePlan:
    """The plan on one sealed set. Its use counts gates that ran what is planned, or siblings."""
    gate, probe, book = ws.settings.gate, ws.settings.probe, inputs.book
    # Where there is a case to mend, an edit that only takes text out has to mend it like any other.
    smaller = None if book.tagged("target") else _smaller(ws, proposal)

    def on(use: int) -> GatePlan:
        return design_plan(
            base=proposal.base_revision, candidate=proposal.candidate_revision,
            targets=book.tagged("target"), sealed=sealed, critical=book.tagged("critical"),
            guards=book.tagged("guard"), profile=gate.profile, margin=gate.margin,
            cost_margin=gate.cost_margin, repeats=gate.repeats,
            sealed_repeats=gate.sealed_repeats, listed_rounds=gate.listed_rounds,
            uses=gate.uses, use=use,
            issue_use=ws.ledger.gate.issue_uses(proposal.finding_id) + 1, issue=inputs.issue,
            max_targets=gate.max_targets, max_runs=gate.max_runs, max_usd=gate.max_usd,
            max_seconds=gate.max_seconds, deadline_s=probe.timeout_s if probe else 30.0,
            seed=seed_of(proposal), discordance=None, runs=runs, exempt=inputs.exempt,
            quarantined=inputs.quarantined, purpose="fix" if smaller is None else "simplify",
            tokens=smaller,
        )  # fmt: skip

    use = 1 + ws.ledger.sealed.uses_of(members(sealed))
    plan = on(use)
    exact = 1 + ws.ledger.sealed.uses_of(sealed_members(plan))
    return on(exact) if plan.sealed and exact != use else plan


def _smaller(ws: Workspace, proposal: Proposal) -> tuple[int, int] | None:
    """Tokens of the edited files before and after an edit that only takes text out, else None.

    Its baseline is the base: every accept ends an epoch, so that this one began there.
    """
    before = ws.ledger.artifacts.snapshot(proposal.base_revision)
    after = ws.ledger.artifacts.snapshot(proposal.candidate_revision)
    return shrinks(before, after, lambda text: count_tokens(text).tokens)


def seed_of(proposal: Proposal) -> int:
    """Fixed by what is tested, so that nobody can draw again until the plan looks better."""
    text = f"{proposal.project}|{proposal.finding_id}|{proposal.candidate_revision}"
    return int(sha256_hex(text.encode())[:8], 16)


def _margin(plan: GatePlan) -> float:
    """The smallest margin that its sealed cases can prove; 1.0: none."""
    return smallest_provable_margin(len(plan.sealed), plan.discordance, plan.alpha, POWER)


def _set_notes(ws: Workspace, plan: GatePlan, plans: Sequence[GatePlan]) -> list[str]:
    if not plan.sealed:
        return []
    digest = ws.ledger.sealed.manifest_hash()[:12]
    epoch = ws.ledger.sealed.epoch()
    notes = [f"Sealed set: epoch {epoch}, use {plan.use} of {plan.uses}, manifest {digest}."]
    other = next((one for one in plans if one is not plan), None)
    if other is not None:
        notes.append(
            f"Of two sealed sets this one can prove the smaller margin: {_set_words(plan)}; the"
            f" other would be {_set_words(other)}."
        )
    return notes


def _set_words(plan: GatePlan) -> str:
    margin = _margin(plan)
    can = f"margin {margin:.2f}" if margin < 1.0 else "no margin"
    count = f"{len(plan.sealed)} case{'s' * (len(plan.sealed) != 1)}"
    return f"{count} at level {plan.alpha:.2g} ({can})"


def _judge_notes(ws: Workspace, plan: GatePlan, inputs: Inputs) -> list[str]:
    found = judge_problems(ws, _planned(plan, inputs))
    return [f"This plan cannot win: its judge may not grade ({why})." for why in found]


def _planned(plan: GatePlan, inputs: Inputs) -> Iterable[Case]:
    cases = inputs.cases
    return [cases[one.case] for one in all_planned(plan)]
