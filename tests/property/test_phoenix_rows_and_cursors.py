"""Rows of any shape never break the reading, and cursors of our own come back as they went."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.traces.collect import Collector
from connectors.traces.cursors import read_cursor, write_cursor
from connectors.traces.phoenix_rows import score_of, size_of, span_of
from contracts.errors import UsageError
from contracts.json_types import Json
from contracts.traces import TraceQuery

scalars: st.SearchStrategy[Json] = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats()
    | st.text(max_size=8)
)
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=4,
)
ids = st.sampled_from(["a" * 32, "b" * 16, "7"]) | anything
rows: st.SearchStrategy[dict[str, Json]] = st.fixed_dictionaries(
    {},
    optional={
        "context": st.fixed_dictionaries({"trace_id": ids, "span_id": ids}) | anything,
        "parent_id": ids, "span_id": ids, "trace_id": ids, "name": anything,
        "span_kind": st.sampled_from(["LLM", "UNKNOWN"]) | anything,
        "start_time": st.sampled_from(["2026-11-30T08:00:00+00:00", "0001-01-01"]) | anything,
        "end_time": anything, "status_code": anything, "status_message": anything,
        "attributes": st.dictionaries(
            st.sampled_from(["metadata", "metadata.a.b", "tool.parameters.x", "input.value"]),
            anything,
        ) | anything,
        "events": st.lists(st.dictionaries(st.sampled_from(["name", "attributes"]), anything))
        | anything,
        "result": st.dictionaries(st.sampled_from(["score", "label", "explanation"]), anything)
        | anything,
        "annotator_kind": anything, "updated_at": anything,
    },
)  # fmt: skip


@settings(max_examples=100)
@given(st.lists(rows, max_size=3))
def test_rows_of_any_shape_are_read_counted_or_left_out(given_rows: list[dict[str, Json]]) -> None:
    collector = Collector(source="x", reader="phoenix-rest", query=TraceQuery(), cap=1000)
    spans = [span_of(row) for row in given_rows]
    for row, span in zip(given_rows, spans, strict=True):
        collector.add([span], size_bytes=size_of(row))
        score_of(row)
    collector.take()
    report = collector.report(requests=0)
    assert report.spans + report.pending == sum(span is not None for span in spans)
    assert (report.status == "partial") == (None in spans)
    assert collector.waiting == ()


@given(anything, st.dictionaries(st.text(max_size=8), scalars, max_size=4))
def test_a_cursor_comes_back_as_it_went_and_only_to_its_own_read(
    read: Json, place: dict[str, Json]
) -> None:
    cursor = write_cursor(read, place)
    again = write_cursor(read, read_cursor(read, cursor) or {})
    assert again == cursor
    with pytest.raises(UsageError, match="of another source or window"):
        read_cursor(["another", read], cursor)


@given(st.text(max_size=60))
def test_no_text_breaks_the_reading_of_a_cursor(text: str) -> None:
    with pytest.raises(UsageError, match="no cursor that a read gave away; start without one"):
        read_cursor("x", text)
