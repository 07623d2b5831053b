"""The plan says, before any run, what it can prove."""

import json

import pytest

from contracts.codec import from_json, to_json
from contracts.gate import Case, GatePlan
from contracts.harness import Revision
from nodes.gate.design import (
    PlanRefused,
    best_reachable_p,
    design_plan,
    level_of,
    plan_hash,
    planned_runs,
)
from tests.gate_worlds import case, cases, designed


def test_five_targets_and_64_sealed_cases_are_178_runs_and_prove_eleven_points() -> None:
    plan = designed(5, 64)
    assert (planned_runs(plan), plan.margin, plan.discordance) == (178, 0.11, 0.10)
    assert plan.looks == ((40, 0.01), (64, 0.04))
    assert plan.alpha == 0.05
    notes = " ".join(plan.notes)
    assert "64 sealed cases can prove a margin of 0.11" in notes
    assert "0.10 was asked and needs 78 cases" in notes
    assert "10% discordant cases is an assumption" in notes
    assert "no case has ten stored baseline runs yet, so none is protected" in notes
    assert "At most 178 runs" in notes


def test_the_asked_margin_is_kept_where_the_cases_can_prove_it() -> None:
    assert designed(5, 80).margin == 0.10


@pytest.mark.parametrize(
    ("targets", "repeats"), [(1, 8), (3, 8), (4, 5), (10, 5), (11, 3), (31, 1)]
)
def test_fewer_targets_get_more_repeats(targets: int, repeats: int) -> None:
    assert {c.repeats for c in designed(targets, 0).targets} == {repeats}


def test_a_plan_that_cannot_win_says_so_before_any_run() -> None:
    plan = designed(5, 0, uses=5, repeats=1)
    assert plan.alpha == pytest.approx(0.01)
    assert best_reachable_p([1] * 5) == pytest.approx(0.03125)
    assert plan.notes[0].startswith("This plan cannot win: 5 target cases x 1 repeat")
    assert "p 0.031, the level is 0.01" in plan.notes[0]
    assert "2 repeats of each case without a loss, or 7 cases" in plan.notes[0]
    assert not designed(5, 0, uses=1, repeats=1).notes[0].startswith("This plan cannot win")


@pytest.mark.parametrize("sealed", [0, 8, 29])
def test_fewer_than_thirty_sealed_families_are_a_starter_whatever_was_asked(sealed: int) -> None:
    plan = designed(3, sealed, profile="strict")
    assert plan.profile == "starter"
    assert f"Profile starter instead of strict: {sealed} sealed families" in " ".join(plan.notes)
    assert "known cases only" in " ".join(plan.notes)


def test_a_margin_above_fifteen_points_is_shown_as_consent() -> None:
    assert any("approving this plan is consent" in n for n in designed(3, 20, uses=5).notes)


def test_strict_says_that_it_cannot_be_accepted_yet() -> None:
    assert any(n.startswith("Strict asks for L3") for n in designed(5, 64, profile="strict").notes)


def test_a_budget_too_small_cuts_sealed_cases_first_and_says_so() -> None:
    plan = designed(5, 64, max_runs=130)
    assert (planned_runs(plan), len(plan.sealed), plan.margin) == (130, 40, 0.15)
    assert "The budget of 130 runs pays for 40 of 64 sealed cases." in plan.notes
    less = designed(5, 64, max_runs=30)
    assert (planned_runs(less), less.sealed, less.targets[0].repeats) == (30, (), 3)
    assert "This plan cannot finish: it needs 10 runs and the budget is 5." in (
        designed(5, 0, max_runs=5).notes
    )


def test_each_further_use_halves_the_level() -> None:
    assert [level_of(uses=5, use=j) for j in (1, 2, 3)] == pytest.approx([0.01, 0.005, 0.0025])
    later = designed(5, 64, uses=5, use=3, issue_use=2)
    assert (later.alpha, later.target_alpha) == pytest.approx((0.0025, 0.005))


def test_a_sealed_set_without_uses_left_is_left_out() -> None:
    plan = designed(5, 64, uses=2, use=3)
    assert (plan.sealed, plan.looks, plan.profile) == ((), (), "starter")
    assert any("The sealed set had its 2 uses" in note for note in plan.notes)


@pytest.mark.parametrize(
    ("reason", "change"),
    [
        ("no change", {"candidate": "base"}),
        ("no target case", {"targets": []}),
        ("level spent", {"issue_use": 2}),
    ],
)
def test_a_plan_with_nothing_to_test_is_refused(reason: str, change: dict[str, object]) -> None:
    asked: dict[str, object] = {
        "base": "base", "candidate": "candidate", "targets": cases(5), "sealed": [], "uses": 1,
        "use": 1, "issue_use": 1, "margin": 0.1, "max_targets": 5, "max_runs": 400,
        "max_usd": 5.0, "max_seconds": 60.0, "deadline_s": 30.0, "seed": 1, "discordance": None,
    }  # fmt: skip
    with pytest.raises(PlanRefused, match=f"plan refused: {reason}") as refused:
        design_plan(**{**asked, **change})  # type: ignore[arg-type]  # one argument is made wrong
    assert refused.value.reason == reason


def test_one_member_a_family_is_drawn_and_no_sealed_sibling_of_a_target_runs() -> None:
    targets = [case("t1", family="x"), case("t2", family="x"), case("t3", family="y")]
    sealed = [case("s1", "sealed", "x"), *(case(f"s{i}", "sealed", "z") for i in range(2, 9))]
    plan = _plan(targets, sealed, seed=3)
    assert sorted(c.family for c in plan.targets) == ["x", "y"]
    assert [c.family for c in plan.sealed] == ["z"]
    drawn = {_plan(targets, sealed, seed=s).sealed[0].case for s in range(20)}
    assert len(drawn) > 3, "the member is drawn by the seed"


def test_the_order_of_the_cases_given_changes_nothing_and_the_seed_does() -> None:
    sealed = cases(40, "sealed")
    plan = _plan(cases(4), sealed, seed=3)
    assert plan == _plan(cases(4)[::-1], sealed[::-1], seed=3)
    assert [c.case for c in plan.sealed] != [c.case for c in _plan(cases(4), sealed, seed=4).sealed]


def _plan(targets: list[Case], sealed: list[Case], seed: int) -> GatePlan:
    return design_plan(
        base=Revision("base"), candidate=Revision("candidate"), targets=targets, sealed=sealed,
        margin=0.1, uses=1, use=1, issue_use=1, max_targets=5, max_runs=400, max_usd=5,
        max_seconds=60, deadline_s=30, seed=seed, discordance=None,
    )  # fmt: skip


def test_a_plan_survives_json_with_its_hash() -> None:
    plan = designed(5, 64, critical=[case("k", "critical")])
    back = from_json(GatePlan, json.loads(json.dumps(to_json(plan))))
    assert back == plan
    assert plan_hash(back) == plan_hash(plan)
    assert plan_hash(designed(5, 64, seed=8)) != plan_hash(designed(5, 64))
