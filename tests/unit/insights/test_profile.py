"""A profile: exact counts, quantiles within their error, time that adds up, unknown kept so."""

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.traces import Trace
from nodes.insights import profile as module
from nodes.insights.critical_path import critical_path, extent
from nodes.insights.detect.all import detect
from nodes.insights.detect.faults import Scans
from nodes.insights.profile import Known, Profile, Row, Table
from nodes.insights.profile_report import profile_json
from nodes.insights.quantiles import RELATIVE_ERROR, Histogram
from tests.trace_worlds import OtlpSpan, root, span, tool, trace_of


def profiled(traces: Sequence[Trace]) -> Profile:
    made, scans = Profile(), Scans()
    for trace in traces:
        made.add(detect(trace, scans))
    return made


def document(traces: Sequence[Trace]) -> Any:
    return profile_json(profiled(traces))


def by_name(rows: Sequence[Any]) -> dict[str, Any]:
    return {row.get("name", row.get("where")): row for row in rows}


# Quantiles.

_NUMBERS = st.lists(st.floats(1e-5, 1e8), min_size=1, max_size=200)


@given(_NUMBERS, st.sampled_from([0.01, 0.5, 0.9, 0.95, 1.0]))
def test_a_quantile_is_within_its_error_of_the_number_that_holds_the_rank(
    numbers: list[float], share: float
) -> None:
    made = Histogram()
    for number in numbers:
        made.add(number)
    exact = sorted(numbers)[max(1, math.ceil(share * len(numbers))) - 1]
    found = made.quantile(share)
    assert found is not None
    assert abs(found - exact) <= RELATIVE_ERROR * exact * 1.0001


@given(_NUMBERS, st.integers(0, 200))
def test_histograms_of_any_partition_are_the_histogram_of_the_whole(
    numbers: list[float], cut: int
) -> None:
    whole, one, other = Histogram(), Histogram(), Histogram()
    for at, number in enumerate(numbers):
        whole.add(number)
        (one if at < cut else other).add(number)
    other.merge(one)
    assert other == whole


def test_nothing_and_zero_and_backwards_are_told_apart() -> None:
    made = Histogram()
    assert made.quantile(0.5) is None
    assert made.mean is None
    made.add(0.0)
    made.add(-3.0)
    answers: list[float | None] = [made.quantile(0.5), made.mean]
    assert answers == [0.0, 0.0]


def test_memory_of_a_histogram_has_a_bound() -> None:
    made, rng = Histogram(), random.Random(7)  # noqa: S311  # a test
    for _ in range(20_000):
        made.add(10 ** rng.uniform(-9, 12))
    assert len(made.buckets) < 900


# What the time is made of.


def pieces(*spans: OtlpSpan) -> dict[str, float]:
    made: dict[str, float] = {}
    for piece in critical_path(trace_of(*spans)):
        name = piece.span.name if not piece.wait else f"{piece.after}→{piece.before}"
        made[name] = round(made.get(name, 0.0) + piece.seconds, 3)
    return made


def timed(number: int, name: str, at: float, seconds: float, parent: int = 0) -> OtlpSpan:
    return span(number, "TOOL", name, at=at, seconds=seconds, parent=parent, tool__name=name)


def test_steps_in_a_row_and_the_gaps_between_them_make_up_the_whole() -> None:
    found = pieces(root(seconds=10), timed(1, "a", 1, 2), timed(2, "b", 4, 5))
    assert found == {"None→a": 1.0, "a": 2.0, "a→b": 1.0, "b": 5.0, "b→None": 1.0}


def test_of_steps_side_by_side_the_one_that_ended_last_counts() -> None:
    found = pieces(root(seconds=6), timed(1, "slow", 0, 6), timed(2, "fast", 0, 3))
    assert found == {"slow": 6.0}


def test_a_step_that_holds_others_counts_only_for_what_they_leave() -> None:
    found = pieces(
        root(seconds=8),
        span(1, "CHAIN", "outer", at=0, seconds=8),
        timed(2, "inner", 2, 4, parent=1),
    )
    assert found == {"None→inner": 2.0, "inner": 4.0, "inner→None": 2.0}


def test_an_open_step_takes_no_time_and_a_child_is_cut_at_its_parent() -> None:
    never = span(1, "TOOL", "open", at=1, seconds=None, tool__name="open")
    found = pieces(root(seconds=4), never, timed(2, "late", 3, 9))
    assert found == {"None→late": 3.0, "late": 1.0}


_SPANS = st.lists(
    st.tuples(st.integers(0, 6), st.floats(0, 20), st.floats(0, 20)), min_size=1, max_size=8
)


