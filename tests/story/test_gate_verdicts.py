"""What can go wrong around a gate has each its verdict and its sentence; edits get what they earn.

Through the real graph, on a small agent: real processes, a real ledger.
"""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from sqlalchemy import update

from contracts.codec import from_json, to_json
from contracts.gate import GatePlan, GateReport
from contracts.json_types import Json, JsonObject
from memory.schema import proposals
from memory.sealed import Member
from nodes.casebook import read_casebook
from nodes.evolution.shown import keep_shown
from nodes.gate.judging import judge_subject
from nodes.gate.outside import _opened
from nodes.gate.run_one import run_one
from nodes.gate.sizes import planned_runs
from nodes.ports import open_probe
from tests.story.small_worlds import (
    BEFORE,
    GOOD,
    HARMFUL,
    MAIN,
    NOTHING,
    Small,
    cases,
    change_settings,
    enter,
    opened,
    plan_of,
    text_hash,
    write_cases,
    write_project,
)

pytestmark = pytest.mark.story


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation with the small project."""
    return _home(tmp_path / "repo", monkeypatch)


def _home(root: Path, monkeypatch: pytest.MonkeyPatch, **gate: Json) -> Path:
    write_project(root, cases(), **gate)
    monkeypatch.setenv("TRACEMEND_HOME", str(root / ".tracemend"))
    return enter(root)


async def _verdict(small: Small) -> GateReport:
    outcome = await small.approve()
    assert outcome.report is not None
    return outcome.report[0]


async def test_the_good_edit_is_accepted_and_applied(home: Path) -> None:
    async with opened(home) as small:
        outcome = await small.approve()
        assert outcome.report is not None
        assert outcome.report[0].verdict == "accept", outcome.report[0]
        assert outcome.release is not None
        assert (small.ws.root / MAIN).read_text("utf-8") == BEFORE + GOOD
        assert small.ws.ledger.sealed.epoch() == 2, "an accept ends the epoch"


async def test_an_edit_without_effect_is_not_accepted_and_stops_after_half_the_rounds(
    home: Path,
) -> None:
    async with opened(home, added=NOTHING) as small:
        report = await _verdict(small)
        assert (report.verdict, report.reason) == ("inconclusive", "not fixed")
        assert report.runs <= 2 * 5 * 3, "three of five rounds of five targets"
        assert small.ws.ledger.sealed.uses_of(()) == 0
        assert (small.ws.root / MAIN).read_text("utf-8") == BEFORE


async def test_an_edit_that_harms_ordinary_requests_is_rejected_and_the_report_says_why(
    home: Path,
) -> None:
    async with opened(home, added=HARMFUL) as small:
        report = await _verdict(small)
        assert report.verdict == "reject", report
        assert "harm on sealed cases" in report.reason
        assert small.state() == "gate_rejected"
        assert (small.ws.root / MAIN).read_text("utf-8") == BEFORE


async def test_before_the_yes_the_agent_runs_as_it_is_and_never_as_drafted(home: Path) -> None:
    """Promise 2, with a precheck: every run up to the card had the harness of the base."""
    async with opened(home) as small:
        ran = small.ran()
        assert len(ran) == 2 * (5 + 20)
        assert {text for text, _ in ran} == {text_hash(BEFORE)}
        assert [kind for _, kind in ran[:4]] == ["target"] * 4, "targets come first"
        assert "reproduced 5 of 5 target cases" in small.notes()
        await small.approve()
        assert text_hash(BEFORE + GOOD) in {text for text, _ in small.ran()}


async def test_an_agent_that_crashes_whenever_it_is_edited_makes_the_gate_invalid(
    home: Path,
) -> None:
    """Runs that nobody could observe are no fails and no passes."""
    async with opened(home) as small:
        small.mode("crash")
        report = await _verdict(small)
        assert report.verdict == "invalid"
        assert report.reason.endswith("% of the target blocks, at most 5 % may be"), report.reason
        assert small.state() == "invalid"


async def test_an_unknown_price_is_not_zero(home: Path) -> None:
    """Everything else holds; what a passing run costs cannot be told."""
    async with opened(home) as small:
        small.mode("unpriced")
        report = await _verdict(small)
        assert (report.verdict, report.reason) == ("inconclusive", "cost not shown")
        assert {c.name: c.state for c in report.claims}["K"] == "unknown"
        assert report.spent_usd is None


async def test_a_clock_that_jumps_back_changes_no_verdict(home: Path) -> None:
    """Every reading of the wall clock is an hour before the last one."""
    async with opened(home) as small:
        start, ticks = datetime(2026, 3, 10, tzinfo=UTC), count()
        small.ws.ledger.db.clock = lambda: start - timedelta(hours=next(ticks))
        outcome = await small.approve()
        assert outcome.report is not None
        assert (outcome.report[0].verdict, outcome.state) == ("accept", "watching")
        assert outcome.report[0].spent_seconds > 0


async def test_a_plan_that_was_edited_after_the_yes_is_invalid_and_runs_nothing(
    home: Path,
) -> None:
    """Somebody writes into the ledger's file: a wider margin than what was approved."""
    async with opened(home) as small:
        ran = len(small.ran())

        def widen(event: JsonObject) -> None:
            if event.get("node") == "decide":
                _edit_stored_plan(small, margin=0.5)

        small.hooks.append(widen)
        outcome = await small.approve()
        assert small.state() == "invalid", outcome
        found = small.ws.ledger.gate.report(small.latest().hash)
        assert found is not None
        assert found[0].reason == "plan mismatch: the stored plan or edit is not what was approved"
        assert len(small.ran()) == ran
        assert (small.ws.root / MAIN).read_text("utf-8") == BEFORE


