"""What one recorded run says about its tools, and one run of the agent that lives in that world."""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from connectors.probe.replay_calls import (
    ArgumentsKey,
    RecordedCall,
    ToolAnswer,
    calls_of,
    key_of,
    masked_key,
)
from connectors.probe.wire import clean
from contracts.json_types import Json, canonical_json
from contracts.traces import Trace

_MADE_UP: Final = re.compile(
    r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
    r"|\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?",
    re.IGNORECASE,
)
_TOOL_CHARS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One recorded answer, and which writes it lies behind."""

    answer: ToolAnswer
    behind: Counter[int]
    """Writes that had ended when the call began, by queue."""
    beside: Counter[int]
    """Writes that were under way meanwhile: the answer may hold with or without them."""

    def holds(self, written: Counter[int]) -> bool:
        """Whether a run that has made these writes is where the recorded one was."""
        return self.behind <= written <= self.behind + self.beside


@dataclass(slots=True, kw_only=True)
class Queue:
    """The answers to equal calls of one tool, in the order recorded."""

    id: int
    writes: bool
    entries: list[Entry] = field(default_factory=list)

    @property
    def constant(self) -> bool:
        """Whether the recording shows that the answer does not change: asked twice, told once.

        A write is never repeated by it: one more of it is behind all that was recorded.
        """
        answers = [entry.answer for entry in self.entries]
        return len(answers) > 1 and all(answer == answers[0] for answer in answers)


@dataclass(frozen=True, slots=True)
class Recording:
    """The tool calls of one trace, ready to be asked again. Never changed once made."""

    source: str
    """Id of the trace."""
    input: Json
    tools: frozenset[str]
    exact: dict[tuple[str, ArgumentsKey], Queue]
    made_up: dict[tuple[str, ArgumentsKey], Queue]
    """With what the agent made up itself taken out of the arguments."""
    masked: dict[tuple[str, ArgumentsKey], list[Queue]]
    """With secrets and personal data masked."""
    bare: dict[tuple[str, str], Queue]
    """By a lone argument's value, where the recorder kept nothing else."""

    def find(self, tool: str, arguments: Json, known: Collection[str]) -> Queue | None:
        """The answers to this call; None: never recorded, or not to be told from another one.

        Raises:
            ValueError: the arguments are nested too deep.
        """
        exact = key_of(arguments)
        found = self.exact.get((tool, exact)) or self.made_up.get((tool, without(exact, known)))
        if found is None and isinstance(arguments, dict) and len(arguments) == 1:
            found = self.bare.get((tool, str(next(iter(arguments.values())))))
        if found is None:
            likely = self.masked.get((tool, masked_key(arguments)), [])
            found = likely[0] if len(likely) == 1 else None
        return found


def without(key: ArgumentsKey, known: Collection[str]) -> ArgumentsKey:
    """The key without ids (UUID) and times (RFC 3339) that the agent cannot have read anywhere."""
    return _MADE_UP.sub(lambda m: m.group() if m.group().lower() in known else "~", key)


def seen_in(text: str) -> set[str]:
    """The ids and times in a text."""
    return {found.lower() for found in _MADE_UP.findall(text)}


def record(trace: Trace, case_input: Json, writes: Collection[str]) -> Recording:
    """The recording of a trace whose agent was asked `case_input`; `writes` change something."""
    made = Recording(trace.id, case_input, frozenset(), {}, {}, {}, {})
    known = seen_in(canonical_json(case_input).decode("utf-8", "surrogatepass"))
    calls = calls_of(trace)
    queues: list[Queue | None] = []
    for call in calls:
        queues.append(_queue(made, call, known, call.tool in writes))
        known |= seen_in(call.answer.text)
    for at, (call, queue) in enumerate(zip(calls, queues, strict=True)):
        if queue is not None:
            behind, beside = _writes_around(calls, queues, at, timeless=trace.timeless)
            entry = Entry(answer=call.answer, behind=behind, beside=beside)
            queue.entries.append(entry)
    return Recording(
        made.source, case_input, frozenset(call.tool for call in calls), made.exact, made.made_up,
        made.masked, made.bare,
    )  # fmt: skip


