"""Promise 15: no method of a project's stores shows or changes a row of another project."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from contracts.alerts import Alert
from contracts.errors import LeaseLost, ProjectMismatch, TracemendError, UsageError
from contracts.harness import Revision
from contracts.proposals import Proposal, ProposalId, ReleaseId
from memory.database import Place, rfc3339
from memory.gate_ledger import Opening
from memory.leases import Lease
from memory.ledger import Ledger, open_ledger
from memory.schema import metadata
from tests.card_worlds import finding, release, report
from tests.gate_worlds import case, graded
from tests.ledger_worlds import (
    NOW,
    SNAPSHOT,
    alert,
    card_of,
    decision,
    effect,
    everything,
    fill,
    gate_block,
    lesson,
    member,
    vector,
)

STORES = (
    "sealed", "case_runs", "gate_checks",
    "alerts", "artifacts", "audit", "choices", "circuits", "effects", "gate", "handoffs",
    "incidents", "knowledge", "leases", "proposals", "protocol", "reads", "schedules", "spends",
    "steps", "trail", "vectors",
)  # fmt: skip


def test_the_tables_without_a_project_are_known() -> None:
    without = {table.name for table in metadata.sorted_tables if "project" not in table.c}
    assert without == {"meta", "tokens"}  # and Alembic's own, which speaks of the whole database
    assert all(not t.c.project.nullable for t in metadata.sorted_tables if "project" in t.c)


def test_every_store_of_the_ledger_is_in_these_tests(place: Place) -> None:
    ledger = open_ledger(place, "one")
    assert {name for name in vars(ledger) if name != "db"} == set(STORES)


class Called:
    """A ledger that notes which methods of its stores were called."""

    def __init__(self, ledger: Ledger) -> None:
        self.names: set[str] = set()
        self.public: set[str] = set()
        for name in STORES:
            store = getattr(ledger, name)
            for method, value in inspect.getmembers(store, inspect.ismethod):
                if not method.startswith("_"):
                    self.public.add(f"{name}.{method}")
                    setattr(store, method, self._noting(f"{name}.{method}", value))

    def _noting(self, name: str, method: Callable[..., object]) -> Callable[..., object]:
        def noted(*given: object, **named: object) -> object:
            self.names.add(name)
            return method(*given, **named)

        return noted


@pytest.fixture
def two(place: Place) -> Iterator[tuple[Ledger, Ledger]]:
    """Two projects of one database, each with a row in every table."""
    ours, theirs = open_ledger(place, "ours"), open_ledger(place, "theirs")
    fill(ours)
    fill(theirs)
    yield ours, theirs
    ours.close()
    theirs.close()


def test_every_table_has_rows_of_both(two: tuple[Ledger, Ledger]) -> None:
    for ledger in two:
        rows = everything(ledger.db, ledger.db.project)
        assert [name for name, found in rows.items() if not found] == []


def test_no_method_shows_a_row_of_another_project(place: Place) -> None:
    theirs = open_ledger(place, "theirs")
    kept = fill(theirs)
    empty = open_ledger(place, "empty")
    seen = everything(empty.db, "empty")
    shown = list(_read_all(empty, kept))
    assert [answer for answer in shown if answer] == []
    assert everything(empty.db, "empty") == seen  # reading wrote nothing


def test_no_method_changes_a_row_of_another_project(two: tuple[Ledger, Ledger]) -> None:
    ours, theirs = two
    before = everything(theirs.db, "theirs")
    kept = replace(theirs.proposals.latest("p-1").proposal)
    called = Called(ours)
    _write_all(ours, kept)
    list(_read_all(ours, kept))
    assert everything(theirs.db, "theirs") == before
    assert theirs.audit.verify().ok
    assert called.public - called.names == set()  # a new method needs its line here


def test_a_choice_of_another_project_cannot_be_revoked(two: tuple[Ledger, Ledger]) -> None:
    ours, theirs = two
    (standing,) = theirs.choices.listed()
    with ours.db.write() as tx:
        assert not ours.choices.revoke(tx, standing.id, by="me")
    assert theirs.choices.listed() == [standing]


@contextmanager
def refused() -> Iterator[None]:
    """What is not ours may be refused."""
    with suppress(TracemendError):
        yield


def _read_all(ledger: Ledger, kept: Proposal) -> Iterator[object]:
    """What every reading method says of the other project's ids; all of it must be nothing."""
    with ledger.db.read() as tx:
        yield ledger.alerts.new_in(tx, 10) if ledger.db.project == "empty" else None
        yield ledger.alerts.open_incident(tx, "generic|nothing")
        standing = ledger.proposals.open_in(tx)
        yield standing if ledger.db.project == "empty" else None
        tickets = ledger.handoffs.listed_in(tx), ledger.handoffs.get_in(tx, finding().id)
        yield any(tickets) if ledger.db.project == "empty" else None
    yield ledger.alerts.of_thread("t-theirs")
    yield ledger.sealed.epoch() > 1
    yield ledger.sealed.manifest_hash() == ""
    yield ledger.incidents.find("t-theirs")
    yield ledger.incidents.closed("t-theirs")
    yield ledger.steps.get("t-theirs", "s")
    yield ledger.proposals.by_hash(kept.hash)
    yield ledger.protocol.thread("t-theirs")
    yield ledger.protocol.threads(ids=["t-theirs"])
    yield ledger.protocol.run("run-theirs")
    yield ledger.protocol.runs(thread="t-theirs")
    yield ledger.trail.of("p-theirs")
    yield ledger.effects.undo_of(ReleaseId("r-theirs"))
    with refused():
        yield ledger.incidents.get("t-theirs")
    with refused():
        yield ledger.effects.release("r-theirs")
    own = (
        ledger.alerts.new(), ledger.alerts.listed(), ledger.alerts.counts(),
        ledger.incidents.listed(), ledger.incidents.unfinished(), ledger.incidents.due("9"),
        ledger.proposals.all_latest(), ledger.proposals.open(), ledger.proposals.revisions("p-1"),
        ledger.proposals.page(states=None, finding=None, limit=9, before=None),
        ledger.proposals.count_for(kept.finding_id), ledger.proposals.card("p-1", 1, "approve"),
        ledger.proposals.decisions("p-1", 1, "approve"),
        ledger.proposals.decision("p-1", 1, "approve"), ledger.knowledge.evidence(finding().id),
        ledger.knowledge.findings(), ledger.knowledge.oldest_ready(), ledger.handoffs.listed(),
        ledger.handoffs.get(finding().id), ledger.handoffs.unsent(),
        ledger.knowledge.lessons(), ledger.knowledge.targets(finding().id),
        ledger.knowledge.all_cases(finding().id),
        ledger.gate.issue_uses(finding().id), ledger.gate.opening(kept.hash),
        ledger.gate.blocks(kept.hash), ledger.gate.report(kept.hash), ledger.effects.releases(),
        ledger.effects.find(kind="apply", proposal_hash=kept.hash),
        ledger.effects.of(kind="apply", proposal_hash=kept.hash), ledger.effects.unfinished(),
        ledger.effects.release_of("c" * 64), ledger.circuits.listed(), ledger.circuits.paused(NOW),
        ledger.schedules.last_slots(), ledger.reads.get("t", "window"), ledger.protocol.count(),
        ledger.audit.verify().entries, ledger.choices.listed(),
        ledger.vectors.listed("lesson", "hash"), ledger.vectors.stamp("lesson", "hash").count,
        ledger.vectors.since("lesson", "hash", "", 9), ledger.vectors.hashes("lesson", "hash"),
        ledger.sealed.listed(), ledger.sealed.retired(), ledger.sealed.uses_of([member()]),
        ledger.sealed.never_used([]),
        ledger.case_runs.counts(Revision("a")), ledger.case_runs.listed("f", Revision("a")),
        ledger.case_runs.known("cases", Revision("a"), ["k"]),
        ledger.gate_checks.last("planted"), ledger.gate_checks.listed("planted"),
        ledger.knowledge.mined(),
        ledger.spends.of_thread("t-theirs").calls,
        ledger.spends.since(datetime(2020, 1, 1, tzinfo=UTC)).calls,
    )  # fmt: skip
    if ledger.db.project == "empty":
        yield from own
        with pytest.raises(TracemendError):
            ledger.proposals.latest("p-1")
        with pytest.raises(TracemendError):
            ledger.knowledge.finding(finding().id)
        with pytest.raises(TracemendError):
            ledger.artifacts.snapshot(SNAPSHOT.revision)