def _edit_stored_plan(small: Small, **changes: Json) -> None:
    ledger = small.ws.ledger
    proposal = small.latest()
    body = to_json(replace(proposal, plan={**proposal.plan, **changes}))
    with ledger.db.write() as tx:
        mine = proposals.c.id == proposal.id
        tx.execute(update(proposals).where(mine).values(body=body))


@pytest.mark.parametrize("how", ["changed", "gone"])
async def test_a_case_that_changed_since_the_yes_is_invalid_and_says_the_way_on(
    home: Path, how: str
) -> None:
    async with opened(home) as small:
        ran, listed = len(small.ran()), cases()
        if how == "changed":
            listed[-1]["assert"] = [{"contains": "anything"}]
        else:
            del listed[-1]
        write_cases(small.ws.root, listed)
        report = await _verdict(small)
        mark = plan_of(small.latest())["sealed"]
        changed = next(one for one in mark if one["case"] == "sealed-33")["fingerprint"]
        assert report.verdict == "invalid"
        assert report.reason == (
            f"plan mismatch: a case was changed or is gone (fingerprint {changed[:12]}); "
            "`tracemend improve` makes a new plan, of the cases as they are now"
        )
        assert len(small.ran()) == ran
        assert "sealed-33" not in str(to_json(report))


async def test_a_case_that_changes_while_the_gate_runs_is_found_when_it_is_decided(
    home: Path,
) -> None:
    async with opened(home) as small:

        def change(event: JsonObject) -> None:
            if event.get("step") == "gate":
                write_cases(small.ws.root, cases()[:-1])

        small.hooks.append(change)
        report = await _verdict(small)
        assert report.verdict == "invalid"
        assert "a case was changed or is gone" in report.reason


KETTLE = "please send the blue kettle to my aunt in Wels"


