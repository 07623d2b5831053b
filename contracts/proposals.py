"""An edit of the harness for one finding, and what a named person said to it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NewType

from contracts.findings import FindingId
from contracts.harness import Revision
from contracts.json_types import Json, JsonObject, canonical_json, sha256_hex

ProposalId = NewType("ProposalId", str)
ProposalHash = NewType("ProposalHash", str)
DecisionId = NewType("DecisionId", str)
ReleaseId = NewType("ReleaseId", str)

ProposalState = Literal[
    "drafting", "waiting", "approved", "gating", "applied", "watching", "settled",
    "rejected", "expired", "stale", "gate_rejected", "inconclusive", "invalid", "stuck", "undone",
]  # fmt: skip
"""Only "waiting" and "inconclusive" wait for a person; "inconclusive" is never an approval."""

Risk = Literal["low", "medium", "high"]
CardKind = Literal["approve", "override", "undo"]
DecisionType = Literal["approve", "edit", "reject", "expired"]
Via = Literal["cli", "api", "web", "langgraph", "system"]

REJECT_REASONS = ("wrong_cause", "wrong_fix", "not_worth_it", "risky", "duplicate", "other")

OperationName = Literal["replace", "insert_after", "remove", "add_skill", "add_file"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One small edit. All but the `add_…` ones need an anchor that names exactly one place.

    `remove` takes the anchor's whole lines out; its `text` is empty.
    """

    op: OperationName
    path: str
    text: str
    anchor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One rule of the static policy and how the edit stands to it."""

    rule: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a drafter offers: operations and its reasons. Nothing of it is written anywhere."""

    operations: tuple[Operation, ...]
    why: str
    falsifier: str
    author: str
    """`playbook:<id>`, `model:<name>` or `person:<name>`; shown on the card."""
    model_written: bool = False
    evidence: tuple[str, ...] = ()
    """What it rests on, each `trace/span` of the finding's evidence."""
    notes: tuple[str, ...] = ()
    """What a reviewer is told beside the reasons: why these files, which budget ran out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """One file of a proposal; None on a side means that the file is not there."""

    path: str
    before: str | None
    """SHA-256 of the bytes."""
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Another draft for the same finding on the same base. It never runs unless a person picks it.

    Picking it is an edit of the proposal: the next revision, which waits for its own approval.
    """

    label: str
    """`b` or `c`; the proposal's own draft is `a`."""
    draft: Draft
    candidate_revision: Revision
    files: tuple[FileChange, ...]
    checks: tuple[Check, ...]
    risk: Risk
    risk_reasons: tuple[str, ...]
    lines_added: int
    lines_removed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """One revision of an edit; what a decision binds to is its `hash`."""

    id: ProposalId
    revision: int
    project: str
    thread: str
    finding_id: FindingId
    base_revision: Revision
    candidate_revision: Revision
    files: tuple[FileChange, ...]
    draft: Draft
    checks: tuple[Check, ...]
    risk: Risk
    risk_reasons: tuple[str, ...]
    lines_added: int
    lines_removed: int
    created_at: datetime
    plan: JsonObject = field(default_factory=dict)
    """The approved part of the gate plan (`GatePlan` as JSON); empty until the plan node ran."""
    alternatives: tuple[Alternative, ...] = ()
    """No part of the hash: an approval is of the proposal's own draft alone."""

    @property
    def hash(self) -> ProposalHash:
        """SHA-256 of the canonical JSON of everything a person says yes to."""
        return proposal_hash(
            proposal=self.id, revision=self.revision, project=self.project,
            base_revision=self.base_revision, files=self.files, plan=self.plan,
        )  # fmt: skip


def proposal_hash(
    *,
    proposal: str,
    revision: int,
    project: str,
    base_revision: str,
    files: Sequence[FileChange],
    plan: JsonObject,
) -> ProposalHash:
    """The one hash that is ETag, If-Match, and what a decision binds to."""
    value: Json = {
        "proposal": proposal,
        "revision": revision,
        "project": project,
        "base_revision": base_revision,
        "files": [{"path": f.path, "before": f.before, "after": f.after} for f in files],
        "plan": plan,
    }
    return ProposalHash(sha256_hex(canonical_json(value)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a named person (or the system, on expiry) said to one exact proposal revision."""

    id: DecisionId
    proposal: ProposalId
    revision: int
    proposal_hash: ProposalHash
    card: CardKind
    seat: int
    type: DecisionType
    by: str
    via: Via
    at: datetime
    reason: str | None = None
    note: str | None = None
    binds: str | None = None
    """An override binds to the gate report's hash, an undo to the release id."""
    request_key: str | None = None
    """The caller's idempotency key, so that a repeated call is told from a second decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRelease:
    """What a release did to one target."""

    target: str
    before: Revision
    after: Revision
    origin: str | None
    """What the target calls the state after it: a commit, versions of prompts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """An applied proposal, or an undo of one (`undoes`)."""

    id: ReleaseId
    proposal: ProposalId
    proposal_hash: ProposalHash
    decision_id: DecisionId
    target: str
    """Of several the names, joined by ` + `."""
    before: Revision
    after: Revision
    at: datetime
    targets: tuple[TargetRelease, ...] = ()
    """The changed ones, in the order in which they were switched; of old releases none."""
    undoes: ReleaseId | None = None
    undone_by: ReleaseId | None = None
