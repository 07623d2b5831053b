"""A run as a talk with a person: what the person had said last before each step of the agent."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from contracts.traces import Message
from nodes.insights.detect.runs import Run, Turn, opening

_PEOPLE = frozenset({"user", "human"})
_RULES = frozenset({"system", "developer"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One turn of the agent, and where the talk stood."""

    turn: Turn
    index: int
    reply: str | None
    """What the person had said last; None: nothing yet."""
    asked: str
    """What the agent had said before that; "" where the person spoke first."""


def moments(run: Run) -> Iterator[Moment]:
    """Every turn with the person's last words before it, in order."""
    if not run.turns:
        return
    reply = _words(run.turns[0].call.messages_in)
    asked, said = "", ""
    for index, turn in enumerate(run.turns):
        if index:
            told = _words(run.turns[index - 1].news)
            if told is not None:
                reply, asked, said = told, said, ""
        yield Moment(turn=turn, index=index, reply=reply, asked=asked)
        said = turn.said.strip() or said


def _words(messages: Iterable[Message]) -> str | None:
    """What a person said last among the messages."""
    found = None
    for message in messages:
        if message.role in _PEOPLE and message.content.strip():
            found = message.content
    return found


def rules_of(run: Run) -> tuple[str, ...]:
    """The system texts that the run's first model call was given."""
    if not run.turns:
        return ()
    return tuple(m.content for m in opening(run.turns[0].call) if m.role in _RULES)