def _write_all(ledger: Ledger, kept: Proposal) -> None:
    """Every writing method, aimed at the other project's ids."""
    _write_runs(ledger)
    _write_rest(ledger, kept)
    mine = replace(kept, project=ledger.db.project)
    with ledger.db.write() as tx:
        ledger.proposals.insert(tx, replace(mine, revision=2), state="drafting")
        ledger.proposals.freeze(tx, replace(mine, revision=2))
        ledger.proposals.set_state(tx, mine, "rejected")
        ledger.proposals.put_card(tx, replace(card_of(mine), revision=2))
        ledger.proposals.decide(tx, decision(mine, "bob", seat=2))
        ledger.proposals.wake(tx, mine.id)
        ledger.knowledge.put_finding(tx, finding(title="another"))
        ledger.knowledge.put_evidence(tx, finding().id, {"by": "me"})
        ledger.knowledge.set_finding(tx, finding().id, "ready")
        ledger.knowledge.put_unseen(tx, ())
        ledger.handoffs.file(tx, finding().id, {"by": "me"})
        ledger.handoffs.close(tx, finding().id, {"by": "me"}, by="me")
        ledger.handoffs.file_again(tx, finding().id, {"by": "me"})
        for ticket in ledger.handoffs.listed_in(tx):
            ledger.handoffs.not_sent(tx, ticket, "down")
            ledger.handoffs.sent(tx, ticket)
        ledger.knowledge.put_lesson(tx, lesson("theirs"))
        ledger.knowledge.put_cases(tx, finding().id, [case("c"), case("d")])
        ledger.knowledge.targets_to_training(tx, finding().id)
        ledger.knowledge.seal_mined(tx, ["c", "d"])
        ledger.knowledge.training_to_targets(tx, finding().id)
        ledger.choices.put(tx, "rename", "a:b", {"title": "mine"}, by="me")
        ledger.choices.revoke(tx, "h-nobody", by="me")
        ledger.vectors.put(tx, [vector("l-theirs", b"mine")])
        ledger.vectors.forget(tx, "lesson", "l-theirs")
        ledger.spends.add(tx, "ask", "m", key="k", tokens=1, cost_usd=None, thread="t-theirs")
        ledger.sealed.seal(tx, [member(), member("another")])
        ledger.sealed.used(tx, "a hash", member())
        ledger.sealed.retire(tx, [member().fingerprint], "mine")
        ledger.sealed.rotate(tx, "a hash")
        ledger.case_runs.add(tx, "cases", "f", Revision("a"), graded("fail"), key="k")
        ledger.gate_checks.put(tx, "planted", ok=False, body={"by": "me"})
    assert ledger.knowledge.oldest_ready() is not None
    assert ledger.knowledge.finding(finding().id).finding.title == "another"
    assert ledger.artifacts.snapshot(SNAPSHOT.revision) == SNAPSHOT
    assert ledger.proposals.latest("p-1").proposal.project == ledger.db.project


