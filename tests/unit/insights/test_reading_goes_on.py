"""An analysis that stopped half-way goes on from the source's cursor and finds the same."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.errors import SourceError
from contracts.traces import ReadReport, SourceInfo, Trace, TraceBatch, TraceId, TraceQuery
from nodes.insights import analyze as analyzing
from nodes.insights.analyze import Analysis, analyze
from nodes.insights.report import analysis_json
from nodes.insights.saved import Saved
from tests.trace_worlds import root, tool, trace_of

FAILURES = (None, ("KeyError", "no row 17"), ("TimeoutError", "504 from pay"), ("KeyError", "x"))


def trace(number: int) -> Trace:
    error = FAILURES[number % len(FAILURES)]
    spans = [
        root(f"request {number}", trace=number),
        tool(1, f"pay{number % 2}", {"n": number}, trace=number, error=error),
    ]
    return trace_of(*spans)


class Paged:
    """Traces by the page, with the number of the next one as cursor; may break off."""

    name = "paged"

    def __init__(self, traces: Sequence[Trace], page: int, breaks_after: int | None = None) -> None:
        self.traces = traces
        self.page = page
        self.breaks_after = breaks_after
        self.asked: list[int] = []

    async def check(self) -> SourceInfo:
        return SourceInfo(source=self.name, reachable=True, reader="paged")

    async def trace(self, trace_id: TraceId) -> Trace:
        return next(t for t in self.traces if t.id == trace_id)

    async def window(self, query: TraceQuery) -> AsyncIterator[TraceBatch]:
        at = int(query.cursor or 0)
        read = spans = 0
        while at < len(self.traces):
            self.asked.append(at)
            page = tuple(self.traces[at : at + self.page])
            at += self.page
            read, spans = read + len(page), spans + sum(len(t.spans) for t in page)
            report = ReadReport(source=self.name, format="paged", traces=read, spans=spans)
            yield TraceBatch(traces=page, read=report, cursor=str(at))
            if self.breaks_after is not None and at >= self.breaks_after:
                raise SourceError("killed here", backend=self.name, operation="window")


class Kept:
    """A log in memory."""

    def __init__(self) -> None:
        self.saved: dict[str, Saved] = {}

    async def load(self, part: str) -> Saved | None:
        return self.saved.get(part)

    async def save(self, part: str, saved: Saved) -> None:
        self.saved[part] = saved


def found(source: Paged, log: Kept | None, baseline: Paged | None = None) -> Analysis:
    before = (baseline, TraceQuery()) if baseline else None
    return asyncio.run(analyze(source, TraceQuery(), project="p", baseline=before, log=log))


@pytest.fixture(autouse=True)
def _every_batch_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyzing, "SAVE_EVERY_S", 0.0)


@given(count=st.integers(2, 40), page=st.integers(1, 7), stop=st.integers(1, 39))
def test_what_was_read_is_neither_read_again_nor_lost(count: int, page: int, stop: int) -> None:
    traces = [trace(n) for n in range(count)]
    whole = analysis_json(found(Paged(traces, page), None, Paged(traces[:3], 2)))
    log = Kept()
    broken = Paged(traces, page, breaks_after=stop)
    with suppress(SourceError):
        found(broken, log)
    after = Paged(traces, page)
    assert analysis_json(found(after, log, Paged(traces[:3], 2))) == whole
    assert not set(after.asked) & set(broken.asked)


def test_nothing_is_saved_for_a_source_that_starts_over(monkeypatch: pytest.MonkeyPatch) -> None:
    class Whole(Paged):
        async def window(self, query: TraceQuery) -> AsyncIterator[TraceBatch]:
            async for batch in super().window(query):
                yield TraceBatch(traces=batch.traces, read=batch.read)

    log = Kept()
    found(Whole([trace(n) for n in range(4)], 2), log)
    assert log.saved == {}


def test_a_saved_read_holds_no_session_ids() -> None:
    log = Kept()
    one = trace_of(
        root("q", also={"session.id": "ann@example.org"}),
        tool(1, "pay", {}, error=("KeyError", "x")),
    )
    with pytest.raises(SourceError):
        found(Paged([one], 1, breaks_after=1), log)
    assert "ann@" not in str(log.saved["window"])


def test_what_an_older_release_saved_is_read_anew() -> None:
    traces = [trace(n) for n in range(8)]
    whole = analysis_json(found(Paged(traces, 2), None))
    log = Kept()
    with suppress(SourceError):
        found(Paged(traces, 2, breaks_after=4), log)
    older = {k: v for k, v in log.saved["window"].tally.items() if k != "version"}
    log.saved["window"] = replace(log.saved["window"], tally=older)
    again = Paged(traces, 2)
    assert analysis_json(found(again, log)) == whole
    assert again.asked[0] == 0
