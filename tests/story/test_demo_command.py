"""What a stranger runs first: `tracemend demo`, in a folder of its own, over real processes."""

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.story.worlds import Finished, World

pytestmark = pytest.mark.story

DOCUMENT = {
    "schema", "finding", "proposal", "decision", "gate", "release", "harness", "watch",
}  # fmt: skip


def _demo(tmp_path: Path, *words: str) -> Finished:
    (tmp_path / "demo").mkdir(exist_ok=True)
    return World(root=tmp_path).run("demo", "--dir", "demo", *words)


def _harness(root: Path) -> dict[str, bytes]:
    return World(root=root / "demo").harness()


def test_demo_says_yes_for_you(tmp_path: Path) -> None:
    done = _demo(tmp_path, "--yes", "--as", "ann", "--json")
    assert done.code == 0, done.err
    told = done.json
    assert set(told) == DOCUMENT
    assert told["schema"] == "tracemend.demo/1"
    finding = told["finding"]
    assert finding["signature"] == "tool_timeout:payment_api:504"
    assert (finding["change"], finding["remedy"]) == ("new", "skill")
    assert (told["decision"]["type"], told["decision"]["by"]) == ("approve", "ann")
    assert told["gate"]["verdict"] == "accept"
    assert told["gate"]["runs"] <= 178
    assert told["harness"]["after"] == told["release"]["after"] != told["harness"]["before"]
    watch = told["watch"]
    assert watch["p"] is None
    assert watch["after"]["failures"] < watch["before"]["failures"]
    assert watch["after"]["runs"] == watch["before"]["runs"] == 150
    world = World(root=tmp_path / "demo")
    status = world.run("status", "--json").json
    handed = [ticket for ticket in status["handoffs"] if ticket["where"] == "tool"]
    assert len(handed) == 1
    left = {f["signature"]: f["actionable"] for f in status["findings"]}
    assert left["rate_limit:loyalty_points:429"] is False
    assert sum(left.values()) >= 3
    _is_told(world, told)
    undone = world.run("undo", told["release"]["id"], "--json")
    assert undone.code == 0, undone.err
    assert undone.json["release"]["after"] == told["harness"]["before"]
    assert world.run("audit", "verify", "--json").json["ok"]


def _is_told(world: World, demo: dict[str, Any]) -> None:
    """What a reader of the release and of its file is told afterwards."""
    release = demo["release"]["id"]
    story = world.run("show", release, "--json").json
    assert story["alert"]["what"] == "refund failures above usual"
    assert story["gate"]["report_hash"] == demo["gate"]["report_hash"]
    assert [one["by"] for one in story["decisions"]] == ["ann"]
    assert [one["watched"] for one in story["watched"]] == ["fell"]
    assert {one["outcome"] for one in story["lessons"]} == {"applied", "fell"}
    page = world.run("show", release, "--markdown").out
    sealed = {
        case["id"]
        for file in (world.root / "cases").glob("*.yaml")
        for case in yaml.safe_load(file.read_text("utf-8"))
        if "sealed" in case["tags"]
    }
    assert sealed
    assert not [case for case in sealed if case in page or case in str(story)]
    (path,) = [one["path"] for one in story["files"]]
    lines = world.run("history", path, "--json").json["lines"]
    assert {line["release"] for line in lines} == {release}
    untouched = world.run("history", "instructions/main.md", "--json").json["lines"]
    assert {line["by"] for line in untouched} == {"before"}


@pytest.mark.servers
def test_demo_without_an_answer_waits_and_is_decided_later(tmp_path: Path) -> None:
    done = _demo(tmp_path, "--json")
    assert done.code == 0, done.err
    assert (done.json["decision"], done.json["gate"], done.json["release"]) == (None, None, None)
    before = _harness(tmp_path)
    world = World(root=tmp_path / "demo")
    rejected = world.run(
        "reject", done.json["proposal"]["id"], "--reason", "not_worth_it", "--as", "bob", "--json"
    )
    assert (rejected.code, rejected.json["state"]) == (0, "rejected")
    assert _harness(tmp_path) == before
    # A folder that a demo made is reset: the same command again starts afresh.
    again = _demo(tmp_path, "--reject", "--reason", "risky", "--json")
    assert (again.code, again.json["decision"]["type"]) == (0, "reject")
    assert again.json["harness"]["before"] == again.json["harness"]["after"]


def test_demo_touches_no_folder_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "mine.txt").write_text("mine")
    done = _demo(tmp_path, "--yes")
    assert done.code == 2
    assert "not empty and not made by a demo" in done.err
    assert [path.name for path in (tmp_path / "demo").iterdir()] == ["mine.txt"]


def test_a_model_that_cannot_be_opened_is_said_before_anything_is_written(tmp_path: Path) -> None:
    done = World(root=tmp_path).run("demo", "--dir", "demo", "--model", "nobody:nothing")
    assert done.code == 2
    assert "--model: model 'nobody:nothing'" in done.err
    assert not (tmp_path / "demo").exists()


@pytest.mark.servers
def test_enter_alone_never_approves(tmp_path: Path) -> None:
    """On a real terminal: three empty lines decide nothing, and the card waits."""
    main, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "graph.cli.main", "demo", "--dir", "demo"], cwd=tmp_path,
        env={**World(root=tmp_path).environ, "TERM": "xterm", "COLUMNS": "100"},
        stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
    )  # fmt: skip
    os.close(terminal)
    seen, asked = b"", 0
    ends = time.monotonic() + 120
    try:
        while time.monotonic() < ends:
            ready, _, _ = select.select([main], [], [], 1)
            try:
                seen += os.read(main, 65536) if ready else b""
            except OSError:  # the other side is closed: the command ended
                break
            if seen.count(b"Type approve, reject, or later") > asked:
                asked += 1
                os.write(main, b"\n")
        assert process.wait(20) == 0, seen[-2000:]
    finally:
        process.kill()
        process.wait()
        os.close(main)
    assert asked == 3
    assert b"Nothing was applied" in seen
    with World(root=tmp_path / "demo").looking() as ledger:
        waiting = ledger.proposals.all_latest()
        assert [stored.state for stored in waiting] == ["waiting"]
        assert ledger.proposals.decisions(waiting[0].proposal.id, 1, "approve") == []


def test_init_writes_commented_settings_once(tmp_path: Path) -> None:
    world = World(root=tmp_path)
    (tmp_path / "Refund Agent").mkdir()
    first = world.run("init", "Refund Agent")
    assert first.code == 0, first.err
    file = tmp_path / "Refund Agent" / "tracemend.yaml"
    assert "project: refund-agent" in file.read_text()
    text = file.read_text() + "# by hand\n"
    file.write_text(text)
    again = world.run("init", "Refund Agent")
    assert (again.code, file.read_text()) == (0, text)
    assert "kept" in again.out
    other = world.run("init", "Refund Agent", "--project", "other")
    assert other.code == 2


def test_doctor_names_what_is_missing(tmp_path: Path) -> None:
    world = World(root=tmp_path)
    assert world.run("init", ".", "--project", "agent").code == 0
    done = world.run("doctor")
    assert done.code == 2
    assert "BAD   probe: none configured" in done.out
    assert "BAD   harness: harness.include matches no file" in done.out
    assert "ok    audit log" in done.out