def _write_runs(ledger: Ledger) -> None:
    theirs = "t-theirs"
    with pytest.raises(ProjectMismatch):
        ledger.incidents.open(theirs, kind="alert", key="k", request={})
    ledger.incidents.set_state(theirs, "closed")
    ledger.incidents.claim_alert(source="generic", key="k", thread=theirs, body={})
    ledger.steps.once(theirs, "s", lambda _tx: {"by": "me"})
    ledger.reads.put("t", "window", "mine", {})
    ledger.reads.clear("t")
    ledger.alerts.receive(alert("another"))
    received = ledger.alerts.listed()  # "k" is among them, which they have as well
    with ledger.db.write() as tx:
        ledger.incidents.open_in(tx, theirs, kind="alert", key="k", request={}, driver="local")
        ledger.incidents.note(tx, theirs, "quarantined")
        ledger.incidents.recovered(tx, theirs)
        for one in received:
            ledger.alerts.settle(tx, one, "started", thread=theirs)
        ledger.alerts.fired_again(tx, theirs)
        ledger.alerts.joined(tx, theirs, received)
        ledger.protocol.put_run(tx, "run-theirs", theirs, {})
    assert not ledger.protocol.put_thread(theirs, {"by": "me"})
    ledger.protocol.set_metadata(theirs, {"by": "me"})
    ledger.protocol.set_run("run-theirs", "cancelled")
    ledger.protocol.delete_run("run-theirs")
    ledger.protocol.delete_thread(theirs)
    for failed in ("t2", "t3"):
        circuit = ledger.circuits.failed("langfuse", failed, "down", NOW)
    ledger.circuits.probe(circuit, NOW)
    ledger.circuits.worked("langfuse")
    ledger.schedules.take("nightly", rfc3339(NOW.replace(year=2027)))


