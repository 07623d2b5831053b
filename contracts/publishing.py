"""What goes back into the tool that the traces came from: marks on traces, and a gate's runs."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from contracts.json_types import Json
from contracts.traces import OWN_SCORE, SpanId, TraceId

_SPACE: Final = uuid.UUID("2f5b6f0e-3f0a-5f0e-8f58-6f7d2f2c9a11")


def published_id(*parts: str) -> str:
    """A UUID made of what it names, so that a second call writes the same thing and no second."""
    return str(uuid.uuid5(_SPACE, "\n".join(parts).encode("utf-8", "replace").decode()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What is said of one trace: that a finding was seen in it."""

    id: str
    trace_id: TraceId
    span_id: SpanId
    """Where it was seen; LangSmith's feedback hangs on it, Langfuse's on the trace."""
    name: str
    """Begins with `OWN_SCORE`, so that no reader of ours takes it for evidence."""
    text: str
    """One line, cleaned and masked."""

    def __post_init__(self) -> None:
        if not self.name.startswith(OWN_SCORE):
            raise ValueError(f"{self.name}: not marked as ours")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRun:
    """One run of the gate."""

    id: str
    case: str
    input: Json
    """Masked."""
    passed: bool | None
    """None: the run could not be observed; nothing is scored then."""
    failed: tuple[str, ...]
    seconds: float
    cost_usd: float | None
    input_tokens: int | None
    output_tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One arm of a gate, without its sealed cases."""

    id: str
    name: str
    at: datetime
    """When the gate ended: the times of its single runs are not kept."""
    about: dict[str, str]
    runs: tuple[PublishedRun, ...]


class Publisher(Protocol):
    """Writes into one vendor's project. Everything has an id made of its content: safe to repeat.

    All calls raise SourceError where the vendor refuses or cannot be reached; what was written
    stays written, and a second call writes the rest.
    """

    place: str
    """For a person, such as `langfuse https://…`; no key in it."""

    async def scores(self, marks: Sequence[Mark]) -> int:
        """Write one score a mark; how many were sent."""
        ...

    async def comments(self, marks: Sequence[Mark]) -> int:
        """Write one comment a mark, unless it is there; how many were new."""
        ...

    async def experiment(self, experiment: Experiment) -> int:
        """Write the runs and whether each passed; how many runs were sent."""
        ...
