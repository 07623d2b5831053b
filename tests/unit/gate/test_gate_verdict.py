"""The decision rule: one verdict with its first reason, and never a pass for the unknown."""

from dataclasses import replace

import pytest

from contracts.gate import Block, Claim, Conditions, GatePlan, GateReport
from nodes.gate.verdict import report, report_hash
from tests.gate_worlds import block, case, designed, fixing, one_look, sealed_blocks


def claim(found: GateReport, name: str) -> Claim:
    return next(c for c in found.claims if c.name == name)


def said(found: GateReport) -> tuple[str, str]:
    return found.verdict, found.reason


STANDARD = one_look(designed(5, 60), margin=0.10)


def test_a_fix_that_harms_nothing_is_accepted() -> None:
    found = report(STANDARD, [*fixing(STANDARD), *sealed_blocks(STANDARD)])
    assert said(found) == ("accept", "every claim held")
    assert [c.state for c in found.claims] == ["held", "held", "held", "held", "not_asked"]
    assert found.target_passes == (0, 25, 25)
    assert found.sealed == (0, 0, 60)
    assert found.cost_ratio == pytest.approx((1.0, 1.0))
    assert found.spent_usd == pytest.approx(0.01 * 2 * 85)
    assert (found.runs, found.planned_runs, found.needed) == (170, 170, None)
    assert found.proven_margin == pytest.approx(0.049)
    assert "so none is protected" in claim(found, "G").detail


def test_harm_is_rejected_although_it_lies_within_the_margin() -> None:
    plan = one_look(designed(5, 1000), margin=0.10)
    found = report(plan, [*fixing(plan), *sealed_blocks(plan, lost=5)])
    assert found.verdict == "reject"
    assert "p 0.0312" in found.reason
    assert claim(found, "L2").state == "held"
    assert len(found.worse) == 5
    assert set(found.worse) <= {c.fingerprint for c in plan.sealed}


def test_targets_that_pass_without_the_edit_were_not_reproduced() -> None:
    blocks = [block(c, "pass", "pass", index=i) for c in STANDARD.targets for i in range(c.repeats)]
    found = report(STANDARD, blocks)
    assert said(found) == ("inconclusive", "not reproduced")
    assert claim(found, "L1").p == 1.0


def test_without_a_sealed_case_only_known_cases_are_tested() -> None:
    plan = designed(5, 0)
    found = report(plan, fixing(plan))
    assert said(found) == ("inconclusive", "known cases only")
    assert claim(found, "L2").p == 1.0
    assert found.proven_margin == 1.0
    assert found.sealed_interval is None
    assert found.needed is not None
    assert "30 at least" in found.needed


def test_a_starter_never_accepts_even_where_l2_holds() -> None:
    plan = designed(3, 29)
    found = report(plan, [*fixing(plan), *sealed_blocks(plan)])
    assert said(found) == ("inconclusive", "known cases only")
    assert claim(found, "L2").state == "held"
    assert "unproven below 30 cases" in claim(found, "K").detail


def test_four_of_sixty_blocks_missing_make_it_invalid() -> None:
    found = report(STANDARD, [*fixing(STANDARD), *sealed_blocks(STANDARD, missing=4)])
    assert found.verdict == "invalid"
    assert found.reason == "missing blocks: 7% of the sealed blocks, at most 5 % may be"


def test_three_of_sixty_blocks_missing_count_against_the_candidate() -> None:
    found = report(STANDARD, [*fixing(STANDARD), *sealed_blocks(STANDARD, missing=3)])
    assert said(found) == ("inconclusive", "missing blocks")
    assert claim(found, "L2").state == "held"


def test_harm_that_only_missing_blocks_hide_is_not_accepted() -> None:
    plan = one_look(designed(5, 1000), margin=0.10)
    found = report(plan, [*fixing(plan), *sealed_blocks(plan, lost=4, missing=1)])
    assert said(found) == ("inconclusive", "missing blocks")
    seen = report(plan, [*fixing(plan), *sealed_blocks(plan, lost=4)])
    assert seen.verdict == "accept"


def test_one_missing_target_block_is_no_pass_and_no_reason_to_stop() -> None:
    blocks = fixing(STANDARD)
    lost = [replace(blocks[7], attempt=a, candidate=replace(blocks[7].candidate, result="missing"))
            for a in range(3)]  # fmt: skip
    found = report(STANDARD, [*blocks[:7], *lost, *blocks[8:], *sealed_blocks(STANDARD)])
    assert found.verdict == "accept"
    assert found.target_passes == (0, 24, 24)
    assert "1 blocks stayed missing" in found.notes[-1]


def test_equal_hashes_are_invalid() -> None:
    plan = replace(STANDARD, candidate=STANDARD.base)
    assert said(report(plan, [])) == ("invalid", "no change")


def test_a_use_taken_by_another_gate_is_invalid_whatever_the_runs_say() -> None:
    blocks = [*fixing(STANDARD), *sealed_blocks(STANDARD)]
    assert said(report(STANDARD, blocks, conditions=Conditions(use_taken=True))) == (
        "invalid",
        "use_taken",
    )
    assert said(report(STANDARD, blocks, conditions=Conditions(opening_alpha=0.025))) == (
        "invalid",
        "use_taken",
    )
    assert report(STANDARD, blocks, conditions=Conditions(opening_alpha=0.05)).verdict == "accept"


