"""A profile as the document that `tracemend profile --json` prints."""

from collections.abc import Mapping

from contracts.json_types import Json
from nodes.insights.profile import REST, Known, Profile, Row, Table, Time
from nodes.insights.quantiles import RELATIVE_ERROR, Histogram


def profile_json(profile: Profile) -> dict[str, Json]:
    """The document without what was read; every key is always there, unknown is null."""
    return {
        "traces": {
            "count": profile.traces, "failed": profile.failed, "timeless": profile.timeless,
            **_seconds(profile.seconds), "llm_calls": _counts(profile.llm_calls),
            "tool_calls": _counts(profile.tool_calls),
        },
        "tools": _rows(profile.tools), "models": _rows(profile.models),
        "steps": _rows(profile.steps),
        "critical_path": _times(profile.path, profile),
        "waits": _times(profile.waits, profile),
        "quantile_error": RELATIVE_ERROR,
    }  # fmt: skip


def _rows(table: Table[Row]) -> list[Json]:
    """Rows, those that took most time first, then those that were called most."""
    listed = sorted(
        table.listed(),
        key=lambda kv: (kv[0] == REST, -kv[1].seconds.millionths, -kv[1].calls, kv[0]),
    )
    return [_row(name, row) for name, row in listed]


def _row(name: str, row: Row) -> Mapping[str, Json]:
    return {
        "name": name, "calls": row.calls, "errors": row.errors,
        "error_rate": row.errors / row.calls if row.calls else None,
        "failures": row.failures, "open": row.open, **_seconds(row.seconds),
        "input_tokens": _known(row.input_tokens), "output_tokens": _known(row.output_tokens),
        "cost_usd": _known(row.cost_usd),
    }  # fmt: skip


def _seconds(seconds: Histogram) -> dict[str, Json]:
    """Total and quantiles; null where no time was recorded."""
    timed = seconds.count > 0
    return {
        "timed": seconds.count, "total_s": seconds.total if timed else None,
        "p50_s": seconds.quantile(0.5), "p95_s": seconds.quantile(0.95),
        "max_s": seconds.largest if timed else None,
    }  # fmt: skip


def _counts(counts: Histogram) -> dict[str, Json]:
    return {
        "mean": counts.mean, "p50": _whole(counts.quantile(0.5)),
        "p95": _whole(counts.quantile(0.95)), "max": _whole(counts.largest),
    }  # fmt: skip


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _known(known: Known) -> dict[str, Json]:
    """A sum and how much of it is known: `total` null and `known` 0 where nothing is."""
    return {"total": known.total, "known": known.share}


def _times(table: Table[Time], profile: Profile) -> list[Json]:
    """Parts of the end-to-end time, the largest first."""
    whole = profile.seconds.millionths
    listed = sorted(table.listed(), key=lambda kv: (kv[0] == REST, -kv[1].microseconds, kv[0]))
    return [
        {
            "where": name, "total_s": time.microseconds / 1e6,
            "share": time.microseconds / whole if whole else None,
            "times": time.times, "traces": time.traces,
        }
        for name, time in listed
    ]  # fmt: skip
