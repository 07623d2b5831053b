"""Sealed cases with repeats are read by the e-process, in the order of the plan."""

import random
from dataclasses import replace

import pytest

from contracts.gate import Block, GatePlan, RunResult
from nodes.gate.schedule import BlockToRun, Finished, next_step
from nodes.gate.sizes import smallest_margin
from nodes.gate.stats import e_process
from nodes.gate.verdict import report
from tests.gate_worlds import block, coin, designed, drive, fixing

PLAN = replace(designed(5, 60, sealed_repeats=3), margin=0.10)


def sealed(plan: GatePlan, results: dict[int, str] | None = None) -> list[Block]:
    """Blocks of the sealed cases: ties, but for cases (by place) written run by run.

    w won, l lost, m missing for good, t tie.
    """
    arms: dict[str, tuple[RunResult, RunResult]] = {
        "w": ("fail", "pass"), "l": ("pass", "fail"), "t": ("pass", "pass"),
        "m": ("pass", "missing"),
    }  # fmt: skip
    return [
        block(case, *arms[told], phase="sealed", index=index, attempt=attempt)
        for number, case in enumerate(plan.sealed)
        for index, told in enumerate((results or {}).get(number, "t" * case.repeats))
        for attempt in range(3 if told == "m" else 1)
    ]


def test_ties_show_no_harm_at_the_first_case_where_the_evidence_reaches_the_level() -> None:
    found = report(PLAN, [*fixing(PLAN), *sealed(PLAN)])
    assert found.verdict == "accept"
    assert found.claims[1].p == pytest.approx(1 / e_process([0.0] * 60, 0.10)[-1])
    assert found.claims[1].level == 0.05
    assert found.e_value == pytest.approx(e_process([0.0] * 60, 0.10)[-1])
    assert found.sealed_interval is None
    assert found.sealed == (0, 0, 60)
    assert found.sealed_passes == (180, 180)
    assert "x 3, by the e-process" in found.claims[1].detail
    few = replace(PLAN, sealed=PLAN.sealed[:40], looks=((40, 0.05),))
    assert report(few, [*fixing(few), *sealed(few)]).reason == "harm not excluded"
    enough = replace(PLAN, sealed=PLAN.sealed[:41], looks=((41, 0.05),))
    assert report(enough, [*fixing(enough), *sealed(enough)]).verdict == "accept"


def test_differences_are_averaged_within_a_case_and_losses_at_the_end_do_not_undo() -> None:
    late = report(PLAN, [*fixing(PLAN), *sealed(PLAN, {57: "ltt", 58: "llt", 59: "llt"})])
    early = report(PLAN, [*fixing(PLAN), *sealed(PLAN, {0: "ltt", 1: "llt", 2: "llt"})])
    assert late.claims[1].state == "held"
    assert early.claims[1].state == "not_held"
    d = [-1 / 3, -2 / 3, -2 / 3, *[0.0] * 57]
    assert early.e_value == pytest.approx(e_process(d, 0.10)[-1])
    assert early.sealed == (0, 3, 60)


def test_harm_and_cost_are_read_once_at_the_end_over_cases() -> None:
    assert PLAN.looks == ((60, 0.05),)
    harmed = report(PLAN, [*fixing(PLAN), *sealed(PLAN, dict.fromkeys(range(5), "ltt"))])
    assert (harmed.verdict, harmed.reason) == ("reject", "harm on sealed cases (p 0.0312)")
    mixed = report(PLAN, [*fixing(PLAN), *sealed(PLAN, dict.fromkeys(range(4), "lll"))])
    assert mixed.verdict == "inconclusive"


def test_missing_blocks_count_against_the_candidate() -> None:
    found = report(PLAN, [*fixing(PLAN), *sealed(PLAN, {0: "mmt", 1: "mmt", 2: "mmt"})])
    assert (found.verdict, found.reason) == ("inconclusive", "missing blocks")
    assert found.claims[1].state == "held"
    lost = report(PLAN, [*fixing(PLAN), *sealed(PLAN, dict.fromkeys(range(4), "mmm"))])
    assert lost.verdict == "invalid"


def test_all_blocks_of_a_case_run_before_the_next_case() -> None:
    plan = designed(3, 40, sealed_repeats=2)
    finished, stored = drive(
        plan, lambda todo: block(todo, "fail" if todo.phase == "target" else "pass", "pass")
    )
    ran = [(b.case, b.index) for b in stored if b.phase == "sealed"]
    assert ran == [(c.case, i) for c in plan.sealed for i in (0, 1)]
    assert finished.report.proven_margin < 0.5


def test_the_proven_margin_is_the_smallest_that_the_evidence_excludes() -> None:
    found = report(PLAN, [*fixing(PLAN), *sealed(PLAN)])
    d = [0.0] * 60
    assert (
        max(e_process(d, found.proven_margin))
        >= 20
        > max(e_process(d, found.proven_margin - 0.001))
    )


def test_a_margin_that_repeats_cannot_prove_is_widened_to_the_smallest_that_they_can() -> None:
    plan = designed(5, 40, sealed_repeats=2)
    assert plan.margin > 0.10
    assert smallest_margin(plan) == plan.margin
    assert any("40 sealed cases x 2 repeats can prove a margin of" in note for note in plan.notes)


def test_an_edit_at_the_margin_is_accepted_no_more_often_than_the_level() -> None:
    plan = replace(designed(3, 40, sealed_repeats=2), max_runs=10_000)
    accepted = 0
    for number in range(60):
        rng = random.Random(number)  # noqa: S311  # a simulation

        def answer(todo: BlockToRun, rng: random.Random = rng) -> Block:
            if todo.phase == "target":
                return block(todo, "fail", "pass")
            return block(todo, "pass", coin(rng, 1.0 - plan.margin))

        accepted += drive(plan, answer)[0].report.verdict == "accept"
    assert accepted <= 8


def test_a_gate_with_repeats_ends_and_asks_for_nothing_twice() -> None:
    plan = designed(3, 40, sealed_repeats=2)
    finished, stored = drive(plan, lambda todo: block(todo, "missing", "pass"))
    assert finished.report.verdict == "invalid"
    assert len({(b.phase, b.case, b.index, b.attempt) for b in stored}) == len(stored)
    assert isinstance(next_step(plan, stored, spent_seconds=0, spent_usd=0), Finished)
