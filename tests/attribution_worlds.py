"""A project whose releases are made straight in the ledger, over a real folder, at fixed times.

What is written is what the nodes write: snapshots, proposal, card, decision, gate report, effect
and release with its audit entry. So blame and story read a real ledger; no run is needed.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from connectors.review.diff import DiffStats, total, unified
from contracts.codec import to_json
from contracts.gate import GateReport, Verdict
from contracts.harness import Effect, EffectKind, HarnessFile, HarnessSnapshot, effect_key
from contracts.json_types import Json, content_id
from contracts.proposals import (
    CardKind,
    Check,
    Decision,
    DecisionId,
    Proposal,
    ProposalId,
    ProposalState,
    Release,
    ReleaseId,
    TargetRelease,
)
from memory.ledger import open_ledger
from memory.proposals import StoredProposal
from memory.workspace import Workspace, open_project
from nodes.evolution.edits import describe_files
from nodes.ports import open_harness
from nodes.showing import card_for
from tests.approval_worlds import Inbox, installation
from tests.card_worlds import QUOTES, edit, finding, plan, proposal, report

MAIN = "instructions/main.md"
TARGET = "directory:."
CHECKS = (
    Check(rule="paths", ok=True, detail="only allowed text files"),
    Check(rule="tokens", ok=True, detail="+18 tokens in the agent's text"),
)
"""Fixed, so that a golden page does not change with every new rule."""


class Ticking:
    """A clock that moves on by a second each time it is asked."""

    def __init__(self, start: datetime) -> None:
        self._now = start

    def __call__(self) -> datetime:
        self._now += timedelta(seconds=1)
        return self._now


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """One project with an open ledger."""

    ws: Workspace
    inbox: Inbox

    def files(self) -> HarnessSnapshot:
        """The harness as it is now."""
        return asyncio.run(open_harness(self.ws).read())

    def write(self, data: bytes | str, path: str = MAIN) -> None:
        """A hand edit."""
        file = self.ws.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data.encode() if isinstance(data, str) else data)

    def propose(
        self, data: bytes | str | Mapping[str, bytes], *, path: str = MAIN,
        state: ProposalState = "waiting", why: str | None = None, thread: str | None = None,
    ) -> Proposal:  # fmt: skip
        """A proposal that would make the file so, with its card; nothing is applied."""
        before = self.files()
        given = data if isinstance(data, Mapping) else {path: _bytes(data)}
        files = {name: HarnessFile(data=text) for name, text in given.items()}
        after = HarnessSnapshot(files={**before.files, **files})
        number = len(self.ws.ledger.proposals.all_latest())
        draft, lines = edit(), _lines(before, after)
        drafted, _ = proposal(before, draft)
        found = finding()
        made = replace(
            drafted, id=ProposalId(content_id("p-", self.ws.project, str(number))),
            project=self.ws.project, thread=thread or f"t-{number}", finding_id=found.id,
            candidate_revision=after.revision, files=describe_files(before, after),
            draft=replace(draft, why=why or draft.why), checks=CHECKS, risk="low",
            risk_reasons=("small: one file",), created_at=self.ws.ledger.db.clock(),
            plan=to_json(plan(before.revision, after.revision)), lines_added=lines.added,
            lines_removed=lines.removed,
        )  # fmt: skip
        ledger = self.ws.ledger
        with ledger.db.write() as tx:
            for kept in (before, after):
                ledger.artifacts.put_snapshot(tx, kept)
            ledger.knowledge.put_finding(tx, found)
            quotes: list[Json] = [to_json(one) for one in QUOTES]
            ledger.knowledge.put_evidence(tx, found.id, {"evidence": quotes, "unit": "session"})
            ledger.proposals.insert(tx, made, state=state)
        card = card_for(self.ws, StoredProposal(proposal=made, state=state), "approve")
        with ledger.db.write() as tx:
            ledger.proposals.put_card(tx, card)
        return made

    def decide(
        self, made: Proposal, by: str, card: CardKind = "approve", *, yes: bool = True,
        binds: str | None = None, reason: str | None = None, note: str | None = None, seat: int = 1,
    ) -> Decision:  # fmt: skip
        """What a person said."""
        decision = Decision(
            id=DecisionId(content_id("d-", made.hash, card, by)), proposal=made.id,
            revision=made.revision, proposal_hash=made.hash, card=card, seat=seat,
            type="approve" if yes else "reject", by=by, via="cli", at=self.ws.ledger.db.clock(),
            binds=binds, reason=reason, note=note,
        )  # fmt: skip
        with self.ws.ledger.db.write() as tx:
            self.ws.ledger.proposals.decide(tx, decision)
        return decision

    def gate(self, made: Proposal, verdict: Verdict = "accept", **changed: object) -> str:
        """The gate's report; returns its hash."""
        reason = "every claim held" if verdict == "accept" else "harm not excluded"
        found: GateReport = replace(report(), verdict=verdict, reason=reason, **changed)  # type: ignore[arg-type]  # fields by name
        digest = content_id("", made.hash, verdict).ljust(64, "0")
        with self.ws.ledger.db.write() as tx:
            self.ws.ledger.gate.put_report(tx, made.hash, found, digest)
        return digest

    def release(
        self, data: bytes | str | Mapping[str, bytes], *, path: str = MAIN, by: str = "ann",
        override: str | None = None, origin: str | None = None, why: str | None = None,
        targets: tuple[TargetRelease, ...] = (), thread: str | None = None,
    ) -> Release:  # fmt: skip
        """Propose, approve, test and apply."""
        made = self.propose(data, path=path, why=why, thread=thread)
        decision = self.decide(made, by)
        digest = self.gate(made, "accept" if override is None else "inconclusive")
        if override is not None:
            decision = self.decide(made, override, "override", binds=digest)
        after = self.ws.ledger.artifacts.snapshot(made.candidate_revision)
        for name, file in after.files.items():
            self.write(file.data, name)
        return self._record("apply", made, decision, origin=origin, targets=targets)

    def undo(self, release: Release, by: str = "bob") -> Release:
        """Put the bytes from before a release back."""
        stored = self.ws.ledger.proposals.by_hash(release.proposal_hash)
        assert stored is not None
        made = stored.proposal
        decision = self.decide(made, by, "undo", binds=release.id)
        before = self.ws.ledger.artifacts.snapshot(release.before)
        for path in self.files().files:
            if path not in before.files:
                (self.ws.root / path).unlink()
        for path, file in before.files.items():
            self.write(file.data, path)
        return self._record("undo", made, decision, undoes=release.id)

    def _record(
        self, kind: EffectKind, made: Proposal, decision: Decision, *, origin: str | None = None,
        targets: tuple[TargetRelease, ...] = (), undoes: ReleaseId | None = None,
    ) -> Release:  # fmt: skip
        ledger = self.ws.ledger
        base, candidate = made.base_revision, made.candidate_revision
        before, after = (base, candidate) if kind == "apply" else (candidate, base)
        effect = Effect(
            key=effect_key(kind, made.hash, decision.id, TARGET), kind=kind, project=made.project,
            proposal_hash=made.hash, decision_id=decision.id, target=TARGET, before=before,
            after=after,
        )  # fmt: skip
        one = TargetRelease(target=TARGET, before=before, after=after, origin=origin)
        release = Release(
            id=ReleaseId(content_id("r-", kind, made.hash, decision.id)), proposal=made.id,
            proposal_hash=made.hash, decision_id=decision.id, target=TARGET, before=before,
            after=after, at=ledger.db.clock(), undoes=undoes, targets=targets or (one,),
        )  # fmt: skip
        lease = ledger.leases.take(f"target:{TARGET}")
        assert lease is not None
        with ledger.db.write() as tx:
            kept = ledger.effects.intend(tx, effect)
            ledger.effects.finish(tx, kept, lease, state="done", reason=None)
            ledger.effects.put_release(tx, release)
            ledger.proposals.set_state(tx, made, "watching" if kind == "apply" else "undone")
        ledger.leases.release(lease)
        return release


def desk(folder: Path, text: bytes | str = "one\ntwo\nthree\n", **settings: object) -> Desk:
    """A project with one instruction file, no release yet; the caller closes `ws.ledger`."""
    inbox = installation(folder, **settings)
    opened = open_project(inbox.home, "refunds")
    opened.ledger.close()
    clock = Ticking(datetime(2026, 3, 10, 9, 30, tzinfo=UTC))
    ledger = open_ledger(inbox.home / "ledger.sqlite", "refunds", clock=clock)
    made = Desk(ws=replace(opened, ledger=ledger), inbox=inbox)
    made.write(text)
    return made


def _bytes(data: bytes | str) -> bytes:
    return data.encode() if isinstance(data, str) else data


def _lines(before: HarnessSnapshot, after: HarnessSnapshot) -> DiffStats:
    def data(snapshot: HarnessSnapshot, path: str) -> bytes | None:
        file = snapshot.files.get(path)
        return file.data if file is not None else None

    return total([unified(p, data(before, p), data(after, p)) for p in before.changed(after)])
