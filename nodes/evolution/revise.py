"""Make the next revision of a proposal from a draft, a rebase or a person's edit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from connectors.review.diff import total, unified
from contracts.errors import PolicyRefused
from contracts.findings import FindingId
from contracts.harness import HarnessSnapshot
from contracts.json_types import Json
from contracts.proposals import Check, Draft, Proposal, ProposalId
from memory.budget import count_tokens
from memory.workspace import Workspace
from nodes.evolution.change import added_text
from nodes.evolution.draft import person_edit
from nodes.evolution.edits import describe_files
from nodes.evolution.policy import RejectedEdit, check, refused, risk_of

TEXT_KEY = "text:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Revising:
    """What a new revision belongs to."""

    id: ProposalId
    revision: int
    thread: str
    finding: FindingId


def rejected_edits(ws: Workspace, finding: str) -> tuple[RejectedEdit, ...]:
    """Earlier edits for this finding that a person turned down."""
    found = []
    for stored in ws.ledger.proposals.all_latest():
        proposal = stored.proposal
        if stored.state != "rejected" or proposal.finding_id != finding:
            continue
        said = ws.ledger.proposals.decision(proposal.id, proposal.revision, "approve")
        base = ws.ledger.artifacts.snapshot(proposal.base_revision)
        candidate = ws.ledger.artifacts.snapshot(proposal.candidate_revision)
        found.append(
            RejectedEdit(
                proposal=proposal.id, text=added_text(base, candidate),
                reason=said.reason if said is not None else None,
            )
        )  # fmt: skip
    return tuple(found)


def checked(
    ws: Workspace,
    before: HarnessSnapshot,
    after: HarnessSnapshot,
    draft: Draft,
    rejected: Sequence[RejectedEdit],
) -> tuple[Check, ...]:
    """The static policy on an edit."""
    spec = ws.settings.harness
    return check(
        before, after, draft, include=spec.include, invariants=spec.invariants,
        rejected=rejected, count_tokens=lambda text: count_tokens(text).tokens,
    )  # fmt: skip


def make_revision(
    ws: Workspace,
    which: Revising,
    before: HarnessSnapshot,
    after: HarnessSnapshot,
    draft: Draft,
    *,
    checks: Sequence[Check],
    rejected: Sequence[RejectedEdit],
) -> Proposal:
    """A drafted revision; the plan node gives it its plan and its final hash."""
    changes = describe_files(before, after)
    diffs = [unified(c.path, _data(before, c.path), _data(after, c.path)) for c in changes]
    risk, reasons = risk_of(before, after, draft, rejected=rejected)
    lines = total(diffs)
    return Proposal(
        id=which.id, revision=which.revision, project=ws.project, thread=which.thread,
        finding_id=which.finding, base_revision=before.revision,
        candidate_revision=after.revision, files=changes, draft=draft, checks=tuple(checks),
        risk=risk, risk_reasons=reasons, lines_added=lines.added, lines_removed=lines.removed,
        created_at=ws.ledger.db.clock(),
    )  # fmt: skip


def _data(snapshot: HarnessSnapshot, path: str) -> bytes | None:
    file = snapshot.files.get(path)
    return None if file is None else file.data


def edited_revision(ws: Workspace, proposal: Proposal, edited: Json, *, by: str) -> Proposal:
    """A reviewer's edit as the next revision: full texts under flat `text:<path>` keys.

    Raises:
        PolicyRefused: there is no edited text, it was made for another revision, or a rule of the
            policy does not hold.
    """
    args = edited.get("args") if isinstance(edited, Mapping) else None
    if not isinstance(args, Mapping):
        raise PolicyRefused("edited_action.args: needs the texts as `text:<path>` keys")
    if args.get("proposal_hash", proposal.hash) != proposal.hash:
        raise PolicyRefused("the edit was made on another revision; read this one and edit again")
    texts = {
        key.removeprefix(TEXT_KEY): value
        for key, value in args.items()
        if key.startswith(TEXT_KEY) and isinstance(value, str)
    }
    base = ws.ledger.artifacts.snapshot(proposal.base_revision)
    candidate = ws.ledger.artifacts.snapshot(proposal.candidate_revision)
    after, draft = person_edit(base, candidate, texts, by=by, draft=proposal.draft)
    rejected = rejected_edits(ws, proposal.finding_id)
    checks = checked(ws, base, after, draft, rejected)
    if problem := refused(checks):
        raise PolicyRefused(problem)
    which = Revising(
        id=proposal.id, revision=proposal.revision + 1, thread=proposal.thread,
        finding=proposal.finding_id,
    )  # fmt: skip
    with ws.ledger.db.write() as tx:
        ws.ledger.artifacts.put_snapshot(tx, after)
    return make_revision(ws, which, base, after, draft, checks=checks, rejected=rejected)
