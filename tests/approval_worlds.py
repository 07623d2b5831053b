"""Installations whose proposals wait for a person, made straight in the ledger: no run drives them.

The harness is a real folder and the cards are the real ones, so that an answer is entered as it
would be; what a decision leads to is the matter of the story tests.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from contracts.proposals import Decision, Operation, Proposal, ProposalId, Risk
from graph.cli.project import settings_text
from memory.inbox import decisions_on
from memory.ledger import Ledger, open_ledger
from memory.proposals import StoredProposal
from memory.workspace import open_project, register
from nodes.evolution.alternatives import labelled, make_alternative
from nodes.evolution.edits import apply_operations
from nodes.ports import open_harness
from nodes.showing import card_for
from tests.card_worlds import MAIN, edit, finding, inserting, proposal

ANCHOR = "- Never promise a delivery date."
ADDED = "- Be kind."


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbox:
    """One installation."""

    home: Path

    def root(self, project: str = "refunds") -> Path:
        """The project's repository."""
        return self.home.parent / project

    @contextmanager
    def looking(self, project: str = "refunds") -> Iterator[Ledger]:
        """The ledger for a look, closed afterwards."""
        ledger = open_ledger(self.home / "ledger.sqlite", project)
        try:
            yield ledger
        finally:
            ledger.close()

    def decisions(self, which: str, project: str = "refunds") -> list[Decision]:
        """Everything that was decided on a proposal."""
        with self.looking(project) as ledger:
            return decisions_on(ledger.db, which)

    def harness(self, project: str = "refunds") -> dict[str, bytes]:
        """Every byte of the harness."""
        found = (self.root(project) / "instructions").glob("*.md")
        return {path.name: path.read_bytes() for path in found}


def installation(folder: Path, *projects: str, **more: object) -> Inbox:
    """Projects without a proposal; `more` goes into each `tracemend.yaml`."""
    made = Inbox(home=folder / "home")
    for slug in projects or ("refunds",):
        root = made.root(slug)
        (root / "instructions").mkdir(parents=True)
        (root / "instructions" / "main.md").write_text(MAIN, "utf-8")
        settings = yaml.safe_load(settings_text(slug))
        (root / "tracemend.yaml").write_text(yaml.safe_dump({**settings, **more}), "utf-8")
        register(made.home, slug, root)
    return made


def wait(
    inbox: Inbox, which: str = "p-4k7q2m6xza", *, project: str = "refunds", text: str = ADDED,
    revision: int = 1, risk: Risk = "low", author: str = "playbook:kind-words",
    thread: str | None = None, others: Sequence[str] = (),
) -> Proposal:  # fmt: skip
    """A proposal revision that waits, with its card; `others`: what its alternatives add."""
    operation = inserting("instructions/main.md", ANCHOR, f"{text}\n")
    return wait_for(
        inbox, (operation,), which=which, project=project, revision=revision, risk=risk,
        author=author, thread=thread, others=others,
    )  # fmt: skip


def wait_for(
    inbox: Inbox, operations: Sequence[Operation], *, which: str, project: str = "refunds",
    revision: int = 1, risk: Risk = "low", author: str = "playbook:kind-words",
    thread: str | None = None, others: Sequence[str] = (),
) -> Proposal:  # fmt: skip
    """The same for any operations."""
    ws = open_project(inbox.home, project)
    before = asyncio.run(open_harness(ws).read())
    drafted, after = proposal(before, edit(*operations, author=author), revision=revision)
    found = finding()
    drafts = [
        edit(inserting("instructions/main.md", ANCHOR, f"{one}\n"), author=author) for one in others
    ]
    afters = [apply_operations(before, draft.operations) for draft in drafts]
    alternatives = [
        make_alternative(before, theirs, draft, checks=drafted.checks, rejected=())
        for theirs, draft in zip(afters, drafts, strict=True)
    ]
    made = replace(
        drafted, id=ProposalId(which), project=project, risk=risk, thread=thread or f"t-{which}",
        created_at=ws.ledger.db.clock(), finding_id=found.id, alternatives=labelled(alternatives),
    )  # fmt: skip
    with ws.ledger.db.write() as tx:
        for kept in (before, after, *afters):
            ws.ledger.artifacts.put_snapshot(tx, kept)
        ws.ledger.knowledge.put_finding(tx, found)
        ws.ledger.proposals.insert(tx, made, state="waiting")
    stored = StoredProposal(proposal=made, state="waiting")
    card = card_for(ws, stored, "approve")
    with ws.ledger.db.write() as tx:
        ws.ledger.proposals.put_card(tx, card)
    return made
