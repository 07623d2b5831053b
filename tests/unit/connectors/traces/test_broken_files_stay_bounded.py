"""Inputs by which a reader once raised, hung, or told one trace as two."""

import asyncio
import json
import zipfile
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from pyarrow import parquet

from benchmarks.fuzz import bounded
from connectors.traces.files import FilesSource
from connectors.traces.formats import format_of
from connectors.traces.raw import RawNote, RawSpan
from connectors.traces.salvage import head_value, load
from connectors.traces.tree import build_trace
from contracts.errors import UsageError
from contracts.json_types import Json
from contracts.traces import OWN_SCORE, Score, TraceQuery
from tests.trace_worlds import drain, line, read_all, root, tool

BOUND_S = 20.0
"""What took a square of the size took hours; anything linear takes a blink."""


def test_a_torn_text_full_of_escaped_quotes_is_read_in_one_pass() -> None:
    whole = line([root(), tool(1, "find", {"a": 1}, "no")]).rstrip()
    torn = whole.removesuffix(b"]}]}]}") + b',{"note":"' + b'{\\"a\\": 1}, ' * 400_000
    for tail in (b"", b"\\"):
        with bounded(BOUND_S):
            document = load(torn + tail)
            head_value(torn + tail)
        assert document.torn_at == 1
        assert str(document.value).count("spanId") == 2


def test_brackets_deeper_than_any_parser_goes_are_given_up() -> None:
    deep = b'[{"spanId": "a"},' * 100_000
    with bounded(BOUND_S):
        assert head_value(b"[" * 2_000_000) is not None
        assert head_value(deep) is not None
        assert load(deep).torn_at == 1


def test_what_stands_before_a_deep_nesting_is_kept() -> None:
    whole = line([root(), tool(1, "find", {"a": 1}, "no")]).rstrip()
    document = load(whole.removesuffix(b"]}]}]}") + b"," + b"[" * 5_000)
    assert str(document.value).count("spanId") == 2


def test_lists_in_lists_are_no_format_and_no_error() -> None:
    value: Json = {"role": "user"}
    for _ in range(5_000):
        value = [value]
    assert format_of(value) is None
    wide: Json = [[[[[[[[{}] * 5] * 5] * 5] * 5] * 5] * 5] * 5]
    assert format_of(wide) is None


def test_an_archive_with_a_broken_member_is_said_to_break_off(tmp_path: Path) -> None:
    path = tmp_path / "runs.zip"
    text = "".join(chr(33 + n * 7919 % 90) for n in range(4_000))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.json", json.dumps({"messages": [{"role": "user", "content": text}]}))
    data = bytearray(path.read_bytes())
    data[60:200] = b"\xff" * 140
    path.write_bytes(data)
    with pytest.raises(UsageError, match=r"no known format: .*decompressing"):
        read_all(path)


def test_a_broken_parquet_file_is_said_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "runs.parquet"
    parquet.write_table(pa.table({"trace_id": ["a"] * 50, "id": ["b"] * 50}), path)
    data = bytearray(path.read_bytes())
    data[4:40] = b"\x07" * 36
    path.write_bytes(data)
    with pytest.raises(UsageError) as caught:
        read_all(path)
    assert str(caught.value).splitlines() == [str(caught.value)]


def test_runs_that_name_no_trace_belong_to_the_first_run_of_their_order(tmp_path: Path) -> None:
    step = "20261124T090000000000Z"
    runs: list[dict[str, Json]] = [
        {"id": f"r{n}", "run_type": "chain", "name": "step", "start_time": "2026-11-24T09:00:00Z",
         "end_time": "2026-11-24T09:00:01Z",
         "dotted_order": f"{step}top" if not n else f"{step}top.{step}r{n}"}
        for n in range(4)
    ]  # fmt: skip
    runs[0] |= {"id": "top", "trace_id": "top"}
    runs[1]["inputs"] = {"text": "long " * 300_000}  # the next run is read in another block
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(json.dumps(run) + "\n" for run in runs))
    traces, report = read_all(path)
    assert [len(trace.spans) for trace in traces] == [4]
    assert (report.orphans, report.status) == (0, "complete")


