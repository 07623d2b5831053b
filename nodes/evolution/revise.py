"""Make the next revision of a proposal from a draft, a rebase or a person's edit."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from connectors.review.payload import ALTERNATIVE_KEY, TEXT_KEY
from contracts.errors import PolicyRefused, UsageError
from contracts.findings import Finding, FindingId
from contracts.harness import HarnessSnapshot
from contracts.json_types import Json, JsonObject
from contracts.proposals import Alternative, Check, Draft, Proposal, ProposalId
from memory.budget import count_tokens
from memory.workspace import Workspace
from nodes.evolution.alternatives import OWN, labelled, make_alternative, own
from nodes.evolution.change import added_text
from nodes.evolution.draft import person_edit
from nodes.evolution.edits import apply_operations
from nodes.evolution.policy import RejectedEdit, check, refused

MAX_ALIKE = 5
"""Rejected edits for other findings that a drafter is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Revising:
    """What a new revision belongs to."""

    id: ProposalId
    revision: int
    thread: str
    finding: FindingId


def rejected_edits(ws: Workspace, finding: str) -> tuple[RejectedEdit, ...]:
    """Earlier edits for this finding that a person turned down."""
    rejected = _rejected(ws)
    return tuple(_told(ws, one) for one in rejected if one.finding_id == finding)


def rejected_alike(ws: Workspace, finding: Finding) -> tuple[RejectedEdit, ...]:
    """Edits that a person turned down for other findings at the same place or tool, newest last."""
    found: list[Proposal] = []
    for proposal in reversed(_rejected(ws)):
        if proposal.finding_id == finding.id or len(found) == MAX_ALIKE:
            continue
        try:
            other = ws.ledger.knowledge.finding(proposal.finding_id).finding
        except UsageError:  # a proposal that was entered without one, as imports do
            continue
        if alike(finding, other):
            found.append(proposal)
    return tuple(_told(ws, one) for one in reversed(found))


def alike(one: Finding, other: Finding) -> bool:
    """Whether two findings are about one tool, or one place of the agent."""
    tools = [str(f.diagnosis.parameters.get("tool") or "") for f in (one, other)]
    places = [f.signature.split(":")[1:2] for f in (one, other)]
    same_tool = bool(tools[0]) and tools[0] == tools[1]
    return same_tool or (bool(places[0]) and places[0] != [""] and places[0] == places[1])


def _rejected(ws: Workspace) -> list[Proposal]:
    stored = ws.ledger.proposals.all_latest()
    return [one.proposal for one in stored if one.state == "rejected"]


def _told(ws: Workspace, proposal: Proposal) -> RejectedEdit:
    said = ws.ledger.proposals.decision(proposal.id, proposal.revision, "approve")
    base = ws.ledger.artifacts.snapshot(proposal.base_revision)
    candidate = ws.ledger.artifacts.snapshot(proposal.candidate_revision)
    return RejectedEdit(
        proposal=proposal.id, text=added_text(base, candidate),
        reason=said.reason if said is not None else None,
    )  # fmt: skip


def checked(
    ws: Workspace,
    before: HarnessSnapshot,
    after: HarnessSnapshot,
    draft: Draft,
    rejected: Sequence[RejectedEdit],
    *,
    trace_texts: Sequence[str] = (),
) -> tuple[Check, ...]:
    """The static policy on an edit. `trace_texts`: what no drafter may copy; a person may."""
    spec = ws.settings.harness
    return check(
        before, after, draft, include=spec.include, invariants=spec.invariants,
        trace_texts=trace_texts, rejected=rejected, fixed=spec.fixed,
        count_tokens=lambda text: count_tokens(text).tokens,
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
    alternatives: Iterable[Alternative] = (),
) -> Proposal:
    """A drafted revision; the plan node gives it its plan and its final hash."""
    made = make_alternative(before, after, draft, checks=checks, rejected=rejected)
    return Proposal(
        id=which.id, revision=which.revision, project=ws.project, thread=which.thread,
        finding_id=which.finding, base_revision=before.revision,
        candidate_revision=made.candidate_revision, files=made.files, draft=draft,
        checks=made.checks, risk=made.risk, risk_reasons=made.risk_reasons,
        lines_added=made.lines_added, lines_removed=made.lines_removed,
        created_at=ws.ledger.db.clock(), alternatives=labelled(alternatives),
    )  # fmt: skip


