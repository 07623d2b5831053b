"""What is odd about recorded spans is kept, marked and counted; halves and notes are joined."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.traces.raw import NO_TIMES, RawNote, RawSpan
from connectors.traces.tree import Built, build_trace, in_window
from contracts.json_types import Json
from contracts.traces import (
    Payload,
    ReadReport,
    Score,
    Skipped,
    TraceQuery,
    add_reports,
)

SECOND = 1_000_000_000
START = 1_795_510_800 * SECOND


def raw(  # a recorded span in a few words
    number: int,
    parent: int | None = 0,
    begin: float | None = 0,
    end: float | None = 1,
    *,
    name: str = "step",
    updated: int | None = None,
    is_open: bool = False,
    **attributes: Json,
) -> RawSpan:
    return RawSpan(
        trace_id="t", span_id=f"s{number}", parent_id=None if parent is None else f"s{parent}",
        name=name, start_ns=None if begin is None else START + int(begin * SECOND),
        end_ns=None if end is None else START + int(end * SECOND), updated_ns=updated, open=is_open,
        attributes={key.replace("__", "."): value for key, value in attributes.items()},
    )  # fmt: skip


ROOT = raw(0, None, 0, 10, name="agent")


def built(*records: RawSpan | RawNote) -> Built:
    return build_trace([replace_of(r) for r in records], 1 << 18)


def replace_of(record: RawSpan | RawNote) -> RawSpan | RawNote:
    """A copy: building may fill a record in."""
    return replace(record, attributes=dict(record.attributes))


def test_a_span_that_ends_before_it_starts_is_marked_and_ends_when_it_starts() -> None:
    found = built(ROOT, raw(1, begin=3, end=2))
    child = found.trace.spans[1]
    assert found.marks == {"clock_skew": 1}
    assert child.attributes["tracemend.clock_skew"] is True
    assert child.ended_at == child.started_at


@pytest.mark.parametrize(("begin", "end"), [(-5.0, 1.0), (9.0, 11.0), (12.0, None)])
def test_a_span_outside_its_parents_time_is_marked_and_keeps_its_own(
    begin: float, end: float | None
) -> None:
    found = built(ROOT, raw(1, begin=begin, end=end))
    child = next(span for span in found.trace.spans if span.id == "s1")
    assert found.marks == {"outside_parent": 1}
    assert child.attributes["tracemend.outside_parent"] is True
    assert (child.started_at - found.trace.root.started_at).total_seconds() == begin
    assert found.trace.spans[0].id == "s0"


def test_what_two_threads_of_one_machine_differ_by_is_not_odd() -> None:
    assert built(ROOT, raw(1, begin=0, end=10.0005)).marks == {}


def test_several_roots_are_counted_and_the_earliest_stands_first() -> None:
    found = built(raw(2, None, 5, 6), raw(1, None, 1, 2))
    assert found.marks == {"several_roots": 1}
    assert [span.id for span in found.trace.spans] == ["s1", "s2"]


def test_a_root_by_declaration_is_no_orphan() -> None:
    found = built(raw(1, 99, langfuse__internal__as_root=True), raw(2, 1))
    assert (found.trace.orphans, found.trace.root.id) == (0, "s1")


def test_equal_records_are_duplicates_and_others_are_conflicts() -> None:
    same = built(ROOT, raw(1), raw(1))
    assert (same.spans, same.duplicates, same.marks) == (3, 1, {})
    other = built(ROOT, raw(1, name="a", updated=1), raw(1, name="b", updated=2))
    assert (other.spans, other.duplicates) == (3, 1)
    assert other.marks == {"duplicate_conflicts": 1}
    assert other.trace.spans[1].name == "b"


def test_the_two_halves_of_a_span_are_one_in_any_order() -> None:
    begun = raw(1, end=None, is_open=True, name="pay", input__value="{}")
    ended = raw(1, parent=None, begin=None, end=4, name="", output__value="504")
    for records in itertools.permutations([ROOT, begun, ended]):
        found = built(*records)
        span = found.trace.spans[1]
        assert (found.spans, found.duplicates, found.marks) == (2, 0, {"late_halves": 1})
        assert (span.name, span.parent_id, found.trace.orphans) == ("pay", "s0", 0)
        assert span.ended_at is not None
        assert (span.ended_at - found.trace.started_at).total_seconds() == 4
        assert span.input is not None
        assert span.output is not None


def test_an_open_root_makes_the_trace_pending_and_an_open_step_does_not() -> None:
    running = replace(ROOT, end_ns=None, open=True)
    assert built(running, raw(1)).trace.pending
    stuck = built(ROOT, raw(1, end=None, is_open=True)).trace
    assert not stuck.pending
    assert (stuck.spans[1].ended_at, stuck.spans[1].status) == (None, "unset")


def test_times_that_were_never_recorded_are_said_and_fit_no_window() -> None:
    for records in ([raw(0, None, None, None)], [replace(ROOT, attributes={NO_TIMES: True})]):
        found = built(*records)
        assert (found.trace.timeless, found.marks) == (True, {"no_times": 1})
        assert in_window(found.trace, TraceQuery())
        window = TraceQuery(start=found.trace.started_at)
        assert not in_window(found.trace, window)


def test_notes_say_what_their_trace_is_and_fill_only_what_the_root_lacks() -> None:
    score = Score(name="helpful", value=False, source="user", comment="wrong order")
    note = RawNote(
        trace_id="t",
        attributes={
            "langfuse.trace.name": "refund", "langfuse.session.id": "s", "langfuse.release": "r1",
            "langfuse.trace.tags": ["vip"], "langfuse.trace.input": "asked",
            "langfuse.trace.output": "said",
        },
        scores=(score, score),
    )  # fmt: skip
    trace = built(replace(ROOT, attributes={"output.value": "own"}), note, note).trace
    assert (trace.name, trace.session_id, trace.release) == ("refund", "s", "r1")
    assert (trace.tags, trace.scores) == (("vip",), (score,))
    assert trace.root.input is not None
    assert trace.root.input.text == "asked"


@given(st.permutations([ROOT, raw(1), raw(2, 1, 0.5), raw(2, 1, 0.5, name="other"), raw(3, 9)]))
def test_the_order_of_records_changes_nothing(records: list[RawSpan]) -> None:
    first = built(ROOT, raw(1), raw(2, 1, 0.5), raw(2, 1, 0.5, name="other"), raw(3, 9))
    assert built(*records) == first


def test_own_runs_are_known_by_any_of_their_marks() -> None:
    marks: list[RawSpan] = [
        replace(ROOT, resource={"tracemend.run_id": "r"}),
        replace(ROOT, resource={"deployment.environment": "tracemend-gate"}),
        replace(ROOT, resource={"openinference.project.name": "tracemend-gate"}),
        replace(ROOT, attributes={"langfuse.environment": "tracemend-gate"}),
        replace(ROOT, attributes={"metadata": '{"tracemend.run_id": "r"}'}),
        replace(ROOT, attributes={"metadata": {"tracemend.run_id": "r"}}),
    ]
    assert all(built(one).trace.own for one in marks)
    assert not built(replace(ROOT, resource={"service.name": "tracemend-gateway"})).trace.own


def test_a_payload_is_parsed_when_asked_and_never_guessed() -> None:
    assert Payload(text='{"a": 1}', size_bytes=8).value == {"a": 1}
    assert Payload(text="{not json", size_bytes=9).value is None
    assert Payload(text="12", size_bytes=2).value is None
    assert Payload(text='{"a": 1}', size_bytes=8, value=None).value is None
    cut = Payload(text='{"a', size_bytes=900, truncated=True, sha256="0" * 64)
    assert (cut.value, cut.sha256) == (None, "0" * 64)
    with pytest.raises(ValueError, match="a cut payload needs the hash of the whole"):
        Payload(text="x", size_bytes=900, truncated=True)
    assert Payload(text="secret", size_bytes=6) == Payload(text="secret", size_bytes=6)
    assert "secret" not in repr(Payload(text="secret", size_bytes=6))


def test_reports_add_up_and_the_worse_status_stands() -> None:
    one = ReadReport(
        source="a", format="x", traces=1, spans=2, pending=1, status="pending", requests=3,
        marks={"clock_skew": 1}, why="first", skipped=(Skipped(path="p", why="w"),),
    )  # fmt: skip
    other = ReadReport(
        source="b", format="x", traces=4, status="partial", marks={"clock_skew": 2, "no_times": 1}
    )
    total = add_reports(one, other)
    assert (total.source, total.format, total.why) == ("a, b", "x", "first")
    assert (total.traces, total.spans, total.pending, total.requests) == (5, 2, 1, 3)
    assert total.marks == {"clock_skew": 3, "no_times": 1}
    assert add_reports(other, one).status == total.status == "partial"
