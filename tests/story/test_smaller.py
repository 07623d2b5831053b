"""An edit that only takes a line out, for a failure of which no case could be kept."""

from pathlib import Path

import pytest

from tests.story.small_worlds import (
    BEFORE,
    MAIN,
    NOTHING,
    cases,
    change_settings,
    enter,
    opened,
    plan_of,
    write_project,
)

pytestmark = pytest.mark.story

STALE = "- Count to ten before every answer.\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "repository"
    write_project(folder, cases(targets=0, sealed=64))
    (folder / MAIN).write_text(BEFORE + STALE, "utf-8")
    change_settings(folder, gate={"precheck": False})
    monkeypatch.setenv("TRACEMEND_HOME", str(folder / ".tracemend"))
    return folder


async def test_it_is_tested_for_no_harm_and_the_card_says_that_it_mends_no_known_case(
    root: Path,
) -> None:
    async with opened(enter(root), added="") as small:
        plan = plan_of(small.latest())
        assert (plan["purpose"], plan["targets"]) == ("simplify", [])
        assert plan["tokens"][1] < plan["tokens"][0]
        assert "No known case has to be fixed" in str(small.card()["gate_facts"])
        done = await small.approve()
        assert done.report is not None
        assert done.report[0].verdict == "accept", done.report[0].reason
    assert (root / MAIN).read_text("utf-8") == BEFORE


async def test_an_edit_that_adds_something_is_refused_without_a_case_to_mend(root: Path) -> None:
    async with opened(enter(root), added=NOTHING) as small:
        assert small.state() == "invalid"


async def test_where_there_is_a_case_to_mend_it_has_to_be_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "with"
    write_project(folder, cases())
    (folder / MAIN).write_text(BEFORE + STALE, "utf-8")
    change_settings(folder, gate={"precheck": False})
    monkeypatch.setenv("TRACEMEND_HOME", str(folder / ".tracemend"))
    async with opened(enter(folder), added="") as small:
        assert plan_of(small.latest())["purpose"] == "fix"
