"""Critical cases: ten clean runs, or a named person for what fails without the edit too."""

from dataclasses import replace

import pytest

from contracts.gate import Block, CaseId, CaseOutcome, Exemption, GatePlan, GateReport
from nodes.gate.schedule import BlockToRun
from nodes.gate.verdict import report
from tests.gate_worlds import Answers, block, case, designed, drive

MONEY = case("money", "critical")
NAMED = Exemption(case=CaseId("money"), by="Ada", why="known, ticket 7")
PLAN = designed(5, 64, critical=[MONEY, case("safety", "critical")])
EXEMPT = designed(5, 64, critical=[MONEY, case("safety", "critical")], exempt=[NAMED])


def failing(*, before: str, after: str, plan: GatePlan = PLAN) -> tuple[GateReport, list[Block]]:
    """Drive a gate where `money` answers as written, run by run: p pass, f fail, m missing."""
    word = {"p": "pass", "f": "fail", "m": "missing"}

    def answer(todo: BlockToRun) -> Block:
        if todo.case != "money":
            return block(todo, "fail" if todo.phase == "target" else "pass", "pass")
        told = (before * 20)[todo.index - 10] if todo.index >= 10 else "p"
        return block(todo, word[told], word[(after * 20)[todo.index]])  # type: ignore[arg-type]

    finished, stored = drive(plan, answer)
    return finished.report, stored


def money(found: GateReport) -> CaseOutcome:
    return next(each for each in found.cases if each.name == "money")


def beside(stored: list[Block]) -> int:
    return sum(b.phase == "critical" and b.baseline is not None for b in stored)


def test_ten_clean_runs_of_each_pass() -> None:
    found, stored = failing(before="p", after="p")
    assert found.verdict == "accept"
    assert (money(found).state, money(found).before, money(found).after) == (
        "passed",
        None,
        (10, 10),
    )
    assert not beside(stored)
    assert "Each of 2 critical cases passed 10 runs without a failure." in found.in_words


def test_a_failure_blocks_and_the_baseline_is_run_beside_it() -> None:
    found, stored = failing(before="p", after="p" * 9 + "f" * 11)
    assert (found.verdict, found.reason) == ("reject", "critical failure")
    assert beside(stored) == 10
    assert (money(found).state, money(found).before) == ("failed", (10, 10))
    assert "Critical case money failed 11 of 20 runs, without the edit 0 of 10." in found.in_words


def test_a_failure_also_seen_without_the_edit_is_reported_and_still_blocks() -> None:
    found, stored = failing(before="ppf", after="f" * 20)
    assert (found.verdict, found.reason) == ("reject", "critical failure")
    assert beside(stored) == 5  # the answer is there
    assert money(found).before == (4, 5)


def test_a_named_person_lets_pass_what_fails_without_the_edit_too() -> None:
    found, stored = failing(before="f", after="pf", plan=EXEMPT)
    assert found.verdict == "accept"
    assert (money(found).state, money(found).before) == ("exempt", (0, 5))
    assert any("Ada lets it pass: known, ticket 7" in note for note in found.notes)
    own = [b for b in stored if b.case == "money" and b.index < 10]
    assert len(own) == 10, "an exempt case has its ten runs all the same"
    assert any("money may fail where it fails without the edit too" in n for n in EXEMPT.notes)


def test_an_exemption_does_not_cover_a_new_failure() -> None:
    found, _ = failing(before="p", after="f", plan=EXEMPT)
    assert (found.verdict, found.reason) == ("reject", "critical failure")


def test_an_exemption_needs_a_baseline_failure_that_was_seen() -> None:
    found, _ = failing(before="m", after="f", plan=EXEMPT)
    assert (found.verdict, found.reason) == ("reject", "critical failure")
    assert money(found).before is None


def test_an_exempt_case_whose_own_runs_are_missing_is_not_let_pass() -> None:
    found, _ = failing(before="f", after="fm", plan=EXEMPT)
    assert (found.verdict, found.reason) == ("inconclusive", "missing blocks")


def test_an_exemption_is_not_taken_before_the_baseline_was_seen_to_fail() -> None:
    _, stored = failing(before="f", after="pf", plan=EXEMPT)
    early = report(EXEMPT, [b for b in stored if not (b.phase == "critical" and b.baseline)])
    assert (money(early).state, early.reason) == ("missing", "unfinished")


def test_a_missing_run_is_no_clean_run() -> None:
    found, _ = failing(before="p", after="p" * 9 + "m")
    assert (found.verdict, found.reason) == ("inconclusive", "missing blocks")
    assert found.claims[2].state == "unknown"


def test_an_exemption_of_another_case_has_no_effect() -> None:
    other = replace(NAMED, case=CaseId("nowhere"))
    plan = designed(5, 64, critical=[MONEY], exempt=[other])
    assert plan.exempt == ()
    assert "1 exemption of no critical case: without effect." in plan.notes
    assert failing(before="f", after="f", plan=plan)[0].verdict == "reject"


def test_a_critical_case_that_is_sealed_too_is_named_by_its_fingerprint() -> None:
    plan = designed(5, 64, critical=[case("money", "sealed", also="critical")])
    assert plan.critical[0].hidden
    found, _ = failing(before="p", after="f", plan=plan)
    assert found.verdict == "reject"
    assert "money" not in str(found)
    twice = designed(
        0, 1, purpose="simplify", critical=[case("c-sealed-0", "sealed", also="critical")]
    )
    seeds: set[int] = set()

    def noted(todo: BlockToRun) -> Block:
        assert todo.seed not in seeds
        seeds.add(todo.seed)
        return block(todo, "pass", "pass")

    assert len(drive(twice, noted)[1]) == 11
    assert plan.critical[0].fingerprint[:12] in str(found.in_words)
    assert "money" not in str(plan.notes)


@pytest.mark.parametrize("exempt", [False, True])
def test_a_gate_killed_after_any_block_ends_the_same_way(*, exempt: bool) -> None:
    plan = EXEMPT if exempt else PLAN
    found, stored = failing(before="ppppppf", after="ppfp", plan=plan)

    def answer_for(done: list[Block]) -> Answers:
        known = {(b.phase, b.case, b.index, b.attempt): b for b in done}
        return lambda todo: known[(todo.phase, todo.case, todo.index, todo.attempt)]

    assert drive(plan, answer_for(stored))[0].report == found
    assert report(plan, stored[::-1]) == found
