"""The benchmark of the gate's error rates: it finds what it is there to find."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from unittest.mock import patch

import pytest

from benchmarks.gate_errors import cells, simulated
from benchmarks.gate_errors_exact import (
    fixed_size,
    harm_size,
    two_look_size,
    unharmed_size,
)
from benchmarks.gate_errors_plot import plot
from benchmarks.gate_errors_results import EDIT, PROJECT, Results, excesses, nominal
from benchmarks.gate_errors_sheet import RULE, USUAL
from benchmarks.gate_errors_tables import differences, saved, table, usual_table
from benchmarks.gate_errors_worlds import (
    EDITS,
    FLAKINESS,
    PROJECTS,
    World,
    plan_of,
    simulate,
    usual_rules,
)
from nodes.gate.schedule import BlockToRun

MINI = "Mini, starter"
SMALL = "Small, margin .10, level .05"
HARM = "fixes, harms by the margin"


def results(key: tuple[str, float, str], gates: int) -> Results:
    found = Results(None)
    found.put(simulated(key, 0, gates, guards=True))
    return found


def test_one_number_is_one_gate_whenever_it_runs() -> None:
    first = simulate(PROJECTS[0], EDITS[1], 0.05, 3)
    assert simulate(PROJECTS[0], EDITS[1], 0.05, 3) == first
    others = {simulate(PROJECTS[0], EDITS[1], 0.05, number).runs for number in range(8)}
    assert len(others) > 1


def test_a_rule_that_takes_anything_for_a_fix_fails_the_run() -> None:
    assert not excesses(results((MINI, 0.05, "no effect"), 10))
    with patch("nodes.gate.claims.stratified_exact_p", return_value=0.0):
        (wrong,) = excesses(results((MINI, 0.05, "no effect"), 10))
    assert wrong.startswith(f"{MINI}, flaky 0.05, no effect: accepted ")


def test_what_is_true_is_no_false_accept() -> None:
    assert nominal(PROJECT[SMALL], EDIT["fixes targets only"]) is None
    assert nominal(PROJECT[SMALL], EDIT["no effect"]) == 0.05
    assert nominal(PROJECT["Small, margin .15, level .01"], EDIT["fixes, harms 10"]) is None
    assert nominal(PROJECT["Large, margin .05, level .01"], EDIT["fixes, harms 10"]) == 0.01
    assert nominal(PROJECT[MINI], EDIT[HARM]) is None


@pytest.mark.parametrize(("edit", "change"), [("fixes, harms 10", -0.10), ("fixes, +5", 0.05)])
@pytest.mark.parametrize("flakiness", FLAKINESS)
def test_harm_and_gain_are_changes_of_the_mean_pass_rate(
    edit: str, change: float, flakiness: float
) -> None:
    project, differences_ = PROJECTS[-1], []
    for number in range(8):
        plan, truths = plan_of(project, number, flakiness)
        world = World(plan, truths, EDIT[edit], flakiness, str(number))
        for case in plan.sealed:
            todo = BlockToRun(phase="sealed", case=case.case, index=0, attempt=0, first="B", seed=0)
            block = world.block(todo)
            assert block.baseline is not None
            won, kept = block.candidate.result == "pass", block.baseline.result == "pass"
            differences_.append(won - kept)
    n = len(differences_)
    error = (sum(d * d for d in differences_) / n / n) ** 0.5
    assert abs(sum(differences_) / n - change) < 3.5 * error


def test_a_stopped_run_goes_on_and_counts_no_gate_twice(tmp_path: Path) -> None:
    file = tmp_path / "gates.jsonl"
    key = (MINI, 0.0, "no effect")
    batch = simulated(key, 0, 3, guards=True)
    Results(file).put(batch)
    with file.open("a", encoding="utf-8") as cut:
        cut.write(json.dumps(batch)[:40])
    again = Results(file).read()
    again.put(batch)
    assert again.cells[key].gates == 3
    assert (key, 0) in again.there


def test_cells_are_named_by_how_they_begin() -> None:
    assert len(list(cells([], [], []))) == len(PROJECTS) * len(FLAKINESS) * len(EDITS)
    assert list(cells(["Mini"], ["no effect"], [0.2])) == [(MINI, 0.2, "no effect")]


@pytest.mark.parametrize(
    ("differences_", "accepts"),
    [
        ([1, 0, 0, 0], (True, True, False)),
        ([1, 1, 1, 1], (True, True, True)),
        ([0, 0, 0], (False, False, False)),
        ([1, 1, -1, 1, 1, 1, 1, 1, 1, 1], (False, True, True)),
        ([-1, -1, 1], (False, False, False)),
    ],
)
def test_the_usual_rules(differences_: list[int], accepts: tuple[bool, bool, bool]) -> None:
    assert usual_rules(differences_) == accepts


def test_the_sheet_is_read_whole() -> None:
    assert len(RULE) == 6 * 3 * 5
    assert RULE["Large, margin .05, level .01", 0.2, "fixes, +10"] == (0.99, 0.0, 0.0, 0.81)
    assert all(abs(sum(cell[:3]) - 1.0) < 0.02 for cell in RULE.values())
    assert USUAL[MINI, 0.0, "fixes, harms 10"] == (0.46, 0.96, 0.46)


def test_a_cell_that_is_not_as_on_the_sheet_is_named() -> None:
    key = (SMALL, 0.0, "fixes, +10")
    with patch("benchmarks.gate_errors_worlds.DEARER", 2.0):  # nothing passes K then
        found = results(key, 40)
    assert f"- {SMALL}, flaky 0, fixes, +10: accepted 0.000, sheet 0.99" in differences(found)


def test_exact_sizes_stay_below_their_levels_and_near_the_sheet() -> None:
    equal, given = fixed_size(3, 8, 0.05)
    assert equal < 0.033
    assert equal < given <= 0.05
    assert 0.046 <= unharmed_size(20, 0.10, 0.05) <= 0.05
    assert 0.007 <= unharmed_size(20, 0.10, 0.01) <= 0.01
    assert harm_size(60, 0.05) <= 0.05
    looks = ((12, 0.01), (20, 0.04))
    one = unharmed_size(20, 0.15, 0.04)
    assert one - 1e-12 <= two_look_size(looks, 0.15) <= 0.05


def test_tables_and_plot_show_what_was_simulated() -> None:
    found = results((MINI, 0.05, "no effect"), 4)
    assert "| Mini, starter | 0.05 | .00 .00 1.0 · " in table(found)
    assert "| Mini, starter | 0.05 | " in usual_table(found)
    assert "| Mini, starter | " in saved(found)
    root = ET.fromstring(plot(found))  # noqa: S314  # our own text
    circles = [e for e in root.iter() if e.tag.endswith("circle")]
    assert len(circles) == 4 + 4  # the legend's, and one a rule
