"""A profile of the agent, also when nothing fails: what it calls, how long it takes, what it costs.

Counted in one pass, in memory that has a bound, and mergeable: two profiles of different traces
give the profile of both, whatever the order or partition. Names beyond `MAX_NAMES` of a table are
counted together, under `(other)`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, Self, TypeVar

from contracts.protocols import TraceSource
from contracts.traces import ReadReport, Span, TraceQuery
from nodes.insights.critical_path import Piece, critical_path, extent
from nodes.insights.detect.all import Detected, detect
from nodes.insights.detect.faults import Scans
from nodes.insights.detect.view import View
from nodes.insights.lowest import rank
from nodes.insights.quantiles import Histogram
from nodes.insights.signature import clean

MAX_NAMES = 500
NAME_CHARS = 96
REST = "(other)"
_NUMBER = re.compile(r"(?<=\S)[\s#]+\d+\Z")


class Merges(Protocol):
    """Something that another one of its kind can be added to."""

    def merge(self, other: Self) -> None: ...


V = TypeVar("V", bound=Merges)


@dataclass(slots=True)
class Known:
    """A sum of numbers that are not always known; unknown is not zero."""

    parts: int = 0
    """The sum in units of 1e-12: adding up in another order gives the same."""
    known: int = 0
    unknown: int = 0

    def add(self, value: float | None) -> None:
        """Count a number, or that there was none."""
        if value is None:
            self.unknown += 1
        else:
            self.known += 1
            self.parts += round(value * 1e12)

    def merge(self, other: "Known") -> None:
        """Take in another sum."""
        self.parts += other.parts
        self.known += other.known
        self.unknown += other.unknown

    @property
    def total(self) -> float | None:
        """The sum of what is known; None: nothing is."""
        return self.parts / 1e12 if self.known else None

    @property
    def share(self) -> float | None:
        """How much of it is known, 0..1; None: nothing was counted."""
        of = self.known + self.unknown
        return self.known / of if of else None


@dataclass(slots=True)
class Row:
    """One tool, model or step."""

    calls: int = 0
    errors: int = 0
    """Recorded as errors."""
    failures: int = 0
    """Calls with a symptom that counts, silent ones too."""
    open: int = 0
    """Never closed: how long they took is not known."""
    seconds: Histogram = field(default_factory=Histogram)
    input_tokens: Known = field(default_factory=Known)
    output_tokens: Known = field(default_factory=Known)
    cost_usd: Known = field(default_factory=Known)

    def merge(self, other: "Row") -> None:
        """Take in another row."""
        self.calls += other.calls
        self.errors += other.errors
        self.failures += other.failures
        self.open += other.open
        self.seconds.merge(other.seconds)
        self.input_tokens.merge(other.input_tokens)
        self.output_tokens.merge(other.output_tokens)
        self.cost_usd.merge(other.cost_usd)


@dataclass(slots=True)
class Time:
    """Seconds of critical paths."""

    microseconds: int = 0
    times: int = 0
    traces: int = 0

    def merge(self, other: "Time") -> None:
        """Take in another one."""
        self.microseconds += other.microseconds
        self.times += other.times
        self.traces += other.traces


@dataclass(slots=True)
class Table(Generic[V]):
    """Values by name; beyond `MAX_NAMES` the names of highest hash are counted together.

    Which names keep a row depends on the set of names alone: what was pushed out once ranks above
    all that stay, so nothing of it can come back.
    """

    make: Callable[[], V]
    rows: dict[str, V] = field(default_factory=dict)
    rest: V | None = None
    limit: int | None = None

    def at(self, name: str) -> V:
        """The value of the name, or the one of all that did not fit."""
        if name in self.rows:
            return self.rows[name]
        if self.limit is not None and rank(name) >= self.limit:
            return self._rest()
        self.rows[name] = self.make()
        self._shrink()
        return self.rows[name] if name in self.rows else self._rest()

    def merge(self, other: "Table[V]") -> None:
        """Take in another table."""
        for name, value in other.rows.items():
            self.at(name).merge(value)
        if other.rest is not None:
            self._rest().merge(other.rest)
        if other.limit is not None:
            self.limit = other.limit if self.limit is None else min(self.limit, other.limit)
            for name in [name for name in self.rows if rank(name) >= self.limit]:
                self._rest().merge(self.rows.pop(name))

    def _shrink(self) -> None:
        if len(self.rows) > MAX_NAMES:
            worst = max(self.rows, key=lambda n: (rank(n), n))
            self.limit = rank(worst)
            self._rest().merge(self.rows.pop(worst))

    def _rest(self) -> V:
        if self.rest is None:
            self.rest = self.make()
        return self.rest

    def listed(self) -> list[tuple[str, V]]:
        """Every row, and the rest under `REST`."""
        return [*self.rows.items(), *([(REST, self.rest)] if self.rest is not None else [])]


@dataclass(slots=True)
class Profile:
    """Everything that is counted over traces."""

    traces: int = 0
    timeless: int = 0
    """Without any time: they count in calls, not in seconds."""
    failed: int = 0
    """With a symptom that counts."""
    seconds: Histogram = field(default_factory=Histogram)
    """End to end, by trace."""
    llm_calls: Histogram = field(default_factory=Histogram)
    """By trace."""
    tool_calls: Histogram = field(default_factory=Histogram)
    tools: Table[Row] = field(default_factory=lambda: Table(Row))
    models: Table[Row] = field(default_factory=lambda: Table(Row))
    steps: Table[Row] = field(default_factory=lambda: Table(Row))
    path: Table[Time] = field(default_factory=lambda: Table(Time))
    """Seconds of critical paths by step."""
    waits: Table[Time] = field(default_factory=lambda: Table(Time))
    """Seconds of critical paths in which no recorded step ran, by where."""

    def add(self, detected: Detected) -> None:
        """Count one trace."""
        view = detected.view
        trace = view.trace
        self.traces += 1
        self.failed += detected.failed
        failing = {symptom.span_id for symptom in detected.symptoms if symptom.counts}
        spans = [span for span in trace.spans if not span.virtual]
        for span in spans:
            one = _row_of(span, timeless=trace.timeless, fails=span.id in failing)
            self.steps.at(_step(view, span)).merge(one)
            if span.kind == "llm":
                self.models.at(_name(span.model or "(not named)")).merge(one)
            elif span.kind == "tool":
                self.tools.at(_name(span.tool_name or span.name)).merge(one)
        self.llm_calls.add(sum(span.kind == "llm" for span in spans))
        self.tool_calls.add(sum(span.kind == "tool" for span in spans))
        if trace.timeless:
            self.timeless += 1
        else:
            start, end = extent(trace)
            self.seconds.add(end - start)
            self._add_path(view, critical_path(trace))

    def _add_path(self, view: View, pieces: list[Piece]) -> None:
        here: dict[tuple[bool, str], Time] = {}
        for piece in pieces:
            name = _where(view, piece) if piece.wait else _step(view, piece.span)
            one = here.setdefault((piece.wait, name), Time(traces=1))
            one.microseconds += round(piece.seconds * 1e6)
            one.times += 1
        for (wait, name), one in here.items():
            (self.waits if wait else self.path).at(name).merge(one)

    def merge(self, other: "Profile") -> None:
        """Take in the profile of other traces."""
        self.traces += other.traces
        self.timeless += other.timeless
        self.failed += other.failed
        self.seconds.merge(other.seconds)
        self.llm_calls.merge(other.llm_calls)
        self.tool_calls.merge(other.tool_calls)
        self.tools.merge(other.tools)
        self.models.merge(other.models)
        self.steps.merge(other.steps)
        self.path.merge(other.path)
        self.waits.merge(other.waits)


def _row_of(span: Span, *, timeless: bool, fails: bool) -> Row:
    """One call."""
    failed = span.status == "error" or span.error is not None
    row = Row(calls=1, errors=int(failed), failures=int(fails))
    if span.ended_at is None:
        row.open = 1
    elif not timeless:
        row.seconds.add((span.ended_at - span.started_at).total_seconds())
    if span.kind in ("llm", "embedding"):
        row.input_tokens.add(span.input_tokens)
        row.output_tokens.add(span.output_tokens)
        row.cost_usd.add(span.cost_usd)
    return row


def _step(view: View, span: Span) -> str:
    """Kind and place, such as `llm agent` or `tool search`."""
    return f"{span.kind} {_name(view.place(span))}"


def _where(view: View, piece: Piece) -> str:
    inside = _step(view, piece.span)
    after, before = _name(piece.after or "its start"), _name(piece.before or "its end")
    return f"{inside}: {after} → {before}"


def _name(text: str) -> str:
    """Fit for a table; `Step 3` and `Step 4` are one step."""
    return _NUMBER.sub("", clean(text, NAME_CHARS)).strip() or "(no name)"


async def profile_of(source: TraceSource, query: TraceQuery) -> tuple[Profile, ReadReport]:
    """Read a window and count it, one batch in memory at a time.

    Raises:
        UsageError: nothing there can be read at all.
        SourceError: the source is unreachable.
    """
    profile, scans = Profile(), Scans()
    report = ReadReport(source=source.name, format="none")
    async for batch in source.window(query):
        for trace in batch.traces:
            profile.add(detect(trace, scans))
        report = batch.read
    return profile, report
