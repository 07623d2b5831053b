"""Promises 3, 6 and 15 in the database: written once, whoever else writes at the same time."""

import multiprocessing
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import Connection

from contracts.errors import ConfigError, LeaseLost, ProjectMismatch, UsageError
from contracts.harness import Effect, Revision
from contracts.json_types import Json
from contracts.proposals import Decision, DecisionId, ProposalHash, ProposalId
from memory.ledger import Ledger, open_ledger
from memory.schema import SCHEMA_VERSION


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return open_ledger(tmp_path / "ledger.sqlite", "refunds")


def _decision(by: str) -> Decision:
    return Decision(
        id=DecisionId(f"d-{by}"), proposal=ProposalId("p-1"), revision=1,
        proposal_hash=ProposalHash("h"), card="approve", seat=1, type="approve", by=by,
        via="cli", at=datetime(2026, 11, 30, tzinfo=UTC),
    )  # fmt: skip


def test_a_step_that_is_done_is_not_done_again(ledger: Ledger) -> None:
    ran: list[int] = []

    def write(_tx: Connection) -> dict[str, Json]:
        ran.append(1)
        return {"drafted": len(ran)}

    first = ledger.steps.once("t", "evolution:0", write)
    again = ledger.steps.once("t", "evolution:0", write)
    assert (first, again, len(ran)) == ({"drafted": 1}, {"drafted": 1}, 1)


def test_a_step_that_fails_leaves_nothing(ledger: Ledger) -> None:
    def write(tx: Connection) -> dict[str, Json]:
        ledger.audit.append(tx, "half", {})
        raise RuntimeError("killed here")

    with pytest.raises(RuntimeError, match="killed here"):
        ledger.steps.once("t", "s", write)
    assert ledger.steps.get("t", "s") is None
    assert ledger.audit.verify().entries == 0


def test_of_many_decisions_at_once_one_stands(tmp_path: Path) -> None:
    ledgers = [open_ledger(tmp_path / "ledger.sqlite", "refunds") for _ in range(8)]

    def decide(pair: tuple[int, Ledger]) -> bool:
        number, ledger = pair
        with ledger.db.write() as tx:
            return ledger.proposals.decide(tx, _decision(f"person{number}"))

    with ThreadPoolExecutor(8) as pool:
        first = list(pool.map(decide, enumerate(ledgers)))
    assert first.count(True) == 1
    stands = ledgers[0].proposals.decision("p-1", 1, "approve")
    assert stands is not None
    assert stands.by == f"person{first.index(True)}"


def _effect(kind: str, decision: str) -> Effect:
    assert kind in ("apply", "undo")
    return Effect(
        key=f"{kind}-{decision}", kind="apply" if kind == "apply" else "undo", project="refunds",
        proposal_hash="h", decision_id=decision, target="directory:/x",
        before=Revision("a"), after=Revision("b"),
    )  # fmt: skip


def test_one_proposal_has_one_apply_whatever_decision_asks(ledger: Ledger) -> None:
    with ledger.db.write() as tx:
        first = ledger.effects.intend(tx, _effect("apply", "d-1"))
    with ledger.db.write() as tx:
        second = ledger.effects.intend(tx, _effect("apply", "d-2"))
    assert (first.key, second.key) == ("apply-d-1", "apply-d-1")


def test_an_undo_that_was_refused_can_be_asked_for_again(ledger: Ledger) -> None:
    lease = ledger.leases.take("target:x")
    assert lease is not None
    with ledger.db.write() as tx:
        refused = ledger.effects.intend(tx, _effect("undo", "d-1"))
    with ledger.db.write() as tx:
        ledger.effects.finish(tx, refused, lease, state="aborted", reason="base_moved")
    with ledger.db.write() as tx:
        second = ledger.effects.intend(tx, _effect("undo", "d-2"))
    with ledger.db.write() as tx:
        third = ledger.effects.intend(tx, _effect("undo", "d-3"))
    assert (second.key, third.key) == ("undo-d-2", "undo-d-2")


def test_who_lost_the_lease_cannot_record(ledger: Ledger, tmp_path: Path) -> None:
    lease = ledger.leases.take("target:x")
    assert lease is not None
    with ledger.db.write() as tx:
        effect = ledger.effects.intend(tx, _effect("apply", "d-1"))
    ledger.leases.release(lease)
    other = open_ledger(tmp_path / "ledger.sqlite", "refunds").leases.take("target:x")
    assert other is not None
    assert other.fence == lease.fence + 1
    with pytest.raises(LeaseLost, match="took over target:x"), ledger.db.write() as tx:
        ledger.effects.finish(tx, effect, lease, state="done", reason=None)
    found = ledger.effects.find(kind="apply", proposal_hash="h")
    assert found is not None
    assert found.state == "intended"


