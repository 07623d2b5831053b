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
from nodes.insights.sketch import Sketch
from nodes.insights.tally import Bounded, Group, Lowest, Tally

T = TypeVar("T")
_Place = tuple[TraceId, SpanId, str]


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


def tally_json(tally: Tally) -> dict[str, Json]:
    """Everything the tally has counted."""
    return {
        "units": sorted(f"{unit:016x}" for unit in tally.units),
        "sessions": tally.sessions,
        "traces": tally.traces,
        "first": _time(tally.first),
        "last": _time(tally.last),
        "passing": [to_json(sketch) for sketch in tally.passing.items()],
        "symptoms": [to_json(replace(symptom, unit="")) for symptom in tally.symptoms()],
        "keys": _bounded(tally.keys, lambda inner: _bounded(inner, _group)),
    }


def fill_tally(tally: Tally, kept: JsonObject) -> None:
    """Put into a fresh tally what `tally_json` kept of another one."""
    tally.units.update(int(unit, 16) for unit in _texts(kept["units"]))
    tally.sessions = cast("int", kept["sessions"])
    tally.traces = cast("int", kept["traces"])
    tally.first = _moment(kept["first"])
    tally.last = _moment(kept["last"])
    for sketch in _objects(kept["passing"]):
        one = from_json(Sketch, sketch)
        tally.passing.put(one.trace_id, one)
    tally.put_symptoms(from_json(Symptom, symptom) for symptom in _objects(kept["symptoms"]))
    _fill_keys(tally.keys, cast("JsonObject", kept["keys"]))


def _bounded(held: Bounded[T], write: Callable[[T], Json]) -> dict[str, Json]:
    return {
        "limit": None if held.limit is None else f"{held.limit:016x}",
        "values": {key: write(value) for key, value in held.values.items()},
        "rest": {key: write(value) for key, value in held.rest.items()},
    }


def _group(group: Group) -> Json:
    return {
        "units": sorted(f"{unit:016x}" for unit in group.units),
        "first": _time(group.first_seen),
        "last": _time(group.last_seen),
        "places": [list(place) for place in group.places.items()],
        "sketches": [to_json(sketch) for sketch in group.sketches.items()],
    }


def _fill_keys(keys: Bounded[Bounded[Group]], kept: JsonObject) -> None:
    keys.limit = _rank(kept["limit"])
    for into, part in ((keys.values, "values"), (keys.rest, "rest")):
        for key, templates in cast("Mapping[str, JsonObject]", kept[part]).items():
            inner = into[key] = keys.make()
            inner.limit = _rank(templates["limit"])
            for groups, name in ((inner.values, "values"), (inner.rest, "rest")):
                for template, group in cast("Mapping[str, JsonObject]", templates[name]).items():
                    groups[template] = _group_from(group)


def _group_from(kept: JsonObject) -> Group:
    group = Group(first_seen=_moment(kept["first"]), last_seen=_moment(kept["last"]))
    group.units.update(int(unit, 16) for unit in _texts(kept["units"]))
    _put_all(group.places, cast("Sequence[Sequence[str]]", kept["places"]))
    for sketch in _objects(kept["sketches"]):
        one = from_json(Sketch, sketch)
        group.sketches.put(one.trace_id, one)
    return group


def _put_all(places: Lowest[_Place], kept: Sequence[Sequence[str]]) -> None:
    for trace, span, quote in kept:
        places.put(trace, (TraceId(trace), SpanId(span), quote))


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def _moment(value: Json) -> datetime | None:
    return datetime.fromisoformat(value) if isinstance(value, str) else None


def _rank(value: Json) -> int | None:
    return int(value, 16) if isinstance(value, str) else None


def _texts(value: Json) -> Sequence[str]:
    return cast("Sequence[str]", value)


def _objects(value: Json) -> Sequence[JsonObject]:
    return cast("Sequence[JsonObject]", value)
