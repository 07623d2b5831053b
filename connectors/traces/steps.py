"""A run written down step by step, to spans: the agent, its model calls, its tool calls.

One span for the agent, one for each message of a model, one for each call of a tool. A span's id
begins with its position, so that spans of one moment keep the order of the log. Where the log holds
no times, steps follow each other by a microsecond from zero on, and the agent's span is marked.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from connectors.traces.logged import json_text
from connectors.traces.raw import NO_TIMES, RawSpan
from contracts.json_types import Json, sha256_hex

STEP: Final = "tracemend.step"
"""Place of the message in its log, from zero."""

TICK_NS: Final = 1_000
MAX_NEWS: Final = 64  # messages since the last model call that are shown to the next one
MAX_PROMPTS: Final = 4  # system messages at the beginning that every call is shown
OPEN_CALLS: Final = 256  # calls that wait for their answer

TurnKind = Literal["system", "user", "agent", "tool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call that a model asked for."""

    id: str | None
    tool: str
    arguments: Json = None
    """As recorded: text or an object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One message of a log."""

    kind: TurnKind
    text: str = ""
    speaker: str = ""
    """The agent's name, where the log names it."""
    label: str = ""
    """Name of its span; empty: what the kind is called."""
    calls: tuple[Call, ...] = ()
    call_id: str | None = None
    """Of a tool's answer: the call that it answers."""
    tool: str = ""
    given: Json = None
    """Of a tool's answer to no recorded call: what the tool was given, if that is known."""
    failed: bool = False
    """The log itself says that the step failed."""
    error: str = ""
    """What the log says of the failure; empty: the text says it."""
    error_type: str = ""
    stack: str = ""
    at_ns: int | None = None
    ended_ns: int | None = None
    step: int | None = None
    attributes: Mapping[str, Json] = field(default_factory=dict)


class _Row(NamedTuple):
    """A message as a model call holds it."""

    role: str
    content: str
    call_id: str | None = None
    calls: tuple[tuple[Call, str], ...] = ()


@dataclass(slots=True)
class Recorder:
    """Collects the spans of one trace."""

    trace_id: str
    spans: list[RawSpan] = field(default_factory=list)
    timed: bool = False

    def lane(
        self,
        name: str,
        *,
        parent: RawSpan | None = None,
        began_ns: int | None = None,
        attributes: Mapping[str, Json] | None = None,
    ) -> "Lane":
        """An agent's run, within another one's step if `parent` is given.

        Args:
            name: the agent's name.
            parent: the step that started it.
            began_ns: the first time that the log holds; None: it holds none.
            attributes: of the agent's span.
        """
        self.timed |= began_ns is not None
        start = began_ns
        if start is None:
            start = 0 if parent is None or parent.start_ns is None else parent.start_ns
        root = self.add(name, "AGENT", parent, start, "")
        root.attributes.update(attributes or {})
        return Lane(recorder=self, root=root, now=start - TICK_NS)

    def add(self, name: str, kind: str, parent: RawSpan | None, at_ns: int, text: str) -> RawSpan:
        """A span of this kind; its id is made from its place and content."""
        place = len(self.spans)
        key = f"{self.trace_id}/{place}/{kind}/{name}/{text}"
        digest = sha256_hex(key.encode("utf-8", "surrogatepass"))
        span = RawSpan(
            trace_id=self.trace_id,
            span_id=f"{place:06x}{digest[:10]}",
            parent_id=None if parent is None else parent.span_id,
            name=name[:256],
            start_ns=at_ns,
            end_ns=None,
            attributes={"openinference.span.kind": kind},
        )
        self.spans.append(span)
        return span

    def done(self) -> list[RawSpan]:
        """All spans, marked where their times are none."""
        if not self.timed:
            for span in self.spans:
                if span.parent_id is None:
                    span.attributes[NO_TIMES] = True
        return self.spans


