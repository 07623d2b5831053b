"""Planted failures are found and told right; `python -m benchmarks.planted` does it at length."""

import asyncio
from dataclasses import replace

import pytest

from benchmarks.nulls import PROCESSES, Seen, findings_of, measure, week
from benchmarks.planted import MEASURES, judge, run
from benchmarks.planted_cases import SCENARIOS, Scenario
from benchmarks.planted_world import WEEK, Fault, Held, Plan, Pools, lay_out, numbers
from contracts.traces import TraceQuery
from nodes.insights.analyze import analyze

TRACES = 200
NAMED = {one.name: one for one in SCENARIOS}


@pytest.fixture(scope="module")
def pools(tmp_path_factory: pytest.TempPathFactory) -> Pools:
    return Pools(tmp_path_factory.mktemp("pools"), 12)


def scenario(name: str) -> Scenario:
    return NAMED[name].scaled(TRACES)


@pytest.mark.parametrize(
    ("name", "measures"),
    [
        ("silent", MEASURES),
        ("tool bug", MEASURES),
        ("low traffic", ("one each", "pure", "change", "no false", "no other")),
        ("prompt version", ("found", "one each", "pure", "change", "action", "contrast")),
        ("nothing", ("no false",)),
    ],
)
def test_what_was_planted_is_told(name: str, measures: tuple[str, ...], pools: Pools) -> None:
    result = run(scenario(name), pools, numbers(3))
    for measure_ in measures:
        marks = result.marks[measure_]
        assert marks.right == marks.of, result.mistakes
    if name != "nothing":
        assert result.marks["change"].of == len(scenario(name).causes)


def test_a_season_is_no_change_even_where_traffic_moves_into_it(pools: Pools) -> None:
    result = run(scenario("season"), pools, numbers(4))
    assert result.marks["change"].of == 1
    assert result.marks["change"].right == 1, result.mistakes


def test_the_judge_notices_what_is_told_wrong(pools: Pools) -> None:
    silent = scenario("silent")
    window = lay_out(silent.window, pools, numbers(3))
    before = (Held(lay_out(silent.baseline, pools, numbers(5)).traces), TraceQuery())
    found = asyncio.run(
        analyze(Held(window.traces), TraceQuery(), project="planted", baseline=before)
    )
    assert judge(silent, found, window.planted).mistakes == []
    assert judge(silent, found, {}).marks["no false"].right == 0
    fallen = replace(silent.causes[0], changes=frozenset({"fallen"}), contrast=("model", "x"))
    wrong = judge(replace(silent, causes=(fallen,)), found, window.planted)
    assert wrong.marks["change"].right == wrong.marks["contrast"].right == 0
    missed = judge(silent, replace(found, findings=()), window.planted)
    assert (missed.marks["found"].right, missed.marks["found"].of) == (0, 1)


def test_a_week_is_laid_out_as_planned_and_again_the_same(pools: Pools) -> None:
    plan = Plan(
        traces=TRACES, faults=(Fault(condition="index_down", share=0.5, since=WEEK / 2),)
    )  # fmt: skip
    window = lay_out(plan, pools, numbers(1))
    assert window == lay_out(plan, pools, numbers(1))
    failing = [t for t in window.traces if t.id in window.planted]
    assert 20 < len(failing) < 80
    assert all(t.started_at - plan.start >= WEEK / 2 for t in failing)
    assert len({t.id for t in window.traces}) == TRACES
    assert all(span.trace_id == t.id for t in window.traces for span in t.spans)


def test_weeks_in_which_nothing_changes_seldom_alarm(pools: Pools) -> None:
    moved = next(one for one in PROCESSES if one.weight is not one.weight_before)
    alarms = measure(moved, pools, 20)
    assert alarms.windows == 20
    assert max(alarms.remembered, alarms.fallen) <= 4, alarms.told  # 20 at .05: 5 come once in 390


def test_a_week_that_does_change_alarms(pools: Pools) -> None:
    steady = replace(PROCESSES[0], traces=150)
    worse = replace(steady, faults=(Fault(condition="withdrawn", share=0.4),))
    seen = Seen()
    before, now = (week(one, at, pools, seen) for at, one in enumerate((steady, worse)))
    changes = {one.change for one in findings_of(now, before)}
    assert "risen" in changes
