"""Several trace sources read as one, one after the other."""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import reduce

from connectors.traces.cursors import read_cursor, write_cursor
from contracts.errors import ConnectorError, SourceError, TracemendError, UsageError
from contracts.json_types import Json
from contracts.protocols import TraceSource
from contracts.traces import (
    ReadReport,
    Skipped,
    SourceInfo,
    Trace,
    TraceBatch,
    TraceId,
    TraceQuery,
    add_reports,
)


class SeveralSources:
    """Sources of one agent; implements `contracts.protocols.TraceSource`.

    A trace id that an earlier source gave away is left out, and its spans count as duplicates. A
    read that goes on from a cursor does not know what the sources before it gave away.
    """

    def __init__(self, sources: Sequence[TraceSource]) -> None:
        """Take sources in the order in which they are read.

        Raises:
            UsageError: there is none.
        """
        if not sources:
            raise UsageError("no trace source is configured")
        self.name = ", ".join(source.name for source in sources)
        self._sources = tuple(sources)

    async def check(self) -> SourceInfo:
        """One answer for all: reachable where every source is; each is named in the detail."""
        infos = [await source.check() for source in self._sources]
        details = [f"{info.source}: {_said(info)}" for info in infos]
        offsets = [info.clock_offset_s for info in infos if info.clock_offset_s is not None]
        writes = [info.can_write for info in infos]
        return SourceInfo(
            source=", ".join(info.source for info in infos),
            reachable=all(info.reachable for info in infos),
            reader=", ".join(dict.fromkeys(info.reader for info in infos)),
            detail="; ".join(details),
            newest=max((info.newest for info in infos if info.newest), default=None),
            limits="; ".join(f"{info.source}: {info.limits}" for info in infos if info.limits),
            clock_offset_s=max(offsets, key=abs, default=None),
            can_write=True if True in writes else None if None in writes else False,
        )

    async def window(self, query: TraceQuery) -> AsyncIterator[TraceBatch]:
        """The windows of all sources; the reports are summed and the worst status stands.

        Raises:
            UsageError: no source has anything that can be read, or the cursor is of another read.
            SourceError: no source is reachable.
        """
        last = len(self._sources) - 1
        identity: Json = [self.name, _iso(query.start), _iso(query.end), query.environment]
        first, begin = _place(read_cursor(identity, query.cursor), last)
        total = _Total()
        errors: list[TracemendError] = []
        cursor = query.cursor
        for number in range(first, last + 1):
            source = self._sources[number]
            batches = source.window(replace(query, cursor=begin))
            try:
                async for batch in batches:
                    cursor = _cursor(identity, number, batch.cursor)
                    traces = total.add(batch, remember=number < last)
                    if traces:
                        yield TraceBatch(traces=traces, read=total.report(self.name), cursor=cursor)
            except (ConnectorError, UsageError) as error:
                if begin is not None and isinstance(error, UsageError):
                    raise  # it is about the cursor
                errors.append(error)
                total.fail(source.name, error)
            finally:
                if isinstance(batches, AsyncGenerator):
                    await batches.aclose()
            total.next_source()
            begin = None
        if len(errors) > last - first and total.nothing:
            raise _none_left(errors, self.name)
        yield TraceBatch(traces=(), read=total.report(self.name), cursor=cursor)

    async def trace(self, trace_id: TraceId) -> Trace:
        """The trace from the first source that has it.

        Raises:
            SourceError: none has it; which of them could not be asked is said.
        """
        why = []
        for source in self._sources:
            try:
                return await source.trace(trace_id)
            except (ConnectorError, UsageError) as error:
                why.append(str(error))
        raise SourceError(
            f"no trace {trace_id!r} in {self.name} ({'; '.join(why)})",
            backend=self.name, operation="trace",
        )  # fmt: skip


class _Total:
    """The report of all sources so far, and which traces were given away."""

    def __init__(self) -> None:
        self.nothing = True
        self._before: list[ReadReport] = []
        self._now: ReadReport | None = None
        self._left_out = 0
        self._left_out_spans = 0
        self._failed: list[Skipped] = []
        self._given: set[int] = set()

    def add(self, batch: TraceBatch, *, remember: bool) -> tuple[Trace, ...]:
        """Those traces of the batch that no source before gave away."""
        self.nothing = False
        self._now = batch.read
        new = []
        for trace in batch.traces:
            if _hash(trace.id) in self._given:
                self._left_out += 1
                self._left_out_spans += sum(not span.virtual for span in trace.spans)
                continue
            new.append(trace)
        if remember:
            self._given.update(_hash(trace.id) for trace in new)
        return tuple(new)

    def fail(self, name: str, error: TracemendError) -> None:
        """A source broke off or could not be asked at all."""
        self._failed.append(Skipped(path=name, why=str(error)))

    def next_source(self) -> None:
        if self._now is not None:
            self._before.append(self._now)
            self._now = None

    def report(self, name: str) -> ReadReport:
        reports = [*self._before, *([self._now] if self._now is not None else [])]
        said = (replace(r, why=f"{r.source}: {r.why}" if r.why else "") for r in reports)
        whole = reduce(add_reports, said, ReadReport(source="", format="none"))
        return replace(
            whole,
            source=whole.source or name,
            traces=whole.traces - self._left_out,
            duplicates=whole.duplicates + self._left_out_spans,
            skipped=(*whole.skipped, *self._failed),
            status="partial" if self._failed else whole.status,
        )


def _hash(text: str) -> int:
    """8 bytes in place of an id: a million of them are held."""
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest())


def _cursor(identity: Json, number: int, inner: str | None) -> str | None:
    if inner is None:  # this source cannot go on, so neither can the whole
        return None
    return write_cursor(identity, {"source": number, "cursor": inner})


def _place(place: dict[str, Json] | None, last: int) -> tuple[int, str | None]:
    """Number of the source to go on with, and its own cursor."""
    if place is None:
        return 0, None
    number, inner = place.get("source"), place.get("cursor")
    if not isinstance(number, int) or not 0 <= number <= last or not isinstance(inner, str):
        raise UsageError("this is no cursor that a read gave away; start without one")
    return number, inner


def _none_left(errors: Sequence[TracemendError], name: str) -> TracemendError:
    if len(errors) == 1 or all(isinstance(error, UsageError) for error in errors):
        return errors[0]
    why = "; ".join(map(str, errors))
    return SourceError(f"no source can be read: {why}", backend=name, operation="window")


def _iso(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment is not None else None


def _said(info: SourceInfo) -> str:
    if not info.reachable:
        return info.detail or "not reachable"
    return f"{info.reader}{', ' if info.detail else ''}{info.detail}"
