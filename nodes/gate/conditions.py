"""What a gate's verdict hangs on beside its plan and blocks: is everything as it was approved?"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection

from contracts.gate import Case, CaseId, Conditions, GatePlan, GateReport
from contracts.json_types import JsonObject, canonical_json, sha256_hex
from contracts.proposals import Proposal
from memory.cases import fingerprint
from memory.gate_ledger import Opening
from memory.workspace import Workspace
from nodes.casebook import read_casebook
from nodes.evolution.change import added_text
from nodes.evolution.shown import shown_text
from nodes.gate.calibrate import judge_problem
from nodes.gate.leaks import leaked
from nodes.gate.outside import judge_model

LEAKED = "leaked"
"""Why the manifest says that a case was retired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The planned cases as they are now, and what is known against the gate."""

    cases: Mapping[CaseId, Case]
    conditions: Conditions


def check_conditions(
    ws: Workspace, proposal: Proposal, plan: GatePlan, opening: Opening
) -> Checked:
    """Compare what is there now with what was approved.

    Raises:
        ConfigError: a case file cannot be read; nothing is decided by that.
    """
    there = {case.id: case for case in read_casebook(ws, proposal.finding_id).cases}
    planned = (*plan.targets, *plan.sealed, *plan.critical, *plan.guards)
    now = {one.case: there[one.case] for one in planned if one.case in there}
    changed = [
        one.fingerprint
        for one in planned
        if one.case not in now or fingerprint(now[one.case]) != one.fingerprint
    ]
    return Checked(
        cases=now,
        conditions=Conditions(
            opening_alpha=opening.alpha, use_taken=opening.use_taken,
            leaked=_leaked(ws, proposal, plan, now),
            mismatch=_arms(proposal, plan) or _changed(changed),
            judge=next(iter(judge_problems(ws, now.values())), None),
            self_test=_self_test(ws),
        ),
    )  # fmt: skip


def _arms(proposal: Proposal, plan: GatePlan) -> str | None:
    if (plan.base, plan.candidate) == (proposal.base_revision, proposal.candidate_revision):
        return None
    return "an arm is not the revision that was approved"


def _changed(fingerprints: list[str]) -> str | None:
    if not fingerprints:
        return None
    more = f" and {len(fingerprints) - 1} more" if len(fingerprints) > 1 else ""
    return (
        f"a case was changed or is gone (fingerprint {fingerprints[0][:12]}{more}); "
        "`tracemend improve` makes a new plan, of the cases as they are now"
    )


def _leaked(
    ws: Workspace, proposal: Proposal, plan: GatePlan, now: Mapping[CaseId, Case]
) -> tuple[str, ...]:
    """Planned sealed cases that an author saw, or that somebody retired since the plan was made."""
    retired = ws.ledger.sealed.retired()
    gone = {one.fingerprint for one in plan.sealed if one.fingerprint in retired}
    sealed = [now[one.case] for one in plan.sealed if one.case in now]
    gone |= {fingerprint(case) for case in leaked(sealed, seen_by_editor(ws, proposal))}
    return tuple(sorted(gone))


def seen_by_editor(ws: Workspace, proposal: Proposal) -> str:
    """All text in which a sealed case must not be.

    What the edit adds, new skills too, what its alternatives on the card add, and what the model
    that drafted it was shown.
    """
    base = ws.ledger.artifacts.snapshot(proposal.base_revision)
    drafts = (proposal.candidate_revision, *(o.candidate_revision for o in proposal.alternatives))
    added = [added_text(base, ws.ledger.artifacts.snapshot(revision)) for revision in drafts]
    return "\n".join([*added, shown_text(ws, proposal)])


def judge_problems(ws: Workspace, cases: Iterable[Case]) -> tuple[str, ...]:
    """Why judges that these cases ask for may not grade; empty: they may, or none is asked for."""
    problems = (judge_problem(ws, model) for model in judges_of(ws, cases))
    return tuple(problem for problem in problems if problem is not None)


def judges_of(ws: Workspace, cases: Iterable[Case]) -> tuple[str | None, ...]:
    """The judge models that these cases ask for, by name; None: one that no setting names."""
    asked = {
        judge_model(ws, assertion["judge"])
        for case in cases
        for assertion in case.assertions
        if "judge" in assertion
    }
    return tuple(sorted(asked, key=lambda name: name or ""))


def _self_test(ws: Workspace) -> str | None:
    last = ws.ledger.gate_checks.last("self_test")
    if last is None or last.ok:
        return None
    why = str(last.body.get("problem") or "it failed").rstrip(".")
    return f"{why}; run `tracemend gate selftest` once it is mended"


def retire_leaked(ws: Workspace, tx: Connection, conditions: Conditions) -> None:
    """A case that somebody who edits saw proves nothing any more."""
    ws.ledger.sealed.retire(tx, conditions.leaked, LEAKED)


def altered_report(plan: JsonObject) -> GateReport:
    """INVALID: the stored plan is not the one that was approved, so nothing of it is run."""
    return GateReport(
        verdict="invalid",
        reason="plan mismatch: the stored plan or edit is not what was approved",
        claims=(), plan_hash=sha256_hex(canonical_json(plan)), runs=0, planned_runs=0,
        target_passes=(0, 0, 0), sealed=(0, 0, 0), sealed_passes=(0, 0), sealed_interval=None,
        proven_margin=1.0, cost_ratio=None, spent_usd=None, worse=(), needed=None,
        notes=("Nothing was run: what a person said yes to is not what the ledger holds now.",),
    )  # fmt: skip
