"""G: a failure of a case that passed stably is a signal; only fresh runs can confirm it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from contracts.gate import Block, CaseOutcome, GatePlan, GateReport, PlannedCase, RunResult
from nodes.gate.schedule import BlockToRun, Work, next_step
from nodes.gate.stats import guard_p
from nodes.gate.verdict import report
from tests.gate_worlds import Answers, block, case, cases, designed, drive, stable

OWN = [case(f"g{i}", "guard") for i in range(3)]


def guarded(targets: int = 5, sealed: int = 64, *, stable_sealed: int = 64) -> GatePlan:
    """The first sealed cases (by name) and three guards of the operator's own pass stably."""
    unseen = cases(sealed, "sealed")[:stable_sealed]
    return designed(targets, sealed, guards=OWN, runs=stable(unseen, OWN))


PLAN = guarded()


def good(todo: BlockToRun) -> Block:
    return block(todo, "fail" if todo.phase == "target" else "pass", "pass")


def failing(rule: Callable[[BlockToRun], bool], result: RunResult = "fail") -> Answers:
    """All is well but where the rule says otherwise of the candidate."""
    return lambda todo: block(todo, "pass", result) if rule(todo) else good(todo)


def of_guards(stored: list[Block]) -> list[tuple[str, int]]:
    return [(b.case, b.index) for b in stored if b.phase == "guard"]


def outcome(found: GateReport, name: str) -> CaseOutcome:
    return next(each for each in found.cases if each.name == name and each.phase == "guard")


def first_read(plan: GatePlan, count: int = 1) -> tuple[PlannedCase, ...]:
    """Protected sealed cases of the first look."""
    read = plan.sealed[: plan.looks[0][0]]
    return tuple(each for each in read if each.protected)[:count]


def test_own_guards_run_once_after_the_sealed_cases_and_the_candidate_alone() -> None:
    finished, stored = drive(PLAN, good)
    assert finished.report.verdict == "accept"
    assert sorted(of_guards(stored)) == [("g0", 0), ("g1", 0), ("g2", 0)]
    assert all(b.baseline is None for b in stored[-3:])
    assert finished.report.runs == 132 + 3
    assert [(o.state, o.before, o.after) for o in finished.report.cases if o.phase == "guard"] == [
        ("passed", None, (1, 1))
    ] * 3
    assert "67 protected cases, 0 failed a run" in finished.report.claims[2].detail


def test_guards_are_not_run_for_an_edit_that_fails_before() -> None:
    finished, stored = drive(PLAN, lambda todo: block(todo, "fail", "fail"))
    assert not of_guards(stored)
    assert finished.report.claims[2].state == "unknown"
    assert "Guards were not tested, since the gate ended before." in finished.report.not_tested


def test_one_signal_is_tested_at_once_without_a_screen() -> None:
    slips = failing(lambda todo: todo.case == "g1" and todo.index == 0)
    finished, stored = drive(PLAN, slips)
    assert of_guards(stored)[3:] == [("g1", i) for i in range(4, 11)]  # cleared at the 7th pass
    assert finished.report.verdict == "accept"
    seen = outcome(finished.report, "g1")
    assert (seen.state, seen.before, seen.after, seen.p) == ("cleared", (7, 7), (7, 7), 1.0)
    assert any("1 tested again" in line for line in finished.report.in_words)


def test_two_signals_are_screened_and_only_what_fails_again_is_tested() -> None:
    def rule(todo: BlockToRun) -> bool:
        first = todo.case in {"g0", "g1"} and todo.index == 0
        return first or (todo.case == "g1" and todo.index == 2)

    finished, stored = drive(PLAN, failing(rule))
    ran = of_guards(stored)[3:]
    assert sorted(ran[:6]) == [(g, i) for g in ("g0", "g1") for i in (1, 2, 3)]
    assert ran[6:] == [("g1", i) for i in range(4, 11)]
    assert [b.baseline is None for b in stored if b.phase == "guard"] == [True] * 9 + [False] * 7
    assert outcome(finished.report, "g0").state == "cleared"
    assert outcome(finished.report, "g0").after == (3, 4)
    assert finished.report.verdict == "accept"


