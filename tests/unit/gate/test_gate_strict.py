"""L3: strict also asks that unseen cases of the same issue pass more often."""

from dataclasses import replace

import pytest

from contracts.gate import Block, GatePlan, GateReport
from nodes.gate.schedule import BlockToRun, Finished, Work, next_step
from nodes.gate.sealed import NOT_GENERAL
from nodes.gate.verdict import report
from tests.gate_worlds import block, case, designed, drive, fixing, one_look, stable

ISSUE = "tool_timeout:payment_api:504"


def strict(of_issue: int, *, uses: int = 5, sealed: int = 140) -> GatePlan:
    return designed(5, sealed, uses=uses, profile="strict", issue=ISSUE, of_issue=of_issue)


def sealed_blocks(plan: GatePlan, *, won: int, lost: int = 0, missing: int = 0) -> list[Block]:
    """All sealed blocks: of the issue's cases so many won, then lost, then missing; rest ties."""
    found: list[Block] = []
    left = ["won"] * won + ["lost"] * lost + ["missing"] * missing
    for planned in plan.sealed:
        what = left.pop(0) if planned.of_issue and left else "tie"
        if what == "missing":
            found += [
                block(planned, "fail", "missing", phase="sealed", attempt=a) for a in range(3)
            ]
        elif what == "tie":
            found.append(block(planned, "pass", "pass", phase="sealed"))
        else:
            good = what == "won"
            found.append(
                block(
                    planned, "fail" if good else "pass", "pass" if good else "fail", phase="sealed"
                )
            )
    return found


def said(found: GateReport) -> tuple[str, str, str]:
    l3 = next(claim for claim in found.claims if claim.name == "L3")
    return found.verdict, found.reason, l3.state


PLAN = replace(one_look(strict(8), margin=0.10), profile="strict")


@pytest.mark.parametrize(
    ("won", "lost", "expected"),
    [
        (7, 0, ("accept", "every claim held", "held")),
        (6, 0, ("inconclusive", "generalisation not shown", "not_held")),
        (7, 1, ("inconclusive", "generalisation not shown", "not_held")),
        (8, 0, ("accept", "every claim held", "held")),
    ],
)
def test_seven_wins_without_a_loss_generalise_at_one_percent(
    won: int, lost: int, expected: tuple[str, str, str]
) -> None:
    found = report(PLAN, [*fixing(PLAN), *sealed_blocks(PLAN, won=won, lost=lost)])
    assert said(found) == expected
    assert found.claims[4].level == 0.01
    if won == 7 and not lost:
        assert found.claims[4].p == pytest.approx(0.5**7)
        assert any(
            line.startswith("It also helps on unseen cases of this issue: 1 of 8")
            for line in found.in_words
        )
    elif found.verdict != "accept":
        assert found.needed is not None
        assert "7 sealed cases of this issue at least" in found.needed


def test_without_a_sealed_case_of_the_issue_l3_is_unknown_and_nothing_is_accepted() -> None:
    plan = replace(one_look(strict(0), margin=0.10), profile="strict")
    found = report(plan, [*fixing(plan), *sealed_blocks(plan, won=0)])
    assert said(found) == ("inconclusive", "generalisation not shown", "unknown")
    assert any("no sealed case is of this issue" in note for note in strict(0).notes)


def test_too_few_cases_of_the_issue_are_said_before_any_run() -> None:
    assert any("could not reach the level" in note for note in strict(6).notes)
    assert not any("could not reach the level" in note for note in strict(7).notes)


def test_a_missing_block_of_the_issue_counts_against_the_candidate() -> None:
    found = report(PLAN, [*fixing(PLAN), *sealed_blocks(PLAN, won=7, missing=1)])
    assert said(found) == ("inconclusive", "missing blocks", "held")


def test_standard_shows_the_cases_of_the_issue_and_does_not_ask_for_them() -> None:
    plan = replace(PLAN, profile="standard")
    found = report(plan, [*fixing(plan), *sealed_blocks(plan, won=1)])
    assert said(found) == ("accept", "every claim held", "not_asked")
    assert "baseline 7 and candidate 8 passes of 8" in found.claims[4].detail


def test_strict_reads_all_cases_of_the_issue_where_standard_would_stop() -> None:
    def answer(todo: BlockToRun) -> Block:
        mine = todo.case in {c.case for c in strict(10).sealed if c.of_issue}
        return block(todo, "fail" if mine or todo.phase == "target" else "pass", "pass")

    plan = strict(10)
    first, last = (cases for cases, _ in plan.looks)
    mine = [i for i, c in enumerate(plan.sealed) if c.of_issue]
    assert sum(i < first for i in mine) < 7, "else the world does not show it"
    finished, stored = drive(plan, answer)
    assert finished.report.verdict == "accept"
    assert sum(b.phase == "sealed" for b in stored) == last
    loose = replace(plan, profile="standard")
    assert sum(b.phase == "sealed" for b in drive(loose, answer)[1]) == first


def test_strict_stops_where_the_rest_cannot_show_that_it_generalises() -> None:
    plan = strict(8)
    finished, stored = drive(
        plan, lambda todo: block(todo, "fail" if todo.phase == "target" else "pass", "pass")
    )
    assert sum(b.phase == "sealed" for b in stored) == plan.looks[0][0]
    assert finished.report.reason == "generalisation not shown"
    assert NOT_GENERAL in finished.report.notes[0]


def test_l3_reads_no_block_of_a_look_that_is_not_complete() -> None:
    plan = strict(10)
    first = plan.looks[0][0]
    blocks = [*fixing(plan), *sealed_blocks(plan, won=10)]
    at_look = report(plan, blocks[: 25 + first])
    assert report(plan, blocks[:-1]).claims[4] == at_look.claims[4]
    assert at_look.claims[4].state == "unknown"


def test_no_guard_runs_for_an_edit_that_does_not_generalise() -> None:
    guard = case("g", "guard")
    made = designed(5, 140, uses=5, profile="strict", issue=ISSUE, of_issue=8, guards=[guard],
                    runs=stable([guard]), margin=0.10)  # fmt: skip
    plan = replace(one_look(made), profile="strict", margin=0.10)
    few = [*fixing(plan), *sealed_blocks(plan, won=3)]
    assert isinstance(next_step(plan, few, spent_seconds=0, spent_usd=0), Finished)
    enough = [*fixing(plan), *sealed_blocks(plan, won=7)]
    step = next_step(plan, enough, spent_seconds=0, spent_usd=0)
    assert isinstance(step, Work)
    assert {todo.phase for todo in step.blocks} == {"guard"}
