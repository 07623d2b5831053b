"""LangSmith files: what is taken, and that halves, pages and nested runs become one tree."""

import json
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from connectors.traces.langsmith.exports import BATCH, RUNS, is_run, key_of
from connectors.traces.raw import RawSpan
from connectors.traces.tree import build_trace
from contracts.json_types import Json
from contracts.traces import Trace
from tests.emit.langsmith import batch_bodies, bulk_rows, v1_run, v2_items
from tests.langsmith_worlds import minutes
from tests.trace_worlds import FIELD_CASES

CASE = FIELD_CASES / "06-run-never-closed"
A, B = "ca945c13-0537-4888-a45b-d3228c5e8853", "da00583c-4cef-40b5-aa32-e6d2380127d5"


def trace_of(form: Any, *values: dict[str, Json]) -> Trace:
    return build_trace([r for value in values for r in form.spans(value) if r], 1 << 16).trace


def load(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def test_a_run_that_was_never_closed_is_open_and_has_no_latency() -> None:
    answer, expected = load(CASE / "runs_v2.json"), load(CASE / "expected.json")
    assert RUNS.takes(answer)
    trace = trace_of(RUNS, answer)
    assert (trace.id, trace.pending) == (expected["trace_id"], True)
    spans = {span.id: span for span in trace.spans}
    for key, status in expected["status"].items():
        assert spans[key].status == status
    for key in expected["latency"]:
        assert spans[key].ended_at is None
    closed = [span for span in trace.spans if span.id not in expected["status"]]
    assert [span.status for span in closed] == ["ok", "ok", "ok"]


def test_the_halves_of_a_run_in_one_body_are_one_span() -> None:
    post: Json = {"id": A, "trace_id": A, "name": "chat", "run_type": "llm",
            "inputs": {"x": 1}, "start_time": "2026-11-24T09:00:00", "outputs": {}, "tags": ["a"],
            "extra": {"metadata": {"ls_model_name": "m"}, "runtime": {"sdk": "py"}}}  # fmt: skip
    patch: Json = {"id": A, "end_time": "2026-11-24T09:00:02", "outputs": {"answer": "y"},
             "tags": [], "inputs": None, "extra": {"metadata": {"user_id": "u"}}}  # fmt: skip
    found = list(BATCH.spans({"post": [post], "patch": [patch]}))
    assert len(found) == 1
    trace = trace_of(BATCH, {"post": [post], "patch": [patch]})
    assert (trace.root.model, trace.user_id, trace.root.status) == ("m", "u", "ok")
    assert trace.root.output is not None
    assert trace.root.output.value == {"answer": "y"}
    assert trace.tags == ("a",)


def test_a_patch_that_names_its_run_by_dotted_order_only_belongs_to_it() -> None:
    order = f"20261124T090000000001Z{A}"
    post: Json = {"id": A, "trace_id": A, "dotted_order": order, "run_type": "llm", "name": "x"}
    patch: Json = {"dotted_order": order, "trace_id": A, "end_time": 1795510802000}
    trace = trace_of(BATCH, {"post": [post], "patch": [patch]})
    assert [(s.id, s.status) for s in trace.spans] == [(A, "ok")]


def test_halves_in_two_bodies_are_joined_and_no_duplicate() -> None:
    body = next(iter(batch_bodies(minutes(1))))
    whole = trace_of(BATCH, body)
    first, second = {"post": body["post"]}, {"patch": body["patch"]}
    assert BATCH.takes(first)
    assert BATCH.takes(second)
    records = [r for half in (first, second) for r in BATCH.spans(half) if r]
    built = build_trace(records, 1 << 16)
    assert (built.spans, built.duplicates) == (2, 0)
    assert [(s.id, s.name, s.status, s.kind, s.ended_at) for s in built.trace.spans] == [
        (s.id, s.name, s.status, s.kind, s.ended_at) for s in whole.spans
    ]
    assert not built.trace.pending


def test_a_body_without_the_late_half_is_a_pending_trace() -> None:
    body = next(iter(batch_bodies(minutes(1))))
    trace = trace_of(BATCH, {"post": body["post"], "patch": []})
    assert (trace.pending, trace.root.status) == (True, "unset")


def as_pages_v2(items: list[Any]) -> list[Any]:
    return [{"items": items[:1], "next_cursor": "c"}, {"items": [], "next_cursor": "d"},
            {"items": items[1:], "next_cursor": None}]  # fmt: skip


def as_pages_v1(items: list[Any]) -> list[Any]:
    return [{"runs": [v1_run(item) for item in items], "cursors": {"next": None}}]


def as_rule_webhook(items: list[Any]) -> list[Any]:
    runs = [v1_run(item) for item in items]
    for run in runs:
        run["start_time"] = str(run["start_time"]).removesuffix("+00:00")
    return [{"rule_id": "r", "start_time": "2026-11-24T09:00:00", "runs": runs}]


def as_lines(items: list[Any]) -> list[Any]:
    return [v1_run(item) for item in items]


def as_nested(items: list[Any]) -> list[Any]:
    root, *others = (v1_run(item) for item in items)
    return [{**root, "child_runs": others}]


def as_recording(items: list[Any]) -> list[Any]:
    url = "https://api.smith.langchain.com/api/v2/runs/query"
    page = {"items": items, "next_cursor": None}
    return [{"method": "POST", "url": url, "request_body": {}, "status": 200, "body": page}]


@pytest.mark.parametrize(
    "written", [as_pages_v2, as_pages_v1, as_rule_webhook, as_lines, as_nested, as_recording]
)
def test_runs_are_the_same_in_every_wrapping(written: Any) -> None:
    items = v2_items(minutes(1))
    values = written(items)
    assert all(RUNS.takes(value) for value in values)
    assert not any(BATCH.takes(value) for value in values)
    got = trace_of(RUNS, *values)
    plain = trace_of(RUNS, *items)
    assert [(s.id, s.parent_id, s.kind, s.started_at) for s in got.spans] == [
        (s.id, s.parent_id, s.kind, s.started_at) for s in plain.spans
    ]


def test_rows_of_a_bulk_export_are_runs() -> None:
    rows = json.loads(json.dumps(bulk_rows(minutes(1)), default=datetime.isoformat))
    assert all(RUNS.takes(row) for row in rows)
    trace = trace_of(RUNS, *rows)
    assert [s.name for s in trace.spans] == ["agent", "pay"]
    assert trace.spans[1].input is not None
    assert trace.spans[1].input.value == {"n": 0}
    assert all(a.started_at <= b.started_at for a, b in pairwise(trace.spans))


@pytest.mark.parametrize(
    "other",
    [{}, {"id": "x", "type": "GENERATION", "trace_id": "y"}, {"items": [{"id": "x"}]},
     {"items": []}, {"resourceSpans": []}, {"post": "now"}, {"patch": [1]},
     {"method": "GET", "url": "https://l/api/public/traces", "status": 200, "body": {"data": []}},
     {"messages": [{"role": "user", "content": "x"}]}],
)  # fmt: skip
def test_other_documents_are_left_to_others(other: dict[str, Json]) -> None:
    assert not RUNS.takes(other)
    assert not (BATCH.takes(other) and list(BATCH.spans(other)))


def test_an_id_in_the_text_is_the_id_of_the_span() -> None:
    item = v2_items(minutes(1))[0]
    assert is_run(item)
    found = next(iter(RUNS.spans(item)))
    assert isinstance(found, RawSpan)
    assert key_of(str(item["trace_id"])) == found.trace_id
    assert key_of(B) == B
