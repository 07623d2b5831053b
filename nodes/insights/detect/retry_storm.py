"""Calls that were repeated without a model turn between them: a client's doing, not the model's.

No kind of its own: facts that the diagnosis of the failing calls uses.
"""

from collections.abc import Mapping
from itertools import pairwise

from contracts.json_types import Json
from contracts.traces import SpanId
from nodes.insights.detect.view import ToolCall, View

LEAST = 3


def storms(view: View) -> dict[SpanId, Mapping[str, Json]]:
    """Facts for every failed call that belongs to a row of equal calls without a model turn.

    `row`: calls in the row, `gap_ms`: the longest pause between two of them, `row_ms`: all of it.
    """
    rows: list[list[ToolCall]] = []
    open_rows: dict[tuple[str, str], list[ToolCall]] = {}
    for span in view.trace.spans:
        if span.kind == "llm":
            open_rows.clear()
        call = view.calls.get(span.id)
        if call is None or span.id not in view.failed:
            continue
        key = (call.tool, call.arguments_key)
        row = open_rows.get(key)
        if row is None:
            row = open_rows[key] = []
            rows.append(row)
        row.append(call)
    found: dict[SpanId, Mapping[str, Json]] = {}
    for row in rows:
        if len(row) >= LEAST and not view.trace.timeless:
            found |= dict.fromkeys((call.span.id for call in row), _facts(row))
    return found


def _facts(row: list[ToolCall]) -> Mapping[str, Json]:
    gaps = [
        (after.span.started_at - (before.span.ended_at or before.span.started_at)).total_seconds()
        for before, after in pairwise(row)
    ]
    whole = (row[-1].span.ended_at or row[-1].span.started_at) - row[0].span.started_at
    return {
        "row": len(row),
        "gap_ms": max(0, round(1000 * max(gaps))),
        "row_ms": round(1000 * whole.total_seconds()),
    }
