"""Purpose simplify: fewer tokens and no harm; no known case has to be fixed."""

from dataclasses import replace

from contracts.gate import Block, GatePlan
from nodes.gate.schedule import BlockToRun
from nodes.gate.verdict import report
from tests.gate_worlds import block, case, designed, drive, sealed_blocks, stable

PLAN = designed(0, 64, purpose="simplify", tokens=(900, 700))


def tie(todo: BlockToRun) -> Block:
    return block(todo, "pass", "pass")


def test_fewer_tokens_and_no_harm_are_accepted_without_a_target_run() -> None:
    finished, stored = drive(PLAN, tie)
    found = finished.report
    assert found.verdict == "accept"
    assert [c.state for c in found.claims] == ["not_asked", "held", "held", "held", "not_asked"]
    assert {b.phase for b in stored} == {"sealed"}
    assert "The edited files have 700 tokens; before they had 900." in found.in_words


def test_harm_is_rejected_and_too_little_evidence_is_inconclusive() -> None:
    assert report(PLAN, sealed_blocks(PLAN, lost=7)).verdict == "reject"
    unsure = report(PLAN, sealed_blocks(PLAN, won=3, lost=5))
    assert (unsure.verdict, unsure.reason) == ("inconclusive", "harm not excluded")


def test_unknown_or_equal_size_is_never_accepted() -> None:
    for tokens in (None, (700, 700), (700, 900)):
        plan: GatePlan = replace(PLAN, tokens=tokens)
        found = report(plan, sealed_blocks(plan))
        assert (found.verdict, found.reason) == ("inconclusive", "not smaller")


def test_guards_hold_for_a_smaller_harness_too() -> None:
    guard = case("g", "guard")
    plan = designed(
        0, 64, purpose="simplify", tokens=(900, 700), guards=[guard], runs=stable([guard])
    )
    found = drive(plan, lambda t: block(t, "pass", "fail") if t.case == "g" else tie(t))[0].report
    assert (found.verdict, found.reason) == ("reject", "guard regression")


def test_too_few_sealed_cases_never_accept_a_smaller_harness() -> None:
    plan = designed(0, 20, purpose="simplify", tokens=(900, 700))
    assert plan.profile == "starter"
    shown = report(plan, sealed_blocks(plan))
    assert (shown.verdict, shown.reason) == ("inconclusive", "known cases only")
    plan = replace(plan, margin=0.05)
    hidden = report(plan, sealed_blocks(plan))
    assert (hidden.verdict, hidden.reason) == ("inconclusive", "harm not excluded")
