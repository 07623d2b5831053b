"""Counts do not depend on the order of traces, nor on how they were shared out and merged."""

import asyncio
import random
from collections.abc import Sequence
from functools import reduce

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.json_types import Json, canonical_json
from contracts.traces import Trace, TraceQuery
from nodes.insights.analyze import analyze
from nodes.insights.detect.all import Detected, detect
from nodes.insights.detect.faults import Scans
from nodes.insights.saved import fill_tally, tally_json
from nodes.insights.tally import Bounds, Config, Tally
from tests.trace_worlds import MemorySource, root, tool, trace_of

FEW = settings(max_examples=40, deadline=None)
ROOMY = Config(max_symptoms=1_000)
TIGHT = Config(
    max_symptoms=5,
    bounds=Bounds(units=9, pairs=10, groups=6, sketches=5, places=6, traits=4, minutes=3),
)
"""Every bound is met by a dozen traces."""
CONFIGS = st.sampled_from([ROOMY, TIGHT, Config(samples=False, bounds=TIGHT.bounds)])
FAILURES: list[tuple[str, tuple[str, str] | None, Json]] = [
    ("pay", None, "ok"),
    ("pay", ("TimeoutError", "504 Gateway Timeout of shard 3"), None),
    ("pay", ("ValueError", "id must look like A-9999"), None),
    ("pay", ("ValueError", "the account is closed for good"), None),
    ("look", None, {"ok": False, "error": "no stock"}),
    ("look", None, "Error: rate limit exceeded"),
    ("ship", ("KeyError", "carrier"), None),
]


@st.composite
def some_traces(draw: st.DrawFn) -> list[Trace]:
    """Up to 24 traces; some share a session; minutes, hours and days apart."""
    made = []
    for number in range(draw(st.integers(0, 24))):
        calls = draw(st.lists(st.sampled_from(FAILURES), max_size=3))
        spans = [root(f"request {number}", trace=number, also=_session(draw(st.integers(0, 9))))]
        spans += [
            tool(at, name, {"n": at}, answer, trace=number, error=error)
            for at, (name, error, answer) in enumerate(calls, 1)
        ]
        late = draw(st.sampled_from([0, 1, 61, 1_440])) * 60 * 10**9
        for span in spans:
            for key in ("startTimeUnixNano", "endTimeUnixNano"):
                span[key] = str(int(str(span[key])) + late * number)
        made.append(trace_of(*spans))
    return made


def _session(number: int) -> dict[str, Json]:
    return {"session.id": f"s-{number}"} if number < 5 else {}


def detected(traces: Sequence[Trace]) -> list[Detected]:
    scans = Scans()
    return [detect(trace, scans) for trace in traces]


def tally_of(seen: Sequence[Detected], config: Config) -> Tally:
    tally = Tally.of(config)
    for one in seen:
        tally.add(one)
    return tally


def merged(*tallies: Tally) -> Tally:
    whole = tallies[0].fresh()
    for one in tallies:
        whole.merge(one)
    return whole


def told(tally: Tally) -> bytes:
    """Everything that a tally holds, in one fixed order."""
    return canonical_json(_sorted(orjson.loads(orjson.dumps(tally_json(tally)))))


def _sorted(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return sorted((_sorted(one) for one in value), key=orjson.dumps)
    return value


@FEW
@given(some_traces(), CONFIGS, st.randoms(use_true_random=False))
def test_the_order_of_traces_changes_nothing_that_is_kept(
    traces: list[Trace], config: Config, chance: random.Random
) -> None:
    seen = detected(traces)
    first = told(tally_of(seen, config))
    chance.shuffle(seen)
    assert told(tally_of(seen, config)) == first


@FEW
@given(some_traces(), CONFIGS, st.integers(1, 5), st.randoms(use_true_random=False))
def test_every_partition_merges_to_the_whole(
    traces: list[Trace], config: Config, parts: int, chance: random.Random
) -> None:
    seen = detected(traces)
    shares: list[list[Detected]] = [[] for _ in range(parts)]
    for one in seen:
        chance.choice(shares).append(one)
    counted = [tally_of(share, config) for share in shares]
    assert told(merged(*counted)) == told(tally_of(seen, config))


@FEW
@given(some_traces(), CONFIGS, st.data())
def test_merging_is_commutative_and_associative(
    traces: list[Trace], config: Config, data: st.DataObject
) -> None:
    seen = detected(traces)
    at = sorted(data.draw(st.tuples(*[st.integers(0, len(seen))] * 2)))
    a, b, c = (
        tally_of(part, config) for part in (seen[: at[0]], seen[at[0] : at[1]], seen[at[1] :])
    )
    assert told(merged(a, b)) == told(merged(b, a))
    assert told(merged(merged(a, b), c)) == told(merged(a, merged(b, c)))
    assert told(merged(a, Tally.of(config))) == told(a)


@FEW
@given(some_traces(), CONFIGS)
def test_a_tally_is_the_same_after_being_sent(traces: list[Trace], config: Config) -> None:
    tally = tally_of(detected(traces), config)
    again = tally.fresh()
    fill_tally(again, orjson.loads(orjson.dumps(tally_json(tally))))
    assert told(again) == told(tally)
    assert told(merged(again, again.fresh())) == told(tally)


@FEW
@given(some_traces(), st.integers(1, 7), st.randoms(use_true_random=False))
def test_batches_and_orders_change_no_analysis(
    traces: list[Trace], batch: int, chance: random.Random
) -> None:
    window, before = traces[::2], traces[1::2]
    found = []
    for size in (batch, len(traces) + 1):
        sides = (MemorySource(window, batch=size), MemorySource(before, batch=size))
        baseline = (sides[1], TraceQuery())
        found.append(asyncio.run(analyze(sides[0], TraceQuery(), project="p", baseline=baseline)))
        window, before = chance.sample(window, len(window)), before[::-1]
    assert found[0].findings == found[1].findings
    assert found[0].symptoms == found[1].symptoms
    assert found[0].evidence == found[1].evidence


def test_many_tallies_of_one_trace_each_are_the_whole() -> None:
    traces = [
        trace_of(root(trace=n), tool(1, "pay", {"n": n}, trace=n, error=("KeyError", f"k{n % 3}")))
        for n in range(40)
    ]
    seen = detected(traces)
    for config in (ROOMY, TIGHT):
        alone = [tally_of([one], config) for one in seen]
        whole = reduce(merged, alone)
        assert told(whole) == told(tally_of(seen, config))
