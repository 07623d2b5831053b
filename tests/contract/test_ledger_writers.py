"""Who may write: one writer at a time, one holder of a lease, on SQLite and on PostgreSQL."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy.exc import DBAPIError

from contracts.errors import LeaseLost, LedgerError
from memory import leases as lease_store
from memory.ledger import Ledger
from memory.schema import leases
from tests.ledger_worlds import (
    alert,
    at_once,
)

# -- writers


@pytest.mark.servers
def test_a_writer_whose_machine_is_gone_holds_nobody_up(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    if ledger.db.engine.dialect.name == "sqlite":
        pytest.skip("a file's writers are processes of one machine, and their locks end with them")
    monkeypatch.setattr("memory.migrate.IDLE_MS", 300)

    def silent() -> None:
        with ledger.db.write() as tx:
            ledger.audit.append(tx, "half", {})
            with ledger.db.write() as other:  # waits until the server ends the silent one
                ledger.audit.append(other, "whole", {})

    with pytest.raises(DBAPIError):
        silent()
    state = ledger.audit.verify()
    assert (state.ok, state.entries) == (True, 1)


@pytest.mark.servers
def test_a_writer_that_waits_too_long_fails(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    if ledger.db.engine.dialect.name == "sqlite":
        pytest.skip("the busy timeout is SQLite's own")
    monkeypatch.setattr("memory.migrate.WAIT_MS", 300)
    with ledger.db.write(), pytest.raises(LedgerError, match="lock timeout"):
        at_once(lambda _n: ledger.alerts.receive(alert("k")), 1)


# -- leases


@contextmanager
def at(monkeypatch: pytest.MonkeyPatch, machine: str) -> Iterator[None]:
    """As a process of another machine, with this one's numbers of processes."""
    lease_store._owner.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(lease_store, "machine", lambda: machine)
        yield
    lease_store._owner.cache_clear()


def test_one_of_many_takes_the_lease_and_its_fence_grows(ledger: Ledger) -> None:
    taken = [lease for lease in at_once(lambda _n: ledger.leases.take("t")) if lease]
    assert len(taken) == 1
    first = taken[0]
    assert isinstance(first, lease_store.Lease)
    ledger.leases.renew(first)
    ledger.leases.release(first)
    again = ledger.leases.take("t")
    assert again is not None
    assert again.fence == first.fence + 1
    with pytest.raises(LeaseLost):
        ledger.leases.renew(first)
    ledger.leases.release(first)  # lost: gives nothing back
    with ledger.db.read() as tx:
        ledger.leases.check(tx, again)


def test_the_lease_of_another_machine_is_free_when_it_expires(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    with at(monkeypatch, "elsewhere/boot/pid:[1]"):
        held = ledger.leases.take("t")
    assert held is not None
    assert ledger.leases.take("t") is None  # its process cannot be looked at from here
    with ledger.db.write() as tx:
        tx.execute(leases.update().values(expires_at=leases.c.expires_at - 31))
    taken = ledger.leases.take("t")
    assert taken is not None
    assert taken.fence == held.fence + 1


def test_two_containers_with_one_host_name_do_not_take_from_each_other(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, boot, _ = lease_store.machine().split("/")
    with at(monkeypatch, f"{host}/{boot}/pid:[1]"), monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: 2**22 + 1)  # no process has this number here
        patch.setattr(lease_store, "_started", lambda _pid: "7")
        assert ledger.leases.take("t") is not None
    assert ledger.leases.take("t") is None


@pytest.mark.servers
def test_machines_with_clocks_apart_share_that_of_the_server(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    if ledger.db.engine.dialect.name == "sqlite":
        pytest.skip("one machine has one clock")
    with at(monkeypatch, "elsewhere/boot/pid:[1]"):
        assert ledger.leases.take("t") is not None
    ahead = time.time() + 3600
    monkeypatch.setattr(time, "time", lambda: ahead)
    assert ledger.leases.take("t") is None
