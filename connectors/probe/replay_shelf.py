"""Which recording answers a run: that of the case's own trace, else that of the nearest input."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final, cast

from connectors.probe.replay_recording import Recording
from contracts.json_types import Json, canonical_json, sha256_hex
from contracts.traces import Trace, TraceId

MAX_RECORDINGS = 20_000
"""Traces beyond are not read: each costs memory, and the nearest input is looked for among all."""
LEAST_LIKENESS = 0.2
"""Share of common words below which an input is another one; a wrong choice costs a missing run,
never a wrong answer, since arguments must be equal."""
_WORD: Final = re.compile(r"\w+")


def input_id(case_input: Json) -> str:
    """The same for equal inputs."""
    return sha256_hex(canonical_json(case_input))


class Shelf:
    """All recordings by input. The choice hangs on the input alone: both arms see one world."""

    def __init__(self) -> None:
        """Begin empty."""
        self._by_trace: dict[str, Recording] = {}
        self._by_input: dict[str, Recording] = {}
        self._words: list[tuple[frozenset[str], Recording]] = []
        self._near: dict[str, Recording | None] = {}

    def __len__(self) -> int:
        return len(self._by_trace)

    def holds(self, trace_id: TraceId) -> bool:
        """Whether the trace's recording is here."""
        return trace_id in self._by_trace

    def add(self, recording: Recording) -> None:
        """Keep a recording; of two with one input the first is taken, by trace id."""
        if recording.source in self._by_trace:
            return
        self._by_trace[recording.source] = recording
        key = input_id(recording.input)
        first = self._by_input.get(key)
        if first is None or recording.source < first.source:
            self._by_input[key] = recording
        self._words.append((_words(recording.input), recording))
        self._near.clear()

    def choose(self, case_input: Json, origin: TraceId | None = None) -> Recording | None:
        """By the trace that the case was made of, an equal input, the nearest one; None: none."""
        key = input_id(case_input)
        found = self._by_trace.get(origin or "") or self._by_input.get(key)
        if found is not None:
            return found
        if key not in self._near:
            self._near[key] = self._nearest(case_input)
        return self._near[key]

    def _nearest(self, case_input: Json) -> Recording | None:
        words = _words(case_input)
        best = max(
            ((_likeness(words, theirs), recording) for theirs, recording in self._words),
            key=lambda found: (found[0], _descending(found[1].source)),
            default=(0.0, None),
        )
        return best[1] if best[0] >= LEAST_LIKENESS else None


def request_of(trace: Trace) -> Json:
    """What the agent was asked, as a case's input; None where it was not recorded whole.

    An object stands as it is; of messages the last of the user counts, and plain text is one:
    both become `{"message": text}`.
    """
    payload = trace.asked.input
    if payload is None or payload.truncated or not payload.text.strip():
        return None
    value = payload.value
    messages = value.get("messages") if isinstance(value, Mapping) else value
    if isinstance(messages, list):
        said = [_said(m) for m in messages if isinstance(m, Mapping)]
        last = next((text for text in reversed(said) if text), None)
        return None if last is None else {"message": last}
    if isinstance(value, Mapping):
        return value
    return {"message": payload.text}


def _said(message: Mapping[str, Json]) -> str | None:
    """The text of a user's message; None of any other."""
    inner = message.get("data") or message.get("kwargs")
    content = message if "content" in message else inner
    role = message.get("role") or message.get("type")
    if not isinstance(content, Mapping) or str(role).lower() not in {"user", "human"}:
        return None
    text = content.get("content")
    return text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)


def _words(value: Json) -> frozenset[str]:
    """Of all texts and numbers in it; keys are the same in every input."""
    if isinstance(value, Mapping):
        return frozenset[str]().union(*map(_words, value.values()))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return frozenset[str]().union(*map(_words, value))
    return frozenset(cast("list[str]", _WORD.findall(str(value).lower())))


def _likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """Common words over all words of both, 0..1."""
    both = len(one | other)
    return len(one & other) / both if both else 0.0


def _descending(text: str) -> tuple[int, ...]:
    """Sorts the other way round: of equally near inputs the first trace id is taken."""
    return tuple(-ord(letter) for letter in text)
