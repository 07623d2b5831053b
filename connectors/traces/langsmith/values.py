"""Values of a run as LangSmith's APIs, tracers and exports write them: times, ids, JSON in text."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import orjson

from connectors.traces.raw import MAX_NS, as_float
from contracts.json_types import Json, sha256_hex

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SAFE = re.compile(r"[A-Za-z0-9_.:-]{1,64}\Z")
_NUMBER = re.compile(r"\d{9,19}(?:\.\d{0,9})?\Z")
_STEP = re.compile(r"(\d{8}T\d{6})(\d{0,9})Z([A-Za-z0-9_-]{1,64})\Z")
_UNITS: Final = ((1e11, 1_000_000_000), (1e14, 1_000_000), (1e17, 1_000), (1e20, 1))
"""Epoch times below the first are seconds, then milli-, micro- and nanoseconds (to year 5138)."""


def as_run_id(value: Json) -> str | None:
    """A run's id as it was recorded, hyphens and all; the hash of what is no harmless text."""
    if not isinstance(value, str) or not value.strip():
        return None
    text = value.strip()
    if _SAFE.match(text):
        return text
    return "x-" + sha256_hex(text.encode("utf-8", "surrogatepass"))[:24]


def as_time_ns(value: Json) -> int | None:
    """Unix nanoseconds of an ISO time or an epoch number; a time without a zone is UTC."""
    if isinstance(value, str):
        text = value.strip()
        if not _NUMBER.match(text):
            return _iso_ns(text)
    number = as_float(value)
    if number is None or number <= 0:
        return None
    unit = next((unit for below, unit in _UNITS if number < below), 1)
    if isinstance(value, int):
        ns = value * unit
    elif isinstance(value, str) and value.strip().isdecimal():
        ns = int(value) * unit
    else:
        ns = int(number * unit)
    return ns if 0 < ns <= MAX_NS else None


def _iso_ns(text: str) -> int | None:
    if not 8 <= len(text) <= 40:
        return None
    try:
        when = datetime.fromisoformat(text)
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        ns = (when - _EPOCH) // timedelta(microseconds=1) * 1000
    except (ValueError, OverflowError):
        return None
    return ns if 0 < ns <= MAX_NS else None


def steps(dotted_order: Json) -> list[str]:
    """Run ids from the root to the run itself.

    Empty where the text is no dotted order (`<YYYYMMDDThhmmssffffffZ><run id>`, joined by dots).
    """
    if not isinstance(dotted_order, str) or not dotted_order:
        return []
    matches = [_STEP.match(step) for step in dotted_order.split(".")]
    ids = [match[3] for match in matches if match is not None]
    return ids if len(ids) == len(matches) else []


def step_ns(dotted_order: Json) -> int | None:
    """Start of the run itself as its dotted order says it, in Unix nanoseconds."""
    last = dotted_order.rpartition(".")[2] if isinstance(dotted_order, str) else ""
    match = _STEP.match(last)
    if match is None:
        return None
    try:
        when = datetime.strptime(match[1], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    whole = (when - _EPOCH) // timedelta(seconds=1) * 1_000_000_000
    ns = whole + int(match[2].ljust(9, "0"))
    return ns if 0 < ns <= MAX_NS else None


def parsed(value: Json) -> Json:
    """The JSON in a text that is an object or a list (columns of an export); else the value."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        found: Json = orjson.loads(value)
    except (ValueError, RecursionError):
        return value
    return found


def as_object(value: Json) -> Mapping[str, Json]:
    """The object, also one written as text; of anything else an empty one."""
    found = parsed(value)
    return found if isinstance(found, dict) else {}


def as_list(value: Json) -> list[Json]:
    """The list, also one written as text; of anything else an empty one."""
    found = parsed(value)
    return found if isinstance(found, list) else []


def within(value: Json, *keys: str | int) -> Json:
    """What stands at the end of a path of keys and places; None where the path ends early."""
    for key in keys:
        if isinstance(key, str) and isinstance(value, dict):
            value = value.get(key)
        elif isinstance(key, int) and isinstance(value, list) and -len(value) <= key < len(value):
            value = value[key]
        else:
            return None
    return value