def test_a_confirmed_regression_is_rejected_and_named() -> None:
    finished, stored = drive(PLAN, failing(lambda todo: todo.case == "g2"))
    found = finished.report
    assert (found.verdict, found.reason) == ("reject", "guard regression")
    assert of_guards(stored)[3:] == [("g2", i) for i in range(4, 14)]
    seen = outcome(found, "g2")
    assert (seen.state, seen.before, seen.after) == ("confirmed", (10, 10), (0, 10))
    assert seen.p == pytest.approx(1 / 184756)
    assert found.claims[2].state == "not_held"
    assert "A guard got worse: g2, 10 of 10 runs before, 0 after." in found.in_words


@pytest.mark.parametrize(("fails", "verdict", "p"), [(4, "reject", 0.043344), (3, "accept", 1.0)])
def test_a_drop_from_ten_to_six_is_confirmed_and_to_seven_is_cleared(
    fails: int, verdict: str, p: float
) -> None:
    bad = {0, *range(4, 4 + fails)}
    found = drive(PLAN, failing(lambda todo: todo.case == "g0" and todo.index in bad))[0].report
    assert found.verdict == verdict
    assert outcome(found, "g0").p == pytest.approx(p, abs=1e-6)


def test_no_smaller_drop_than_four_tenths_is_ever_confirmed() -> None:
    for r in range(1, 11):
        for before in range(r + 1):
            for after in range(before + 1):
                if guard_p(after, before, r) <= 0.05:
                    assert (before - after) / r >= 0.4


def test_the_test_runs_only_as_many_blocks_as_can_still_clear_the_case() -> None:
    slips = failing(lambda todo: todo.case == "g0" and todo.index in {0, 5, 12})
    _, stored = drive(PLAN, slips)
    # Seven blocks give six passes, so one more is asked for, and it clears.
    assert of_guards(stored)[3:] == [("g0", i) for i in range(4, 12)]


def test_a_sealed_case_is_tested_without_its_name_or_text_in_the_report() -> None:
    (hurt,) = first_read(PLAN)
    finished, _ = drive(PLAN, failing(lambda todo: todo.case == hurt.case))
    found = finished.report
    assert (found.verdict, found.reason) == ("reject", "guard regression")
    assert outcome(found, hurt.fingerprint).state == "confirmed"
    assert hurt.case not in str(found)
    assert f"fingerprint {hurt.fingerprint[:12]}" in " ".join(found.in_words)


def test_holm_asks_more_of_each_case_where_several_are_tested() -> None:
    hurt = {each.case for each in first_read(PLAN, 2)}

    def rule(todo: BlockToRun) -> bool:
        """Both fail when first seen and in the screen, then 4 of 10 blocks: p .043 each."""
        return todo.case in hurt and (todo.phase == "sealed" or todo.index in {1, 4, 5, 6, 7})

    plan = replace(PLAN, margin=0.15)  # two losses still show L2
    finished, _ = drive(plan, failing(rule))
    tested = [o for o in finished.report.cases if o.p is not None]
    assert [o.p for o in tested] == [pytest.approx(2 * 0.043344, abs=1e-5)] * 2
    assert finished.report.verdict == "accept"


def test_no_earlier_run_is_reused_and_the_runs_are_fresh() -> None:
    _, stored = drive(PLAN, failing(lambda todo: todo.case == "g0"))
    places = [(b.phase, b.case, b.index) for b in stored]
    assert len(places) == len(set(places))
    step = next_step(PLAN, stored[:66], spent_seconds=0, spent_usd=None)
    assert isinstance(step, Work)
    assert {todo.phase for todo in step.blocks} == {"guard"}
    assert len({todo.seed for todo in step.blocks}) == len(step.blocks)


def test_a_target_that_passed_stably_is_guarded_too() -> None:
    plan = designed(5, 64, runs=stable(cases(5)[:1]))
    name = "c-target-0"

    def answer(todo: BlockToRun) -> Block:
        if todo.case != name:
            return good(todo)
        return block(todo, "pass", "fail" if todo.index or todo.phase == "guard" else "pass")

    seeds: list[int] = []

    def noted(todo: BlockToRun) -> Block:
        seeds.append(todo.seed)
        return answer(todo)

    finished, _ = drive(plan, noted)
    assert len(set(seeds)) == len(seeds), "the test's runs are other runs than those before"
    assert (finished.report.verdict, finished.report.reason) == ("reject", "guard regression")
    assert {o.phase for o in finished.report.cases if o.name == name} == {"target", "guard"}