_HOLD = """
import sys, time
from pathlib import Path
from memory.ledger import open_ledger
assert open_ledger(Path(sys.argv[1]), "refunds").leases.take("thread:t") is not None
print("held", flush=True)
time.sleep(60)
"""


def test_the_lease_of_a_killed_process_is_free_at_once(tmp_path: Path) -> None:
    file = tmp_path / "ledger.sqlite"
    ledger = open_ledger(file, "refunds")
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(file)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert ledger.leases.take("thread:t") is None
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        lease = ledger.leases.take("thread:t")
    finally:
        holder.kill()
        holder.wait()
        assert holder.stdout is not None
        holder.stdout.close()
    assert lease is not None
    assert lease.fence == 2


def test_a_living_holder_keeps_its_lease_until_it_expires(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "ledger.sqlite", "refunds")
    now = [1000.0]
    ledger.leases._clock = lambda: now[0]
    first = ledger.leases.take("thread:t")
    assert first is not None
    now[0] += 29
    assert ledger.leases.take("thread:t") is None
    now[0] += 2
    assert ledger.leases.take("thread:t") is not None
    with pytest.raises(LeaseLost):
        ledger.leases.renew(first)


def test_a_thread_belongs_to_one_project(tmp_path: Path) -> None:
    one = open_ledger(tmp_path / "ledger.sqlite", "one")
    two = open_ledger(tmp_path / "ledger.sqlite", "two")
    one.incidents.open("t", kind="alert", key="k", request={})
    with pytest.raises(ProjectMismatch, match="thread t belongs to another project than 'two'"):
        two.incidents.open("t", kind="alert", key="k", request={})
    assert two.audit.verify().entries == 1
    assert one.incidents.open("t", kind="alert", key="k", request={}).project == "one"


def test_a_project_does_not_see_another_ones_rows(tmp_path: Path) -> None:
    one = open_ledger(tmp_path / "ledger.sqlite", "one")
    two = open_ledger(tmp_path / "ledger.sqlite", "two")
    with one.db.write() as tx:
        one.proposals.decide(tx, _decision("ann"))
        digest = one.artifacts.put_text(tx, "trace", "text of one")
    assert two.proposals.decision("p-1", 1, "approve") is None
    with pytest.raises(Exception, match="the ledger has no trace blob"):
        two.artifacts.text(digest, "trace")
    with pytest.raises(UsageError, match="no such release in project 'two'"):
        two.effects.release("r-1")


def test_equal_alerts_are_one_thread(ledger: Ledger) -> None:
    first = ledger.incidents.claim_alert(source="s", key="k", thread="t1", body={})
    again = ledger.incidents.claim_alert(source="s", key="k", thread="t2", body={})
    assert (first, again) == ("t1", "t1")


def test_a_file_that_is_no_ledger_is_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "ledger.sqlite"
    file.write_bytes(b"not a database, and long enough to be taken for one" * 100)
    with pytest.raises(ConfigError, match=r"ledger\.sqlite: cannot be opened as a ledger"):
        open_ledger(file, "refunds")


def test_a_ledger_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "ledger.sqlite"
    ledger = open_ledger(file, "refunds")
    with ledger.db.write() as tx:
        tx.exec_driver_sql("UPDATE meta SET value = '99'")
    with pytest.raises(
        ConfigError, match=f"schema version 99, this release reads {SCHEMA_VERSION}"
    ):
        open_ledger(file, "refunds")


def _append(file: str, count: int) -> None:
    ledger = open_ledger(Path(file), "refunds")
    for number in range(count):
        with ledger.db.write() as tx:
            ledger.audit.append(tx, "test", {"number": number})


def test_the_chain_is_whole_after_many_processes_wrote(tmp_path: Path) -> None:
    file = str(tmp_path / "ledger.sqlite")
    open_ledger(Path(file), "refunds")
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_append, args=(file, 40)) for _ in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    state = open_ledger(Path(file), "refunds").audit.verify()
    assert (state.ok, state.entries) == (True, 120)
