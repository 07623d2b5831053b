"""The other drafts on a card: what differs, why, how risky, and how one of them is picked."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from connectors.review.card_facts import draft_facts
from connectors.review.card_files import FileView, file_view
from connectors.review.clean import one_line
from connectors.review.diff import FileDiff
from connectors.review.gate_view import Fact
from contracts.proposals import Alternative, Proposal, Risk

SHORT_FOLD = 24
"""Diff lines shown of one file of an alternative; the card of a picked one shows all that cards do.
"""
SHORT_LINE = 200
"""Characters of such a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlternativeView:
    """One alternative, safe to show. Nothing of it runs unless a person picks it."""

    label: str
    title: str
    facts: tuple[Fact, ...]
    """Why, what it rests on, what would prove it wrong, author, risk, how to pick it."""
    files: tuple[FileView, ...]
    """The beginnings of its diffs against the base."""
    lines_added: int
    lines_removed: int
    risk: Risk


def alternative_view(
    proposal: Proposal, one: Alternative, diffs: Sequence[FileDiff]
) -> AlternativeView:
    """The view of one alternative.

    Args:
        proposal: whose card it stands on.
        one: the alternative.
        diffs: of its files against the base, folded after `SHORT_FOLD` lines.
    """
    paths = [diff.path for diff in diffs]
    where = one_line(paths[0], 80) if len(paths) == 1 else f"{len(paths)} files"
    reasons = "; ".join(one.risk_reasons)
    return AlternativeView(
        label=one.label,
        title=f"Alternative {one.label}: +{one.lines_added} -{one.lines_removed} in {where}, "
        f"risk {one.risk}",
        facts=(
            Fact(label="edit", text=one_line(one.draft.why, 500)),
            *draft_facts(one.draft),
            Fact(label="risk", text=one_line(f"{one.risk}: {reasons}", 400)),
            Fact(label="pick", text=pick_words(proposal, one.label)),
        ),
        files=tuple(_short(file_view(diff)) for diff in diffs),
        lines_added=one.lines_added, lines_removed=one.lines_removed, risk=one.risk,
    )  # fmt: skip


def pick_words(proposal: Proposal, label: str) -> str:
    """How an alternative is picked, and what that leads to."""
    return (
        f"tracemend pick {proposal.id} {label} --as NAME makes it r{proposal.revision + 1}, with "
        "its own card; nothing of it runs before that is approved"
    )


def _short(view: FileView) -> FileView:
    lines = (
        line if len(line) <= SHORT_LINE else f"{line[: SHORT_LINE - 1]}…" for line in view.lines
    )
    return replace(view, lines=tuple(lines))
