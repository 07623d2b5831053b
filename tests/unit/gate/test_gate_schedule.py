"""The order of work: targets first, early stops, looks, repeats of missing blocks, budgets."""

from dataclasses import replace

import pytest

from contracts.gate import Block, GatePlan
from nodes.gate.schedule import CHUNK, BlockToRun, Finished, Work, next_step
from nodes.gate.verdict import report
from tests.gate_worlds import block, case, designed, drive, graded


def ask(plan: GatePlan, blocks: list[Block], **more: float) -> Work | Finished:
    return next_step(
        plan, blocks, spent_seconds=more.get("seconds", 0.0), spent_usd=more.get("usd")
    )


def good(todo: BlockToRun) -> Block:
    """The candidate passes everything, the baseline all but the targets."""
    return block(todo, "fail" if todo.phase == "target" else "pass", "pass")


def idle(todo: BlockToRun) -> Block:
    """An edit without effect on targets that always fail."""
    return block(todo, "fail", "fail")


def test_a_good_edit_is_accepted_with_fewer_runs_than_planned() -> None:
    finished, stored = drive(designed(5, 64), good)
    assert finished.report.verdict == "accept"
    # After four rounds even five losses would leave L1 held; 40 clean sealed cases show L2 and K.
    assert (len(stored), finished.report.runs) == (20 + 40, 120)
    assert finished.report.planned_runs == 178


def test_l1_comes_first_in_rounds_of_one_block_a_target() -> None:
    plan = designed(5, 64)
    step = ask(plan, [])
    assert isinstance(step, Work)
    assert [b.case for b in step.blocks] == [c.case for c in plan.targets]
    assert {(b.phase, b.index, b.attempt) for b in step.blocks} == {("target", 0, 0)}


def test_an_edit_without_effect_stops_after_half_of_the_rounds_and_opens_no_sealed_case() -> None:
    finished, stored = drive(designed(5, 64), idle)
    assert {b.phase for b in stored} == {"target"}
    assert len(stored) == 15
    assert (finished.report.verdict, finished.report.reason) == ("inconclusive", "not fixed")
    assert "no lead after half of the rounds" in finished.report.claims[0].detail


def test_l1_stops_as_soon_as_it_cannot_hold_any_more() -> None:
    plan = designed(5, 64, uses=5, repeats=1)  # a clean sweep gives .031, the level is .01
    finished, stored = drive(plan, good)
    assert stored == []
    assert finished.report.reason == "not fixed"
    assert finished.report.claims[0].p == pytest.approx(0.03125)


def test_the_sealed_cases_run_in_the_order_of_the_plan_up_to_the_next_look() -> None:
    plan = designed(5, 64)
    _, stored = drive(plan, good)
    ran = [b.case for b in stored if b.phase == "sealed"]
    assert ran == [c.case for c in plan.sealed[:40]]
    work = ask(plan, [b for b in stored if b.phase == "target"])
    assert isinstance(work, Work)
    assert len(work.blocks) == CHUNK


def test_harm_is_rejected_at_the_first_look() -> None:
    plan = designed(5, 64)

    def harmful(todo: BlockToRun) -> Block:
        early = todo.case in {c.case for c in plan.sealed[:9]}
        return block(todo, "pass", "fail") if early else good(todo)

    finished, stored = drive(plan, harmful)
    assert finished.report.verdict == "reject"
    assert sum(b.phase == "sealed" for b in stored) == 40


def test_a_cost_shown_to_be_too_high_is_rejected_at_the_first_look() -> None:
    plan = designed(5, 64)

    def dear(todo: BlockToRun) -> Block:
        return block(todo, "pass", "pass", cost_c=0.02) if todo.phase == "sealed" else good(todo)

    finished, stored = drive(plan, dear)
    assert finished.report.verdict == "reject"
    assert finished.report.reason.startswith("cost above what is allowed (ratio 2.00")
    assert finished.report.notes == ("Sealed cases stopped after 40: cost shown to be too high.",)
    assert sum(b.phase == "sealed" for b in stored) == plan.looks[0][0]


def test_a_claim_shown_at_a_look_stays_shown() -> None:
    """L2 holds at the first look; cost only at the second, where a few cases were lost."""
    plan = designed(5, 64, margin=0.15)
    first = plan.looks[0][0]
    order = {c.case: i for i, c in enumerate(plan.sealed)}

    def answer(todo: BlockToRun) -> Block:
        i = order.get(todo.case, 0)
        if todo.phase == "target":
            return good(todo)
        # Prices swing in the first part, so that no bound can be shown there.
        return block(
            todo, "pass", "pass", cost_c=0.001 if i % 6 else (0.05 if i < first else 0.001)
        )

    finished, stored = drive(plan, answer)
    assert sum(b.phase == "sealed" for b in stored) > first
    assert finished.report.claims[1].level == pytest.approx(plan.looks[0][1])
    assert finished.report.claims[1].state == "held"


