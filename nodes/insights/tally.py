"""Counting symptoms by signature and template in memory that does not grow with the traces.

What a tally holds depends on the set of traces alone, never on their order or on how they were
shared out among tallies that are merged. Counts are exact up to `Bounds`; beyond them they are
counts of a sample of the units, those of lowest hash: half of them, a quarter, and so on. A sample
by hash has nothing to do with what fails, so rates and tests hold in it as they are, and a
signature in n units is lost with probability (1 - share) ** n only.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from contracts.findings import Symptom
from nodes.insights.detect.all import Detected
from nodes.insights.features import Traits, traits_of
from nodes.insights.group import MATERIALS, Group, Material, Seen
from nodes.insights.lowest import Lowest, Order, rank
from nodes.insights.sketch import Sketch, sketch_of

PASSING_SKETCHES = 150
TRAITS = 2_048  # of all units; contrasts compare with these
VARIOUS = "various"
"""Place of what did not fit: keys beyond those that an analysis tells apart, of one kind."""

NO_HOUR = 1 << 31
"""Hour of units without times; above every hour there is."""
_ALL = 1 << 64

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The most that a tally holds, whatever it is given."""

    units: int = 1 << 18
    pairs: int = 1 << 17
    """Signatures times the units that have them."""
    groups: int = 1 << 15
    """Templates of all signatures."""
    sketches: int = 8_000
    places: int = 40_000
    traits: int = 40_000
    minutes: int = 1 << 15
    """Buckets of time in which the load is counted; beyond, a bucket is two minutes, four ..."""