def edited_revision(ws: Workspace, proposal: Proposal, edited: Json, *, by: str) -> Proposal:
    """A reviewer's edit as the next revision: full texts under flat `text:<path>` keys, or a pick.

    A pick is the label of an alternative under `alternative`. Forms send every argument back, so
    texts beside it are no edit where they are as they were shown.

    Raises:
        PolicyRefused: there is no edited text, it was made for another revision, there is no such
            alternative, or a rule of the policy does not hold.
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
    label = picked_label(edited)
    if label is not None:
        return _picked(ws, proposal, label, texts)
    base = ws.ledger.artifacts.snapshot(proposal.base_revision)
    candidate = ws.ledger.artifacts.snapshot(proposal.candidate_revision)
    after, draft = person_edit(base, candidate, texts, by=by, draft=proposal.draft)
    return _next(ws, proposal, after, draft, alternatives=proposal.alternatives)


def picked_label(edited: Json) -> str | None:
    """Which alternative an edit picks; None: it is an edit of the proposal's own draft."""
    args = edited.get("args") if isinstance(edited, Mapping) else None
    label = args.get(ALTERNATIVE_KEY) if isinstance(args, Mapping) else None
    return None if label is None or label in ("", OWN) else str(label)


def _picked(ws: Workspace, proposal: Proposal, label: str, texts: Mapping[str, str]) -> Proposal:
    """The alternative as the next revision, by its own author; the other drafts stay beside it."""
    chosen = next((one for one in proposal.alternatives if one.label == label), None)
    if chosen is None:
        there = ", ".join(one.label for one in proposal.alternatives) or "none"
        raise PolicyRefused(
            f"alternative {label[:20]!r}: r{proposal.revision} has no such draft; there is {there}"
        )
    shown = ws.ledger.artifacts.snapshot(proposal.candidate_revision)
    if any(text != _shown(shown, path) for path, text in texts.items()):
        raise PolicyRefused(
            f"alternative {label}: send it without changed texts; its own text can be edited once "
            "it is picked"
        )
    base = ws.ledger.artifacts.snapshot(proposal.base_revision)
    after = apply_operations(base, chosen.draft.operations)
    others = [own(proposal), *(one for one in proposal.alternatives if one.label != label)]
    return _next(ws, proposal, after, chosen.draft, alternatives=others)


def _shown(snapshot: HarnessSnapshot, path: str) -> str | None:
    file = snapshot.files.get(path)
    return None if file is None else file.data.decode("utf-8-sig")


def _next(
    ws: Workspace, proposal: Proposal, after: HarnessSnapshot, draft: Draft,
    *, alternatives: Sequence[Alternative],
) -> Proposal:  # fmt: skip
    """The next revision on the same base, where the policy lets it pass."""
    base = ws.ledger.artifacts.snapshot(proposal.base_revision)
    rejected = rejected_edits(ws, proposal.finding_id)
    person = draft.author.startswith("person:")
    quotes = () if person else _quotes(ws, proposal.finding_id)
    checks = checked(ws, base, after, draft, rejected, trace_texts=quotes)
    if problem := refused(checks):
        raise PolicyRefused(problem)
    which = Revising(
        id=proposal.id, revision=proposal.revision + 1, thread=proposal.thread,
        finding=proposal.finding_id,
    )  # fmt: skip
    with ws.ledger.db.write() as tx:
        ws.ledger.artifacts.put_snapshot(tx, after)
    return make_revision(
        ws, which, base, after, draft, checks=checks, rejected=rejected, alternatives=alternatives
    )


def _quotes(ws: Workspace, finding: str) -> tuple[str, ...]:
    """What was quoted from traces for the finding."""
    lines = ws.ledger.knowledge.evidence(finding).get("evidence")
    listed = cast("Sequence[JsonObject]", lines if isinstance(lines, Sequence) else ())
    return tuple(str(line["quote"]) for line in listed)
