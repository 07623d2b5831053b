"""A ledger with a row in every table, as the tests of the stores use it."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sqlalchemy import select

from contracts.alerts import Alert
from contracts.gate import Block, CaseId, Lesson, PlannedCase
from contracts.harness import Effect, HarnessFile, HarnessSnapshot, Revision
from contracts.json_types import JsonObject
from contracts.proposals import Decision, DecisionId, Proposal, ProposalId, ReleaseId
from memory.database import Database, rfc3339
from memory.gate_ledger import Opening
from memory.ledger import Ledger
from memory.proposals import StoredCard
from memory.schema import metadata
from memory.sealed import Member
from memory.vectors import Vector
from tests.card_worlds import MAIN, RETRY, edit, finding, harness, proposal, release, report
from tests.gate_worlds import block, case, graded

NOW = datetime(2026, 12, 1, 9, 30, tzinfo=UTC)
SNAPSHOT = HarnessSnapshot(files={"main.md": HarnessFile(data=b"\x00exact\r\n")})


def alert(key: str = "k", *, group: str = "g", **more: str) -> Alert:
    return Alert(source="generic", key=key, group=group, kind="firing", **more)  # type: ignore[arg-type]


def waiting(
    ledger: Ledger, which: str = "p-1", *, thread: str = "t-1", revision: int = 1
) -> Proposal:
    """A proposal revision that waits, with its card, and the run that waits for it."""
    made, _ = proposal(harness(main=MAIN), edit(RETRY), revision=revision)
    kept = replace(made, id=ProposalId(which), thread=thread, project=ledger.db.project)
    ledger.incidents.open(thread, kind="improve", key=thread, request={}, driver="local")
    with ledger.db.write() as tx:
        ledger.proposals.insert(tx, kept, state="waiting")
        ledger.proposals.put_card(tx, card_of(kept))
    ledger.incidents.set_state(thread, "waiting", due_at=rfc3339(NOW + timedelta(days=7)))
    return kept


def card_of(kept: Proposal) -> StoredCard:
    return StoredCard(
        proposal=kept.id, revision=kept.revision, kind="approve", proposal_hash=kept.hash,
        view={}, payload={}, expires_at=NOW + timedelta(days=7),
    )  # fmt: skip


def decision(kept: Proposal, by: str = "ann", *, seat: int = 1, tag: str = "") -> Decision:
    return Decision(
        id=DecisionId(f"d-{by}{tag}"), proposal=kept.id, revision=kept.revision,
        proposal_hash=kept.hash, card="approve", seat=seat, type="approve", by=by, via="api",
        at=NOW,
    )  # fmt: skip


def effect(kept: Proposal, tag: str = "", *, decided: str = "d-ann") -> Effect:
    return Effect(
        key=f"e-{decided}{tag}", kind="apply", project=kept.project, proposal_hash=kept.hash,
        decision_id=decided, target="directory:.", before=Revision("a"), after=Revision("b"),
    )  # fmt: skip


def gate_block(name: str, phase: str = "target") -> Block:
    planned = PlannedCase(case=CaseId(name), family=name, fingerprint="f", repeats=1)
    return block(planned, "fail", "pass", phase=phase)


def lesson(tag: str = "") -> Lesson:
    return Lesson(
        id=f"l-{tag}", finding_id="f-1", signature="s", cause="c", edit="e", decision="approve",
        reason=None, outcome="applied", at=NOW,
    )  # fmt: skip


def at_once(does: Callable[[int], object], number: int = 6) -> list[object]:
    """What `does` answered in threads that start together."""
    gate = threading.Barrier(number)

    def one(which: int) -> object:
        gate.wait(60)
        return does(which)

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(one, range(number)))


def vector(owner: str, data: bytes) -> Vector:
    """A vector of a lesson."""
    return Vector(kind="lesson", id=owner, embedder="hash", text_hash="h", data=data)


def fill(ledger: Ledger) -> Proposal:
    """A row in every table of this project; ids that are unique across projects carry its name."""
    tag = ledger.db.project
    kept = waiting(ledger, thread=f"t-{tag}")
    ledger.alerts.receive(alert())
    ledger.steps.once(f"t-{tag}", "s", lambda _tx: {"by": tag})
    ledger.reads.put("t", "window", tag, {"by": tag})
    ledger.circuits.failed("langfuse", "t", "down", NOW)
    ledger.schedules.take("nightly", rfc3339(NOW))
    ledger.trail.add(replace(kept, id=ProposalId(f"p-{tag}")), "ask", by="ann", via="api", key="k")
    ledger.gate.put_block(kept.hash, gate_block("c"))
    lease = ledger.leases.take("target:x")
    assert lease is not None
    with ledger.db.write() as tx:
        ledger.proposals.decide(tx, decision(kept, tag=tag))
        ledger.knowledge.put_finding(tx, finding())
        ledger.knowledge.put_evidence(tx, finding().id, {"by": tag})
        ledger.handoffs.file(tx, finding().id, {"by": tag})
        ledger.knowledge.put_lesson(tx, lesson(tag))
        ledger.knowledge.put_cases(tx, finding().id, [case("c")])
        ledger.gate.open(
            tx,
            Opening(proposal_hash=kept.hash, finding=finding().id, use=1, issue_use=1, alpha=0.05,
                    use_taken=False),
        )  # fmt: skip
        ledger.gate.put_report(tx, kept.hash, report(), "digest")
        ledger.artifacts.put_snapshot(tx, SNAPSHOT)
        ledger.effects.intend(tx, effect(kept, tag))
        made = replace(release("a", "b"), id=ReleaseId(f"r-{tag}"), proposal=kept.id)
        ledger.effects.put_release(tx, made)
        ledger.protocol.put_run(tx, f"run-{tag}", f"t-{tag}", {"by": tag})
        ledger.choices.put(tx, "rename", "a:b", {"title": "t"}, by="ann")
        ledger.vectors.put(tx, [vector(f"l-{tag}", tag.encode())])
        ledger.sealed.seal(tx, [member()])
        ledger.sealed.used(tx, kept.hash, member())
        ledger.sealed.rotate(tx, kept.hash)
        ledger.case_runs.add(tx, "cases", "f", Revision("a"), graded("pass"), key="k")
        ledger.gate_checks.put(tx, "planted", ok=True, body={"by": tag})
        ledger.spends.add(tx, "ask", "m", key="k", tokens=7, cost_usd=0.5, thread=f"t-{tag}")
    return kept


def member(name: str = "c") -> Member:
    """A sealed case of the manifest."""
    return Member(fingerprint=f"print of {name}", case=CaseId(name), family=f"family of {name}")


def everything(db: Database, project: str) -> dict[str, Sequence[JsonObject]]:
    """Every row of a project in every table that has projects, read past the stores."""
    found: dict[str, Sequence[JsonObject]] = {}
    with db.read() as tx:
        for table in metadata.sorted_tables:
            if "project" in table.c:
                rows = select(table).where(table.c.project == project).order_by(*table.primary_key)
                found[table.name] = [dict(row) for row in tx.execute(rows).mappings()]
    return found
