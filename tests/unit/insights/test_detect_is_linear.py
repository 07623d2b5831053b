"""How much is looked at grows with the trace, not with its square: counted, not timed."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from contracts.traces import Span, Trace
from nodes.insights.detect.all import detect, detect_trace
from nodes.insights.detect.faults import Scans
from nodes.insights.detect.view import View
from tests.trace_worlds import OtlpSpan, root, span, tool, trace_of


class Clock(datetime):
    """A time that counts how often it is compared."""

    compared = 0

    def _count(self) -> None:
        Clock.compared += 1

    def __lt__(self, other: Any) -> bool:
        self._count()
        return datetime.__lt__(self, other)

    def __le__(self, other: Any) -> bool:
        self._count()
        return datetime.__le__(self, other)

    def __gt__(self, other: Any) -> bool:
        self._count()
        return datetime.__gt__(self, other)

    def __ge__(self, other: Any) -> bool:
        self._count()
        return datetime.__ge__(self, other)


def clocked(trace: Trace) -> Trace:
    """The same trace with times that count their comparisons."""

    def tick(at: datetime | None) -> datetime | None:
        return None if at is None else Clock.fromtimestamp(at.timestamp(), at.tzinfo)

    spans: list[Span] = []
    for one in trace.spans:
        started = tick(one.started_at)
        assert started is not None
        spans.append(replace(one, started_at=started, ended_at=tick(one.ended_at)))
    return replace(trace, spans=tuple(spans))


def compared(trace: Trace) -> int:
    Clock.compared = 0
    detect_trace(clocked(trace))
    return Clock.compared


def failing_calls(count: int) -> Trace:
    """Model calls and failing tools in turns, below a step that passes each failure on."""
    spans: list[OtlpSpan] = [root(seconds=10_000)]
    for n in range(1, 3 * count, 3):
        spans += [
            span(n, "CHAIN", f"step {n}", seconds=3, error=("ValueError", f"bad id {n}")),
            span(n + 1, "LLM", "chat", parent=n, also=exchange(n)),
            tool(n + 2, "pay", {"id": n}, error=("ValueError", f"bad id {n}"), parent=n),
        ]
    return trace_of(*spans)


def flat_calls(count: int) -> Trace:
    """Failing and working tools in turns, right under the agent; half of the errors are red."""
    spans: list[OtlpSpan] = [root(seconds=10_000)]
    for n in range(1, 4 * count, 4):
        red = ("ValueError", f"bad id {n}") if n % 8 == 1 else None
        spans += [
            span(n, "LLM", "chat", also=exchange(n + 1)),
            tool(n + 1, "pay", {"id": n}, None if red else "Error: bad id", error=red),
            tool(n + 2, "pay", {"id": n}, "paid"),
            tool(n + 3, "look", {"id": n}, f"state {n}"),
        ]
    return trace_of(*spans)


def exchange(n: int) -> dict[str, Any]:
    return {
        "llm__input_messages__0__message__role": "assistant",
        "llm__input_messages__0__message__content": f"said {n - 3}",
        "llm__input_messages__1__message__role": "tool",
        "llm__input_messages__1__message__content": f"Error: bad id {n - 3}",
        "llm__output_messages__0__message__role": "assistant",
        "llm__output_messages__0__message__content": f"said {n}",
    }


def nested_failures(count: int) -> Trace:
    """A failure that every step above passes on in its own words."""
    deepest = [
        span(n, "CHAIN", f"step {n}", parent=n - 1, seconds=1000 - n, error=("E", f"at level {n}"))
        for n in range(1, count)
    ]
    return trace_of(root(error=("E", "at level 0"), answer=None, seconds=2000), *deepest)


@pytest.mark.parametrize("build", [failing_calls, flat_calls, nested_failures])
def test_times_are_compared_about_as_often_as_there_are_spans(
    build: Callable[[int], Trace],
) -> None:
    small, large = build(100), build(400)
    assert compared(large) <= 6 * compared(small) + 100  # four times the spans; 16 if squared


def test_the_tree_is_not_walked_again_for_every_failed_span(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    visited = 0
    under = View.under

    def counting(self: View, one: Span) -> list[Span]:
        nonlocal visited
        found = under(self, one)
        visited += len(found)
        return found

    monkeypatch.setattr(View, "under", counting)
    trace = failing_calls(200)
    detect_trace(trace)
    assert visited <= 2 * len(trace.spans)


def test_a_failure_is_still_told_once_where_it_began() -> None:
    found = [s for s in detect(failing_calls(30), Scans()).symptoms if s.counts]
    assert {s.kind for s in found} == {"tool_error"}
    assert len(found) == 30
    ((deepest),) = [s for s in detect_trace(nested_failures(40)) if s.counts]
    assert int(deepest.span_id, 16) - 1 == 39


def spans_of(*numbers: int) -> Iterator[OtlpSpan]:
    for n in numbers:
        yield tool(n, "pay", {"id": n}, "paid")


def test_a_call_that_worked_before_and_not_after_is_no_recovery() -> None:
    failed = tool(5, "pay", {"id": 5}, error=("ValueError", "bad id"))
    before = detect_trace(trace_of(root(), *spans_of(1, 2), failed))
    after = detect_trace(trace_of(root(), *spans_of(1, 2), failed, *spans_of(8)))
    assert [s.recovered for s in before if s.kind == "tool_error"] == [False]
    assert [s.recovered for s in after if s.kind == "tool_error"] == [True]
