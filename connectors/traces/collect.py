"""Records of many traces, as a backend's pages bring them, to whole traces and their report.

    collector = Collector(source="phoenix:default", reader="phoenix-rest", query=query, cap=cap)
    collector.add(records, size_bytes=len(page))      # RawSpan, RawNote or None, of any traces
    traces = collector.take(ids)                      # of these ids nothing more will come
    yield collector.batch(traces, requests=calls.requests, cursor=cursor)

The reader says which traces are whole; the collector builds them, leaves out what is outside the
window, our own, or still open, and counts all of it once.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from connectors.traces.raw import Raw, RawNote, RawSpan
from connectors.traces.tree import Built, build_trace, in_window
from contracts.traces import ReadReport, Skipped, Trace, TraceBatch, TraceQuery

MAX_SKIPPED = 200  # entries of a report; further ones are counted in the last


@dataclass(slots=True)
class _Held:
    """Records of a trace of which more may come."""

    records: list[RawSpan | RawNote] = field(default_factory=list)
    size: int = 0


class Collector:
    """The traces of one read that are not whole yet, and the account of those that were."""

    def __init__(
        self,
        *,
        source: str,
        reader: str,
        query: TraceQuery,
        cap: int,
        environment: str | None = None,
        why: str = "",
    ) -> None:
        """Start an account.

        Args:
            source: as the report names it.
            reader: the format of the report, such as `phoenix-rest`.
            query: the window; traces outside are left out, uncounted.
            cap: characters of a message and bytes of a payload that are kept.
            environment: what the source itself is limited to.
            why: in one line, why this reader was taken.
        """
        self.why = why
        self.partial = False
        self.reader = reader
        self.source = source
        self._query = query
        self._cap = cap
        self._environment = environment
        self._held: dict[str, _Held] = {}
        self._counts: dict[str, int] = {}
        self._marks: dict[str, int] = {}
        self._skipped: list[Skipped] = []
        self._unlisted = 0
        self._nameless = 0
        self._elsewhere = 0

    @property
    def size_bytes(self) -> int:
        """What is held, as the sizes given to `add` say."""
        return sum(held.size for held in self._held.values())

    @property
    def waiting(self) -> tuple[str, ...]:
        """Ids of the traces of which something is held, in the order in which they came."""
        return tuple(self._held)

    def add(self, records: Iterable[Raw], *, size_bytes: int = 0) -> None:
        """Hold records, of any traces; the size is shared among them evenly."""
        found = list(records)
        known = [record for record in found if record is not None]
        self._nameless += len(found) - len(known)
        for record in known:
            held = self._held.setdefault(record.trace_id, _Held())
            held.records.append(record)
            held.size += size_bytes // len(known)

    def drop(self, trace_ids: Iterable[str]) -> None:
        """Forget what is held of these; they will be read again, or never."""
        for trace_id in trace_ids:
            self._held.pop(trace_id, None)

    def take(self, trace_ids: Iterable[str] | None = None) -> tuple[Trace, ...]:
        """Those of the named traces that belong into the window, by start; None: all that is held.

        Records of a trace without any span are dropped.
        """
        taken = []
        for trace_id in list(self._held) if trace_ids is None else dict.fromkeys(trace_ids):
            built = self._built(trace_id)
            if built is not None and self._inside(built.trace) and self._counted(built):
                taken.append(built.trace)
        return tuple(sorted(taken, key=lambda trace: (trace.started_at, trace.id)))

    def build(self, trace_id: str) -> Trace | None:
        """One trace as it is, whatever the window; counts nothing."""
        built = self._built(trace_id)
        return built.trace if built is not None else None

    def count(self, name: str, more: int = 1) -> None:
        """Add to a count of the report: `duplicates`, `pending`, `excluded_own`, ..."""
        self._counts[name] = self._counts.get(name, 0) + more

    def mark(self, name: str, more: int = 1) -> None:
        """Add to an oddity of the report."""
        self._marks[name] = self._marks.get(name, 0) + more

    def skip(self, path: str, why: str, *, partial: bool) -> None:
        """List something that was not read; `partial` where it belongs to what was asked for."""
        self.partial |= partial
        if len(self._skipped) < MAX_SKIPPED:
            self._skipped.append(Skipped(path=path, why=why))
        else:
            self._unlisted += 1

    def batch(
        self, traces: tuple[Trace, ...], *, requests: int, cursor: str | None = None
    ) -> TraceBatch:
        """The traces with the report up to here."""
        return TraceBatch(traces=traces, read=self.report(requests=requests), cursor=cursor)

    def report(self, *, requests: int) -> ReadReport:
        """What was read so far."""
        skipped = list(self._skipped)
        if self._nameless:
            why = f"{self._nameless} records without a trace or span id"
            skipped.append(Skipped(path=self.source, why=why))
        if self._elsewhere:
            why = f"{self._elsewhere} traces that do not say of which environment they are"
            skipped.append(Skipped(path=self.source, why=why))
        if self._unlisted:
            skipped.append(Skipped(path="...", why=f"and {self._unlisted} more of the same kind"))
        pending = self._counts.get("pending", 0)
        partial = self.partial or bool(self._nameless)
        return ReadReport(
            source=self.source,
            format=self.reader,
            traces=self._counts.get("traces", 0),
            spans=self._counts.get("spans", 0),
            orphans=self._counts.get("orphans", 0),
            duplicates=self._counts.get("duplicates", 0),
            truncated=self._counts.get("truncated", 0),
            excluded_own=self._counts.get("excluded_own", 0),
            skipped=tuple(skipped),
            status="partial" if partial else "pending" if pending else "complete",
            pending=pending,
            why=self.why,
            marks=dict(sorted(self._marks.items())),
            requests=requests,
        )

    def _built(self, trace_id: str) -> Built | None:
        held = self._held.pop(trace_id, None)
        if held is None or not any(isinstance(one, RawSpan) for one in held.records):
            return None
        return build_trace(held.records, self._cap)

    def _inside(self, trace: Trace) -> bool:
        if in_window(trace, self._query, self._environment):
            return True
        if trace.environment is None and in_window(trace, replace(self._query, environment=None)):
            self._elsewhere += 1
        return False

    def _counted(self, built: Built) -> bool:
        """Whether the trace is given away; what is left out is counted as such."""
        if built.trace.own or built.trace.pending:
            self.count("excluded_own" if built.trace.own else "pending")
            return False
        self.count("traces")
        self.count("spans", built.spans)
        self.count("orphans", built.trace.orphans)
        self.count("duplicates", built.duplicates)
        self.count("truncated", built.truncated)
        for name, more in built.marks.items():
            self.mark(name, more)
        return True
