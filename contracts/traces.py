"""Vendor-free traces: what every source yields and every detector reads."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Final, Literal, NewType, cast

import orjson

from contracts.json_types import Json, sha256_hex

TraceId = NewType("TraceId", str)
SpanId = NewType("SpanId", str)

SpanKind = Literal["agent", "llm", "tool", "retriever", "chain", "embedding", "guardrail", "other"]
SpanStatus = Literal["ok", "error", "unset", "interrupted"]
"""What the recorder said. "ok" and "unset" do not mean that the step worked; "interrupted" is a
pause for a person (a graph interrupt), never a failure."""

ReadStatus = Literal["complete", "partial", "pending"]
"""How much of what was asked for was read. What is concluded from "partial" says so."""


class _Unread(Enum):
    """A parsed value that nobody asked for yet."""

    UNREAD = 0


class Payload:
    """Input or output of one span. Immutable.

    `text` is what was recorded, cut at the reader's cap; `value` is the parsed JSON when the text
    is JSON (or the recorded structure), else None. Both the parse and the hash are made when they
    are first asked for: most payloads are never looked into.
    """

    __slots__ = ("_sha256", "_value", "size_bytes", "text", "truncated")

    def __init__(
        self,
        *,
        text: str,
        size_bytes: int,
        value: Json | _Unread = _Unread.UNREAD,
        truncated: bool = False,
        sha256: str | None = None,
    ) -> None:
        """Keep what was recorded.

        Args:
            text: what was recorded, or the part of it that is kept.
            size_bytes: of the whole recorded text, before any cut.
            value: what it holds, where that is known already; None: it is no JSON, or was cut.
            truncated: whether `text` is only a part.
            sha256: of the whole recorded text; needed when it was cut.
        """
        if truncated and sha256 is None:
            raise ValueError("a cut payload needs the hash of the whole")
        self.text: Final = text
        self.size_bytes: Final = size_bytes
        self.truncated: Final = truncated
        self._value = None if truncated and value is _Unread.UNREAD else value
        self._sha256 = sha256

    @property
    def value(self) -> Json:
        """The parsed JSON, or the recorded structure; None for text that is no JSON."""
        if isinstance(self._value, _Unread):
            self._value = _parsed(self.text)
        return self._value

    @property
    def sha256(self) -> str:
        """Of the whole recorded text, before any cut."""
        if self._sha256 is None:
            self._sha256 = sha256_hex(self.text.encode("utf-8", "surrogatepass"))
        return self._sha256

    def __eq__(self, other: object) -> bool:
        """Equal when the whole recorded texts are."""
        if not isinstance(other, Payload):
            return NotImplemented
        mine = (self.size_bytes, self.truncated, self.text)
        return mine == (other.size_bytes, other.truncated, other.text) and (
            not self.truncated or self.sha256 == other.sha256
        )

    def __hash__(self) -> int:
        """By the kept text."""
        return hash((self.size_bytes, self.text))

    def __repr__(self) -> str:
        """Sizes only: the text is somebody's data."""
        return f"Payload({self.size_bytes} bytes{', cut' if self.truncated else ''})"


def _parsed(text: str) -> Json:
    if text[:1] not in ("{", "[", " ", "\n", "\t", "\r"):
        return None
    try:
        return cast("Json", orjson.loads(text))
    except ValueError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanError:
    """An exception or error status as recorded."""

    type: str | None
    message: str
    stack: str | None = None


