"""Draft an edit of the real harness for one finding, or say why there is none."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NotRequired, cast

from langchain_core.messages import BaseMessage
from langgraph.runtime import Runtime
from sqlalchemy import Connection
from typing_extensions import TypedDict

from configs.playbooks import Playbook, load_playbooks
from connectors.models.chat import open_model
from connectors.review.clean import one_line
from contracts.context import RunContext
from contracts.errors import PolicyRefused, TracemendError
from contracts.findings import Finding
from contracts.harness import HarnessSnapshot
from contracts.json_types import Json, JsonObject, content_id
from contracts.proposals import Check, Draft, ProposalId
from memory.budget import count_tokens
from memory.cases import load_cases
from memory.semantic_texts import title_of
from memory.workspace import Workspace, open_workspace, thread_of
from nodes.evolution.draft import draft, why_none
from nodes.evolution.edits import apply_operations
from nodes.evolution.model_draft import model_draft
from nodes.evolution.policy import RejectedEdit, check, refused
from nodes.evolution.prompt import Brief
from nodes.evolution.revise import Revising, make_revision, rejected_edits
from nodes.evolution.shown import keep_shown
from nodes.insights.recall import kept as recalled_of
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The step that is to be done: the next revision of one proposal, on one base."""

    which: Revising
    step: str
    finding: Finding
    snapshot: HarnessSnapshot
    earlier: Draft | None
    """The draft of the revision before, tried again on a base that moved."""
    rejected: tuple[RejectedEdit, ...]
    brief: Brief


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """A draft merged into the harness that passes the policy."""

    draft: Draft
    after: HarnessSnapshot
    checks: tuple[Check, ...]


async def evolution(state: EvolutionReads, runtime: Runtime[RunContext]) -> EvolutionWrites:
    """Draft the next revision on the harness as it is now. Reads `finding`, writes the ledger.

    After a base that moved the same operations are tried first, on the new base. Then the editor
    model, where one is configured; then the playbooks.
    """
    ws = await open_workspace(runtime)
    snapshot = await (await asyncio.to_thread(open_harness, ws)).read()
    thread, finding = thread_of(runtime), state["finding"]
    task = await asyncio.to_thread(_task, ws, thread, finding, snapshot)
    if not isinstance(task, Task):
        return task
    offer = await asyncio.to_thread(_again, ws, task)
    without = None
    if offer is None and ws.settings.models.editor is not None:
        offer, without = await _from_model(ws, task, ws.settings.models.editor)
    return await asyncio.to_thread(_keep, ws, task, offer, without)


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
        earlier=earlier[-1].proposal.draft if earlier else None,
        rejected=rejected, brief=_brief(ws, finding, snapshot, rejected),
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
    return Brief(
        finding=finding,
        unit="session" if kept.get("unit") == "session" else "trace",
        evidence=tuple(evidence_lines(kept)),
        snapshot=snapshot, include=spec.include, invariants=spec.invariants,
        rejected=rejected, tried=_tried(kept), withheld=_case_files(ws),
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


def _again(ws: Workspace, task: Task) -> Merged | None:
    """The earlier draft on the new base, where it still holds."""
    merged = _merged(ws, task, task.earlier) if task.earlier is not None else None
    return merged if isinstance(merged, Merged) else None


async def _from_model(ws: Workspace, task: Task, name: str) -> tuple[Merged | None, str | None]:
    """The editor model's draft, or the sentence that says why it gave none."""
    held: list[Merged] = []

    def judge(candidate: Draft) -> str | None:
        merged = _merged(ws, task, candidate)
        if isinstance(merged, str):
            return merged
        held.append(merged)
        return None

    model = await asyncio.to_thread(open_model, name, root=ws.root)
    written = await model_draft(
        model, name, task.brief, judge, keep=partial(_shown, ws, task),
        tokens=ws.settings.budget.drafting_tokens,
    )  # fmt: skip
    if written.draft is not None:
        return held[-1], None
    tries = f"{written.tries} tr{'y' if written.tries == 1 else 'ies'}"
    why = f"{name}, {tries}: {one_line(written.problem or 'no answer', 160)}"
    return None, f"The editor model gave no valid edit ({why})"


def _shown(ws: Workspace, task: Task, messages: Sequence[BaseMessage]) -> None:
    keep_shown(ws, task.which.thread, task.which.revision, messages)


def _merged(ws: Workspace, task: Task, candidate: Draft) -> Merged | str:
    """The draft merged into the harness, or the rule that it breaks."""
    spec = ws.settings.harness
    person = candidate.author.startswith("person:")
    try:
        after = apply_operations(task.snapshot, candidate.operations)
    except PolicyRefused as error:
        return str(error)
    checks = check(
        task.snapshot, after, candidate, include=spec.include, invariants=spec.invariants,
        trace_texts=() if person else [line.quote for line in task.brief.evidence],
        rejected=task.rejected, count_tokens=lambda text: count_tokens(text).tokens,
    )  # fmt: skip
    return refused(checks) or Merged(draft=candidate, after=after, checks=checks)


def _by_playbook(ws: Workspace, task: Task, without: str | None) -> Merged | str:
    """The first playbook's draft that holds, else why there is none. `without`: no model's."""
    books, include = _playbooks(ws), ws.settings.harness.include
    problems: list[str] = []
    for candidate in draft(task.finding, task.snapshot, books, include=include):
        why = f"{without}; this is the playbook's. {candidate.why}" if without else candidate.why
        merged = _merged(ws, task, replace(candidate, why=why))
        if isinstance(merged, Merged):
            return merged
        problems.append(merged)
    why_not = (
        f"No draft passes the policy: {problems[0]}"
        if problems
        else why_none(task.finding, task.snapshot, books, include=include)
    )
    return f"{without}. {why_not}" if without else why_not


def _keep(ws: Workspace, task: Task, offer: Merged | None, without: str | None) -> EvolutionWrites:
    """The revision in the ledger, or why there is none."""
    chosen = offer or _by_playbook(ws, task, without)
    which, snapshot = task.which, task.snapshot
    if isinstance(chosen, str):
        none: dict[str, Json] = {"drafted": False, "why": chosen}
        done = ws.ledger.steps.once(which.thread, task.step, lambda _: none)
        return cast("EvolutionWrites", done)
    proposal = make_revision(
        ws, which, snapshot, chosen.after, chosen.draft, checks=chosen.checks,
        rejected=task.rejected,
    )  # fmt: skip

    def write(tx: Connection) -> dict[str, Json]:
        # Asked again inside the transaction: another run may have drafted in the meantime.
        other = ws.ledger.proposals.open_in(tx)
        if other is not None and other != which.id:
            raise _not_its_turn(other)
        ws.ledger.artifacts.put_snapshot(tx, snapshot)
        ws.ledger.artifacts.put_snapshot(tx, chosen.after)
        ws.ledger.proposals.insert(tx, proposal, state="drafting")
        return {"drafted": True, "proposal": which.id}

    return cast("EvolutionWrites", ws.ledger.steps.once(which.thread, task.step, write))


def _playbooks(ws: Workspace) -> tuple[Playbook, ...]:
    return load_playbooks([ws.root / folder for folder in ws.settings.playbooks])


async def after_evolution(
    state: EvolutionWrites, runtime: Runtime[RunContext]
) -> Literal["plan", "handoff"]:
    """On to the plan; without a draft the finding becomes a ticket."""
    del runtime
    return "plan" if state["drafted"] else "handoff"
