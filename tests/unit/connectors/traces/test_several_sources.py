"""Several sources as one: order, duplicates, reports, what fails."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from connectors.traces.files import FilesSource
from connectors.traces.several import SeveralSources
from contracts.errors import SourceError, UsageError
from contracts.protocols import TraceSource
from contracts.traces import (
    ReadReport,
    ReadStatus,
    Skipped,
    SourceInfo,
    Trace,
    TraceBatch,
    TraceId,
    TraceQuery,
)
from tests.trace_worlds import root, tool, trace_id, trace_of


def traces(*numbers: int) -> list[Trace]:
    return [trace_of(root(trace=n), tool(1, "pay", {}, trace=n)) for n in numbers]


@dataclass
class Scripted:
    """A source of one trace a batch; its cursor is the number of those it gave away."""

    name: str
    held: Sequence[Trace]
    status: ReadStatus = "complete"
    fails_after: int | None = None
    resumes: bool = True
    asked: list[str | None] = field(default_factory=list)

    async def check(self) -> SourceInfo:
        newest = max((t.started_at for t in self.held), default=None)
        return SourceInfo(
            source=self.name, reachable=self.fails_after is None, reader=f"{self.name} reader",
            detail="down" if self.fails_after is not None else "", newest=newest,
            clock_offset_s=0.5,
        )  # fmt: skip

    async def window(self, query: TraceQuery) -> AsyncIterator[TraceBatch]:
        self.asked.append(query.cursor)
        first = int(query.cursor or "0")
        read = ReadReport(source=self.name, format="scripted", status=self.status, requests=1)
        for number in range(first, len(self.held)):
            self._fail_at(number)
            count = number - first + 1
            read = ReadReport(
                source=self.name, format="scripted", traces=count, spans=2 * count,
                status=self.status, requests=1, marks={"odd": count}, why=f"why {self.name}",
                skipped=(Skipped(path=self.name, why="x"),),
            )  # fmt: skip
            cursor = str(number + 1) if self.resumes else None
            yield TraceBatch(traces=(self.held[number],), read=read, cursor=cursor)
        self._fail_at(len(self.held))
        yield TraceBatch(traces=(), read=read, cursor=str(len(self.held)) if self.resumes else None)

    async def trace(self, trace_id: TraceId) -> Trace:
        self._fail_at(0)
        for trace in self.held:
            if trace.id == trace_id:
                return trace
        raise SourceError(f"no trace {trace_id!r} in {self.name}", backend="x", operation="trace")

    def _fail_at(self, number: int) -> None:
        if number == self.fails_after:
            raise SourceError(f"{self.name} is down", backend=self.name, operation="window")


async def read(
    source: TraceSource, query: TraceQuery | None = None
) -> tuple[list[str], list[TraceBatch]]:
    batches = [batch async for batch in source.window(query or TraceQuery())]
    return [t.id for batch in batches for t in batch.traces], batches


async def test_sources_are_read_in_order_and_their_reports_summed() -> None:
    ids, batches = await read(
        SeveralSources([Scripted("a", traces(0, 1)), Scripted("b", traces(2))])
    )
    assert ids == [trace_id(n) for n in range(3)]
    report = batches[-1].read
    assert report == ReadReport(
        source="a, b", format="scripted", traces=3, spans=6, requests=2, marks={"odd": 3},
        why="a: why a; b: why b",
        skipped=(Skipped(path="a", why="x"), Skipped(path="b", why="x")),
    )  # fmt: skip
    assert batches[0].read.traces == 1


async def test_a_trace_seen_in_an_earlier_source_is_left_out_and_counted() -> None:
    ids, batches = await read(
        SeveralSources([Scripted("a", traces(0, 1)), Scripted("b", traces(1, 2, 0))])
    )
    assert ids == [trace_id(n) for n in (0, 1, 2)]
    report = batches[-1].read
    assert (report.traces, report.spans, report.duplicates) == (3, 10, 4)


@pytest.mark.parametrize(
    ("states", "worst"),
    [
        (("complete", "pending"), "pending"),
        (("pending", "partial"), "partial"),
        (("partial", "complete"), "partial"),
        (("complete", "complete"), "complete"),
    ],
)
async def test_the_worst_status_stands(states: tuple[ReadStatus, ...], worst: str) -> None:
    sources = [Scripted(str(n), traces(n), status=state) for n, state in enumerate(states)]
    _, batches = await read(SeveralSources(sources))
    assert batches[-1].read.status == worst


@pytest.mark.parametrize("after", [0, 1])
async def test_one_source_that_fails_makes_the_read_partial_and_is_named(after: int) -> None:
    broken = Scripted("a", traces(0, 1), fails_after=after)
    ids, batches = await read(SeveralSources([broken, Scripted("b", traces(2))]))
    assert ids == [trace_id(n) for n in (*range(after), 2)]
    report = batches[-1].read
    assert report.status == "partial"
    assert report.skipped[-1] == Skipped(path="a", why="a is down")


async def test_a_last_source_that_fails_is_in_the_final_report() -> None:
    _, batches = await read(
        SeveralSources([Scripted("a", traces(0)), Scripted("b", [], fails_after=0)])
    )
    assert batches[-1].read.status == "partial"


async def test_all_sources_failing_is_an_error() -> None:
    down = [Scripted(name, [], fails_after=0) for name in "ab"]
    with pytest.raises(SourceError, match="no source can be read: a is down; b is down"):
        await read(SeveralSources(down))
    with pytest.raises(SourceError, match=r"\Aa is down"):
        await read(SeveralSources(down[:1]))
    with pytest.raises(UsageError, match="no trace source is configured"):
        SeveralSources([])


async def test_missing_files_alone_are_a_usage_error(tmp_path: Path) -> None:
    gone = [FilesSource([tmp_path / name]) for name in "ab"]
    with pytest.raises(UsageError, match="no such file"):
        await read(SeveralSources(gone))
    ids, batches = await read(SeveralSources([*gone, Scripted("b", traces(2))]))
    assert (ids, batches[-1].read.status) == ([trace_id(2)], "partial")


async def test_a_read_goes_on_in_the_source_and_place_of_its_cursor() -> None:
    held = {"a": traces(0, 1), "b": traces(2, 3)}

    def source() -> SeveralSources:
        return SeveralSources([Scripted(name, held[name]) for name in held])

    ids, batches = await read(source())
    for at, batch in enumerate(batches):
        given = [t.id for b in batches[: at + 1] for t in b.traces]
        rest, _ = await read(source(), TraceQuery(cursor=batch.cursor))
        assert given + rest == ids
    other = SeveralSources([Scripted("a", held["a"]), Scripted("c", held["b"])])
    with pytest.raises(UsageError, match="of another source or window"):
        await read(other, TraceQuery(cursor=batches[0].cursor))


async def test_a_source_that_cannot_go_on_gives_no_cursor() -> None:
    _, batches = await read(SeveralSources([Scripted("a", traces(0, 1), resumes=False)]))
    assert [batch.cursor for batch in batches] == [None, None, None]


async def test_a_trace_is_looked_for_everywhere() -> None:
    source = SeveralSources(
        [Scripted("a", [], fails_after=0), Scripted("b", traces(0)), Scripted("c", traces(1))]
    )
    assert (await source.trace(TraceId(trace_id(1)))).id == trace_id(1)
    with pytest.raises(SourceError, match=r"no trace 'ffff' in a, b, c \(a is down; no trace"):
        await source.trace(TraceId("ffff"))


async def test_a_check_names_every_source() -> None:
    info = await SeveralSources(
        [Scripted("a", traces(0)), Scripted("b", [], fails_after=0)]
    ).check()
    assert (info.reachable, info.source) == (False, "a, b")
    assert info.detail == "a: a reader; b: down"
    assert info.newest == traces(0)[0].started_at
    assert info.newest.astimezone(UTC) == info.newest
    assert isinstance(info.newest, datetime)
