"""Draft an edit of the real harness for one finding, or say why there is none."""

import asyncio
from typing import Literal, NotRequired, cast

from langgraph.runtime import Runtime
from sqlalchemy import Connection
from typing_extensions import TypedDict

from contracts.context import RunContext
from contracts.errors import TracemendError
from contracts.findings import Finding
from contracts.harness import HarnessSnapshot
from contracts.json_types import Json, JsonObject, content_id
from contracts.proposals import ProposalId
from memory.cases import load_cases
from memory.semantic_texts import title_of
from memory.workspace import Workspace, open_workspace, thread_of
from nodes.evolution.alternatives import make_alternative
from nodes.evolution.elsewhere import Elsewhere
from nodes.evolution.items_kept import ours
from nodes.evolution.offers import Offers, Task, offers
from nodes.evolution.outside import keep_outside, outside, with_notes
from nodes.evolution.policy import RejectedEdit
from nodes.evolution.prompt import Brief
from nodes.evolution.revise import Revising, make_revision, rejected_alike, rejected_edits
from nodes.insights.recall import kept as recalled_of
from nodes.insights.steered import steered_of
from nodes.ports import open_harness
from nodes.showing import evidence_lines


class EvolutionReads(TypedDict):
    """What evolution reads."""

    finding: str


class EvolutionWrites(TypedDict):
    """What evolution writes: a proposal, or why the finding is handed off."""

    drafted: bool
    proposal: NotRequired[str]
    why: NotRequired[str | None]


async def evolution(state: EvolutionReads, runtime: Runtime[RunContext]) -> EvolutionWrites:
    """Draft the next revision on the harness as it is now. Reads `finding`, writes the ledger."""
    ws = await open_workspace(runtime)
    snapshot = await (await asyncio.to_thread(open_harness, ws)).read()
    thread, finding = thread_of(runtime), state["finding"]
    task = await asyncio.to_thread(_task, ws, thread, finding, snapshot)
    if not isinstance(task, Task):
        return task
    doubt = None
    if task.earlier is None:
        doubt = await asyncio.to_thread(
            outside, ws, snapshot, task.brief.governing, task.brief.steered
        )
        if doubt is not None and doubt.sure:
            return await asyncio.to_thread(_hand_off, ws, task, doubt)
    return await asyncio.to_thread(_keep, ws, task, await offers(ws, task), doubt)


def _task(
    ws: Workspace, thread: str, finding_id: str, snapshot: HarnessSnapshot
) -> Task | EvolutionWrites:
    """What is to be drafted, or what this step came to when it was done before."""
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
    other = ws.ledger.proposals.open() if ws.settings.models.editor is not None else None
    if other is not None and other.proposal.id != proposal_id:
        raise _not_its_turn(other.proposal.id)  # before anything is spent on a model
    rejected = rejected_edits(ws, finding.id)
    return Task(
        which=which, step=step, finding=finding, snapshot=snapshot,
        earlier=earlier[-1].proposal if earlier else None,
        rejected=rejected,
        brief=_brief(ws, finding, snapshot, (*rejected_alike(ws, finding), *rejected)),
    )  # fmt: skip


def _not_its_turn(other: str) -> TracemendError:
    return TracemendError(f"waits for its turn: proposal {other} is open")


def _brief(
    ws: Workspace,
    finding: Finding,
    snapshot: HarnessSnapshot,
    rejected: tuple[RejectedEdit, ...],
) -> Brief:
    spec = ws.settings.harness
    kept = ws.ledger.knowledge.evidence(finding.id)
    withheld, own = _case_files(ws), ours(ws, snapshot)
    return Brief(
        finding=finding,
        unit="session" if kept.get("unit") == "session" else "trace",
        evidence=tuple(evidence_lines(kept)),
        snapshot=snapshot, include=spec.include, invariants=spec.invariants,
        rejected=rejected, tried=_tried(kept), withheld=withheld, steered=steered_of(kept),
        ours=own.notes(without=withheld), known=own.known,
    )  # fmt: skip


def _tried(evidence: JsonObject) -> tuple[str, ...]:
    """What memory recalled when the finding was kept."""
    recalled = recalled_of(evidence)
    seen = recalled.tries if recalled is not None else ()
    return tuple(f"{title_of(one.tried.signature)}: {one.tried.sentence}" for one in seen)


def _case_files(ws: Workspace) -> frozenset[str]:
    """Files that hold cases, as the harness names its own: a drafter sees none of them."""
    if ws.settings.models.editor is None:
        return frozenset()
    cases = load_cases(ws.root, ws.settings.cases)
    files = {(ws.root / case.origin.removeprefix("file:")).resolve() for case in cases}
    found: set[str] = set()
    for folder in ws.settings.harness.folders:
        root, prefix = (ws.root / folder.root).resolve(), f"{folder.at}/" if folder.at else ""
        inside = (f.relative_to(root).as_posix() for f in files if f.is_relative_to(root))
        found |= {f"{prefix}{path}" for path in inside}
    return frozenset(found)


def _hand_off(ws: Workspace, task: Task, found: Elsewhere) -> EvolutionWrites:
    """No edit of the harness would reach what failed: its text stands elsewhere."""

    def write(tx: Connection) -> dict[str, Json]:
        keep_outside(ws, tx, task.finding, found)
        return {"drafted": False, "why": found.why}

    return cast("EvolutionWrites", ws.ledger.steps.once(task.which.thread, task.step, write))


def _keep(
    ws: Workspace, task: Task, offered: Offers, doubt: Elsewhere | None = None
) -> EvolutionWrites:
    """The revision in the ledger, or why there is none."""
    which, snapshot = task.which, task.snapshot
    if not offered.held:
        none: dict[str, Json] = {"drafted": False, "why": offered.why_none}
        done = ws.ledger.steps.once(which.thread, task.step, lambda _: none)
        return cast("EvolutionWrites", done)
    chosen, *others = (with_notes(one, task.brief, doubt) for one in offered.held)
    proposal = make_revision(
        ws, which, snapshot, chosen.after, chosen.draft, checks=chosen.checks,
        rejected=task.rejected,
        alternatives=[
            make_alternative(
                snapshot, other.after, other.draft, checks=other.checks, rejected=task.rejected
            )
            for other in others
        ],
    )  # fmt: skip

    def write(tx: Connection) -> dict[str, Json]:
        # Asked again inside the transaction: another run may have drafted in the meantime.
        other = ws.ledger.proposals.open_in(tx)
        if other is not None and other != which.id:
            raise _not_its_turn(other)
        for kept in (snapshot, *(one.after for one in offered.held)):
            ws.ledger.artifacts.put_snapshot(tx, kept)
        ws.ledger.proposals.insert(tx, proposal, state="drafting")
        return {"drafted": True, "proposal": which.id}

    return cast("EvolutionWrites", ws.ledger.steps.once(which.thread, task.step, write))


async def after_evolution(
    state: EvolutionWrites, runtime: Runtime[RunContext]
) -> Literal["plan", "handoff"]:
    """On to the plan; without a draft the finding becomes a ticket."""
    del runtime
    return "plan" if state["drafted"] else "handoff"
