"""The report says what was reached, what is not known and what was not tested, in plain words."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from contracts.gate import Block, Conditions, GatePlan, GateReport, Graded, RunResult
from nodes.gate.schedule import BlockToRun
from nodes.gate.verdict import report
from tests.gate_worlds import (
    block,
    case,
    cases,
    designed,
    drive,
    fixing,
    one_look,
    sealed_blocks,
    stable,
)  # fmt: skip

GUARD = case("g", "guard")


def good(todo: BlockToRun) -> Block:
    return block(todo, "fail" if todo.phase == "target" else "pass", "pass")


def of(plan: GatePlan, answer: Callable[[BlockToRun], Block] = good) -> GateReport:
    return drive(plan, answer)[0].report


def test_three_targets_and_eight_sealed_cases_get_a_useful_answer_that_promises_no_more() -> None:
    found = of(designed(3, 8))
    assert found.reason == "known cases only"
    assert found.in_words == (
        "Fixes the 3 known cases: 0 of 18 runs passed before, 18 of 18 after.",
        "None of 8 unseen cases got worse; only harm above 31.4 points can be excluded.",
        "A passing run costs 1.00 times what it did; too few cases to be sure, 1.25 times is"
        " allowed.",
    )
    assert found.needed == "about 78 sealed cases, 30 at least for margin 0.10 (8 in the plan)"
    stricter = of(designed(3, 8, uses=5))
    assert "only harm above 44.2 points can be excluded" in stricter.in_words[1]


def test_five_targets_and_sixty_two_sealed_cases_are_said_as_the_issue_asks() -> None:
    plan = one_look(designed(5, 62, guards=[GUARD], runs=stable([GUARD])), margin=0.10)
    blocks = [*fixing(plan), *sealed_blocks(plan, won=1, lost=1)]
    guard = replace(block(plan.sealed[0], "pass", "pass", phase="sealed"), baseline=None,
                    phase="guard", case=GUARD.id)  # fmt: skip
    found = report(plan, [*blocks, guard])
    assert found.verdict == "accept"
    assert found.in_words == (
        "Fixes the 5 known cases: 0 of 25 runs passed before, 25 of 25 after.",
        "On 62 unseen cases any harm is below 5.7 points: 1 got worse, 1 got better.",
        "No guard got worse: 1 protected case.",
        "A passing run costs 1.00 times what it did, 1.04 times at most; 1.25 times is allowed.",
    )


def priced(todo: BlockToRun, *, cost_b: float | None = 0.01, cost_c: float | None = 0.01) -> Block:
    """All is well, at these costs."""
    before: RunResult = "fail" if todo.phase == "target" else "pass"
    return block(todo, before, "pass", cost_b=cost_b, cost_c=cost_c)


SCENES: dict[str, GateReport] = {
    "nothing": report(designed(5, 64), []),
    "not fixed": of(designed(5, 64), lambda t: block(t, "fail", "fail")),
    "not reproduced": of(designed(5, 64), lambda t: block(t, "pass", "pass")),
    "no sealed": of(designed(1, 0)),
    "listed": of(designed(3, 8, listed_rounds=8)),
    "harm": of(
        designed(5, 64), lambda t: block(t, "pass", "fail") if t.phase == "sealed" else good(t)
    ),
    "dear": of(designed(5, 64), lambda t: priced(t, cost_c=0.03)),
    "unpriced": of(designed(5, 64), lambda t: priced(t, cost_b=None)),
    "guard": of(
        designed(5, 64, guards=[GUARD], runs=stable(cases(64, "sealed"), [GUARD])),
        lambda t: block(t, "pass", "fail") if t.phase == "guard" else good(t),
    ),
    "critical": of(
        designed(5, 64, critical=[case("k" * 120, "critical")]),
        lambda t: block(t, "pass", "fail") if t.phase == "critical" else good(t),
    ),
    "strict": of(
        designed(5, 140, profile="strict", issue="a:b", of_issue=40),
        lambda t: block(t, "fail", "pass"),
    ),
    "smaller": of(designed(0, 64, purpose="simplify", tokens=(900, 700))),
    "repeats": of(designed(5, 64, sealed_repeats=2)),
    "leak": report(designed(5, 64), [], conditions=Conditions(leaked=("ab", "cd"))),
}  # fmt: skip


@pytest.mark.parametrize("scene", SCENES)
def test_sentences_are_short_plain_and_free_of_jargon(scene: str) -> None:
    found = SCENES[scene]
    assert found.not_tested
    for line in (*found.in_words, *found.not_tested):
        assert len(line) <= 105, line
        assert line.endswith("."), line
        assert not re.search(r"\bL[1-3K]\b|alpha|level|discordan|\bp \d|margin|None\b(?! of)", line)
    assert "  " not in " ".join(found.in_words)


@pytest.mark.parametrize(
    ("scene", "said"),
    [
        ("nothing", "Nothing was run yet, so nobody knows whether it fixes the 5 known cases."),
        ("not fixed", "Not shown to fix the 5 known cases: 0 of 15 runs passed before, 0 of 15"),
        ("not reproduced", "The 5 known cases pass without the edit too, so there was nothing to"),
        ("not fixed", "Unseen cases were not run, so nobody knows whether it harms anything else."),
        ("no sealed", "Fixes the known case: 0 of 7 runs passed before, 7 of 7 after."),
        ("no sealed", "No unseen case was tested: what the edit does elsewhere is not known."),
        ("listed", "No drop above 10 points on these 8 unseen cases (6 rounds); it says nothing"),
        ("harm", "It does harm: of 40 unseen cases 40 got worse and 0 better."),
        ("dear", "A passing run costs 3.00 times what it did, 3.00 times at least; 1.25 times is"),
        ("unpriced", "What a passing run costs is not known: some run has no price."),
        ("guard", "A guard got worse: g, 10 of 10 runs before, 0 after."),
        ("critical", "without the edit 0 of 10."),
        ("strict", "It also helps on unseen cases of this issue: 0 of"),
        ("smaller", "The edited files have 700 tokens; before they had 900."),
    ],
)
def test_each_outcome_has_its_sentence(scene: str, said: str) -> None:
    assert said in " ".join(SCENES[scene].in_words)


def test_what_was_not_reached_is_listed_as_not_tested() -> None:
    early = " ".join(SCENES["not fixed"].not_tested)
    assert "Unseen cases were not opened, since the gate ended before." in early
    assert "No case is marked critical." in early
    assert "Live traffic: only after it is applied." in early
    assert "was not asked" not in " ".join(SCENES["strict"].not_tested)


def test_figures_of_money_time_and_evidence_are_filled_and_unknown_is_none() -> None:
    plan = one_look(designed(5, 60), margin=0.10)
    blocks = [
        replace(
            each, candidate=Graded(result=each.candidate.result, cost_usd=0.02, seconds=float(i))
        )
        for i, each in enumerate([*fixing(plan), *sealed_blocks(plan, lost=2)])
    ]
    found = report(plan, blocks)
    assert found.cost_per_run[0] == pytest.approx(0.01)
    assert found.cost_per_run[1] == pytest.approx(0.02)
    assert found.cost_per_pass[1] == pytest.approx(1.2 / 58)
    assert found.latency_p95 == (1.0, 25.0 + 56)  # the 57th of 60
    assert found.spent_seconds == pytest.approx(85 + sum(range(85)))
    assert found.e_value is not None
    unknown = [replace(each, baseline=Graded(result="pass")) for each in blocks]
    assert report(plan, unknown).cost_per_run == (None, None)
    assert report(plan, []).latency_p95 is None
    assert report(plan, []).e_value is None


def test_targets_stand_in_the_report_one_by_one_and_sealed_cases_do_not() -> None:
    plan = one_look(designed(3, 60), margin=0.10)
    results = [("fail", "pass"), ("pass", "fail"), ("pass", "pass")]
    blocks = [
        block(planned, before, after, index=i)  # type: ignore[arg-type]  # results
        for planned, (before, after) in zip(plan.targets, results, strict=True)
        for i in range(planned.repeats)
    ]
    found = report(plan, blocks)
    assert [(o.state, o.before, o.after) for o in found.cases] == [
        ("better", (0, 8), (8, 8)), ("worse", (8, 8), (0, 8)), ("same", (8, 8), (8, 8)),
    ]  # fmt: skip
    assert found.worse == (plan.targets[1].case,)
    whole = report(plan, [*fixing(plan), *sealed_blocks(plan, lost=3)])
    assert {o.phase for o in whole.cases} == {"target"}
    assert "c-sealed" not in str(whole)
