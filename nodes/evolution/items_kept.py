"""What releases of this project put into the harness and still stands there, from the ledger.

For files without comments the ledger alone knows. A person's own edit of a card counts like a
draft: what was released is what was added.
"""

import difflib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from connectors.review.clean import one_line
from contracts.errors import PolicyRefused
from contracts.findings import FindingId
from contracts.harness import HarnessSnapshot
from contracts.proposals import ProposalState
from memory.knowledge import FindingState, StoredFinding
from memory.workspace import Workspace
from nodes.evolution.edits import shown_text
from nodes.evolution.items import normal, takes_comments
from nodes.evolution.items_found import KnownText, Placed, own_items

LIVE: frozenset[ProposalState] = frozenset({"applied", "watching", "settled"})
"""States of a proposal whose edit is in the harness."""
_SINCE: Mapping[FindingState, str] = {
    "reopened": "the failure came back after it",
    "open": "the failure is still there",
    "ready": "the failure is still there",
    "watching": "nothing against it has been seen since",
    "closed": "the failure was closed since",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    """All that is known of items of ours in a harness."""

    items: tuple[Placed, ...]
    known: tuple[KnownText, ...]
    """What releases added to files that carry no comments."""
    findings: Mapping[str, StoredFinding]
    """Findings of the items, by id."""

    def notes(self, *, without: Collection[str] = frozenset(), limit: int = 12) -> tuple[str, ...]:
        """Which lines are ours and what became of the failure, a sentence each, worst first.

        For a drafter: what did not help is to be changed or taken out, not said again. Files of
        `without` are not even named.
        """
        order: list[FindingState] = ["reopened", "open", "ready", "watching", "closed"]
        said = [
            (order.index(self._stored(one).state), self._note(one))
            for one in self.items
            if one.path not in without
        ]
        return tuple(text for _, text in sorted(said, key=lambda pair: pair[0])[:limit])

    def did_not_help(self) -> tuple[Placed, ...]:
        """Items whose finding came back: to be changed, or taken out again."""
        return tuple(one for one in self.items if self._stored(one).state == "reopened")

    def _stored(self, one: Placed) -> StoredFinding:
        return self.findings[one.item.finding]

    def _note(self, one: Placed) -> str:
        stored, item = self._stored(one), one.item
        by_hand = "" if item.intact(stored.finding.signature) else ", changed by hand since"
        return one_line(
            f"{one.path} lines {item.start + 1} to {item.stop}: {item.id}, added for "
            f"{stored.finding.signature}{by_hand}; {_SINCE[stored.state]}",
            300,
        )


def ours(ws: Workspace, snapshot: HarnessSnapshot) -> Ours:
    """Items of ours in the harness as it is now. Reads the ledger."""
    stored = {str(one.finding.id): one for one in ws.ledger.knowledge.findings()}
    signatures = {name: str(one.finding.signature) for name, one in stored.items()}
    known = tuple(_known(ws, signatures))
    items = own_items(snapshot, signatures, known)
    named = {one.item.finding: stored[one.item.finding] for one in items}
    return Ours(items=items, known=known, findings=named)


def _known(ws: Workspace, signatures: Mapping[str, str]) -> Iterator[KnownText]:
    for stored in ws.ledger.proposals.all_latest():
        proposal = stored.proposal
        finding: FindingId = proposal.finding_id
        if stored.state not in LIVE or finding not in signatures:
            continue
        paths = [change.path for change in proposal.files if not takes_comments(change.path)]
        if not paths:
            continue
        base = ws.ledger.artifacts.snapshot(proposal.base_revision)
        after = ws.ledger.artifacts.snapshot(proposal.candidate_revision)
        for path in paths:
            for text in added_blocks(_shown(base, path), _shown(after, path)):
                yield KnownText(
                    path=path, text=text, finding=finding, signature=signatures[finding]
                )


def added_blocks(before: str, after: str) -> tuple[str, ...]:
    """The runs of lines that an edit adds, in order; what only changes place is none."""
    old, new = before.split("\n"), after.split("\n")
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    blocks = [
        "\n".join(new[b0:b1]).strip("\n")
        for tag, _, _, b0, b1 in matcher.get_opcodes()
        if tag in ("insert", "replace")
    ]
    return tuple(block for block in blocks if normal(block))


def _shown(snapshot: HarnessSnapshot, path: str) -> str:
    file = snapshot.files.get(path)
    try:
        return shown_text(file, path) if file is not None else ""
    except PolicyRefused:
        return ""
