"""Two replicas on one PostgreSQL: one drives a run, the other takes over whatever happens to it.

Needs PostgreSQL's programs: `.ci/run 2` installs them where it may.
"""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import psycopg
import pytest
from langchain_core.runnables import RunnableConfig
from sqlalchemy import update

from graph.saver import open_saver
from memory.leases import LEASE_SECONDS
from memory.ledger import Ledger
from memory.proposals import StoredProposal
from memory.schema import leases
from tests.cluster_worlds import Site, recorded_world, until
from tests.postgres import fresh_database, postgres_server
from tests.services import STAGE_2, Running, missing_langgraph_dev, replica
from tests.story.worlds import World, copy_world

pytestmark = [
    pytest.mark.servers, pytest.mark.kill,
    pytest.mark.skipif(missing_langgraph_dev() is not None, reason=STAGE_2),
]  # fmt: skip


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with postgres_server(tmp_path_factory.mktemp("postgres")) as url:
        yield url


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> World:
    return recorded_world(tmp_path_factory.mktemp("recorded") / "made")


@pytest.fixture
def site(recorded: World, postgres: str, tmp_path: Path) -> Site:
    world = copy_world(recorded, tmp_path / "agent")
    return Site(world=world, database=fresh_database(postgres))


@contextmanager
def two(site: Site, folder: Path) -> Iterator[tuple[Running, Running]]:
    """Two replicas that were started at the same moment, on an empty database."""
    with ExitStack() as stack:
        both = [
            stack.enter_context(
                replica(site.environ, cwd=site.world.root, log=folder / f"{name}.log")
            )
            for name in ("first", "second")
        ]
        yield both[0], both[1]


def _lease(ledger: Ledger, thread: str) -> tuple[str | None, int, float]:
    """Owner, fence and expiry of a thread's lease."""
    row = ledger.db.first(leases, name=f"thread:{thread}")
    return (None, 0, 0.0) if row is None else (row["owner"], row["fence"], row["expires_at"])


def _pid(owner: str) -> int:
    return int(owner.split("|")[1])


def _in_the_gate(ledger: Ledger, stored: StoredProposal) -> str | None:
    """Who drives the run now, once the gate has a few blocks and is not over."""
    proposal = stored.proposal
    blocks = ledger.gate.blocks(proposal.hash)
    owner = _lease(ledger, proposal.thread)[0]
    return owner if len(blocks) >= 4 and ledger.gate.report(proposal.hash) is None else None


def _forks(site: Site, thread: str) -> int:
    """Checkpoints that have a sibling: each would be a step that two processes took."""
    assert site.database is not None
    with psycopg.connect(site.database) as connection:
        found = connection.execute(
            "SELECT count(*) FROM (SELECT parent_checkpoint_id FROM checkpoints "
            "WHERE thread_id = %s GROUP BY 1 HAVING count(*) > 1) AS forked",
            (thread,),
        ).fetchone()
    assert found is not None
    return int(found[0])


def test_started_on_one_and_decided_on_the_other(site: Site, tmp_path: Path) -> None:
    before = site.world.harness()
    with two(site, tmp_path) as (one, other):
        for server in (one, other):  # delivered to both, as by a sender that got no answer
            assert site.alert(server.url, "a-1").status_code == 202
        stored = site.card()
        ann = site.token("ann", ["reviewer"])
        decided = site.decide(other.url, ann, stored, "k1")
        assert decided.status_code == 200, decided.text
        again = site.decide(one.url, ann, stored, "k1")
        assert again.status_code == 200, again.text
        assert again.json()["decision"] == decided.json()["decision"]
        site.applied_once(before)
    with site.looking() as ledger:
        (incident,) = ledger.incidents.listed()
        assert (incident.kind, incident.tries) == ("alert", 0)
        assert _forks(site, incident.thread) == 0
    assert one.process.returncode == other.process.returncode == 0


