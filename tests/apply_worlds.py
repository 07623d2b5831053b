"""Installations in which a proposal was approved and accepted, and only its apply is left.

The decision and the report are put straight into the ledger; the harness is real files, in two
places. `do` runs the real node in a process of its own, which may be killed, slowed or starved.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from contracts.codec import to_json
from contracts.gate import GateReport
from contracts.harness import Effect, EffectKind
from contracts.json_types import JsonObject, canonical_json, sha256_hex
from contracts.proposals import CardKind, Decision, DecisionId, Proposal, Release
from memory.ledger import open_ledger
from memory.workspace import open_project
from tests.approval_worlds import Inbox, installation, wait_for
from tests.card_worlds import inserting, report

REPOSITORY = Path(__file__).resolve().parents[1]
THREAD = "t-apply"
WHICH = "p-4k7q2m6xza"
ANCHOR = "- Never promise a delivery date."
OTHER = "# The other agent\n\nYou check invoices.\n"

NODE = """
import asyncio, json, os, sys
from langgraph.runtime import ExecutionInfo, Runtime
from contracts.context import RunContext
from contracts.errors import TracemendError

told = json.loads(sys.argv[1])
for before in told["before"]:
    exec(before, {})
if told["kill"]:
    sys.path.insert(0, os.path.join("tests", "story"))
    from kill_at import wrap
    when, place, number = told["kill"]
    wrap(when, place, number)
from nodes.apply import after_apply, apply

async def main():
    info = ExecutionInfo(checkpoint_id="c", checkpoint_ns="", task_id="t", thread_id=told["thread"])
    runtime = Runtime(context=RunContext(project="refunds"), execution_info=info)
    state = {"proposal": told["proposal"]}
    done = await apply(state, runtime)
    return {"applied": done["applied"], "next": await after_apply(state, runtime)}

try:
    said = asyncio.run(main())
except TracemendError as error:
    said = {"error": str(error), "kind": type(error).__name__,
            "retryable": getattr(error, "retryable", None)}
print(json.dumps(said))
"""
"""The node, told by one JSON argument; `before` are lines that make the process a worse place."""

DECIDE = """
import asyncio, json, sys
from langgraph.runtime import ExecutionInfo, Runtime
from contracts.context import RunContext
from memory.workspace import open_workspace
from nodes.decide import Person, enter

told = json.loads(sys.argv[1])

async def main():
    info = ExecutionInfo(checkpoint_id="c", checkpoint_ns="", task_id="t", thread_id=told["thread"])
    ws = await open_workspace(Runtime(context=RunContext(project="refunds"), execution_info=info))
    stored = ws.ledger.proposals.revisions(told["proposal"])[told["revision"] - 1]
    person = Person(name=told["by"], via="cli", authenticated=True)
    entered = await enter(ws, stored, "approve", {"decisions": [told["says"]]}, person)
    said = entered.decision
    return {"first": entered.first, "problem": entered.problem, "changed": entered.changed,
            "type": said and said.type, "by": said and said.by}

print(json.dumps(asyncio.run(main())))
"""
"""A person's answer, as every door enters it."""

