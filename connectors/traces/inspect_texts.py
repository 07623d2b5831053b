"""Texts that an Inspect sample keeps apart, put back where they are referred to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from connectors.traces.raw import as_int, as_objects
from contracts.json_types import Json

_SCHEMES: Final = ("attachment://", "tc://")
MAX_DEPTH: Final = 16  # of a value that is looked through
MAX_CHARS: Final = 256 << 20  # that one sample may grow by; a text may be referred to at will
MAX_SENT: Final = 512  # messages of one call, from its end
_SPOKEN: Final = frozenset({"content", "arguments", "tool_calls", "error", "message"})


@dataclass(slots=True, kw_only=True)
class Resolver:
    """The attachments and the message pool of one sample."""

    texts: Mapping[str, Json]
    pool: Sequence[Mapping[str, Json]]
    left: int
    """Characters that may still be put in."""

    @classmethod
    def of(cls, sample: Mapping[str, Json]) -> Self:
        """What the sample keeps apart; its older home is the transcript's `content`."""
        texts: dict[str, Json] = {}
        transcript = sample.get("transcript")
        old = transcript.get("content") if isinstance(transcript, dict) else None
        for kept in (old, sample.get("attachments")):
            if isinstance(kept, dict):
                texts.update(kept)
        return cls(texts=texts, pool=as_objects(sample.get("message_pool")), left=MAX_CHARS)

    def value(self, value: Json, depth: int = 0) -> Json:
        """The value with every reference that is known replaced by its text."""
        if isinstance(value, str):
            return self._text(value) if value.startswith(_SCHEMES) else value
        if not self.texts or depth >= MAX_DEPTH:
            return value
        if isinstance(value, dict):
            return {key: self.value(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item, depth + 1) for item in value]
        return value

    def _text(self, reference: str) -> str:
        _, _, key = reference.partition("://")
        text = self.texts.get(key)
        if not isinstance(text, str) or len(text) > self.left:
            return reference
        self.left -= len(text)
        return text

    def message(self, row: Mapping[str, Json]) -> Mapping[str, Json]:
        """A message with its texts."""
        if not self.texts:
            return row
        return {key: self.value(item) if key in _SPOKEN else item for key, item in row.items()}

    def sent(self, event: Mapping[str, Json]) -> list[Mapping[str, Json]]:
        """The last messages that a model event sent, also by reference to the pool."""
        rows = as_objects(event.get("input"))[-MAX_SENT:]
        refs = event.get("input_refs")
        if rows or not isinstance(refs, list):
            return rows
        parts: list[Sequence[Mapping[str, Json]]] = []
        left = MAX_SENT
        for ref in reversed(refs[-MAX_SENT:]):
            if isinstance(ref, list) and len(ref) == 2 and left > 0:
                start, end = as_int(ref[0]), as_int(ref[1])
                if start is not None and end is not None and 0 <= start <= end:
                    end = min(end, len(self.pool))
                    parts.append(self.pool[max(start, end - left) : end])
                    left -= len(parts[-1])
        return [row for part in reversed(parts) for row in part]
