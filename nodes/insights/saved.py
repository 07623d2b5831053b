"""A reading half done, as JSON: where the source stopped and what was counted up to there.

An analysis that is killed while it reads goes on from here in another process, so that an hour of
pages is not asked for twice. What is kept is what a tally keeps: counts, hashes of units, and
condensed traces whose texts were masked when they were made.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol, TypeVar, cast

from contracts.codec import from_json, to_json
from contracts.findings import Symptom
from contracts.json_types import Json, JsonObject
from contracts.traces import ReadReport, SpanId, TraceId
from nodes.insights.features import Traits
from nodes.insights.group import MATERIALS, Group, Material, Place, Seen
from nodes.insights.lowest import Lowest, Order
from nodes.insights.sketch import Sketch
from nodes.insights.tally import Tally

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """Where a read of one window stood."""

    cursor: str
    read: ReadReport
    tally: JsonObject


class ReadLog(Protocol):
    """Keeps the standing of a read; `part` is `window` or `baseline`."""

    async def load(self, part: str) -> Saved | None: ...

    async def save(self, part: str, saved: Saved) -> None: ...


VERSION = 2
"""Of what `tally_json` writes. What an older release saved is not gone on with: it is read anew."""


def readable(kept: JsonObject) -> bool:
    """Whether `fill_tally` can read what was kept."""
    return kept.get("version") == VERSION


def tally_json(tally: Tally) -> dict[str, Json]:
    """Everything the tally has counted."""
    return {
        "version": VERSION,
        "units": [[f"{unit:016x}", hour] for unit, hour in sorted(tally.units.items())],
        "level": tally.level,
        "sessions": tally.sessions,
        "traces": tally.traces,
        "first": _time(tally.first),
        "last": _time(tally.last),
        "passing": _lowest(tally.passing),
        "traits": _lowest(tally.traits),
        "minutes": [list(pair) for pair in sorted(tally.minutes.items())],
        "width": tally.width,
        "symptoms": [to_json(replace(symptom, unit="")) for symptom in tally.symptoms()],
        "groups": {
            key: {template: _group(group) for template, group in templates.items()}
            for key, templates in tally.groups.items()
        },
        "material": {name: tally.material[name] for name in MATERIALS},
    }


def fill_tally(tally: Tally, kept: JsonObject) -> None:
    """Put into a fresh tally what `tally_json` kept of another one of the same config."""
    for unit, hour in cast("Sequence[tuple[str, int]]", kept["units"]):
        tally.units[int(unit, 16)] = hour
    tally.level = cast("int", kept["level"])
    tally.sessions = cast("int", kept["sessions"])
    tally.traces = cast("int", kept["traces"])
    tally.first = _moment(kept["first"])
    tally.last = _moment(kept["last"])
    _put_all(tally.passing, kept["passing"], _sketch)
    _put_all(tally.traits, kept["traits"], _traits)
    tally.minutes.update(cast("Sequence[tuple[int, int]]", kept["minutes"]))
    tally.width = cast("int", kept["width"])
    tally.put_symptoms(from_json(Symptom, symptom) for symptom in _objects(kept["symptoms"]))
    for key, templates in cast("Mapping[str, JsonObject]", kept["groups"]).items():
        for template, group in cast("Mapping[str, JsonObject]", templates).items():
            tally.groups.setdefault(key, {})[template] = _group_from(group)
    tally.material.update(cast("Mapping[Material, int]", kept["material"]))
    tally.settle()


def _group(group: Group) -> Json:
    return {
        "units": [
            [f"{unit:016x}", seen.symptoms, _time(seen.first), _time(seen.last)]
            for unit, seen in sorted(group.units.items())
        ],
        "places": [[key, _hex(order), list(place)] for key, order, place in group.places.entries()],
        "sketches": _lowest(group.sketches),
        "traits": _lowest(group.traits),
    }


def _group_from(kept: JsonObject) -> Group:
    group = Group()
    for unit, symptoms, first, last in cast(
        "Sequence[tuple[str, int, str | None, str | None]]", kept["units"]
    ):
        group.units[int(unit, 16)] = Seen(symptoms, _moment(first), _moment(last))
    _put_all(group.places, kept["places"], _place)
    _put_all(group.sketches, kept["sketches"], _sketch)
    _put_all(group.traits, kept["traits"], _traits)
    return group


def _lowest(held: Lowest[Sketch] | Lowest[Traits]) -> list[Json]:
    return [[key, _hex(order), to_json(item)] for key, order, item in held.entries()]


def _hex(order: Order) -> list[Json]:
    return [f"{rank:016x}" for rank in order]


def _put_all(into: Lowest[T], kept: Json, read: Callable[[Json], T]) -> None:
    for key, (unit, trace), item in cast("Sequence[tuple[str, tuple[str, str], Json]]", kept):
        into.put(key, (int(unit, 16), int(trace, 16)), read(item))


def _sketch(value: Json) -> Sketch:
    return from_json(Sketch, cast("JsonObject", value))


def _traits(value: Json) -> Traits:
    return from_json(Traits, cast("JsonObject", value))


def _place(value: Json) -> Place:
    trace, span, quote = cast("tuple[str, str, str]", value)
    return TraceId(trace), SpanId(span), quote


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def _moment(value: Json) -> datetime | None:
    return datetime.fromisoformat(value) if isinstance(value, str) else None


def _objects(value: Json) -> Sequence[JsonObject]:
    return cast("Sequence[JsonObject]", value)