def test_the_one_that_drives_the_gate_is_killed(site: Site, tmp_path: Path) -> None:
    """The other goes on at once: a dead process of the same host is not waited for."""
    before = site.world.harness()
    with two(site, tmp_path) as (one, other), site.looking() as ledger:
        assert site.alert(one.url, "a-1").status_code == 202
        stored = site.card()
        thread = stored.proposal.thread
        decided = site.decide(other.url, site.token("ann", ["reviewer"]), stored, "k1")
        assert decided.status_code == 200, decided.text
        owner = until(lambda: _in_the_gate(ledger, stored), "a run in its gate")
        killed, lives = (one, other) if one.process.pid == _pid(owner) else (other, one)
        assert killed.process.pid == _pid(owner)
        _, fence, expires = _lease(ledger, thread)
        killed.kill()

        def taken() -> bool:
            now_owner = _lease(ledger, thread)[0]
            return now_owner is not None and _pid(now_owner) == lives.process.pid

        until(taken, "the other taking over")
        assert time.time() < expires, "it waited for the lease to expire"
        assert _lease(ledger, thread)[1] > fence
        site.applied_once(before)
        assert _forks(site, thread) == 0


def test_one_killed_while_it_analyses_is_followed_by_the_next(site: Site, tmp_path: Path) -> None:
    before = site.world.harness()
    killer = ("after", "memory.incidents:Steps.once", "1")  # the window is fixed, nothing was read
    root = site.world.root
    with replica(site.environ, cwd=root, log=tmp_path / "first.log", killer=killer) as first:
        assert site.alert(first.url, "a-1").status_code == 202
        first.wait_killed()
    with site.looking() as ledger:
        assert ledger.proposals.all_latest() == []
    with replica(site.environ, cwd=root, log=tmp_path / "second.log") as second:
        stored = site.card()
        token = site.token("ann", ["reviewer"])
        assert site.decide(second.url, token, stored, "k1").status_code == 200
        site.applied_once(before)
    with site.looking() as ledger:
        assert len(ledger.incidents.listed()) == 1


def test_a_lease_of_another_host_is_waited_for_and_no_longer(site: Site, tmp_path: Path) -> None:
    """Whether a process of another machine lives cannot be seen from here: its lease has to end."""
    before = site.world.harness()
    with two(site, tmp_path) as (one, other), site.looking() as ledger:
        assert site.alert(one.url, "a-1").status_code == 202
        stored = site.card()
        thread = stored.proposal.thread
        elsewhere, ends = "elsewhere|1|1|0badc0de", time.time() + 8
        with ledger.db.write() as tx:
            mine = (leases.c.project == ledger.db.project) & (leases.c.name == f"thread:{thread}")
            tx.execute(update(leases).where(mine).values(owner=elsewhere, expires_at=ends))
        token = site.token("ann", ["reviewer"])
        assert site.decide(other.url, token, stored, "k1").status_code == 200

        def moved() -> float | None:
            owner = _lease(ledger, thread)[0]
            return time.time() if owner != elsewhere else None

        assert until(moved, "the lease of the other host being taken") >= ends
        site.applied_once(before)


def test_a_replica_that_stood_still_does_nothing_when_it_wakes(site: Site, tmp_path: Path) -> None:
    """Stopped in the gate until its lease is over, then woken: the other's work stands."""
    before = site.world.harness()
    with two(site, tmp_path) as (one, other), site.looking() as ledger:
        assert site.alert(one.url, "a-1").status_code == 202
        stored = site.card()
        thread = stored.proposal.thread
        decided = site.decide(one.url, site.token("ann", ["reviewer"]), stored, "k1")
        assert decided.status_code == 200
        owner = until(lambda: _in_the_gate(ledger, stored), "a run in its gate")
        pid = _pid(owner)
        assert pid in (one.process.pid, other.process.pid)
        _stop_between_transactions(site, pid)
        try:
            _let_expire(ledger, thread)
            site.applied_once(before)
        finally:
            os.kill(pid, signal.SIGCONT)
        # It finds its lease taken, and works on as a replica like the other.
        until(lambda: _alive(one) and _alive(other), "both answering")
        time.sleep(LEASE_SECONDS / 3 + 2)  # by then it has tried to renew what it held
        site.applied_once(before)
        with ledger.db.read() as tx:
            assert ledger.db.rows(tx, ledger.db.mine(leases, name=f"thread:{thread}"))
        assert [run.state for run in ledger.incidents.listed()] == ["closed"]


