"""`tracemend serve` killed again and again: nothing that it answered for is lost or done twice.

The whole matrix, and what is checked, is in `benchmarks/faults*.py`.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import faults_check
from benchmarks.faults import Teller
from benchmarks.faults_points import LOCAL_RUN, Kill, Point, chain, steps
from benchmarks.faults_results import Result, append, read
from benchmarks.faults_server import Broken
from benchmarks.faults_world import Embedded, Site, Stages, record_site

pytestmark = [pytest.mark.story, pytest.mark.kill, pytest.mark.servers]

FEW = (
    "alert-kept-not-answered", "alert-kept", "approve-decided-not-answered",
    "approve-switched-not-recorded", "undo-first-file-switched",
)  # fmt: skip
"""One of each kind of harm; `benchmarks.faults` has them all, each in a story of its own."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return record_site(tmp_path_factory.mktemp("recorded"))


def teller_on(recorded: Site, folder: Path) -> Teller:
    stages = Stages(recorded=recorded, waiting=recorded, applied=recorded)
    return Teller(
        mode=Embedded(), stages=stages, before=recorded.world.harness(), folder=folder,
        revision="this",
    )  # fmt: skip


def test_one_kill_after_the_other_loses_nothing_and_does_nothing_twice(
    recorded: Site, tmp_path: Path
) -> None:
    by_id = {point.id: point for point in steps(LOCAL_RUN)}
    few = chain("few", "whole", (by_id[id_] for id_ in FEW))
    told = teller_on(recorded, tmp_path).tell(few, 1)
    assert told.problem is None
    assert told.kills == len(FEW)


def test_a_point_that_is_not_reached_fails_its_story(recorded: Site, tmp_path: Path) -> None:
    # A function that was renamed, or is no longer called, must not pass as a point that was tried.
    never = Kill(when="before", place="memory.circuits:Circuits.failed")
    point = Point(stage="alert", name="never", kills=(never,))
    told = teller_on(recorded, tmp_path).tell(point, 1)
    assert told.problem == "killed 0 times of 1: alert-never"
    assert told.folder is not None
    assert (Path(told.folder) / "agent" / ".tracemend" / "ledger.sqlite").exists()


def test_a_second_release_or_a_byte_of_difference_fails_a_story(
    recorded: Site, tmp_path: Path
) -> None:
    site = Embedded().copy(recorded, tmp_path / "agent")
    before = site.world.harness()
    faults_check.same_harness(site, before)
    edited = site.world.root / "instructions" / "main.md"
    edited.write_bytes(edited.read_bytes() + b" ")
    with pytest.raises(Broken, match="the harness is byte-identical"):
        faults_check.same_harness(site, before)
    with site.looking() as ledger, pytest.raises(Broken, match="answered 202 is kept, once"):
        faults_check.one_incident(ledger, "story-1")


def test_results_are_resumed_after_a_line_that_was_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    first = Result(
        revision="a", mode="embedded", round=1, point="p", seconds=1.0, kills=1, at="now"
    )
    append(file, first)
    with file.open("a") as out:
        out.write(json.dumps({"revision": "a", "mode": "emb"})[:20])
    assert read(file) == [first]
    second = replace(first, round=2)
    append(file, second)
    assert read(file) == [first, second]