@pytest.mark.parametrize("index", [0, 1])
def test_a_lost_first_or_screening_run_leaves_g_unknown(index: int) -> None:
    def answer(todo: BlockToRun) -> Block:
        if todo.case == "g0" and todo.index == index:
            return block(todo, "pass", "missing")
        first = todo.phase == "guard" and todo.index == 0 and index == 1
        return failing(lambda t: first and t.case in {"g0", "g1"})(todo)

    finished, stored = drive(PLAN, answer)
    assert (finished.report.verdict, finished.report.reason) == ("inconclusive", "missing blocks")
    assert outcome(finished.report, "g0").state == "missing"
    assert sum(b.case == "g0" and b.index == index for b in stored) == 3


def test_lost_test_blocks_confirm_nothing_and_clear_nothing_they_could_have_spoiled() -> None:
    def answer(lost: set[int], failed: set[int]) -> Answers:
        def one(todo: BlockToRun) -> Block:
            if todo.case != "g0":
                return good(todo)
            result: RunResult = "missing" if todo.index in lost else "pass"
            return block(todo, "pass", "fail" if todo.index in {0, *failed} else result)

        return one

    # Three fails beside two lost blocks: 8 v 5 of 8 says nothing, 10 v 5 of 10 would.
    found = drive(PLAN, answer({4, 5}, {6, 7, 8}))[0].report
    assert (found.verdict, found.reason) == ("inconclusive", "missing blocks")
    assert outcome(found, "g0").state == "missing"
    # Seven passes clear whatever the lost ones would have said.
    found = drive(PLAN, answer({4, 5}, set()))[0].report
    assert (found.verdict, outcome(found, "g0").state) == ("accept", "cleared")
    # What was observed still confirms, with a drop of .3 or more.
    found = drive(PLAN, answer({4, 5}, {6, 7, 8, 9, 10, 11}))[0].report
    assert (found.verdict, found.reason) == ("reject", "guard regression")


def test_a_budget_that_ends_in_a_test_is_inconclusive() -> None:
    plan = replace(PLAN, max_runs=140)
    found = drive(plan, failing(lambda todo: todo.case == "g0"))[0].report
    assert (found.verdict, found.reason) == ("inconclusive", "budget")
    assert outcome(found, "g0").state == "signal"


def test_a_sealed_case_that_signalled_and_was_not_run_again_stands_in_no_report() -> None:
    (hurt,) = first_read(PLAN)
    plan = replace(PLAN, max_runs=136)  # pays for the guards' first runs, not for the test
    found = drive(plan, failing(lambda todo: todo.case == hurt.case))[0].report
    assert found.reason == "budget"
    assert {o.name for o in found.cases if o.phase == "guard"} == {"g0", "g1", "g2"}


def test_a_block_of_a_case_that_nobody_guards_is_a_mismatch_and_names_no_sealed_case() -> None:
    plan = guarded(stable_sealed=0)
    stranger = plan.sealed[0]
    _, stored = drive(plan, good)
    foreign = replace(stored[-1], case=stranger.case, index=5)
    found = report(plan, [*stored, foreign])
    assert (found.verdict, found.reason) == (
        "invalid", "plan mismatch: guard block 5 is not in the plan",
    )  # fmt: skip


def test_only_own_guards_have_a_first_run_of_their_own() -> None:
    _, stored = drive(PLAN, good)
    (sealed,) = first_read(PLAN)
    found = report(PLAN, [*stored, replace(stored[-1], case=sealed.case, index=0)])
    assert (found.verdict, found.reason) == (
        "invalid", "plan mismatch: guard block 0 is not in the plan",
    )  # fmt: skip


def test_without_a_protected_case_the_report_says_that_no_guard_was_tested() -> None:
    found = drive(designed(5, 64), good)[0].report
    assert found.verdict == "accept"
    assert "No case has ten stored baseline runs that pass, so no guard was tested." in (
        found.not_tested
    )
