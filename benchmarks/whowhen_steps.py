"""A log of several agents as steps: who spoke, to whom, and what for, told by what a step does.

Roles are never taken from agents' names. A step that ran code is one because the product's reader
made a tool call of it; an orchestrated run is one in which somebody hands work to somebody else by
a note in the log (`Orchestrator (-> WebSurfer)`); a ledger is the record that Magentic-One's
orchestrator is documented to keep.
"""

import re
from dataclasses import dataclass

from connectors.traces.steps import STEP
from contracts.traces import Trace

_NOTE = re.compile(r"\(([^()]*)\)\s*\Z")
_LEDGER = "is_request_satisfied"
_LOOPING = re.compile(r'"is_in_loop"\s*:\s*\{[^}]*"answer"\s*:\s*true')
_STUCK = re.compile(r'"is_progress_being_made"\s*:\s*\{[^}]*"answer"\s*:\s*false')
_ANNOUNCED = 6  # words of a note that only says whose turn it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One message of the log."""

    number: int
    """Its place in the log, from zero."""
    speaker: str
    note: str
    """What the log says beside the speaker: `-> WebSurfer`, `thought`; "" for none."""
    text: str
    ran: bool
    """It is the answer of a tool, such as of a terminal that ran code."""
    announces: bool = False
    """It only says whose turn it is, or that the run ends."""

    @property
    def delegates(self) -> bool:
        """Whether it hands work to another agent."""
        return self.note.startswith("->")

    @property
    def ledger(self) -> bool:
        """Whether it is an orchestrator's record of where the work stands."""
        return _LEDGER in self.text

    @property
    def stuck(self) -> bool:
        """Whether that record says that the work is in a loop or makes no progress."""
        return self.ledger and bool(_LOOPING.search(self.text) or _STUCK.search(self.text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A run of several agents."""

    steps: tuple[Step, ...]
    question: str

    @property
    def orchestrated(self) -> bool:
        """Whether some agent hands work to others."""
        return any(step.delegates for step in self.steps)

    @property
    def candidates(self) -> tuple[Step, ...]:
        """Steps by which an agent can have failed; where there are none, all."""
        own = tuple(step for step in self.steps if not step.ran and not step.announces)
        return own or self.steps


def log_of(trace: Trace) -> Log:
    """The steps of a run as the product's reader gave it."""
    asked = trace.root.input.text if trace.root.input is not None else ""
    speakers: dict[int, tuple[str, str, bool]] = {}
    texts: dict[int, str] = {}
    for span in trace.spans[1:]:
        number = span.attributes.get(STEP)
        if not isinstance(number, int) or number in texts:
            continue
        note = _NOTE.search(span.name)
        ran = span.kind == "tool"
        name = span.tool_name or span.name if ran else str(span.attributes.get("node", span.name))
        speakers[number] = (name, note[1] if note and not ran else "", ran)
        texts[number] = span.output.text if span.output is not None else ""
    names = {name for name, _, _ in speakers.values()}
    steps = [
        Step(
            number=number,
            speaker=name,
            note=note,
            text=texts[number],
            ran=ran,
            announces=_announces(texts[number], note, names - {name}),
        )
        for number, (name, note, ran) in sorted(speakers.items())
    ]
    return Log(steps=tuple(steps), question=asked)


def _announces(text: str, note: str, others: set[str]) -> bool:
    """Whether the step only says who is next (`Next speaker X`) or that the run ends."""
    first = text.strip().partition("\n")[0].split()
    named = bool(first) and first[-1].strip(".:*") in others and len(first) <= _ANNOUNCED
    return (named and note != "" and not note.startswith("->")) or note.startswith("termination")