def test_no_prospect_of_excluding_harm_stops_at_the_first_look() -> None:
    plan = designed(5, 64)
    lost = {c.case for c in plan.sealed[:4]}
    finished, stored = drive(
        plan, lambda todo: block(todo, "pass", "fail") if todo.case in lost else good(todo)
    )
    assert sum(b.phase == "sealed" for b in stored) == plan.looks[0][0]
    assert finished.report.reason == "harm not excluded"
    assert any("no prospect" in note for note in finished.report.notes)


def test_a_missing_run_repeats_its_block_at_most_twice_before_the_round_is_read() -> None:
    plan = designed(5, 0)
    lost = plan.targets[2].case

    def flaky(todo: BlockToRun) -> Block:
        return block(todo, "fail", "missing" if (todo.case, todo.index) == (lost, 0) else "pass")

    finished, stored = drive(plan, flaky)
    assert [(b.case, b.attempt) for b in stored[5:7]] == [(lost, 1), (lost, 2)]
    assert stored[7].index == 1
    assert finished.report.reason == "known cases only"


def test_a_block_observed_at_a_later_attempt_counts_once() -> None:
    plan = designed(5, 0)
    finished, stored = drive(
        plan, lambda todo: block(todo, "fail", "pass" if todo.attempt else "missing")
    )
    assert finished.report.target_passes[2] == sum(b.attempt == 1 for b in stored)
    assert finished.report.runs == 2 * len(stored)


def test_a_provider_that_stays_down_ends_the_gate_at_once() -> None:
    finished, stored = drive(designed(5, 64), lambda todo: block(todo, "missing", "missing"))
    assert finished.report.verdict == "invalid"
    assert len(stored) == 15


def test_both_arms_get_the_same_seed_and_a_repeat_another_one() -> None:
    plan = designed(5, 64)
    first = ask(plan, [])
    assert isinstance(first, Work)
    again = ask(plan, [block(b, "missing", "pass") for b in first.blocks])
    assert isinstance(again, Work)
    seeds = [b.seed for b in (*first.blocks, *again.blocks)]
    assert len(set(seeds)) == 10
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert first == ask(plan, [])
    assert ask(replace(plan, seed=8), []) != first


def test_which_arm_runs_first_is_drawn_and_evenly() -> None:
    plan = designed(50, 0)
    step = ask(plan, [])
    assert isinstance(step, Work)
    assert 10 <= sum(b.first == "B" for b in step.blocks) <= 40
    assert {b.arms for b in step.blocks} == {("B", "C"), ("C", "B")}


@pytest.mark.parametrize(
    ("runs", "seconds", "usd"), [(9, 0.0, 0.0), (10_000, 3_600.0, 0.0), (10_000, 0.0, 1_000.0)]
)
def test_a_budget_that_is_over_is_inconclusive(runs: int, seconds: float, usd: float) -> None:
    plan = replace(designed(5, 64), max_runs=runs)
    step = ask(plan, [], seconds=seconds, usd=usd)
    assert isinstance(step, Finished)
    assert (step.report.verdict, step.report.reason) == ("inconclusive", "budget")


def test_a_budget_over_after_the_last_run_changes_no_verdict() -> None:
    plan = designed(5, 64)
    finished, stored = drive(plan, good)
    assert ask(plan, stored, seconds=1e9) == finished


def test_critical_cases_run_last_and_the_candidate_alone() -> None:
    plan = designed(5, 64, critical=[case("k", "critical")])
    finished, stored = drive(plan, good)
    last = stored[-10:]
    assert {(b.phase, b.baseline) for b in last} == {("critical", None)}
    assert finished.report.verdict == "accept"

    def slips(todo: BlockToRun) -> Block:
        if todo.phase != "critical":
            return good(todo)
        return replace(block(todo, "pass", "pass"), candidate=graded("fail"))

    failed, stored = drive(plan, slips)
    assert (failed.report.verdict, failed.report.reason) == ("reject", "critical failure")


def test_a_critical_case_is_not_run_for_an_edit_that_fails_before() -> None:
    _, stored = drive(designed(5, 64, critical=[case("k", "critical")]), idle)
    assert not any(b.phase == "critical" for b in stored)


def test_the_report_is_the_same_whoever_asks_for_it() -> None:
    plan = designed(5, 64)
    finished, stored = drive(plan, good)
    assert report(plan, stored) == finished.report


def test_a_gate_asked_too_early_is_unfinished_not_accepted() -> None:
    plan = designed(5, 64)
    _, stored = drive(plan, good)
    found = report(plan, stored[:-1])
    assert (found.verdict, found.reason) == ("inconclusive", "unfinished")
