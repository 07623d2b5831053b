"""What a plan takes from stored runs, issues, quarantine and purpose, and says of each."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import cast

import pytest

from contracts.codec import from_json, to_json
from contracts.gate import Case, CaseId, GatePlan, GateReport, Quarantined
from contracts.harness import Revision
from contracts.json_types import Json
from memory.case_runs import Passes
from memory.cases import fingerprint
from nodes.gate.design import PlanRefused, design_plan, planned_runs
from nodes.gate.schedule import Finished, next_step
from nodes.gate.verdict import report
from tests.gate_worlds import block, case, cases, designed, drive, stable

GUARDS = [case(f"g{i}", "guard") for i in range(4)]


def told(plan: GatePlan, text: str) -> bool:
    return text in " ".join(plan.notes)


def test_cases_that_passed_nine_of_ten_stored_runs_are_protected() -> None:
    runs = stable(cases(1), cases(3, "sealed"), GUARDS[:1])
    runs |= stable(GUARDS[1:2], passes=9) | stable(GUARDS[2:3], passes=8)
    runs |= stable(GUARDS[3:], passes=9, runs=9)
    plan = designed(5, 64, guards=GUARDS, runs=runs)
    assert {c.case for c in plan.guards} == {"g0", "g1"}
    assert all(c.protected for c in plan.guards)
    assert sum(c.protected for c in plan.sealed) == 3
    assert [c.case for c in plan.targets if c.protected] == ["c-target-0"]
    assert told(plan, "6 cases pass stably and must stay so")
    assert told(plan, "2 guard cases left out: not known to pass nine of ten stored baseline runs")
    assert planned_runs(plan) == 2 * (25 + 64) + 2


def test_a_guard_that_runs_in_another_phase_is_planned_once() -> None:
    twice = case("c-sealed-0", "sealed", also="guard")
    plan = designed(5, 64, guards=[twice, GUARDS[0]], runs=stable([twice], GUARDS))
    assert [c.case for c in plan.guards] == ["g0"]
    assert [c.case for c in plan.sealed if c.protected] == ["c-sealed-0"]


def test_the_share_of_discordant_cases_comes_from_stored_runs_of_the_sealed_cases() -> None:
    unseen = cases(64, "sealed")
    quiet = designed(5, 64, runs=stable(unseen, runs=4, passes=4))
    assert quiet.discordance < 0.01
    assert told(quiet, "is an estimate from stored baseline runs")
    flaky = designed(5, 64, runs=stable(unseen, runs=4, passes=2))
    assert flaky.discordance > 0.5
    assert flaky.margin > quiet.margin
    given = designed(5, 64, runs=stable(unseen), discordance=0.2)
    assert given.discordance == 0.2
    assert not told(given, "estimate")
    assert not told(given, "assumption")


def test_l3_is_about_sealed_cases_that_once_failed_as_the_issue_does() -> None:
    issue = "tool_timeout:payment_api:504"
    unseen = [
        case("same", "sealed", issue=issue),
        case("marked", "sealed", issue=f"{issue}~abcdef"),
        case("other", "sealed", issue="tool_timeout:payment_api:500"),
        case("unknown", "sealed"),
    ]

    def of(wanted: str) -> set[str]:
        plan = _planned(cases(3), unseen, wanted)
        return {c.case for c in plan.sealed if c.of_issue}

    assert of(issue) == {"same", "marked"}
    assert of("tool_timeout:payment_api") == {"same", "marked", "other"}
    assert of(f"{issue}~abcdef") == {"same", "marked"}
    assert of(f"{issue}~zzzzzz") == {"same"}, "two marks of one key are two issues"


def _planned(known: list[Case], unseen: list[Case], issue: str | None = None) -> GatePlan:
    return design_plan(
        base=Revision("base"), candidate=Revision("candidate"), targets=known, sealed=unseen,
        margin=0.1, uses=1, use=1, issue_use=1, max_targets=5, max_runs=400, max_usd=5,
        max_seconds=60, deadline_s=30, seed=1, discordance=None, issue=issue,
    )  # fmt: skip


def out(*names: str) -> dict[CaseId, Quarantined]:
    until = datetime(2026, 12, 24, tzinfo=UTC)
    return {
        CaseId(name): Quarantined(fingerprint="", owner="Grace", until=until, phase="target")
        for name in names
    }


def test_quarantined_cases_are_left_out_in_both_arms_and_said_with_owner_and_end() -> None:
    plan = designed(8, 64, quarantined=out("c-target-3", "c-sealed-5", "g0"), guards=GUARDS[:1],
                    runs=stable(GUARDS))  # fmt: skip
    assert "c-target-3" not in {c.case for c in plan.targets}
    assert (len(plan.targets), len(plan.sealed), plan.guards) == (7, 63, ())
    assert {q.phase: q.fingerprint for q in plan.quarantined} == {
        "target": fingerprint(case("c-target-3")),
        "sealed": fingerprint(case("c-sealed-5", "sealed")),
    }
    assert told(plan, "quarantined by Grace until 2026-12-24")
    assert not told(plan, "c-sealed-5")
    assert (
        drive(plan, lambda t: block(t, "fail" if t.phase == "target" else "pass", "pass"))[
            0
        ].report.verdict
        == "accept"
    )


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["c-target-0", "c-target-1"], "quarantined: 40% of the target cases, at most 25 % may be"),
        ([f"c-sealed-{i}" for i in range(17)],
         "quarantined: 27% of the sealed cases, at most 25 % may be"),
        ([f"c-target-{i}" for i in range(5)], "quarantined: 100% of the target cases"),
    ],
)  # fmt: skip
def test_more_than_a_quarter_in_quarantine_is_invalid_before_any_run(
    names: list[str], reason: str
) -> None:
    plan = designed(5, 64, quarantined=out(*names))
    step = next_step(plan, [], spent_seconds=0, spent_usd=0)
    assert isinstance(step, Finished)
    assert step.report.verdict == "invalid"
    assert step.report.reason.startswith(reason)


def test_a_quarter_exactly_is_still_valid() -> None:
    plan = designed(4, 64, quarantined=out("c-target-0", *(f"c-sealed-{i}" for i in range(16))))
    assert not isinstance(next_step(plan, [], spent_seconds=0, spent_usd=0), Finished)


def test_weak_targets_are_counted_and_said() -> None:
    weak = [replace(each, weak=True) for each in cases(2)]
    plan = _planned([*weak, case("strong")], [])
    assert plan.weak_targets == 2
    assert told(plan, "2 target cases graded by absence alone")
    assert any("2 known cases only tell" in line for line in report(plan, []).not_tested)


def test_plans_and_reports_of_earlier_releases_still_decode() -> None:
    plan = designed(3, 40)
    old = to_json(plan)
    new = {"guards", "target_alpha", "cost_margin", "agent_model", "judge_model", "listed_rounds",
           "tokens", "exempt", "quarantined", "weak_targets"}  # fmt: skip
    for key in new:
        del old[key]
    later = {"protected", "of_issue", "hidden"}
    for group in ("targets", "sealed"):
        cases_then = cast("list[dict[str, Json]]", old[group])
        old[group] = [{k: v for k, v in each.items() if k not in later} for each in cases_then]
    back = from_json(GatePlan, json.loads(json.dumps(old)))
    assert back == replace(plan, target_alpha=None)
    found = to_json(report(plan, []))
    for key in ("cases", "cost_per_pass", "cost_per_run", "latency_p95", "listed", "e_value",
                "spent_seconds", "in_words", "not_tested"):  # fmt: skip
        del found[key]
    assert from_json(GateReport, found).verdict == "inconclusive"


def test_a_plan_that_only_makes_the_harness_smaller_needs_no_target_case() -> None:
    plan = designed(0, 64, purpose="simplify", tokens=(900, 700))
    assert (plan.targets, plan.target_alpha) == ((), None)
    assert told(plan, "900 tokens before, 700 after")
    assert planned_runs(plan) == 128
    with pytest.raises(PlanRefused, match="not smaller"):
        designed(0, 64, purpose="simplify", tokens=(900, 900))
    with pytest.raises(PlanRefused, match="no sealed case"):
        designed(0, 0, purpose="simplify", tokens=(900, 700))
    with pytest.raises(PlanRefused, match="level spent"):
        designed(0, 64, purpose="simplify", tokens=(900, 700), uses=2, use=3)
    with pytest.raises(PlanRefused, match="no target case"):
        designed(0, 64)


def test_rounds_over_the_listed_cases_are_for_a_starter_and_within_the_budget() -> None:
    plan = designed(3, 8, listed_rounds=8)
    assert (plan.listed_rounds, {c.repeats for c in plan.sealed}) == (8, {8})
    assert planned_runs(plan) == 48 + 128
    short = designed(3, 8, listed_rounds=8, max_runs=100)
    assert (short.listed_rounds, planned_runs(short)) == (3, 96)
    assert told(short, "The budget of 100 runs pays for 3 of 8 rounds.")
    none = designed(3, 8, listed_rounds=8, max_runs=64)
    assert (none.listed_rounds, {c.repeats for c in none.sealed}) == (0, {1})
    big = designed(5, 64, listed_rounds=8)
    assert (big.listed_rounds, planned_runs(big)) == (0, 178)
    assert told(big, "(LK) are left out: the profile is not starter")
    assert designed(3, 8, listed_rounds=1).listed_rounds == 0


def test_repeated_sealed_cases_are_read_once_and_need_more_of_them() -> None:
    once, thrice = designed(5, 64, uses=5), designed(5, 64, uses=5, sealed_repeats=3)
    assert thrice.looks == ((64, 0.01),)
    assert len(once.looks) == 1 or once.looks[-1][0] == 64
    assert planned_runs(thrice) == 2 * (25 + 192)
    assert told(
        thrice, "read by the e-process, in the plan's order; harm and cost once, at the end"
    )
    short = designed(5, 64, sealed_repeats=3, max_runs=300)
    assert len(short.sealed) == (300 - 50) // 6


@pytest.mark.parametrize(
    "change", [{"sealed_repeats": 0}, {"listed_rounds": -1}, {"margin": 0.6}, {"discordance": 1.1}]
)
def test_numbers_out_of_range_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        designed(5, 64, **change)  # type: ignore[arg-type]  # one argument is made wrong


def test_seen_runs_of_no_case_say_that_no_run_is_stored() -> None:
    assert told(designed(5, 64), "no case has ten stored baseline runs yet, so none is protected")
    few = {fingerprint(c): Passes(passes=2, runs=4) for c in cases(64, "sealed")}
    assert told(designed(5, 64, runs=few), "no case passes nine of ten stored baseline runs")
