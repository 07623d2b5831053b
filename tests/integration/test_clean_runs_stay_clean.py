"""Runs of the project's own agents in which nothing goes wrong give no symptom that counts.

The gate forbids symptoms by the same detectors, so a false one there would fail a good edit.
"""

import gzip
from collections.abc import Callable, Sequence
from pathlib import Path

import orjson
import pytest

from benchmarks.planted_world import DESK, REFUNDS, Condition, Pools
from contracts.findings import Symptom
from contracts.traces import Trace
from nodes.insights.detect.all import detect_trace
from tests.emit import atif, chat, langfuse, langsmith, openinference
from tests.trace_worlds import read_all

RUNS = 24
CLEAN: tuple[Condition, ...] = ("clean", "refund_clean")


@pytest.fixture(scope="module")
def pools(tmp_path_factory: pytest.TempPathFactory) -> Pools:
    return Pools(tmp_path_factory.mktemp("pools"), RUNS)


def counting(traces: Sequence[Trace]) -> list[Symptom]:
    return [one for trace in traces for one in detect_trace(trace) if one.counts]


@pytest.mark.parametrize("condition", CLEAN)
def test_clean_runs_give_no_symptom_that_counts(condition: Condition, pools: Pools) -> None:
    assert len(pools[condition]) == RUNS
    assert counting(pools[condition]) == []


Writer = Callable[[Sequence[Trace]], bytes]


def _lines(documents: Sequence[object]) -> bytes:
    return b"".join(orjson.dumps(one) + b"\n" for one in documents)


WRITERS: dict[str, Writer] = {
    "openinference": lambda traces: _lines([openinference.document(t) for t in traces]),
    "langfuse": lambda traces: _lines([langfuse.export(t) for t in traces]),
    "langsmith": lambda traces: _lines(list(langsmith.batch_bodies(traces))),
    "atif": lambda traces: _lines([atif.document(t) for t in traces]),
    "chat": lambda traces: _lines([chat.document(t) for t in traces]),
    "gzip": lambda traces: gzip.compress(_lines([openinference.document(t) for t in traces])),
}


@pytest.mark.parametrize("condition", CLEAN)
@pytest.mark.parametrize("written", WRITERS)
def test_clean_runs_stay_clean_in_every_format(
    condition: Condition, written: str, pools: Pools, tmp_path: Path
) -> None:
    path = tmp_path / f"runs.{written}.jsonl"
    path.write_bytes(WRITERS[written](pools[condition]))
    again, report = read_all(path)
    assert report.status == "complete"
    assert len(again) == RUNS
    assert counting(again) == []


@pytest.mark.parametrize("condition", [name for name in (*DESK, *REFUNDS) if name not in CLEAN])
def test_every_planted_fault_counts_in_every_run(condition: Condition, pools: Pools) -> None:
    for trace in pools[condition]:
        assert counting([trace]), f"{condition}: nothing counted in {trace.id}"
