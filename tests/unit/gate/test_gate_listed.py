"""LK: what rounds over a few sealed cases show of just these cases."""

from dataclasses import replace

import pytest

from contracts.gate import Block, RunResult
from nodes.gate.schedule import BlockToRun, Finished, Work, next_step
from nodes.gate.stats import e_process
from nodes.gate.verdict import report
from tests.gate_worlds import Answers, block, case, designed, drive, stable

PLAN = designed(3, 8, listed_rounds=8)


def good(todo: BlockToRun) -> Block:
    return block(todo, "fail" if todo.phase == "target" else "pass", "pass")


def rounds(result: RunResult, *indexes: int) -> Answers:
    """The candidate's result in these rounds of the first sealed case; else all is well."""
    first = PLAN.sealed[0].case

    def answer(todo: BlockToRun) -> Block:
        mine = todo.phase == "sealed" and todo.case == first and todo.index in indexes
        return block(todo, "pass", result) if mine else good(todo)

    return answer


def test_eight_cases_that_never_differ_show_ten_points_after_six_rounds() -> None:
    finished, stored = drive(PLAN, good)
    found = finished.report
    assert (found.verdict, found.reason) == ("inconclusive", "known cases only")
    assert sum(b.phase == "sealed" for b in stored) == 48
    assert found.listed is not None
    assert found.listed[0] == pytest.approx(e_process([0.0] * 48, 0.10)[-1])
    assert found.listed[1:] == (6, 0.10)
    assert found.claims[5].name == "LK"
    assert found.claims[5].state == "held"
    assert "No drop above 10 points on these 8 unseen cases (6 rounds)" in " ".join(found.in_words)
    assert "it says nothing of others" in " ".join(found.in_words)


def test_the_claim_about_unseen_cases_reads_the_first_round_alone() -> None:
    found = drive(PLAN, good)[0].report
    assert found.sealed == (0, 0, 8)
    assert found.sealed_passes == (8, 8)
    assert found.proven_margin == pytest.approx(0.314)
    later = drive(PLAN, rounds("fail", 1, 2, 3, 4, 5))[0].report
    assert (later.sealed, later.claims[1].p) == (found.sealed, found.claims[1].p)


def test_a_loss_takes_more_rounds_or_shows_a_wider_margin_only() -> None:
    finished, stored = drive(PLAN, rounds("fail", 2))
    assert sum(b.phase == "sealed" for b in stored) > 48
    worse = drive(PLAN, rounds("fail", 1, 2, 3, 4))[0].report
    assert worse.listed is not None
    assert worse.claims[5].state == "not_held"
    assert worse.listed[1] == 8
    assert 0.10 < worse.listed[2] <= 0.30
    assert finished.report.verdict == "inconclusive"


def test_a_block_that_stays_missing_counts_as_a_loss() -> None:
    found = drive(PLAN, rounds("missing", 2))[0].report
    lost = drive(PLAN, rounds("fail", 2))[0].report
    assert found.listed == lost.listed


def test_it_is_read_at_the_end_of_complete_rounds_only() -> None:
    _, stored = drive(PLAN, good)
    found = report(PLAN, stored[:-1])
    assert found.listed is not None
    assert found.listed[1] == 5
    assert (found.claims[5].state, found.reason) == ("unknown", "unfinished")


def test_evidence_in_the_middle_of_a_round_shows_nothing() -> None:
    plan = designed(3, 8, listed_rounds=4)
    last = plan.sealed[-1].case
    found = drive(
        plan,
        lambda todo: (
            block(todo, "pass", "fail") if todo.case == last and todo.index else good(todo)
        ),
    )[0].report
    d = [0.0] * 8 + ([0.0] * 7 + [-1.0]) * 3
    assert max(e_process(d, 0.25)) >= 20
    assert max(e_process(d, 0.30)[7::8]) < 20 <= max(e_process(d, 0.35)[7::8])
    assert found.listed is not None
    assert found.listed[2] == 0.35


def test_rounds_come_last_and_only_for_an_edit_that_passed_the_rest() -> None:
    guards = [case("g", "guard")]
    plan = designed(3, 8, listed_rounds=8, guards=guards, runs=stable(guards),
                    critical=[case("k", "critical")])  # fmt: skip
    _, stored = drive(plan, good)
    order = [(b.phase, b.index > 0) for b in stored]
    assert order.index(("critical", False)) < order.index(("guard", False))
    assert order.index(("guard", False)) < order.index(("sealed", True))
    assert not any(b.index for b in drive(plan, _fails_guard)[1] if b.phase == "sealed")
    assert not any(b.phase == "sealed" for b in drive(plan, _fails_target)[1])


def _fails_guard(todo: BlockToRun) -> Block:
    return block(todo, "pass", "fail") if todo.phase == "guard" else good(todo)


def _fails_target(todo: BlockToRun) -> Block:
    return block(todo, "fail", "fail") if todo.phase == "target" else good(todo)


def test_a_budget_that_ends_in_the_rounds_changes_the_verdict_not() -> None:
    plan = replace(PLAN, max_runs=80)
    found = drive(plan, good)[0].report
    assert (found.verdict, found.reason) == ("inconclusive", "known cases only")
    assert found.claims[5].state == "unknown"


def test_too_many_missing_blocks_of_the_first_round_are_invalid_whatever_came_later() -> None:
    found = drive(PLAN, rounds("missing", 0))[0].report
    assert found.verdict == "invalid"
    assert found.reason.startswith("missing blocks: 12% of the sealed blocks")


def test_rounds_resume_where_they_were_killed() -> None:
    _, stored = drive(PLAN, good)
    step = next_step(PLAN, stored[:-3], spent_seconds=0, spent_usd=0)
    assert isinstance(step, Work)
    assert [(b.case, b.index) for b in step.blocks] == [(b.case, b.index) for b in stored[-3:]]
    assert isinstance(next_step(PLAN, stored, spent_seconds=0, spent_usd=0), Finished)
