"""Field cases 41, 43 and 44: noise, error texts, and a plan that cannot win."""

import json
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from typing_extensions import TypedDict

from contracts.gate import Block, Case, CaseId, GatePlan, Graded, PlannedCase, RunResult
from contracts.harness import Observation, Revision
from contracts.json_types import Json
from nodes.gate.score import grade
from nodes.gate.stats import stratified_exact_p
from nodes.gate.verdict import report
from tests.gate_worlds import designed

FOLDER = Path(__file__).parents[2] / "data" / "fieldcases"


class Run(TypedDict, total=False):
    case: str
    arm: str
    block: int
    result: RunResult | None
    output: str
    error: str


def read(name: str) -> tuple[GatePlan, list[Run], dict[str, Json]]:
    """A field case: its plan in our words, its runs, and what is expected."""
    folder = FOLDER / name
    raw = json.loads((folder / "plan.json").read_text())
    planned = {"target": [], "sealed": []}  # type: dict[str, list[PlannedCase]]
    for each in raw["cases"]:
        planned[each["split"]].append(
            PlannedCase(
                case=CaseId(each["case"]), family=each["family"], fingerprint=each["case"],
                repeats=1,
            )
        )  # fmt: skip
    plan = replace(
        designed(1, 0),
        base=Revision(raw["base_sha256"]),
        candidate=Revision(raw["candidate_sha256"]),
        targets=tuple(planned["target"]),
        sealed=tuple(planned["sealed"]),
        alpha=raw["alpha"],
        target_alpha=None,
        margin=raw["delta"],
        looks=((len(planned["sealed"]), raw["alpha"]),) if planned["sealed"] else (),
    )
    lines = (folder / "runs.jsonl").read_text().splitlines()
    runs = [cast("Run", json.loads(line)) for line in lines]
    return plan, runs, json.loads((folder / "expected.json").read_text())


def test_field_case_41_noise_between_equal_agents_is_inconclusive() -> None:
    plan, runs, expected = read("41-same-bytes-other-verdict")
    found = report(plan, _blocks(plan, runs))
    assert found.verdict.upper() == expected["verdict"]
    assert found.reason == "not fixed"
    assert found.claims[0].p == pytest.approx(0.5)
    assert found.target_passes == (6, 7, 11)
    assert found.worse == ("c-02", "c-09")
    assert found.needed is not None
    assert "repeats of 11 target cases" in found.needed


def test_field_case_43_an_error_text_is_missing_and_too_many_missing_are_invalid() -> None:
    plan, runs, expected = read("43-error-text-passes-the-test")
    blocks = _blocks(plan, runs)
    lost = sorted({b.case for b in blocks if b.candidate.result == "missing"})
    assert lost == cast("dict[str, Json]", expected["missing"])["cases"]
    assert {b.attempt for b in blocks if b.candidate.result == "missing"} == {0, 1, 2}
    found = report(plan, blocks)
    assert found.verdict.upper() == expected["verdict"]
    assert found.reason.startswith("missing blocks: 25% of the target blocks")


def test_field_case_44_a_plan_that_cannot_win_says_so_and_then_does_not() -> None:
    plan, runs, expected = read("44-a-plan-that-cannot-win")
    before = designed(5, 0, uses=5, repeats=1).notes[0]
    assert before.startswith("This plan cannot win")
    assert "p 0.031, the level is 0.01" in before
    assert "2 repeats of each case without a loss, or 7 cases" in before
    assert stratified_exact_p([(1, 0, 1)] * 5) <= 0.05 < stratified_exact_p([(1, 0, 1)] * 4)
    assert designed(5, 0).targets[0].repeats == 5
    found = report(plan, _blocks(plan, runs))
    assert found.verdict.upper() == expected["verdict"]
    assert found.claims[0].p == pytest.approx(0.0625)
    assert found.claims[0].state == "not_held"


def _blocks(plan: GatePlan, runs: list[Run]) -> list[Block]:
    sealed = {c.case for c in plan.sealed}
    arms: dict[tuple[str, int], dict[str, Graded]] = {}
    for run in runs:
        arms.setdefault((run["case"], run["block"]), {})[run["arm"]] = _graded(run)
    return [
        Block(
            phase="sealed" if name in sealed else "target", case=CaseId(name), index=0,
            attempt=number - 1, first="B", baseline=both["B"], candidate=both["C"],
        )
        for (name, number), both in arms.items()
    ]  # fmt: skip


def _graded(run: Run) -> Graded:
    """The file's result; where it leaves that to the reader, our own grade of what was seen."""
    result = run["result"]
    if result is not None:
        return Graded(result=result, cost_usd=0.004)
    checked = Case(
        id=CaseId(run["case"]), input=None, tags=frozenset({"target"}), family="f", origin="file:x",
        assertions=({"regex": "try|catch|except|[Ee]rror"},),
    )  # fmt: skip
    seen = Observation(output=run["output"], error=run["error"])
    return replace(grade(checked, seen, ()), cost_usd=0.004)