BOUNDS = Bounds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What a tally is made with; tallies of one config can be merged. Can be pickled."""

    samples: bool = True
    max_symptoms: int = 0
    bounds: Bounds = BOUNDS


class Tally:
    """Reduces traces to counts: units by key and template, and samples of failing and passing."""

    def __init__(
        self, *, samples: bool = True, max_symptoms: int = 0, bounds: Bounds = BOUNDS
    ) -> None:
        self.units: dict[int, int] = {}
        """Earliest hour (since 1970, UTC) of each unit that is counted, by rank; or `NO_HOUR`."""
        self.level = 0
        """Units ranking in the lowest `2 ** -level` are counted."""
        self.sessions = 0
        self.traces = 0
        self.first: datetime | None = None
        self.last: datetime | None = None
        self.passing: Lowest[Sketch] = Lowest(PASSING_SKETCHES if samples else 0)
        self.traits: Lowest[Traits] = Lowest(TRAITS if samples else 0)
        """Of the trace of lowest rank of each unit, failed or not, by unit."""
        self.minutes: dict[int, int] = {}
        """Traces that started in each bucket of time."""
        self.width = 0
        """A bucket is `2 ** width` minutes."""
        self.groups: dict[str, dict[str, Group]] = {}
        """By key, then by template."""
        self.material: dict[Material, int] = dict.fromkeys(MATERIALS, 0)
        """Levels like `level`: units of which the samples of groups are kept."""
        self._config = Config(samples=samples, max_symptoms=max_symptoms, bounds=bounds)
        self._pairs = 0
        self._templates = 0
        self._held: dict[Material, int] = dict.fromkeys(MATERIALS, 0)
        self._hours: dict[int, int] = {}  # one object for equal hours
        self._symptoms: list[Symptom] = []

    @classmethod
    def of(cls, config: Config) -> "Tally":
        """An empty tally."""
        return cls(samples=config.samples, max_symptoms=config.max_symptoms, bounds=config.bounds)

    def config(self) -> Config:
        """What it was made with."""
        return self._config

    def fresh(self) -> "Tally":
        """An empty tally that can be merged into this one."""
        return Tally.of(self._config)

    def one_in(self) -> int:
        """Of how many units one is counted; 1: all are."""
        return 1 << self.level

    def add(self, detected: Detected) -> None:
        """Count one trace."""
        trace = detected.view.trace
        unit = rank(trace.unit)
        order = (unit, unit if trace.session_id is None else rank(trace.id))
        start = None if trace.timeless else trace.started_at
        self.traces += 1
        self.sessions += trace.session_id is not None
        self._see(unit, start)
        self._keep(detected.symptoms)
        if self._config.samples:
            if not detected.failed and self.passing.wants(trace.id, order):
                self.passing.put(trace.id, order, sketch_of(detected))
            if self.traits.wants(f"{unit:016x}", order):
                self.traits.put(f"{unit:016x}", order, traits_of(detected.view, start))
        if unit < _ALL >> self.level:
            self._count(detected, order, start)
        self._fit()

    def merge(self, other: "Tally") -> None:
        """Take in what another tally of the same config counted; the other stays as it is.

        Commutative and associative: the result is that of one tally that saw all traces.

        Raises:
            ValueError: they were not made alike.
        """
        if self._config != other._config:  # another tally  # noqa: SLF001
            raise ValueError(f"tallies made unlike: {self._config!r}, {other.config()!r}")
        self.traces += other.traces
        self.sessions += other.sessions
        for at in (other.first, other.last):
            self._widen(at)
        for unit, hour in other.units.items():
            self.units[unit] = min(self.units.get(unit, NO_HOUR), self._one(hour))
        self.passing.take(other.passing)
        self.traits.take(other.traits)
        width = max(self.width, other.width)
        self._coarser(width)
        for bucket, count in other.minutes.items():
            wider = bucket >> (width - other.width)
            self.minutes[wider] = self.minutes.get(wider, 0) + count
        for key, templates in other.groups.items():
            mine = self.groups.setdefault(key, {})
            for template, group in templates.items():
                mine.setdefault(template, Group()).add(group)
        self._keep(tuple(other.symptoms()))
        self._settle(
            max(self.level, other.level),
            {name: max(self.material[name], other.material[name]) for name in MATERIALS},
        )

    def symptoms(self) -> list[Symptom]:
        """What was kept of all symptoms, by trace and time."""
        self._prune()
        return sorted(self._symptoms, key=_symptom_order)

    def put_symptoms(self, symptoms: Iterable[Symptom]) -> None:
        """Take in symptoms that another tally of the same traces kept."""
        self._keep(tuple(symptoms))

    def settle(self) -> None:
        """After its parts were put in from outside: count them again, and keep the bounds."""
        self._settle(self.level, dict(self.material))

    def _see(self, unit: int, start: datetime | None) -> None:
        """A trace of the unit, whatever became of it."""
        hour = NO_HOUR
        if start is not None:
            self._widen(start)
            minute = int(start.timestamp()) // 60
            hour = self._one(minute // 60)
            bucket = minute >> self.width
            self.minutes[bucket] = self.minutes.get(bucket, 0) + 1
        if unit < _ALL >> self.level:
            known = self.units.get(unit)
            if known is None or hour < known:
                self.units[unit] = hour

    def _widen(self, at: datetime | None) -> None:
        if at is not None:
            self.first = at if self.first is None else min(self.first, at)
            self.last = at if self.last is None else max(self.last, at)

    def _one(self, hour: int) -> int:
        return self._hours.setdefault(hour, hour)

    def _count(self, detected: Detected, order: Order, start: datetime | None) -> None:
        """Its symptoms that count, by group."""
        trace = detected.view.trace
        unit = order[0]
        sketch: Sketch | None = None
        traits: Traits | None = None
        for symptom in detected.symptoms:
            if not symptom.counts:
                continue
            group = self._group(str(symptom.signature), symptom.template)
            at = None if trace.timeless else symptom.at
            seen = Seen(1, at, at)
            mine = group.units.get(unit)
            group.units[unit] = seen if mine is None else mine.with_(seen)
            self._pairs += mine is None
            if not self._config.samples:
                continue
            if self._wants(group, "places", trace.id, order):
                place = (trace.id, symptom.span_id, symptom.evidence.quote)
                self._put("places", group.places, trace.id, order, place)
            if self._wants(group, "sketches", trace.id, order):
                sketch = sketch or sketch_of(detected)
                self._put("sketches", group.sketches, trace.id, order, sketch)
            if self._wants(group, "traits", f"{unit:016x}", order):
                traits = traits or traits_of(detected.view, start)
                self._put("traits", group.traits, f"{unit:016x}", order, traits)

    def _group(self, key: str, template: str) -> Group:
        templates = self.groups.setdefault(key, {})
        group = templates.get(template)
        if group is None:
            group = templates[template] = Group()
            self._templates += 1
        return group

    def _wants(self, group: Group, name: Material, key: str, order: Order) -> bool:
        return order[0] < _ALL >> self.material[name] and group.of(name).wants(key, order)

    def _put(self, name: Material, into: Lowest[T], key: str, order: Order, item: T) -> None:
        before = len(into)
        into.put(key, order, item)
        self._held[name] += len(into) - before

    def _fit(self) -> None:
        """Keep the bounds: leave out units, samples, or single minutes, until what is left fits."""
        bounds = self._config.bounds
        while len(self.minutes) > bounds.minutes:
            self._coarser(self.width + 1)
        if (
            len(self.units) > bounds.units
            or self._pairs > bounds.pairs
            or self._templates > bounds.groups
            or self._held["sketches"] > bounds.sketches
            or self._held["places"] > bounds.places
            or self._held["traits"] > bounds.traits
        ):
            self._settle(self.level, dict(self.material))

    def _settle(self, level: int, material: dict[Material, int]) -> None:
        """Cut to these levels, and further to the lowest ones at which everything fits."""
        bounds = self._config.bounds
        self._cut(level)
        while (
            len(self.units) > bounds.units
            or self._pairs > bounds.pairs
            or self._templates > bounds.groups
        ):
            self._cut(self.level + 1)
        limits: dict[Material, int] = {
            "sketches": bounds.sketches, "places": bounds.places, "traits": bounds.traits,
        }  # fmt: skip
        for name, limit in limits.items():
            self._cut_material(name, max(material[name], self.level))
            while self._held[name] > limit:
                self._cut_material(name, self.material[name] + 1)
        while len(self.minutes) > bounds.minutes:
            self._coarser(self.width + 1)

    def _cut(self, level: int) -> None:
        """Count the units of this level only."""
        self.level = level
        below = _ALL >> level
        self.units = {unit: hour for unit, hour in self.units.items() if unit < below}
        kept: dict[str, dict[str, Group]] = {}
        self._pairs = self._templates = 0
        for key, templates in self.groups.items():
            for template, group in templates.items():
                group.units = {unit: seen for unit, seen in group.units.items() if unit < below}
                if group.units:
                    for name in MATERIALS:
                        group.of(name).cut(below)
                    kept.setdefault(key, {})[template] = group
                    self._pairs += len(group.units)
                    self._templates += 1
        self.groups = kept

    def _cut_material(self, name: Material, level: int) -> None:
        """Keep one of the samples of groups for the units of this level only."""
        self.material[name] = level
        held = 0
        for templates in self.groups.values():
            for group in templates.values():
                group.of(name).cut(_ALL >> level)
                held += len(group.of(name))
        self._held[name] = held

    def _coarser(self, width: int) -> None:
        """Make buckets of time of this width."""
        wider: dict[int, int] = {}
        for bucket, count in self.minutes.items():
            at = bucket >> (width - self.width)
            wider[at] = wider.get(at, 0) + count
        self.minutes, self.width = wider, width

    def _keep(self, symptoms: tuple[Symptom, ...]) -> None:
        if self._config.max_symptoms:
            self._symptoms.extend(symptoms)
            if len(self._symptoms) > 2 * self._config.max_symptoms:
                self._prune()

    def _prune(self) -> None:
        """Keep the symptoms of lowest rank, whatever order they came in."""
        if len(self._symptoms) > self._config.max_symptoms:
            self._symptoms.sort(
                key=lambda s: (rank(f"{s.trace_id}|{s.span_id}|{s.signature}"), _symptom_order(s))
            )
            del self._symptoms[self._config.max_symptoms :]


def _symptom_order(symptom: Symptom) -> tuple[str, datetime, str, str]:
    return symptom.trace_id, symptom.at, symptom.span_id, symptom.signature