def test_a_database_that_closed_every_connection_is_used_again(site: Site, tmp_path: Path) -> None:
    """As after its restart: what waits still waits, and no run fails of it for good."""
    before = site.world.harness()
    with two(site, tmp_path) as (one, other):
        assert site.alert(one.url, "a-1").status_code == 202
        stored = site.card()
        token = site.token("ann", ["reviewer"])
        _cut_connections(site)
        decided = until(
            lambda: _if_answered(site, other, token, stored), "an answer after the cut", within=60
        )
        assert decided in (200, 409)
        site.applied_once(before)
        for server in (one, other):
            assert server.process.poll() is None


def test_a_database_that_is_not_there_is_one_line(site: Site, tmp_path: Path) -> None:
    """No traceback, no password; and the exit code of wrong settings."""
    wrong = "postgresql://nobody:s3cretword@127.0.0.1:9/none"
    done = site.world.run("serve", "--port", "0", more={"TRACEMEND_DATABASE_URL": wrong})
    assert done.code == 2, done.err
    assert "127.0.0.1:9/none" in done.err
    assert "s3cretword" not in done.err + done.out
    assert "Traceback" not in done.err


async def test_checkpointers_opened_at_once_make_their_tables_once(postgres: str) -> None:
    database = fresh_database(postgres)

    async def opened() -> bool:
        async with open_saver(database) as saver:
            config: RunnableConfig = {"configurable": {"thread_id": "t"}}
            return await saver.aget_tuple(config) is None

    assert await asyncio.gather(*(opened() for _ in range(4))) == [True] * 4


def test_doctor_refuses_what_only_one_machine_has(site: Site) -> None:
    """A folder and a command are not on every replica's disk."""

    def cluster(more: dict[str, str]) -> list[dict[str, str]]:
        checks = site.world.run("doctor", "--json", more=more).json["checks"]
        return [check for check in checks if check["name"] == "cluster"]

    assert cluster({}) == []
    assert site.database is not None
    (said,) = cluster({"TRACEMEND_DATABASE_URL": site.database})
    assert said["state"] == "bad"
    assert "the harness is a folder" in said["detail"]
    assert "the probe is a command of this machine" in said["detail"]


def _alive(server: Running) -> bool:
    return httpx.get(f"{server.url}/healthz", timeout=30).status_code == 200


def _if_answered(site: Site, server: Running, token: str, stored: StoredProposal) -> int | None:
    found = site.decide(server.url, token, stored, "k1").status_code
    return found if found < 500 else None


def _let_expire(ledger: Ledger, thread: str) -> None:
    """As if the time of the lease had passed."""
    with ledger.db.write() as tx:
        mine = (leases.c.project == ledger.db.project) & (leases.c.name == f"thread:{thread}")
        tx.execute(update(leases).where(mine).values(expires_at=time.time() - 1))


def _stop_between_transactions(site: Site, pid: int) -> None:
    """SIGSTOP a replica at a moment when it has no transaction open, which would hold a lock."""
    assert site.database is not None
    with psycopg.connect(site.database, autocommit=True) as connection:
        for _ in range(200):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.1)
            held = connection.execute(
                "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database "
                "WHERE l.locktype = 'advisory' AND d.datname = current_database()"
            ).fetchone()
            if held is not None and held[0] == 0:
                return
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.05)
    raise AssertionError("the replica always had a transaction open")


def _cut_connections(site: Site) -> None:
    assert site.database is not None
    with psycopg.connect(site.database, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
