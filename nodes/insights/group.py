"""What is counted of one key and template: its units, and samples of their traces."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from contracts.traces import SpanId, TraceId
from nodes.insights.features import Traits
from nodes.insights.lowest import Lowest
from nodes.insights.sketch import Sketch

FAILING_SKETCHES = 24  # target cases come from these
FAILING_TRAITS = 64  # contrasts come from these

Place = tuple[TraceId, SpanId, str]
"""Where a symptom is, and its quote."""
Material = Literal["sketches", "places", "traits"]
MATERIALS: tuple[Material, ...] = ("sketches", "places", "traits")


class Seen(NamedTuple):
    """One unit in one group."""

    symptoms: int
    first: datetime | None
    last: datetime | None

    def with_(self, other: "Seen") -> "Seen":
        """Both together."""
        firsts = [at for at in (self.first, other.first) if at is not None]
        lasts = [at for at in (self.last, other.last) if at is not None]
        return Seen(
            self.symptoms + other.symptoms, min(firsts, default=None), max(lasts, default=None)
        )


@dataclass(slots=True)
class Group:
    """Symptoms of one key and template that count."""

    units: dict[int, Seen] = field(default_factory=dict)
    """By rank. A unit with many symptoms is one unit."""
    places: Lowest[Place] = field(default_factory=lambda: Lowest(FAILING_SKETCHES))
    sketches: Lowest[Sketch] = field(default_factory=lambda: Lowest(FAILING_SKETCHES))
    traits: Lowest[Traits] = field(default_factory=lambda: Lowest(FAILING_TRAITS))
    """Of the failing trace of lowest rank of each unit, by unit."""

    def add(self, other: "Group") -> None:
        """Take in what another group counted; the other stays as it is."""
        for unit, seen in other.units.items():
            mine = self.units.get(unit)
            self.units[unit] = seen if mine is None else mine.with_(seen)
        self.places.take(other.places)
        self.sketches.take(other.sketches)
        self.traits.take(other.traits)

    def of(self, material: Material) -> Lowest[Place] | Lowest[Sketch] | Lowest[Traits]:
        """One of the three samples."""
        if material == "sketches":
            return self.sketches
        return self.places if material == "places" else self.traits

    @property
    def symptoms(self) -> int:
        """How many symptoms its units have."""
        return sum(seen.symptoms for seen in self.units.values())

    @property
    def first_seen(self) -> datetime | None:
        """None: its traces carry no times."""
        return min((s.first for s in self.units.values() if s.first is not None), default=None)

    @property
    def last_seen(self) -> datetime | None:
        """None: its traces carry no times."""
        return max((s.last for s in self.units.values() if s.last is not None), default=None)