async def test_a_sealed_case_in_the_edit_is_left_out_of_the_plan_and_retired(home: Path) -> None:
    listed = cases()
    listed[-1]["input"] = {"kind": "ordinary", "number": 33, "text": KETTLE}
    write_cases(home.parent, listed)
    async with opened(home, added=f"{GOOD}- Someone may say: {KETTLE.title()}.\n") as small:
        plan = plan_of(small.latest())
        assert len(plan["sealed"]) == 33
        assert "is left out and retired: its text is in the edit" in small.notes()
        gone = [one for one in small.ws.ledger.sealed.listed() if one.retired_at is not None]
        assert [(one.case, one.why) for one in gone] == [("sealed-33", "leaked")]
        report = await _verdict(small)
        assert report.verdict == "accept"
        for text in (str(small.latest().plan), str(to_json(report)), str(small.card())):
            assert "sealed-33" not in text


async def test_a_sealed_case_that_the_editor_was_shown_makes_a_gate_invalid(home: Path) -> None:
    """The plan did not know; what the model was shown is kept, and read at the gate."""
    listed = cases()
    listed[-1]["input"] = {"kind": "ordinary", "number": 33, "text": KETTLE}
    write_cases(home.parent, listed)
    async with opened(home) as small:
        ran = len(small.ran())
        prompt = [HumanMessage("x " * 9_000 + f"A user wrote: {KETTLE}.")]
        keep_shown(small.ws, small.latest().thread, 1, prompt)
        report = await _verdict(small)
        assert (report.verdict, report.reason) == ("invalid", "leak: 1 sealed case")
        assert len(small.ran()) == ran
        gone = [one for one in small.ws.ledger.sealed.listed() if one.retired_at is not None]
        assert [(one.case, one.why) for one in gone] == [("sealed-33", "leaked")]


async def test_a_sealed_case_that_was_opened_since_the_plan_makes_a_gate_invalid(
    home: Path,
) -> None:
    async with opened(home) as small:
        shown = plan_of(small.latest())["sealed"][0]["fingerprint"]
        with small.ws.ledger.db.write() as tx:
            small.ws.ledger.sealed.retire(tx, [shown], "opened by ann")
        report = await _verdict(small)
        assert (report.verdict, report.reason) == ("invalid", "leak: 1 sealed case")


async def test_a_use_that_was_taken_since_the_plan_is_invalid_and_a_new_plan_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(_home(tmp_path / "repo", monkeypatch, uses=5)) as small:
        ledger = small.ws.ledger
        first = plan_of(small.latest())
        assert (first["use"], first["alpha"]) == (1, 0.05 / 5)
        one = next(line for line in ledger.sealed.listed() if line.retired_at is None)
        with ledger.db.write() as tx:
            taken = Member(fingerprint=one.fingerprint, case=one.case, family=one.family)
            ledger.sealed.used(tx, "another gate", taken)
        await small.approve()
        found = ledger.gate.report(ledger.proposals.revisions(small.proposal)[0].proposal.hash)
        assert found is not None
        assert (found[0].verdict, found[0].reason) == ("invalid", "use_taken")
        again = plan_of(small.latest())
        assert (small.state(), small.latest().revision) == ("waiting", 2)
        assert (again["use"], again["alpha"]) == (2, 0.05 / 5 / 2)


async def test_a_gate_whose_last_self_test_failed_is_off(home: Path) -> None:
    async with opened(home) as small:
        checks = small.ws.ledger.gate_checks
        with small.ws.ledger.db.write() as tx:
            checks.put(tx, "self_test", ok=False, body={"problem": "L1 holds too often"})
        report = await _verdict(small)
        assert report.verdict == "invalid"
        assert report.reason.startswith("self-test: L1 holds too often; run `tracemend gate")


def _judged(home: Path, monkeypatch: pytest.MonkeyPatch, *lines: Json) -> None:
    """Every case asks a judge, whose answers are scripted."""
    listed = cases()
    for case in listed:
        case["assert"] = [{"judge": "Is it done?"}]
    write_cases(home.parent, listed)
    script = "".join(json.dumps(line) + "\n" for line in lines)
    (home.parent / "judge.jsonl").write_text(script, "utf-8")
    change_settings(home.parent, gate={"judge": {"model": "scripted:judge.jsonl"}})
    _opened.cache_clear()