@dataclass(slots=True)
class Lane:
    """One agent's run: turns come in, in the order of the log."""

    recorder: Recorder
    root: RawSpan
    now: int
    request: str | None = None
    answer: str | None = None
    _prompts: list[_Row] = field(default_factory=list)
    _news: deque[tuple[str, _Row]] = field(default_factory=lambda: deque(maxlen=MAX_NEWS))
    _open: deque[tuple[Call, RawSpan]] = field(default_factory=lambda: deque(maxlen=OPEN_CALLS))
    begun: bool = False
    """Whether anything but system messages came in."""

    def take(self, turn: Turn) -> RawSpan | None:
        """The span of the turn; None where it is none by itself."""
        if turn.kind == "agent":
            return self.said(turn)
        if turn.kind == "tool":
            return self.answered(turn)
        self.heard(turn)
        return None

    def heard(self, turn: Turn) -> None:
        """A message to the model, from a person or from the program around it."""
        if turn.at_ns is not None:
            self.now = max(self.now, turn.at_ns - TICK_NS)
            self.recorder.timed = True
        row = _Row(turn.kind, turn.text)
        if turn.kind == "system" and not self.begun and len(self._prompts) < MAX_PROMPTS:
            self._prompts.append(row)
            return
        if turn.kind == "user" and self.request is None:
            self.request = turn.text
        self.begun = True
        self._news.append(("", row))

    def said(self, turn: Turn, prompt: str = "", *, kind: str = "LLM") -> RawSpan:
        """A message of the model, with the calls that it asks for.

        Args:
            turn: the message.
            prompt: the speaker's own system prompt, where each of several agents has one.
            kind: of the span; a step without a model call is no "LLM".
        """
        self.begun = True
        calls = tuple((call, json_text(call.arguments)) for call in turn.calls)
        row = _Row("assistant", turn.text, None, calls)
        span = self._span(turn, turn.label or turn.speaker or "model", kind)
        for place, sent in enumerate(self._sent(turn.speaker, prompt)):
            _write(span.attributes, "input", place, sent)
        _write(span.attributes, "output", 0, row)
        if turn.text or not calls:
            span.attributes["output.value"] = turn.text
        if turn.speaker:
            span.attributes["graph.node.id"] = turn.speaker
        self._news.clear()
        self._news.append((turn.speaker, row))
        self.answer = turn.text if turn.text or not calls else None
        for call, text in calls:
            self._open.append((call, self._called(call, text, turn.step)))
        return span

    def answered(self, turn: Turn) -> RawSpan:
        """A tool's answer, at the span of the call that it answers."""
        self.begun = True
        span = self._asked(turn)
        if span is None:
            text = json_text(turn.given)
            call = Call(id=turn.call_id, tool=turn.tool or turn.speaker or "tool")
            span = self._called(call, text, turn.step, turn.at_ns)
        elif turn.ended_ns is not None and turn.at_ns is not None:
            span.start_ns = max(span.start_ns or 0, turn.at_ns)
        end = turn.at_ns if turn.ended_ns is None else turn.ended_ns
        span.end_ns = self._clock(end)
        span.attributes["output.value"] = turn.text
        span.attributes.update(turn.attributes)
        _failed(span, turn)
        self._news.append(("", _Row("tool", turn.text, turn.call_id)))
        return span

    def close(
        self,
        *,
        request: str | None = None,
        answer: str | None = None,
        ended_ns: int | None = None,
        failed: Turn | None = None,
    ) -> None:
        """The end of the run, with what the log says of it as a whole.

        Args:
            request: what it was asked; None: what a person said first.
            answer: what it ended with; None: what the model said last.
            ended_ns: None: when its last step ended.
            failed: how the log says that the run failed.
        """
        root = self.root
        asked = self.request if request is None else request
        ended = self.answer if answer is None else answer
        if asked is not None:
            root.attributes["input.value"] = asked
        if ended is not None:
            root.attributes["output.value"] = ended
        root.end_ns = self._clock(ended_ns)
        if failed is not None:
            _failed(root, failed)

    def _span(self, turn: Turn, name: str, kind: str) -> RawSpan:
        span = self.recorder.add(name, kind, self.root, self._clock(turn.at_ns), turn.text)
        span.end_ns = span.start_ns if turn.ended_ns is None else self._clock(turn.ended_ns)
        if turn.step is not None:
            span.attributes[STEP] = turn.step
        span.attributes.update(turn.attributes)
        _failed(span, turn)
        return span

    def _called(
        self, call: Call, arguments: str, step: int | None, at_ns: int | None = None
    ) -> RawSpan:
        name = call.tool or "tool"
        span = self.recorder.add(name, "TOOL", self.root, self._clock(at_ns), arguments)
        span.attributes["tool.name"] = name
        if arguments:
            span.attributes["input.value"] = arguments
        if step is not None:
            span.attributes[STEP] = step
        return span

    def _asked(self, turn: Turn) -> RawSpan | None:
        """The open call that is answered: by id, else by name, else the oldest."""
        found: tuple[Call, RawSpan] | None = None
        if turn.call_id is not None:
            found = next((one for one in reversed(self._open) if one[0].id == turn.call_id), None)
        if found is None:
            free = [one for one in self._open if turn.call_id is None or one[0].id is None]
            named = [one for one in free if one[0].tool == turn.tool]
            found = next(iter(named or ([] if turn.tool and turn.call_id is None else free)), None)
        if found is None:
            return None
        self._open.remove(found)
        return found[1]

    def _sent(self, speaker: str, prompt: str) -> Iterator[_Row]:
        """What the call was shown that none before it was: the history is not repeated."""
        yield from self._prompts
        if prompt:
            yield _Row("system", prompt)
        for said_by, row in self._news:
            others = row.role == "assistant" and said_by != speaker
            yield _Row("user", row.content) if others else row

    def _clock(self, recorded_ns: int | None) -> int:
        """The step's time: as recorded, but always after the step that stands above it."""
        after = self.now + TICK_NS
        self.now = after if recorded_ns is None else max(recorded_ns, after)
        self.recorder.timed |= recorded_ns is not None
        return self.now


@lru_cache(maxsize=512)
def _keys(side: str, place: int) -> tuple[str, str, str, str]:
    """Keys of a message's role, content, answered call, and calls."""
    here = f"llm.{side}_messages.{place}.message"
    return f"{here}.role", f"{here}.content", f"{here}.tool_call_id", f"{here}.tool_calls"


def _write(attributes: dict[str, Json], side: str, place: int, row: _Row) -> None:
    """The message as attributes of OpenInference."""
    role, content, answered, called = _keys(side, place)
    attributes[role] = row.role
    attributes[content] = row.content
    if row.call_id is not None:
        attributes[answered] = row.call_id
    for number, (call, arguments) in enumerate(row.calls):
        here = f"{called}.{number}.tool_call"
        attributes[f"{here}.function.name"] = call.tool
        attributes[f"{here}.function.arguments"] = arguments
        if call.id is not None:
            attributes[f"{here}.id"] = call.id


def _failed(span: RawSpan, turn: Turn) -> None:
    if not turn.failed:
        return
    message = turn.error or turn.text
    span.status = "error"
    span.status_message = message
    if turn.error_type or turn.stack:
        event = {
            "exception.type": turn.error_type,
            "exception.message": message,
            "exception.stacktrace": turn.stack,
        }
        span.events.append(("exception", event))


def first_time(turns: Sequence[Turn]) -> int | None:
    """The first time that the log holds."""
    return next((turn.at_ns for turn in turns if turn.at_ns is not None), None)
