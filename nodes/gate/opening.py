"""Open an approved gate: its use and level, its arms and cases, and what is known against it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from contracts.codec import from_json
from contracts.errors import TracemendError
from contracts.gate import Case, CaseId, Conditions, GatePlan, PlannedCase
from contracts.harness import HarnessSnapshot
from contracts.proposals import Proposal
from memory.gate_ledger import Opening
from memory.sealed import Member
from memory.workspace import Workspace
from nodes.decide import seats_needed, settled
from nodes.gate.conditions import check_conditions
from nodes.gate.sizes import level_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """One gate, ready to run: everything in it was fixed before its first run."""

    proposal: Proposal
    plan: GatePlan
    opening: Opening
    arms: Mapping[Literal["B", "C"], HarnessSnapshot]
    cases: Mapping[CaseId, Case]
    conditions: Conditions
    concurrency: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Altered:
    """What is stored is not what a person said yes to."""

    proposal: Proposal


def open_gate(ws: Workspace, proposal_id: str) -> Opened | Altered | None:
    """The gate of an approved revision, opened once; None when it is decided already.

    Raises:
        TracemendError: nobody approved it to be run.
    """
    proposal = ws.ledger.proposals.latest(proposal_id).proposal
    if ws.ledger.gate.report(proposal.hash) is not None:
        return None
    needed = seats_needed(proposal.risk, ws.settings.review.second_person)
    said = ws.ledger.proposals.decisions(proposal.id, proposal.revision, "approve")
    yes = settled(said, needed)
    if yes is None or yes.type != "approve":
        raise TracemendError(f"{proposal.id} r{proposal.revision}: nobody approved it to be run")
    if yes.proposal_hash != proposal.hash:
        return Altered(proposal=proposal)
    plan = from_json(GatePlan, proposal.plan)
    opening = ws.ledger.gate.opening(proposal.hash) or _write_opening(ws, proposal, plan)
    checked = check_conditions(ws, proposal, plan, opening)
    spec = ws.settings.probe
    return Opened(
        proposal=proposal, plan=plan, opening=opening, cases=checked.cases,
        conditions=checked.conditions,
        arms={
            "B": ws.ledger.artifacts.snapshot(proposal.base_revision),
            "C": ws.ledger.artifacts.snapshot(proposal.candidate_revision),
        },
        concurrency=spec.concurrency if spec is not None else 1,
    )  # fmt: skip


def _write_opening(ws: Workspace, proposal: Proposal, plan: GatePlan) -> Opening:
    """Ledger use, its level, start: written before the first run, never changed."""
    use = 1 + ws.ledger.sealed.uses_of(sealed_members(plan), but=proposal.hash)
    issue_use = ws.ledger.gate.issue_uses(proposal.finding_id) + 1
    level = level_of(uses=plan.uses, use=issue_use)
    opening = Opening(
        proposal_hash=proposal.hash, finding=proposal.finding_id, use=use, issue_use=issue_use,
        alpha=level_of(uses=plan.uses, use=min(use, plan.uses)),
        use_taken=(bool(plan.sealed) and use != plan.use)
        or (plan.target_alpha is not None and level != plan.target_alpha),
    )  # fmt: skip
    with ws.ledger.db.write() as tx:
        ws.ledger.gate.open(tx, opening)
        ws.ledger.proposals.set_state(tx, proposal, "gating")
    return opening


def sealed_members(plan: GatePlan) -> tuple[Member, ...]:
    """The planned sealed cases as lines of the manifest."""
    return tuple(
        Member(fingerprint=one.fingerprint, case=one.case, family=one.family) for one in plan.sealed
    )


def all_planned(plan: GatePlan) -> tuple[PlannedCase, ...]:
    """Every planned case of every phase."""
    return (*plan.targets, *plan.sealed, *plan.critical, *plan.guards)