OWN_SCORE = "tracemend."
"""How the names of scores begin that we wrote: they are never evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A judgement recorded beside a trace: an evaluator's score, or what a user thought of it."""

    name: str
    value: float | bool | str | None
    """As recorded; None where only a comment was left."""
    source: str
    """Who judged: `eval`, `annotation`, `api`, `user`, or the backend's own word in lower case."""
    comment: str | None = None
    span_id: SpanId | None = None
    """None: it is about the whole trace (or its session)."""
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One chat message of a model call. `tool_calls` holds (id, name, raw arguments)."""

    role: str
    content: str
    tool_call_id: str | None = None
    tool_calls: tuple[tuple[str | None, str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One step of a trace."""

    id: SpanId
    trace_id: TraceId
    parent_id: SpanId | None
    name: str
    kind: SpanKind
    status: SpanStatus
    started_at: datetime
    """Aware UTC."""
    ended_at: datetime | None
    """None: the step was never closed."""
    error: SpanError | None = None
    input: Payload | None = None
    output: Payload | None = None
    tool_name: str | None = None
    """The tool's name for kind "tool"; falls back to the span's name there."""
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    """None is unknown, never zero. Only model calls carry tokens and cost: nothing counts twice."""
    messages_in: tuple[Message, ...] = ()
    messages_out: tuple[Message, ...] = ()
    finish_reason: str | None = None
    prompt_name: str | None = None
    prompt_version: str | None = None
    """Of the managed prompt that the step was made with, where the recorder linked one."""
    attributes: Mapping[str, Json] = field(default_factory=dict)
    """Small recorded attributes; keys under `tracemend.` are marks made by the reader."""
    virtual: bool = False
    """Made by the reader to hang orphans under; not counted as read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One execution of an agent: its spans, parents before children, by start time."""

    id: TraceId
    spans: tuple[Span, ...]
    session_id: str | None = None
    user_id: str | None = None
    environment: str | None = None
    release: str | None = None
    own: bool = False
    """Recorded by one of our own probe runs; sources leave these out and count them."""
    orphans: int = 0
    """Spans whose parent is missing."""
    pending: bool = False
    """Its root was still open when it was read: neither a failure nor a success."""
    timeless: bool = False
    """No time was recorded: the order of its spans means something, their times do not."""
    name: str | None = None
    version: str | None = None
    tags: tuple[str, ...] = ()
    scores: tuple[Score, ...] = ()
    resource: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.spans:
            raise ValueError(f"trace {self.id!r} has no spans")

    @property
    def root(self) -> Span:
        """The first span without a parent (the virtual root when orphans hang under one)."""
        return self.spans[0]

    @property
    def asked(self) -> Span:
        """The span that holds request and answer: the root, or the first agent under a bare one."""
        if self.root.input is not None:
            return self.root
        inner = (span for span in self.spans if span.kind == "agent" and span.input is not None)
        return next(inner, self.root)

    @property
    def unit(self) -> str:
        """What a rate counts: the session when there is one, else the trace."""
        return self.session_id or self.id

    @property
    def started_at(self) -> datetime:
        """Earliest start of a span."""
        return min(span.started_at for span in self.spans)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceQuery:
    """Which traces to read: those that start in [start, end); None is unbounded."""

    start: datetime | None = None
    end: datetime | None = None
    environment: str | None = None
    cursor: str | None = None
    """Where an earlier read of this window stopped (`TraceBatch.cursor`); None: the beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Something that was offered and not read, and why, in one line."""

    path: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReport:
    """What one read saw, so far: the last batch of a window carries the final one."""

    source: str
    format: str
    traces: int = 0
    spans: int = 0
    """Spans read, duplicates included, virtual roots not."""
    orphans: int = 0
    duplicates: int = 0
    truncated: int = 0
    """Payloads cut at the cap."""
    excluded_own: int = 0
    """Traces left out since our own probe recorded them."""
    skipped: tuple[Skipped, ...] = ()
    status: ReadStatus = "complete"
    pending: int = 0
    """Traces left out since they were still open."""
    why: str = ""
    """In one line, why this format or reader was taken."""
    marks: Mapping[str, int] = field(default_factory=dict)
    """Oddities that were kept and marked, by name (`clock_skew`, `outside_parent`, ...)."""
    requests: int = 0
    """Calls made to a backend; 0 for files."""


_WORST: Final[tuple[ReadStatus, ...]] = ("complete", "pending", "partial")


def add_reports(one: ReadReport, other: ReadReport) -> ReadReport:
    """One report of two reads of different traces: counts add up, the worse status stands."""
    marks = dict(one.marks)
    for name, count in other.marks.items():
        marks[name] = marks.get(name, 0) + count
    return ReadReport(
        source=_both(one.source, other.source),
        format=_both(one.format, other.format),
        traces=one.traces + other.traces,
        spans=one.spans + other.spans,
        orphans=one.orphans + other.orphans,
        duplicates=one.duplicates + other.duplicates,
        truncated=one.truncated + other.truncated,
        excluded_own=one.excluded_own + other.excluded_own,
        skipped=tuple(dict.fromkeys((*one.skipped, *other.skipped))),
        status=max(one.status, other.status, key=_WORST.index),
        pending=one.pending + other.pending,
        why=_both(one.why, other.why, "; "),
        marks=dict(sorted(marks.items())),
        requests=one.requests + other.requests,
    )


def _both(one: str, other: str, between: str = ", ") -> str:
    parts = dict.fromkeys(part for part in (one, other) if part and part != "none")
    return between.join(parts) or one or other


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceBatch:
    """Some whole traces of a window, and the report up to here."""

    traces: tuple[Trace, ...]
    read: ReadReport
    cursor: str | None = None
    """Goes into `TraceQuery.cursor` of a read that continues after this batch, in any process;
    None: this source starts again from the beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceInfo:
    """Answer of a source's check: can it be read, by which reader, and what to know about it."""

    source: str
    reachable: bool
    reader: str
    detail: str = ""
    newest: datetime | None = None
    """Start of the newest trace seen."""
    limits: str = ""
    """What the backend says of its rate limits, or what is assumed."""
    clock_offset_s: float | None = None
    """The backend's clock less ours; None: it did not say."""
    can_write: bool | None = None
    """Whether the key that reads can also write; None: not known."""
