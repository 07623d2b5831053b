"""What `doctor` says of a source, and its document."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from contracts.errors import SourceError
from contracts.traces import SourceInfo, TraceBatch, TraceQuery
from graph.cli.checks import Checked, checks_json, source_line
from graph.cli.readiness import newest_traces
from tests.trace_worlds import MemorySource, span, trace_of

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
DAY = timedelta(days=1)
PLAIN = SourceInfo(source="langfuse", reachable=True, reader="observations v2", detail="fine")


def line(**said: object) -> Checked:
    fields = {name: getattr(PLAIN, name) for name in ("source", "reachable", "reader", "detail")}
    info = SourceInfo(**{**fields, **said})
    return source_line("traces.0", info, now=NOW, window=DAY)


def test_a_source_says_reader_newest_trace_limits_clock_and_rights() -> None:
    found = line(
        newest=NOW - timedelta(hours=2),
        limits="1000 a minute",
        clock_offset_s=-0.4,
        can_write=False,
    )
    assert found.line == (
        "ok    traces.0: langfuse by observations v2; fine; rate limit: 1000 a minute; newest "
        "trace 2026-11-30 10:00 UTC; clock 0.4 s behind; the key can only read"
    )


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ({"can_write": True}, "make a key that only reads"),
        ({"clock_offset_s": 61.0}, "the clocks differ"),
        ({"newest": NOW - 2 * DAY}, "nothing newer than the window"),
    ],
)
def test_what_is_odd_is_a_warning_and_no_failure(said: dict[str, object], advice: str) -> None:
    found = line(**said)
    assert (found.ok, found.state, found.mark) == (True, "warn", "warn")
    assert advice in found.advice
    assert advice in found.line


def test_what_a_source_does_not_say_is_no_warning() -> None:
    assert (line().state, line().advice) == ("ok", "")


def test_an_unreachable_source_is_bad() -> None:
    assert line(reachable=False).mark == "BAD "


def test_the_document_keeps_checks_and_properties_apart() -> None:
    done = [
        Checked(name="python", ok=True, detail="3.12"),
        Checked(name="probe", ok=False, detail="none"),
        Checked(name="p", ok=True, detail="1 of 2", state="no", advice="do", readiness=True),
    ]
    assert checks_json(done) == {
        "schema": "tracemend.doctor/1",
        "ok": False,
        "checks": [
            {"name": "python", "state": "ok", "detail": "3.12", "advice": ""},
            {"name": "probe", "state": "bad", "detail": "none", "advice": ""},
        ],
        "readiness": [{"name": "p", "state": "no", "evidence": "1 of 2", "advice": "do"}],
    }


TRACES = [
    trace_of(span(0, "AGENT", "agent", trace=n, parent=None, at=float(7 * n % 12)))
    for n in range(12)
]


def test_the_newest_traces_of_a_window_are_kept() -> None:
    ordered = sorted(TRACES, key=lambda t: t.started_at)
    found = asyncio.run(newest_traces(MemorySource(TRACES, batch=5), TraceQuery(), keep=4))
    assert [t.started_at for t in found.traces] == [t.started_at for t in ordered[-4:]]
    assert found.said == "traces are whole (the newest of 12 read)"
    everything = asyncio.run(newest_traces(MemorySource(TRACES), TraceQuery()))
    assert everything.said == "traces are whole (all 12 read)"


class Stuck(MemorySource):
    """Gives its traces and then nothing more."""

    async def window(self, query: TraceQuery) -> AsyncIterator[TraceBatch]:
        async for batch in super().window(query):
            yield batch
        await asyncio.Event().wait()


class Broken(MemorySource):
    """Gives its traces and then breaks off."""

    async def window(self, query: TraceQuery) -> AsyncIterator[TraceBatch]:
        async for batch in super().window(query):
            yield batch
        raise SourceError("gone", backend="test", operation="window", retryable=False)


def test_reading_is_bounded_and_what_was_read_is_used_and_said() -> None:
    slow = asyncio.run(newest_traces(Stuck(TRACES), TraceQuery(), within_s=0.2))
    assert (len(slow.traces), slow.said.count("reading stopped after 0.2 s")) == (12, 1)
    broken = asyncio.run(newest_traces(Broken(TRACES), TraceQuery()))
    assert (len(broken.traces), broken.said.count("reading broke off")) == (12, 1)
    with pytest.raises(SourceError, match="gone"):
        asyncio.run(newest_traces(Broken([]), TraceQuery()))