@given(_SPANS)
@settings(deadline=None)
def test_the_pieces_of_any_tree_add_up_to_its_whole_time(
    made: list[tuple[int, float, float]],
) -> None:
    spans = [
        timed(n + 1, f"s{n}", at, seconds, parent=min(parent, n))
        for n, (parent, at, seconds) in enumerate(made)
    ]
    trace = trace_of(root(seconds=15), *spans)
    start, end = extent(trace)
    found = critical_path(trace)
    assert sum(piece.seconds for piece in found) == pytest.approx(end - start, abs=1e-5)
    assert all(piece.seconds >= 0 for piece in found)


# The profile.


def run(n: int, *, tokens: int | None = None, cost: float | None = None) -> Trace:
    more: dict[str, Any] = {"llm.model_name": "m-1", "output.value": "x"}
    if tokens is not None:
        more["llm.token_count.prompt"] = tokens
    if cost is not None:
        more["llm.cost.total"] = cost
    failing = ("TimeoutError", "504 Gateway Timeout") if n % 4 == 0 else None
    return trace_of(
        root(f"order A-{n}", trace=n, seconds=10),
        span(1, "LLM", "model", trace=n, at=1, seconds=2, also=more),
        tool(3, "pay" if n % 2 else f"pay {n}", {"n": n}, None if failing else "ok", trace=n,
             error=failing),
    )  # fmt: skip


def test_calls_errors_and_failures_are_counted_by_tool_and_step_number_is_no_name() -> None:
    found = document([run(n) for n in range(8)])
    tools = by_name(found["tools"])
    assert tools["pay"]["calls"] == 8
    assert (tools["pay"]["errors"], tools["pay"]["failures"]) == (2, 2)
    assert tools["pay"]["error_rate"] == 0.25
    assert (found["traces"]["count"], found["traces"]["failed"]) == (8, 2)
    assert found["traces"]["tool_calls"]["p50"] == 1
    assert found["traces"]["p50_s"] == pytest.approx(10, rel=RELATIVE_ERROR)


def test_tokens_that_are_not_known_are_not_zero_and_the_known_share_is_said() -> None:
    found = by_name(document([run(1, tokens=100), run(2)])["models"])["m-1"]
    assert found["input_tokens"] == {"total": 100, "known": 0.5}
    assert found["output_tokens"] == {"total": None, "known": 0}
    assert found["cost_usd"] == {"total": None, "known": 0}


def test_where_no_time_was_recorded_there_is_none() -> None:
    from dataclasses import replace

    found = document([replace(run(1), timeless=True)])
    assert found["traces"]["timeless"] == 1
    assert found["traces"]["p50_s"] is None
    assert by_name(found["tools"])["pay"]["p95_s"] is None
    assert found["critical_path"] == []


@given(st.lists(st.integers(0, 30), min_size=1, max_size=12, unique=True), st.randoms())
@settings(deadline=None, max_examples=25)
def test_profiles_of_any_partition_are_the_profile_of_the_whole(
    numbers: list[int], rng: random.Random
) -> None:
    traces = [run(n, tokens=n, cost=n / 7) for n in numbers]
    whole = profile_json(profiled(traces))
    rng.shuffle(traces)
    cut = rng.randint(0, len(traces))
    one, other = profiled(traces[:cut]), profiled(traces[cut:])
    other.merge(one)
    assert profile_json(other) == whole


@given(st.permutations(range(12)), st.integers(0, 12))
@settings(deadline=None)
def test_names_beyond_the_bound_are_counted_together_the_same_for_every_order(
    order: list[int], cut: int
) -> None:
    before, module.MAX_NAMES = module.MAX_NAMES, 5
    try:

        def filled(names: Sequence[int]) -> Table[Row]:
            table: Table[Row] = Table(Row)
            for n in names:
                table.at(f"tool-{n}").merge(Row(calls=n + 1))
            return table

        def told(table: Table[Row]) -> dict[str, int]:
            return {name: row.calls for name, row in table.listed()}

        whole = told(filled(range(12)))
        one, other = filled(order[:cut]), filled(order[cut:])
        one.merge(other)
        assert told(one) == whole
        assert len(whole) == 6
        assert sum(whole.values()) == sum(range(1, 13))
    finally:
        module.MAX_NAMES = before


def test_a_sum_of_nothing_known_is_unknown() -> None:
    known = Known()
    assert (known.total, known.share) == (None, None)
    known.add(None)
    assert (known.total, known.share) == (None, 0.0)
