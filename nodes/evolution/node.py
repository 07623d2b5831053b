"""Draft an edit of the real harness for one finding, or say why there is none."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NotRequired, cast

from langgraph.runtime import Runtime
from sqlalchemy import Connection
from typing_extensions import TypedDict

from configs.playbooks import Playbook, load_playbooks
from contracts.context import RunContext
from contracts.errors import PolicyRefused, TracemendError
from contracts.findings import Finding
from contracts.harness import HarnessSnapshot
from contracts.json_types import Json, content_id
from contracts.proposals import Draft, Proposal, ProposalId
from memory.proposals import StoredProposal
from memory.workspace import Workspace, open_workspace, thread_of
from nodes.evolution.draft import draft, why_none
from nodes.evolution.edits import apply_operations
from nodes.evolution.policy import refused
from nodes.evolution.revise import Revising, checked, make_revision, rejected_edits
from nodes.ports import open_harness


class EvolutionReads(TypedDict):
    """What evolution reads."""

    finding: str


class EvolutionWrites(TypedDict):
    """What evolution writes: a proposal, or why the finding is handed off."""

    drafted: bool
    proposal: NotRequired[str]
    why: NotRequired[str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A draft merged into the harness that passes the policy."""

    draft: Draft
    after: HarnessSnapshot
    proposal: Proposal


async def evolution(state: EvolutionReads, runtime: Runtime[RunContext]) -> EvolutionWrites:
    """Draft the next revision on the harness as it is now. Reads `finding`, writes the ledger.

    After a base that moved the same operations are tried first, on the new base.
    """
    ws = await open_workspace(runtime)
    snapshot = await (await asyncio.to_thread(open_harness, ws)).read()
    return await asyncio.to_thread(_evolve, ws, thread_of(runtime), state["finding"], snapshot)


def _evolve(
    ws: Workspace, thread: str, finding_id: str, snapshot: HarnessSnapshot
) -> EvolutionWrites:
    finding = ws.ledger.knowledge.finding(finding_id).finding
    proposal_id = ProposalId(content_id("p-", thread, finding.id, "0"))
    earlier = ws.ledger.proposals.revisions(proposal_id)
    # A revision that is drafted and not yet planned is this step, done before a crash.
    drafted = earlier[-1].state == "drafting" if earlier else False
    step = f"evolution:{len(earlier) - drafted}"
    which = Revising(
        id=proposal_id, revision=len(earlier) - drafted + 1, thread=thread, finding=finding.id
    )
    found = ws.ledger.steps.get(thread, step)
    if found is not None:
        return cast("EvolutionWrites", found)
    offer = _offer(ws, which, finding, snapshot, earlier)

    def write(tx: Connection) -> dict[str, Json]:
        if isinstance(offer, str):
            return {"drafted": False, "why": offer}
        # Asked again inside the transaction: another run may have drafted in the meantime.
        other = ws.ledger.proposals.open_in(tx)
        if other is not None and other != proposal_id:
            raise TracemendError(f"waits for its turn: proposal {other} is open")
        ws.ledger.artifacts.put_snapshot(tx, snapshot)
        ws.ledger.artifacts.put_snapshot(tx, offer.after)
        ws.ledger.proposals.insert(tx, offer.proposal, state="drafting")
        return {"drafted": True, "proposal": proposal_id}

    return cast("EvolutionWrites", ws.ledger.steps.once(thread, step, write))


def _offer(
    ws: Workspace,
    which: Revising,
    finding: Finding,
    snapshot: HarnessSnapshot,
    earlier: list[StoredProposal],
) -> Offer | str:
    """The first draft that merges and passes the policy, else why there is none."""
    rejected = rejected_edits(ws, finding.id)
    problems: list[str] = []
    for candidate in _drafts(ws, finding, snapshot, earlier):
        try:
            after = apply_operations(snapshot, candidate.operations)
        except PolicyRefused as error:
            problems.append(str(error))
            continue
        checks = checked(ws, snapshot, after, candidate, rejected)
        if problem := refused(checks):
            problems.append(problem)
            continue
        proposal = make_revision(
            ws, which, snapshot, after, candidate, checks=checks, rejected=rejected
        )
        return Offer(draft=candidate, after=after, proposal=proposal)
    if problems:
        return f"No draft passes the policy: {problems[0]}"
    return why_none(finding, snapshot, _playbooks(ws), include=ws.settings.harness.include)


def _drafts(
    ws: Workspace, finding: Finding, snapshot: HarnessSnapshot, earlier: list[StoredProposal]
) -> Iterator[Draft]:
    if earlier:
        yield earlier[-1].proposal.draft
    yield from draft(finding, snapshot, _playbooks(ws), include=ws.settings.harness.include)


def _playbooks(ws: Workspace) -> tuple[Playbook, ...]:
    return load_playbooks([ws.root / folder for folder in ws.settings.playbooks])


async def after_evolution(
    state: EvolutionWrites, runtime: Runtime[RunContext]
) -> Literal["plan", "handoff"]:
    """On to the plan; without a draft the finding becomes a ticket."""
    del runtime
    return "plan" if state["drafted"] else "handoff"
