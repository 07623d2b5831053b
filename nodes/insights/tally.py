"""Counting symptoms by signature and template in memory that does not grow with the traces."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from contracts.findings import Symptom
from contracts.traces import SpanId, TraceId
from nodes.insights.detect.all import Detected
from nodes.insights.sketch import Sketch, sketch_of

MAX_KEYS = 2_000
MAX_TEMPLATES = 64  # of one key
FAILING_SKETCHES = 24  # of one template; target cases and contrasts come from these
PASSING_SKETCHES = 150
VARIOUS = "various"
"""Place of what did not fit: keys beyond `MAX_KEYS` of one kind."""

T = TypeVar("T")


def rank(text: str) -> int:
    """A stable pseudo-random order over texts: 64 bits of the SHA-256."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8])


@dataclass(slots=True)
class Lowest(Generic[T]):
    """The `size` items of lowest rank: the same sample for every order of input."""

    size: int
    _items: dict[str, tuple[int, T]] = field(default_factory=dict)
    _limit: int | None = None

    def wants(self, key: str) -> bool:
        """Whether an item under this key would be kept."""
        if key in self._items or self.size == 0:
            return False
        return len(self._items) < self.size or (self._limit is not None and rank(key) < self._limit)

    def put(self, key: str, item: T) -> None:
        """Keep the item if its rank is low enough; of one key the first stays."""
        if not self.wants(key):
            return
        self._items[key] = (rank(key), item)
        if len(self._items) > self.size:
            del self._items[max(self._items, key=lambda k: (self._items[k][0], k))]
        if len(self._items) == self.size:
            self._limit = max(order for order, _ in self._items.values())

    def items(self) -> list[T]:
        """What was kept, lowest rank first."""
        return [
            item for _, (_, item) in sorted(self._items.items(), key=lambda kv: (kv[1][0], kv[0]))
        ]


@dataclass(slots=True)
class Group:
    """Symptoms of one key and template that count."""

    units: set[int] = field(default_factory=set)
    first_seen: datetime | None = None
    last_seen: datetime | None = None
    places: Lowest[tuple[TraceId, SpanId, str]] = field(
        default_factory=lambda: Lowest(FAILING_SKETCHES)
    )
    sketches: Lowest[Sketch] = field(default_factory=lambda: Lowest(FAILING_SKETCHES))

    def add(self, other: "Group") -> None:
        """Take in what another group counted."""
        self.units |= other.units
        for seen in (other.first_seen, other.last_seen):
            if seen is not None:
                self.see(seen)
        for place in other.places.items():
            self.places.put(place[0], place)
        for sketch in other.sketches.items():
            self.sketches.put(sketch.trace_id, sketch)

    def see(self, at: datetime) -> None:
        """Widen the span of time."""
        self.first_seen = at if self.first_seen is None else min(self.first_seen, at)
        self.last_seen = at if self.last_seen is None else max(self.last_seen, at)


@dataclass(slots=True)
class Bounded(Generic[T]):
    """Values by key, at most `size` of them; those of the highest ranks are merged into one.

    Which keys keep their own value depends on the keys alone: a key that was pushed out once ranks
    above all that stay, so nothing of it can come back.
    """

    size: int
    make: Callable[[], T]
    merge: Callable[[T, T], None]
    values: dict[str, T] = field(default_factory=dict)
    rest: dict[str, T] = field(default_factory=dict)
    """Merged values by the name under which they are reported."""
    limit: int | None = None

    def at(self, key: str, rest_name: str) -> T:
        """The value of the key, or the merged one it belongs to."""
        if key in self.values:
            return self.values[key]
        if self.limit is not None and rank(key) > self.limit:
            return self._rest(rest_name)
        self.values[key] = self.make()
        if len(self.values) > self.size:
            worst = max(self.values, key=lambda k: (rank(k), k))
            pushed = self.values.pop(worst)
            self.limit = max(rank(k) for k in self.values)
            name = rest_name if worst == key else self.name_of(worst)
            self.merge(self._rest(name), pushed)
            if worst == key:
                return self._rest(name)
        return self.values[key]

    @staticmethod
    def name_of(key: str) -> str:
        """What a pushed-out key is merged under: its kind, at no place in particular."""
        return f"{key.split(':', 1)[0]}:{VARIOUS}"

    def _rest(self, name: str) -> T:
        return self.rest.setdefault(name, self.make())


