"""Which processes belong to an agent, by a table of processes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable

import pytest

from connectors.probe.tree import Process, Tree, kill_marked, mark_of, table

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there is no /proc")


def of(*rows: tuple[int, int, int, int]) -> dict[int, Process]:
    """Rows of number, parent, session, start."""
    return {pid: Process(pid, "S", up, session, start) for pid, up, session, start in rows}


def marks(monkeypatch: pytest.MonkeyPatch, marked: Iterable[int], mark: str) -> None:
    pids = set(marked)
    monkeypatch.setattr("connectors.probe.tree.mark_of", lambda pid: mark if pid in pids else None)


def test_session_descendants_and_mark_make_a_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    marks(monkeypatch, [40], "m")
    now = of((10, 1, 10, 5), (20, 10, 10, 6), (30, 20, 30, 7), (31, 30, 30, 7), (40, 1, 40, 8),
             (50, 1, 50, 9), (60, 50, 50, 9))  # fmt: skip
    assert Tree(root=10, mark="m", since=5).members(now) == [10, 20, 30, 31, 40]


def test_who_is_older_than_the_agent_is_nobody_it_started(monkeypatch: pytest.MonkeyPatch) -> None:
    marks(monkeypatch, [40], "m")
    now = of((10, 1, 10, 5), (40, 1, 40, 4), (41, 40, 40, 9))
    assert Tree(root=10, mark="m", since=5).members(now) == [10]
    assert Tree(root=10, mark="m", since=0).members(now) == [10, 40, 41]


def test_who_was_seen_once_stays_but_not_who_has_its_number_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    marks(monkeypatch, [], "m")
    tree = Tree(root=10, mark="m", since=5)
    assert tree.members(of((10, 1, 10, 5), (20, 10, 10, 6))) == [10, 20]
    assert tree.members(of((20, 1, 20, 6))) == [20]
    assert tree.members(of((20, 1, 20, 99))) == []


def test_a_real_process_is_seen_with_its_mark_and_killed_by_its_beginning() -> None:
    mark = "0123456789abcdef" + "01"
    child = subprocess.Popen(
        ["sleep", "300"], env=os.environ | {"TRACEMEND_RUN_ID": mark}, start_new_session=True
    )
    try:
        while mark_of(child.pid) != mark:  # until it is sleep, and no copy of us
            pass
        tree = Tree.of(child.pid, mark)
        assert tree.since == table()[child.pid].started > 0
        assert child.pid in tree.members(table())
        kill_marked(mark[:16])
        assert child.wait(timeout=60) == -signal.SIGKILL
    finally:
        child.kill()
        child.wait()


def test_a_process_that_is_dead_but_not_reaped_is_none() -> None:
    with subprocess.Popen(["true"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert child.pid not in table()
        assert Tree.of(child.pid, "m").since > 0
    assert Tree.of(child.pid, "m").since == 0
