"""Vendor-free traces: what every source yields and every detector reads."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NewType

from contracts.json_types import Json

TraceId = NewType("TraceId", str)
SpanId = NewType("SpanId", str)

SpanKind = Literal["agent", "llm", "tool", "retriever", "chain", "embedding", "guardrail", "other"]
SpanStatus = Literal["ok", "error", "unset", "interrupted"]
"""What the recorder said. "ok" and "unset" do not mean that the step worked; "interrupted" is a
pause for a person (a graph interrupt), never a failure."""

ReadStatus = Literal["complete", "partial", "pending"]
"""How much of what was asked for was read. What is concluded from "partial" says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """Input or output of one span.

    `text` is what was recorded, cut at the reader's cap; `value` is the parsed JSON when the text
    is JSON (or the recorded structure), else None.
    """

    text: str
    value: Json = None
    size_bytes: int
    """Size of the whole recorded text, before any cut."""
    truncated: bool = False
    sha256: str
    """Of the whole recorded text, before any cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanError:
    """An exception or error status as recorded."""

    type: str | None
    message: str
    stack: str | None = None


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
    """Where an earlier read of the same window stopped (`TraceBatch.cursor`); None: from the start."""


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