def test_scores_that_differ_in_their_judge_only_come_in_one_order() -> None:
    span = RawSpan(trace_id="t", span_id="s", parent_id=None, name="a", start_ns=1, end_ns=2)
    notes = [
        RawNote(trace_id="t", scores=(Score(name="ok", value=1.0, source=source, comment=comment),))
        for source, comment in (("eval", None), ("annotation", None), ("eval", "why"))
    ]
    told = {build_trace([span, *order], 100).trace.scores for order in (notes, notes[::-1])}
    assert len(told) == 1


def test_a_score_of_ours_is_never_evidence() -> None:
    span = RawSpan(trace_id="t", span_id="s", parent_id=None, name="a", start_ns=1, end_ns=2)
    names = (f"{OWN_SCORE}tool_timeout", "quality")
    notes = [
        RawNote(trace_id="t", scores=(Score(name=name, value=1.0, source="api"),)) for name in names
    ]
    assert [s.name for s in build_trace([span, *notes], 100).trace.scores] == ["quality"]


def test_a_trace_whose_id_stands_in_no_text_is_not_lost_where_memory_is_short(
    tmp_path: Path,
) -> None:
    """Of a log between other lines; its id is made of its content, so no index can name it."""
    path = tmp_path / "mixed.jsonl"
    steps = [{"action": "ls", "observation": "a", "response": "look"}]
    log = json.dumps({"environment": "main", "trajectory": steps, "history": [], "info": {}})
    late = line([tool(1, "find", {"a": 1}, "no")])
    path.write_bytes(line([root()]) + log.encode() + b"\n" + late)
    for room in (1, 1 << 26):
        source = FilesSource([path], max_waiting_bytes=room)
        traces, report = asyncio.run(drain(source, TraceQuery()))
        assert sorted(len(trace.spans) for trace in traces) == [2, 3], room
        assert report.status == "complete"


@pytest.mark.parametrize("parent", [None, "gone", "b"])
def test_a_recorded_span_is_not_replaced_by_the_virtual_root(parent: str | None) -> None:
    records = [
        RawSpan(trace_id="t", span_id=own, parent_id=above, name=own, start_ns=5, end_ns=9)
        for own, above in (("virtual-t", parent), ("b", "virtual-t"), ("c", "gone"))
    ]
    spans = build_trace(records, 100).trace.spans
    assert {span.id for span in spans if not span.virtual} == {"virtual-t", "b", "c"}
    assert [span.id for span in spans if span.virtual] == ["virtual-t-"]


def test_observations_behind_trace_rows_of_one_file_are_found_again_in_little_memory(
    tmp_path: Path,
) -> None:
    begun = "2026-11-24T09:00:00.000Z"
    heads = [{"id": t, "timestamp": begun, "name": "desk", "userId": "u"} for t in "ab"]
    steps = [
        {"id": f"o-{t}", "traceId": t, "type": "SPAN", "startTime": begun, "endTime": begun,
         "level": "DEFAULT", "parentObservationId": None}
        for t in "ab"
    ]  # fmt: skip
    path = tmp_path / "all.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in (*heads, *steps)))
    for room in (1, 1 << 26):
        source = FilesSource([path], max_waiting_bytes=room)
        traces, _ = asyncio.run(drain(source, TraceQuery()))
        assert [(trace.id, trace.name) for trace in traces] == [("a", "desk"), ("b", "desk")], room


def test_copies_of_a_span_that_differ_in_their_resource_only_give_one_trace() -> None:
    copies = [
        RawSpan(
            trace_id="t", span_id="s", parent_id=None, name="a", start_ns=1, end_ns=2, resource=said
        )
        for said in ({"service.name": "one"}, {"service.name": "two"}, {"service.version": "3"})
    ]
    told = {str(build_trace(some, 100).trace.resource) for some in (copies, copies[::-1])}
    assert len(told) == 1