def _write_rest(ledger: Ledger, kept: Proposal) -> None:
    foreign = replace(kept, id=ProposalId("p-theirs"))
    ledger.trail.add(foreign, "defer", by="me", via="api", key="other", until=rfc3339(NOW))
    ledger.gate.put_block(kept.hash, gate_block("d", "sealed"))
    assert ledger.leases.take("target:y") is not None
    lease = Lease(name="target:x", owner="x|1|1|1", fence=1)
    with pytest.raises(LeaseLost):
        ledger.leases.renew(lease)
    ledger.leases.release(lease)
    with pytest.raises(LeaseLost):
        ledger.effects.claim(effect(kept, "theirs"), lease)
    held = ledger.leases.take("target:x")
    assert held is not None
    ledger.effects.claim(effect(kept, "theirs"), held)
    with ledger.db.write() as tx:
        ledger.leases.check(tx, held)
        ledger.effects.intend(tx, effect(replace(kept, project="ours"), "ours"))
        ledger.effects.finish(tx, effect(kept, "theirs"), held, state="stuck", reason="x")
        opening = Opening(
            proposal_hash=kept.hash, finding="f", use=9, issue_use=9, alpha=0.01, use_taken=True
        )
        ledger.gate.open(tx, opening)
        ledger.gate.put_report(tx, kept.hash, replace(report(), verdict="accept"), "mine")
        digest = ledger.artifacts.put_text(tx, "trace", "text")
        ledger.artifacts.put_snapshot(tx, SNAPSHOT)
        ledger.audit.append(tx, "mine", {})
        undo = replace(release("a", "b"), id=ReleaseId("r-2"), undoes=ReleaseId("r-theirs"))
        with pytest.raises(UsageError):
            ledger.effects.put_release(tx, undo)
    assert ledger.artifacts.text(digest, "trace") == "text"


def test_a_run_takes_the_thread_that_a_stranger_named_before(place: Place) -> None:
    stranger, ours = open_ledger(place, "stranger"), open_ledger(place, "ours")
    assert stranger.protocol.put_thread("t", {"mine": True})
    ours.incidents.open("t", kind="alert", key="k", request={}, driver="local")
    assert stranger.protocol.thread("t") is None
    seen = ours.protocol.thread("t")
    assert seen is not None
    assert seen.metadata == {"project": "ours", "kind": "alert"}


def test_the_id_of_a_run_cannot_be_named_after_its_thread_was_deleted(place: Place) -> None:
    stranger, ours = open_ledger(place, "stranger"), open_ledger(place, "ours")
    ours.incidents.open("t", kind="alert", key="k", request={}, driver="local")
    ours.protocol.delete_thread("t")
    assert not stranger.protocol.put_thread("t", {})
    assert ours.protocol.put_thread("t", {})


def test_alerts_of_two_projects_with_one_key_are_two(place: Place) -> None:
    one, other = open_ledger(place, "one"), open_ledger(place, "other")
    same: Alert = alert("k")
    assert (one.alerts.receive(same), other.alerts.receive(same)) == (True, True)
    assert one.alerts.counts() == {("generic", "new"): 1}
