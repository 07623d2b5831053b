"""The other drafts of a proposal: how they are kept, and how a person's pick becomes a revision.

None of them ever runs. A pick is an edit: the next revision is the picked draft, by its own author,
on which the policy is asked again and which waits for its own approval.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from connectors.review.diff import total, unified
from contracts.harness import HarnessSnapshot
from contracts.proposals import Alternative, Check, Draft, Proposal
from nodes.evolution.edits import describe_files
from nodes.evolution.policy import RejectedEdit, risk_of

OWN: Final = "a"
"""Label of the proposal's own draft."""
LABELS: Final = ("b", "c")
MAX_DRAFTS: Final = 1 + len(LABELS)
"""On one card, the proposal's own included."""


def make_alternative(
    before: HarnessSnapshot,
    after: HarnessSnapshot,
    draft: Draft,
    *,
    checks: Sequence[Check],
    rejected: Sequence[RejectedEdit],
) -> Alternative:
    """An alternative without its label."""
    changes = describe_files(before, after)
    risk, reasons = risk_of(before, after, draft, rejected=rejected)
    lines = total([unified(c.path, *sides(before, after, c.path)) for c in changes])
    return Alternative(
        label="", draft=draft, candidate_revision=after.revision, files=changes,
        checks=tuple(checks), risk=risk, risk_reasons=reasons, lines_added=lines.added,
        lines_removed=lines.removed,
    )  # fmt: skip


def labelled(alternatives: Iterable[Alternative]) -> tuple[Alternative, ...]:
    """As many as a card shows, under their labels."""
    pairs = zip(LABELS, alternatives, strict=False)
    return tuple(replace(one, label=label) for label, one in pairs)


def own(proposal: Proposal) -> Alternative:
    """The proposal's own draft as an alternative of the revision that is made of another one."""
    return Alternative(
        label=OWN, draft=proposal.draft, candidate_revision=proposal.candidate_revision,
        files=proposal.files, checks=proposal.checks, risk=proposal.risk,
        risk_reasons=proposal.risk_reasons, lines_added=proposal.lines_added,
        lines_removed=proposal.lines_removed,
    )  # fmt: skip


def sides(
    before: HarnessSnapshot, after: HarnessSnapshot, path: str
) -> tuple[bytes | None, bytes | None]:
    """The file's bytes on both sides; None: it is not there."""
    old, new = before.files.get(path), after.files.get(path)
    return (old.data if old else None), (new.data if new else None)