def _queue(made: Recording, call: RecordedCall, known: set[str], writes: bool) -> Queue | None:
    """Where the call's answer goes; None: what was asked is not known."""
    if call.arguments is None:
        return None
    try:
        exact = key_of(call.arguments)
        masked = masked_key(call.arguments)
    except ValueError:
        return None
    loose = without(exact, known)
    found = made.exact.get((call.tool, exact)) or made.made_up.get((call.tool, loose))
    if found is None:
        found = Queue(id=len(made.exact), writes=writes)
    made.exact[call.tool, exact] = found
    made.made_up.setdefault((call.tool, loose), found)
    likely = made.masked.setdefault((call.tool, masked), [])
    if found not in likely:
        likely.append(found)
    if not isinstance(call.arguments, dict | list):
        made.bare.setdefault((call.tool, str(call.arguments)), found)
    return found


def _writes_around(
    calls: Sequence[RecordedCall], queues: Sequence[Queue | None], at: int, *, timeless: bool
) -> tuple[Counter[int], Counter[int]]:
    """Writes that ended before call `at` began, and those that were under way beside it."""
    behind: Counter[int] = Counter()
    beside: Counter[int] = Counter()
    this = calls[at]
    for other, (call, queue) in enumerate(zip(calls, queues, strict=True)):
        if other == at or queue is None or not queue.writes:
            continue
        if timeless:
            if other < at:
                behind[queue.id] += 1
        elif call.ended_at is not None and call.ended_at <= this.started_at:
            behind[queue.id] += 1
        elif this.ended_at is None or call.started_at < this.ended_at:
            beside[queue.id] += 1
    return behind, beside


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What a replayed call comes to.

    `through`: the tool may really be called. `refused` and `missing`: nothing was recorded, the
    tool is not called, and the run cannot be observed; a refused one would have changed something.
    """

    kind: Literal["answer", "through", "refused", "missing"]
    answer: ToolAnswer | None = None
    why: str = ""


class Session:
    """One run of the agent on one recording. Not for several threads at once.

    Attributes:
        missing: why the run cannot be observed; None while it can.
        asked: calls so far, by tool.
    """

    def __init__(
        self, recording: Recording | None, case_input: Json, *,
        fall_through: Collection[str], writes: Collection[str],
    ) -> None:  # fmt: skip
        """Begin where the recording begins; without one nothing is known to any call."""
        self.missing: str | None = None
        self.asked: Counter[str] = Counter()
        self._recording = recording
        self._through = frozenset(fall_through)
        self._writes = frozenset(writes)
        self._known = seen_in(canonical_json(case_input).decode("utf-8", "surrogatepass"))
        self._next: Counter[int] = Counter()
        self._written: Counter[int] = Counter()

    def call(self, tool: str, arguments: Json) -> Replayed:
        """The n-th of equal calls gets the n-th recorded answer that holds by now.

        After the first call that nothing is known of, every call is missing: the run is over.
        """
        self.asked[tool] += 1
        if self.missing is not None:
            return Replayed(kind="missing", why=self.missing)
        queue = self._find(tool, arguments)
        why = "no recording of"
        if queue is not None:
            entry = self._entry(queue)
            if entry is not None and entry.answer.kind != "unknown":
                self._known |= seen_in(entry.answer.text)
                if queue.writes:
                    self._written[queue.id] += 1
                return Replayed(kind="answer", answer=entry.answer)
            why = "no further recording of" if entry is None else "no whole answer recorded of"
        if tool in self._through:
            return Replayed(kind="through")
        self.missing = f"replay: {why} {clean(tool, _TOOL_CHARS) or 'a tool without a name'}"
        kind: Literal["refused", "missing"] = "refused" if tool in self._writes else "missing"
        return Replayed(kind=kind, why=self.missing)

    def _find(self, tool: str, arguments: Json) -> Queue | None:
        if self._recording is None:
            return None
        try:
            return self._recording.find(tool, arguments, self._known)
        except (ValueError, RecursionError):
            return None

    def _entry(self, queue: Queue) -> Entry | None:
        for at in range(self._next[queue.id], len(queue.entries)):
            if queue.entries[at].holds(self._written):
                self._next[queue.id] = at + 1
                return queue.entries[at]
        if queue.constant:
            return next((e for e in queue.entries if e.holds(self._written)), None)
        return None