async def test_a_judge_that_was_never_compared_with_people_makes_a_gate_invalid(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _judged(home, monkeypatch)
    change_settings(home.parent, gate={"precheck": False})
    async with opened(home) as small:
        assert plan_of(small.latest())["judge_model"] == "scripted:judge.jsonl"
        assert "This plan cannot win: its judge may not grade" in small.notes()
        report = await _verdict(small)
        assert report.verdict == "invalid"
        assert report.reason.startswith("judge: scripted:judge.jsonl was never compared with")
        assert small.ran() == []


async def test_a_judge_that_is_down_is_missing_and_never_a_pass(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _judged(home, monkeypatch)  # a call after the script's last line fails
    async with opened(home) as small:
        with small.ws.ledger.db.write() as tx:
            subject = judge_subject("scripted:judge.jsonl")
            small.ws.ledger.gate_checks.put(tx, "judge", ok=True, body={}, subject=subject)
        report = await _verdict(small)
        assert report.verdict == "invalid"
        assert report.reason.startswith("missing blocks: "), report.reason


async def test_the_operators_own_function_grades_a_run(home: Path) -> None:
    (home.parent / "checks.py").write_text("def done(run):\n    return run['output'] == 'done'\n")
    async with opened(home) as small:
        case = replace(
            read_casebook(small.ws).cases[0], assertions=({"python": "checks.done"},)
        )  # fmt: skip
        snapshot = small.ws.ledger.artifacts.snapshot
        seen = {}
        async with open_probe(small.ws) as probe:
            for revision in (small.latest().base_revision, small.latest().candidate_revision):
                graded = await run_one(
                    small.ws, probe, case, snapshot(revision), seed=1, deadline_s=20
                )
                seen[revision] = graded.result
        assert list(seen.values()) == ["fail", "pass"]


async def test_a_budget_ends_a_gate_and_what_was_done_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run costs a tenth of a cent."""
    async with opened(_home(tmp_path / "repo", monkeypatch, max_usd=0.05)) as small:
        report = await _verdict(small)
        assert (report.verdict, report.reason) == ("inconclusive", "budget")
        assert 50 <= report.runs <= 50 + 2 * 4, "no block starts once the money is spent"
        assert len(small.ws.ledger.gate.blocks(small.latest().hash)) * 2 == report.runs


async def test_progress_says_runs_time_money_and_what_is_open(home: Path) -> None:
    async with opened(home) as small:
        await small.approve()
        told: list[Any] = [event for event in small.events if event.get("step") == "gate"]
        assert [event["done"] for event in told] == sorted(2 * (i + 1) for i in range(len(told)))
        assert "L1" in told[0]["open"]
        assert told[-1]["open"] == ["L2", "K"] or "L1" not in told[-1]["open"]
        assert told[-1]["spent_usd"] == pytest.approx(0.001 * told[-1]["done"])
        assert {event["of"] for event in told} == {
            planned_runs(from_json(GatePlan, small.latest().plan))
        }
        checked = [event for event in small.events if event.get("step") == "precheck"]
        assert [event["done"] for event in checked] == list(range(1, 51))


async def test_the_arms_of_a_gate_are_seen_in_an_order_that_the_seed_draws(home: Path) -> None:
    """Neither is one arm always first, nor do cases always run in the order of the plan."""
    change_settings(home.parent, probe={"concurrency": 1})
    async with opened(home) as small:
        before = len(small.ran())
        await small.approve()
        kept = small.ws.ledger.gate.blocks(small.latest().hash)
        assert {block.first for block in kept} == {"B", "C"}
        planned = [one["case"] for one in plan_of(small.latest())["targets"]]
        ran = [block.case for block in kept if block.phase == "target"]
        rounds = [ran[i : i + 5] for i in range(0, len(ran) - 4, 5)]
        assert all(sorted(each) == sorted(planned) for each in rounds)
        assert any(each != planned for each in rounds)  # one round in 120 is so by luck
        assert len(small.ran()) - before == 2 * len(kept)