def test_a_leak_is_invalid() -> None:
    found = report(STANDARD, [], conditions=Conditions(leaked=("ab",)))
    assert said(found) == ("invalid", "leak: 1 sealed case")


def test_unknown_cost_is_never_accepted() -> None:
    blocks = [*fixing(STANDARD), *sealed_blocks(STANDARD)]
    blocks[-1] = replace(blocks[-1], candidate=replace(blocks[-1].candidate, cost_usd=None))
    found = report(STANDARD, blocks)
    assert said(found) == ("inconclusive", "cost not shown")
    assert claim(found, "K").state == "unknown"
    assert found.spent_usd is None


def _priced(plan: GatePlan, ratio: float) -> list[Block]:
    return [
        replace(b, candidate=replace(b.candidate, cost_usd=0.01 * ratio * (1 + 0.2 * (i % 4))))
        for i, b in enumerate(sealed_blocks(plan))
    ]


def test_a_dearer_candidate_is_rejected_only_when_that_is_shown() -> None:
    dear = report(STANDARD, [*fixing(STANDARD), *_priced(STANDARD, 1.5)])
    assert dear.verdict == "reject"
    assert dear.reason.startswith("cost above what is allowed (ratio 1.95")
    unsure = report(STANDARD, [*fixing(STANDARD), *_priced(STANDARD, 0.95)])
    assert said(unsure) == ("inconclusive", "cost not shown")
    assert unsure.needed is not None
    assert "sealed cases at this cost ratio" in unsure.needed


def test_too_few_cases_leave_harm_not_excluded_and_say_how_many_it_takes() -> None:
    found = report(STANDARD, [*fixing(STANDARD), *sealed_blocks(STANDARD, won=3, lost=5)])
    assert said(found) == ("inconclusive", "harm not excluded")
    assert found.needed is not None
    assert found.needed.startswith("about 1")
    assert found.needed.endswith("sealed cases for margin 0.10 (60 in the plan)")
    assert found.sealed_interval is not None
    low, high = found.sealed_interval
    assert low < -2 / 60 < high


def test_strict_is_not_accepted_without_l3() -> None:
    plan = replace(STANDARD, profile="strict")
    found = report(plan, [*fixing(plan), *sealed_blocks(plan)])
    assert said(found) == ("inconclusive", "generalisation not shown")
    assert claim(found, "L3").state == "unknown"


CRITICAL = one_look(designed(5, 60, critical=[case("k", "critical")]), margin=0.10)


def _critical(results: str) -> list[Block]:
    planned = CRITICAL.critical[0]
    word = {"p": "pass", "f": "fail", "m": "missing"}
    return [
        Block(
            phase="critical", case=planned.case, index=i, attempt=0, first="C", baseline=None,
            candidate=replace(fixing(CRITICAL)[0].candidate, result=word[r]),  # type: ignore[arg-type]
        )
        for i, r in enumerate(results)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("runs", "verdict"),
    [
        ("p" * 10, "accept"), ("p" * 9 + "f", "reject"), ("p" * 9, "inconclusive"),
        ("", "inconclusive"),
    ],
)  # fmt: skip
def test_a_critical_case_needs_ten_clean_runs(runs: str, verdict: str) -> None:
    blocks = [*fixing(CRITICAL), *sealed_blocks(CRITICAL), *_critical(runs)]
    assert report(CRITICAL, blocks).verdict == verdict


def test_a_plan_that_contradicts_itself_is_an_error_not_a_pass() -> None:
    twice = tuple(replace(each, repeats=2) for each in STANDARD.sealed)
    for plan, message in (
        (replace(STANDARD, targets=()), "of purpose 'fix' needs a target case"),
        (replace(STANDARD, looks=((60, 0.05), (60, 0.05))), "the last look reads all 60"),
        (replace(STANDARD, looks=((30, 0.03), (60, 0.03))), "spend more than the level"),
        (replace(STANDARD, looks=((30, 0.01), (60, 0.04)), sealed=twice), "read once"),
        (replace(STANDARD, listed_rounds=3), r"has 3 rounds, not \[1\]"),
    ):
        with pytest.raises(ValueError, match=message):
            report(plan, [])


def test_a_block_repeated_until_it_passed_is_a_mismatch() -> None:
    blocks = fixing(STANDARD)
    first = replace(blocks[0], candidate=replace(blocks[0].candidate, result="fail"))
    found = report(STANDARD, [first, replace(blocks[0], attempt=1), *blocks[1:]])
    assert found.verdict == "invalid"
    assert "was repeated although it had been observed" in found.reason


def test_the_report_hash_binds_to_every_figure() -> None:
    found = report(STANDARD, fixing(STANDARD))
    assert len(report_hash(found)) == 64
    assert report_hash(replace(found, runs=found.runs + 1)) != report_hash(found)
    assert report_hash(report(STANDARD, fixing(STANDARD))) == report_hash(found)