Kill = tuple[Literal["before", "after"], str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """How the process ended: what the node wrote, or the one line that it raised."""

    code: int
    applied: str | None = None
    next: str | None = None
    error: str | None = None
    kind: str | None = None
    retryable: bool | None = None
    stderr: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyWorld:
    """One installation whose proposal may be applied."""

    inbox: Inbox
    proposal: Proposal
    before: Mapping[str, bytes]
    after: Mapping[str, bytes]
    """Every harness file of both places, by its path in the whole harness."""
    more: Mapping[str, str] = field(default_factory=dict)
    """Variables of the process."""

    @property
    def root(self) -> Path:
        return self.inbox.root()

    def place(self, path: str) -> Path:
        """Where a path of the whole harness is on the disk."""
        inside = path.removeprefix("other/")
        return (self.root / "agent-b" if inside != path else self.root) / inside

    def harness(self) -> dict[str, bytes]:
        """Every byte of both places now."""
        paths = {*self.before, *self.after}
        found = {path: self.place(path) for path in sorted(paths)}
        return {path: file.read_bytes() for path, file in found.items() if file.is_file()}

    def command(
        self, *, kill: Kill | None = None, before: Sequence[str] = (), thread: str = THREAD
    ) -> list[str]:
        told = {"kill": kill, "before": before, "thread": thread, "proposal": self.proposal.id}
        return [sys.executable, "-c", NODE, json.dumps(told)]

    @property
    def environ(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("TRACEMEND")}
        return {**kept, "TRACEMEND_HOME": str(self.inbox.home), **self.more}

    def do(
        self, *, kill: Kill | None = None, before: Sequence[str] = (), within: Sequence[str] = (),
        thread: str = THREAD,
    ) -> Said:  # fmt: skip
        """Run the node once; `within` is a program that runs it, such as `unshare -U`."""
        command = [*within, *self.command(kill=kill, before=before, thread=thread)]
        done = subprocess.run(
            command, cwd=REPOSITORY, env=self.environ, capture_output=True, text=True, timeout=120,
            check=False,
        )  # fmt: skip
        return said_of(done.returncode, done.stdout, done.stderr)

    def answer(
        self, by: str, says: JsonObject | None = None, *, revision: int = 1
    ) -> Mapping[str, Any]:
        """One person's answer on the card of a revision, in a process of its own."""
        told = {"thread": THREAD, "proposal": self.proposal.id, "revision": revision, "by": by,
                "says": says or {"type": "approve"}}  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", DECIDE, json.dumps(told)], cwd=REPOSITORY, env=self.environ,
            capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        entered: Mapping[str, Any] = json.loads(done.stdout)
        return entered

    def effects(self, kind: EffectKind = "apply") -> list[Effect]:
        with self.inbox.looking() as ledger:
            return ledger.effects.of(kind=kind, proposal_hash=self.proposal.hash)

    def releases(self) -> list[Release]:
        with self.inbox.looking() as ledger:
            return ledger.effects.releases()

    def state(self) -> str:
        with self.inbox.looking() as ledger:
            return ledger.proposals.latest(self.proposal.id).state

    def audit_ok(self) -> bool:
        with self.inbox.looking() as ledger:
            return ledger.audit.verify().ok

    def decide(self, card: CardKind = "approve", *, binds: str | None = None) -> Decision:
        """A named person's yes on a card, straight into the ledger."""
        ledger = open_ledger(self.inbox.home / "ledger.sqlite", "refunds")
        proposal = self.proposal
        try:
            there = ledger.proposals.decisions(proposal.id, proposal.revision, card)
            decision = Decision(
                id=DecisionId(f"d-{card}-{len(there) + 1}"), proposal=proposal.id,
                revision=proposal.revision, proposal_hash=proposal.hash, card=card,
                seat=len(there) + 1, type="approve", by="mira", via="cli", at=ledger.db.clock(),
                binds=binds,
            )  # fmt: skip
            with ledger.db.write() as tx:
                assert ledger.proposals.decide(tx, decision)
                if card == "approve":
                    ledger.proposals.set_state(tx, proposal, "approved")
        finally:
            ledger.close()
        return decision

    def accept(self) -> None:
        """The gate's report, straight into the ledger."""
        ledger = open_ledger(self.inbox.home / "ledger.sqlite", "refunds")
        passed: GateReport = replace(report(), verdict="accept", reason="all claims hold")
        digest = sha256_hex(canonical_json(to_json(passed)))
        try:
            with ledger.db.write() as tx:
                ledger.gate.put_report(tx, self.proposal.hash, passed, digest)
        finally:
            ledger.close()

    def undo_card(self) -> None:
        """A person's yes to taking the release back."""
        self.decide("undo", binds=self.releases()[0].id)


def said_of(code: int, out: str, err: str) -> Said:
    """What a process of `command` said."""
    if not out.strip():
        return Said(code=code, stderr=err)
    return Said(code=code, stderr=err, **json.loads(out))


def two_places(folder: Path, *, one: bool = False, approved: bool = True) -> ApplyWorld:
    """A harness in two folders, one of them under `other/`, and an edit of both (or of one)."""
    inbox = installation(folder, harness=[
        {"kind": "directory", "include": ["instructions/*.md", "skills/**"]},
        {"kind": "directory", "root": "agent-b", "include": ["*.md"], "at": "other"},
    ])  # fmt: skip
    return edited(inbox, one=one, approved=approved)


def edited(inbox: Inbox, *, one: bool, approved: bool) -> ApplyWorld:
    """The world of an installation whose second place is a folder `agent-b`."""
    beside = inbox.root() / "agent-b"
    beside.mkdir()
    (beside / "invoices.md").write_text(OTHER, "utf-8")
    (inbox.root() / "instructions" / "more.md").write_text("More.\n", "utf-8")
    operations = [
        inserting("instructions/main.md", ANCHOR, "- Be kind.\n"),
        inserting("instructions/more.md", "More.", "Much more.\n"),
    ]
    if not one:
        operations.append(inserting("other/invoices.md", "You check invoices.", "Twice.\n"))
    proposal = wait_for(inbox, operations, which=WHICH, thread=THREAD)
    ws = open_project(inbox.home, "refunds")
    sides = [
        {path: file.data for path, file in ws.ledger.artifacts.snapshot(revision).files.items()}
        for revision in (proposal.base_revision, proposal.candidate_revision)
    ]
    world = ApplyWorld(inbox=inbox, proposal=proposal, before=sides[0], after=sides[1])
    if approved:
        world.decide()
        world.accept()
    return world
