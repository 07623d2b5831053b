"""The same call again and again with the same answer: a loop, no polling."""

from collections.abc import Iterator, Set
from dataclasses import dataclass

from contracts.traces import SpanId
from nodes.insights.detect.view import ToolCall, View

KIND = "repeated_call"
LEAST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """Equal calls without any news in between; the last is where it is reported."""

    calls: tuple[ToolCall, ...]


def loops(view: View, failed: Set[SpanId]) -> Iterator[Loop]:
    """Runs of at least three equal calls with equal answers.

    A call that was not made before, or that answers otherwise than before, is news: it starts the
    count afresh, so that a poller whose answer changes, and the waits in between, are work. Calls
    that failed are retries of a failure, which has its own finding.

    Args:
        view: the trace.
        failed: spans with a failure of their own.
    """
    seen: set[tuple[str, str, str]] = set()
    runs: dict[tuple[str, str, str], list[ToolCall]] = {}
    found: dict[tuple[str, str, str], list[ToolCall]] = {}
    for call in view.calls.values():
        if call.span.id in failed:
            continue
        key = (call.tool, call.arguments_key, call.answer_key)
        if key not in seen:
            seen.add(key)
            runs = {key: [call]}
            continue
        run = runs.setdefault(key, [])
        run.append(call)
        if len(run) >= LEAST:
            found[key] = run
    for run in found.values():
        if run[0].span.output is not None:  # without a recorded answer nobody knows
            yield Loop(calls=tuple(run))
