"""Leases: who drives a thread or writes a target now, with a number that only grows.

A lease ends when it is released or expires, or when its owner is a process of this machine that is
no longer alive: after a kill the next process goes on at once and does not wait for the expiry.
"""

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from uuid import uuid4

from sqlalchemy import Connection, text, update

from contracts.errors import LeaseLost
from memory.database import Database
from memory.schema import leases

LEASE_SECONDS = 30.0
"""Long enough for a stalled disk, short enough that another machine takes over within a minute."""

_SERVER_TIME = text("SELECT extract(epoch FROM clock_timestamp())::float8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A lease that was taken; `fence` is larger than that of every lease of this name before."""

    name: str
    owner: str
    fence: int


def _started(pid: int) -> str:
    """Start time of a living process in ticks since boot: a reused pid is another process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]  # a zombie does nothing any more


def _said(file: str) -> str:
    try:
        return Path(file).read_text("ascii").strip()
    except OSError:
        return ""


@lru_cache(maxsize=1)
def machine() -> str:
    """Where a process number means one process: host, boot and number space.

    Two containers may have one host name (replicas of one description), and each of their first
    processes is number 1: neither may take the other for a dead one.
    """
    try:
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        space = ""
    return "/".join((socket.gethostname(), _said("/proc/sys/kernel/random/boot_id"), space))


@lru_cache(maxsize=8)
def _owner(pid: int) -> str:
    return "|".join((machine(), str(pid), _started(pid), uuid4().hex[:8]))


def owner_name() -> str:
    """This process: machine, pid, start time and a random part."""
    return _owner(os.getpid())


def owner_gone(owner: str) -> bool:
    """Whether the owner was a process of this machine that is not alive any more."""
    host, pid, started, _ = owner.split("|")
    if host != machine() or not Path("/proc/self/stat").exists():
        return False
    return _started(int(pid)) != started


class Leases:
    """Takes, renews and gives back leases in one project."""

    def __init__(self, db: Database, *, clock: Callable[[], float] | None = None) -> None:
        self._db = db
        self._clock = clock

    def take(self, name: str) -> Lease | None:
        """The lease, or None while another living owner holds it."""
        me = owner_name()
        with self._db.write() as tx:
            now = self._now(tx)
            rows = self._db.rows(tx, self._db.mine(leases, name=name))
            if not rows:
                values = {"owner": me, "fence": 1, "expires_at": now + LEASE_SECONDS}
                self._db.insert_once(tx, leases, {"name": name, **values})
                return Lease(name=name, owner=me, fence=1)
            row = rows[0]
            holder: str | None = row["owner"]
            held = holder is not None and row["expires_at"] > now
            if held and holder is not None and not owner_gone(holder):
                return None
            fence: int = row["fence"] + 1
            self._set(tx, name, owner=me, fence=fence, expires_at=now + LEASE_SECONDS)
            return Lease(name=name, owner=me, fence=fence)

    def renew(self, lease: Lease) -> None:
        """Prolong it.

        Raises:
            LeaseLost: somebody else took it in the meantime.
        """
        with self._db.write() as tx:
            self.check(tx, lease)
            self._set(tx, lease.name, expires_at=self._now(tx) + LEASE_SECONDS)

    def check(self, tx: Connection, lease: Lease) -> None:
        """Inside a transaction: the lease is still ours, so what is written here is allowed.

        Raises:
            LeaseLost: it is not.
        """
        rows = self._db.rows(tx, self._db.mine(leases, name=lease.name))
        if not rows or (rows[0]["owner"], rows[0]["fence"]) != (lease.owner, lease.fence):
            raise LeaseLost(f"another process took over {lease.name}; it goes on there")

    def release(self, lease: Lease) -> None:
        """Give it back; a no-op when it is lost already."""
        with self._db.write() as tx:
            tx.execute(
                update(leases)
                .where(
                    leases.c.project == self._db.project,
                    leases.c.name == lease.name,
                    leases.c.fence == lease.fence,
                )
                .values(owner=None, expires_at=0.0)
            )

    def _now(self, tx: Connection) -> float:
        """Seconds by the one clock that all owners share: PostgreSQL's, or this machine's."""
        if self._clock is not None:
            return self._clock()
        if tx.dialect.name == "postgresql":
            return float(tx.execute(_SERVER_TIME).scalar_one())
        return time.time()

    def _set(self, tx: Connection, name: str, **values: object) -> None:
        mine = (leases.c.project == self._db.project) & (leases.c.name == name)
        tx.execute(update(leases).where(mine).values(**values))