def _merge_groups(into: Group, other: Group) -> None:
    into.add(other)


class Tally:
    """Reduces traces to counts: units by key and template, and samples of failing and passing."""

    def __init__(self, *, samples: bool = True, max_symptoms: int = 0) -> None:
        self.units: set[int] = set()
        self.sessions = 0
        self.traces = 0
        self.first: datetime | None = None
        self.last: datetime | None = None
        self.passing: Lowest[Sketch] = Lowest(PASSING_SKETCHES if samples else 0)
        self._samples = samples
        self._max_symptoms = max_symptoms
        self._symptoms: list[Symptom] = []
        self.keys: Bounded[Bounded[Group]] = Bounded(
            MAX_KEYS,
            lambda: Bounded(MAX_TEMPLATES, Group, _merge_groups),
            self._merge_keys,
        )

    def add(self, detected: Detected) -> None:
        """Count one trace."""
        trace = detected.view.trace
        unit = rank(trace.unit)
        self.traces += 1
        self.sessions += trace.session_id is not None
        self.units.add(unit)
        if not trace.timeless:
            start = trace.started_at
            self.first = start if self.first is None else min(self.first, start)
            self.last = start if self.last is None else max(self.last, start)
        self._keep(detected.symptoms)
        sketch: Sketch | None = None
        if not detected.failed and self.passing.wants(trace.id):
            self.passing.put(trace.id, sketch_of(detected))
        for symptom in detected.symptoms:
            if not symptom.counts:
                continue
            group = self._group(symptom)
            group.units.add(unit)
            if not trace.timeless:
                group.see(symptom.at)
            if self._samples and group.sketches.wants(trace.id):
                sketch = sketch or sketch_of(detected)
                group.sketches.put(trace.id, sketch)
                group.places.put(trace.id, (trace.id, symptom.span_id, symptom.evidence.quote))

    def groups(self) -> Iterator[tuple[str, dict[str, Group]]]:
        """(key, group by template) of everything counted; "" holds what fitted no template."""
        for held in (self.keys.values, self.keys.rest):
            for key, templates in held.items():
                merged = dict(templates.values)
                for other in templates.rest.values():
                    merged.setdefault("", Group()).add(other)
                yield key, merged

    def symptoms(self) -> list[Symptom]:
        """What was kept of all symptoms, by trace and time."""
        self._prune()
        return sorted(self._symptoms, key=_symptom_order)

    def put_symptoms(self, symptoms: Iterable[Symptom]) -> None:
        """Take in symptoms that another tally of the same traces kept."""
        self._keep(tuple(symptoms))

    def _group(self, symptom: Symptom) -> Group:
        key = str(symptom.signature)
        return self.keys.at(key, Bounded.name_of(key)).at(symptom.template, "")

    @staticmethod
    def _merge_keys(into: Bounded[Group], other: Bounded[Group]) -> None:
        for held in (other.values, other.rest):
            for template, group in held.items():
                into.at(template, "").add(group)

    def _keep(self, symptoms: tuple[Symptom, ...]) -> None:
        if self._max_symptoms:
            self._symptoms.extend(symptoms)
            if len(self._symptoms) > 2 * self._max_symptoms:
                self._prune()

    def _prune(self) -> None:
        """Keep the symptoms of lowest rank, whatever order they came in."""
        if len(self._symptoms) > self._max_symptoms:
            self._symptoms.sort(
                key=lambda s: (rank(f"{s.trace_id}|{s.span_id}|{s.signature}"), _symptom_order(s))
            )
            del self._symptoms[self._max_symptoms :]


def _symptom_order(symptom: Symptom) -> tuple[str, datetime, str, str]:
    return symptom.trace_id, symptom.at, symptom.span_id, symptom.signature
