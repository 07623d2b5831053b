"""A profile as tables for a person: plain text that reads well in any terminal and in a mail."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from contracts.json_types import Json
from graph.cli.session import one_line
from graph.finding_views import objects

Document = Mapping[str, Json]

SHOWN = 15
"""Rows of a table; the rest is in --json, and said."""
TOO_SMALL = 0.001
"""Shares of the time below this are left to --json."""
NAME_WIDTH = 56
BAR = 20
UNKNOWN = "?"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its head and how a row fills it."""

    head: str
    cell: Callable[[Document], str]


def profile_lines(document: Document) -> Iterator[str]:
    """The whole profile."""
    yield from _head(document)
    yield from table("by tool", document["tools"], _CALLS)
    yield from table("by model", document["models"], [*_CALLS, *_TOKENS])
    yield from table("by step", document["steps"], _CALLS)
    path, waits = document["critical_path"], document["waits"]
    yield from table("what the time from end to end is made of", path, _TIMES, name="where")
    yield from table("of it, where nothing recorded ran", waits, _TIMES, name="where")
    yield ""
    yield f"p50 and p95 are within {_number(document, 'quantile_error'):.0%} of the exact ones"


def _head(document: Document) -> Iterator[str]:
    read, traces = document["read"], document["traces"]
    if not isinstance(read, Mapping) or not isinstance(traces, Mapping):
        return
    yield (
        f"read {read['traces']} traces, {read['spans']} spans ({read['format']}): {read['status']}"
    )
    if read.get("why"):
        yield f"  {one_line(str(read['why']))}"
    yield (
        f"{traces['failed']} of {traces['count']} traces have a failure that counts, "
        "silent ones too"
    )
    timeless = traces["timeless"]
    untimed = f"; {timeless} traces carry no times" if timeless else ""
    yield (
        "no times were recorded"
        if timeless == traces["count"]
        else (
            f"a trace takes {_time(traces['p50_s'])} (p50), {_time(traces['p95_s'])} (p95), "
            f"{_time(traces['max_s'])} at most{untimed}"
        )
    )
    yield f"model calls a trace: {_spread(traces['llm_calls'])}"
    yield f"tool calls a trace:  {_spread(traces['tool_calls'])}"


def _spread(counts: Json) -> str:
    if not isinstance(counts, Mapping) or counts["p50"] is None:
        return UNKNOWN
    return f"{counts['p50']} (p50), {counts['p95']} (p95), {counts['max']} at most"


def table(
    title: str, rows: Json, columns: Sequence[Column], *, name: str = "name"
) -> Iterator[str]:
    """A titled table, numbers to the right; nothing where there are no rows."""
    listed = objects(rows)
    shown = [row for row in listed[:SHOWN] if _number(row, "share") >= TOO_SMALL or name != "where"]
    if not shown:
        return
    cells = [[column.cell(row) for column in columns] for row in shown]
    widths = [
        max(len(column.head), *(len(line[at]) for line in cells))
        for at, column in enumerate(columns)
    ]
    names = [_cut(one_line(str(row[name]))) for row in shown]
    first = max(len(title), *map(len, names))
    yield ""
    heads = (column.head.rjust(width) for column, width in zip(columns, widths, strict=True))
    yield "  ".join([title.upper().ljust(first), *heads]).rstrip()
    for label, line in zip(names, cells, strict=True):
        numbers = (cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        yield "  ".join([label.ljust(first), *numbers]).rstrip()
    if len(listed) > len(shown):
        yield f"and {len(listed) - len(shown)} more, in --json"


def _cut(name: str) -> str:
    return name if len(name) <= NAME_WIDTH else f"{name[: NAME_WIDTH - 1]}…"


def _number(row: Document, key: str) -> float:
    value = row.get(key)
    return float(value) if isinstance(value, int | float) else 0.0


def _count(key: str) -> Callable[[Document], str]:
    def cell(row: Document) -> str:
        return f"{_number(row, key):,.0f}"

    return cell


def _seconds(key: str) -> Callable[[Document], str]:
    def cell(row: Document) -> str:
        return _time(row[key])

    return cell


def _time(value: Json) -> str:
    """Seconds in the unit that reads best; unknown is not zero."""
    if not isinstance(value, int | float):
        return UNKNOWN
    if value < 0.9995:
        return f"{value * 1000:.0f} ms"
    if value < 120:
        return f"{value:.1f} s"
    return f"{value / 60:.1f} min" if value < 7200 else f"{value / 3600:.1f} h"


def _rate(row: Document) -> str:
    rate = row["error_rate"]
    return f"{rate:.1%}" if isinstance(rate, int | float) else UNKNOWN


def _sum(key: str, unit: str = "") -> Callable[[Document], str]:
    """A sum; `≥` where a part of it is not known."""

    def cell(row: Document) -> str:
        known = row[key]
        if not isinstance(known, Mapping) or not isinstance(known["total"], int | float):
            return UNKNOWN
        part = known["known"]
        more = "≥ " if isinstance(part, int | float) and part < 1 else ""
        total = known["total"]
        return f"{more}{unit}{total:,.4f}" if unit else f"{more}{total:,.0f}"

    return cell


def _bar(row: Document) -> str:
    share = min(1.0, _number(row, "share"))
    return "█" * round(share * BAR)


_CALLS = [
    Column("calls", _count("calls")), Column("errors", _count("errors")), Column("rate", _rate),
    Column("failed", _count("failures")), Column("p50", _seconds("p50_s")),
    Column("p95", _seconds("p95_s")), Column("total", _seconds("total_s")),
]  # fmt: skip
_TOKENS = [
    Column("tokens in", _sum("input_tokens")), Column("tokens out", _sum("output_tokens")),
    Column("USD", _sum("cost_usd", "$")),
]  # fmt: skip
_TIMES = [
    Column("total", _seconds("total_s")), Column("traces", _count("traces")),
    Column("share", lambda row: f"{_number(row, 'share'):.1%}"),
    Column("".ljust(BAR), lambda row: _bar(row).ljust(BAR)),
]  # fmt: skip
