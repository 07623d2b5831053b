"""Planted edits: the gate tells good, none and harmful apart, or says that it does not any more."""

from pathlib import Path

import pytest

from contracts.errors import ConfigError
from contracts.harness import HarnessFile, HarnessSnapshot
from memory.workspace import Workspace
from nodes.casebook import members, read_casebook
from nodes.gate.planted import planted, read_expected
from nodes.ports import open_harness
from tests.trial_worlds import PROMPT, ScriptedProbe, plant, proposed, trial_project

GOOD = "Be kind. knows: hard\n"
HARMFUL = "Be kind. knows: hard breaks: 3\n"
NONE = "Be very kind.\n"


def planting(tmp_path: Path, prompt: str = "Be kind.\n") -> Workspace:
    return trial_project(tmp_path, sealed=40, prompt=prompt, planted="planted", margin=0.15, uses=1)


async def test_good_none_and_harmful_get_the_verdicts_that_are_right(tmp_path: Path) -> None:
    ws = planting(tmp_path)
    plant(ws, "good", GOOD, "accept\n")
    plant(ws, "none", NONE, "# nothing to see\ninconclusive: not fixed\n")
    plant(ws, "harmful", HARMFUL, "reject\ninconclusive: harm not excluded\n")
    found = {one.name: one for one in await planted(ws, ScriptedProbe())}
    assert {name: one.ok for name, one in found.items()} == {
        "good": True, "none": True, "harmful": True,
    }  # fmt: skip
    assert found["good"].verdict == "accept"
    assert found["none"].runs < found["none"].planned_runs / 2


async def test_an_unexpected_verdict_is_told_and_kept(tmp_path: Path) -> None:
    ws = planting(tmp_path)
    plant(ws, "good", NONE, "accept\n")
    (found,) = await planted(ws, ScriptedProbe())
    assert (found.ok, found.verdict, found.reason) == (False, "inconclusive", "not fixed")
    kept = ws.ledger.gate_checks.last("planted", "good")
    assert kept is not None
    assert not kept.ok


async def test_a_reason_that_is_not_the_expected_one_is_not_right(tmp_path: Path) -> None:
    ws = planting(tmp_path)
    plant(ws, "none", NONE, "inconclusive: harm not excluded\n")
    (found,) = await planted(ws, ScriptedProbe())
    assert not found.ok


async def test_a_fault_is_planted_with_base_and_mended_by_good(tmp_path: Path) -> None:
    """The harness of now has nothing left to mend: both arms stand on what `base` lays over it."""
    ws = planting(tmp_path, prompt=GOOD)
    plant(ws, "base", NONE, None)
    plant(ws, "good", GOOD + "Thanks.\n", "accept\n")
    (found,) = await planted(ws, ScriptedProbe())
    assert found.ok
    assert (ws.root / PROMPT).read_text("utf-8") == GOOD


async def test_planted_edits_spend_no_use_and_show_no_sealed_count(tmp_path: Path) -> None:
    ws = planting(tmp_path)
    plant(ws, "good", GOOD, "accept\n")
    (found,) = await planted(ws, ScriptedProbe())
    assert ws.ledger.sealed.uses_of(members(read_casebook(ws).tagged("sealed"))) == 0
    kept = ws.ledger.gate_checks.last("planted", "good")
    assert kept is not None
    assert set(kept.body) == {
        "expected", "verdict", "reason", "candidate", "runs", "planned_runs"
    }  # fmt: skip
    assert found.reason == "every claim held"


async def test_the_very_text_of_a_draft_is_never_run(tmp_path: Path) -> None:
    ws = planting(tmp_path)
    plant(ws, "good", GOOD, "accept\n")
    now = await open_harness(ws).read()
    drafted = HarnessSnapshot(files={PROMPT: HarnessFile(data=GOOD.encode())})
    assert drafted.files.keys() == now.files.keys()
    proposed(ws, now, drafted)
    probe = ScriptedProbe()
    with pytest.raises(ConfigError, match="makes the very text of a proposal"):
        await planted(ws, probe)
    assert not probe.runs


async def test_an_edit_that_changes_nothing_is_refused_before_any_run(tmp_path: Path) -> None:
    ws = planting(tmp_path)
    plant(ws, "good", GOOD, "accept\n")
    plant(ws, "none", "Be kind.\n", "inconclusive\n")
    probe = ScriptedProbe()
    with pytest.raises(ConfigError, match="'none': no change"):
        await planted(ws, probe)
    assert not probe.runs


async def test_a_file_outside_the_harness_is_refused(tmp_path: Path) -> None:
    ws = planting(tmp_path)
    plant(ws, "good", GOOD, "accept\n")
    (ws.root / "planted/good/agent.py").write_text("import os\n")
    with pytest.raises(ConfigError, match=r"good/agent\.py is no file of the harness"):
        await planted(ws, ScriptedProbe())


async def test_targets_are_those_that_expect_names_and_never_sealed_ones(tmp_path: Path) -> None:
    ws = planting(tmp_path)
    plant(ws, "good", GOOD, "accept\ntargets: hard-1\n")
    probe = ScriptedProbe()
    await planted(ws, probe)
    assert len({text for text, _ in probe.runs if "hard" in text}) == 1
    (ws.root / "planted/good/expect.txt").write_text("accept\ntargets: easy-1\n")
    with pytest.raises(ConfigError, match="'easy-1' is no case, or a sealed one"):
        await planted(ws, ScriptedProbe())


async def test_a_folder_outside_the_project_is_refused(tmp_path: Path) -> None:
    ws = trial_project(tmp_path, planted="../elsewhere")
    with pytest.raises(ConfigError, match="is no folder inside the project's"):
        await planted(ws, ScriptedProbe())


async def test_without_the_setting_it_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gate\.planted: not set"):
        await planted(trial_project(tmp_path), ScriptedProbe())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "names no verdict"),
        ("perhaps\n", r"expect\.txt:1: got 'perhaps', needs one of accept, reject"),
        ("accept\nbogus: x\n", r"expect\.txt:2: got 'bogus'"),
    ],
)
def test_an_unreadable_expectation_says_where(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "expect.txt"
    file.write_text(text, "utf-8")
    with pytest.raises(ConfigError, match=says):
        read_expected(file)


def test_any_of_several_verdicts_is_right(tmp_path: Path) -> None:
    file = tmp_path / "expect.txt"
    file.write_text("accept\ninconclusive: known cases only\n", "utf-8")
    expected = read_expected(file)
    assert expected.met("accept", "every claim held")
    assert expected.met("inconclusive", "known cases only")
    assert not expected.met("inconclusive", "not fixed")
    assert expected.in_words() == "accept or inconclusive: known cases only"
