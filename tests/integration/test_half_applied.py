"""`doctor` says when a change of the harness was begun and has no end."""

from pathlib import Path

import pytest

from graph.cli.checks import run_checks
from tests.apply_worlds import ApplyWorld, two_places

pytestmark = pytest.mark.servers


def told(world: ApplyWorld, monkeypatch: pytest.MonkeyPatch) -> tuple[bool, str]:
    monkeypatch.setenv("TRACEMEND_HOME", str(world.inbox.home))
    monkeypatch.chdir(world.root)
    return next((c.ok, c.detail) for c in run_checks("refunds") if c.name == "changes")


def test_a_half_applied_change_is_named_with_what_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = two_places(tmp_path)
    assert told(world, monkeypatch) == (True, "none is half-applied")
    world.do(kill=("after", "connectors.harness.directory:DirectoryHarness.switch", 1))
    ok, detail = told(world, monkeypatch)
    assert not ok
    assert "agent-b" in detail
    assert "`tracemend resume` goes on" in detail
    world.do()
    assert told(world, monkeypatch) == (True, "none is half-applied")
