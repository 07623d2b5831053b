"""Simulated gates: how often the whole rule errs, from the first run to the verdict. Seeded."""

import math
import random

import pytest

from benchmarks.gate_errors import simulated
from benchmarks.gate_errors_results import Cell, Results
from benchmarks.gate_errors_worlds import without_advice
from contracts.gate import Block, GatePlan
from nodes.gate.schedule import BlockToRun
from tests.gate_worlds import block, coin, designed, drive


def _simulate(
    plan: GatePlan, gates: int, *, fixed: float, won: float, lost: float
) -> tuple[int, float]:
    """(accepted, mean share of the planned runs) over so many gates.

    Targets pass .2 of the time before and `fixed` after; a sealed case is won or lost with the
    given probabilities. Costs vary by case and are alike in both arms.
    """
    accepted, runs = 0, 0
    for number in range(gates):
        rng = random.Random(number)  # noqa: S311  # a simulation

        def answer(todo: BlockToRun, rng: random.Random = rng) -> Block:
            if todo.phase == "target":
                return block(todo, coin(rng, 0.2), coin(rng, fixed))
            draw, cost = rng.random(), 0.01 * (1 + rng.random())
            before = "fail" if draw < won else "pass"
            after = "fail" if won <= draw < won + lost else "pass"
            return block(todo, before, after, cost_b=cost, cost_c=cost)  # type: ignore[arg-type]  # results

        with without_advice():
            finished, _ = drive(plan, answer)
        accepted += finished.report.verdict == "accept"
        runs += finished.report.runs
    return accepted, runs / (gates * finished.report.planned_runs)


def _most(gates: int, level: float) -> float:
    return gates * level + 3 * math.sqrt(gates * level * (1 - level))


def test_an_edit_without_effect_is_accepted_no_more_often_than_the_level() -> None:
    accepted, spent = _simulate(designed(5, 64), 150, fixed=0.2, won=0.02, lost=0.02)
    assert accepted <= _most(150, 0.05)
    assert spent < 0.35


def test_a_fix_that_harms_by_the_margin_is_accepted_no_more_often_than_the_level() -> None:
    plan = designed(5, 64)
    accepted, _ = _simulate(plan, 150, fixed=1.0, won=0.01, lost=plan.margin + 0.01)
    assert accepted <= _most(150, 0.05)


def test_a_good_edit_is_accepted_mostly_and_with_fewer_runs() -> None:
    accepted, spent = _simulate(designed(5, 64), 60, fixed=0.9, won=0.04, lost=0.005)
    assert accepted >= 50
    assert spent < 0.75


def _cell(project: str, edit: str, flakiness: float, gates: int) -> Cell:
    """Gates of the simulated projects of `benchmarks.gate_errors`."""
    results = Results(None)
    results.put(simulated((project, flakiness, edit), 0, gates, guards=True))
    (_, cell), *_ = results.ordered()
    return cell


@pytest.mark.parametrize("project", ["Mini, starter", "Tiny, starter"])
def test_in_starter_an_edit_without_effect_reaches_known_cases_only_no_more_than_the_level(
    project: str,
) -> None:
    cell = _cell(project, "no effect", 0.2, 60)
    assert cell.accepted <= _most(60, 0.01)
    assert cell.spent < 0.6


def test_in_starter_a_guard_that_got_worse_rejects() -> None:
    """Two of twenty cases turn from always to never: screened, tested, confirmed."""
    cell = _cell("Tiny, starter", "fixes, harms 10", 0.0, 40)
    assert cell.verdicts["reject"] >= 10
    assert cell.guard_runs > 0
    assert not _cell("Tiny, starter", "fixes targets only", 0.0, 20).verdicts["reject"]


@pytest.mark.parametrize(("project", "level"), [("15, level .01", 0.01), ("10, level .05", 0.05)])
def test_a_fix_that_harms_by_the_margin_passes_the_guards_and_costs_no_more_often(
    project: str, level: float
) -> None:
    cell = _cell(f"Small, margin .{project}", "fixes, harms by the margin", 0.05, 60)
    assert cell.accepted <= _most(60, level)


def test_a_fix_without_harm_is_mostly_accepted_by_a_deterministic_agent() -> None:
    assert _cell("Medium, margin .10, level .01", "fixes, +5", 0.0, 20).accepted >= 17
