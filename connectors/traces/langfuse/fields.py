"""Values as Langfuse writes them into its columns: times, maps, flags, and what counts as unset.

Source: Langfuse 4.16 (OpenAPI and recorded answers of the public API), field reference of the blob
storage export, API exports of 2025 and 2026. One row comes in camelCase from the API and in
snake_case from a blob export; objects may be JSON text, maps may be lists of pairs (Parquet).
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import orjson

from connectors.traces.raw import as_float, as_int, as_ns
from contracts.json_types import Json

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CAMEL: Final = {
    "trace_id": "traceId", "parent_observation_id": "parentObservationId",
    "start_time": "startTime", "end_time": "endTime", "updated_at": "updatedAt",
    "created_at": "createdAt", "status_message": "statusMessage",
    "provided_model_name": "providedModelName", "model_parameters": "modelParameters",
    "usage_details": "usageDetails", "cost_details": "costDetails", "total_cost": "totalCost",
    "prompt_name": "promptName", "prompt_version": "promptVersion", "user_id": "userId",
    "session_id": "sessionId", "trace_name": "traceName", "project_id": "projectId",
    "is_root_observation": "isRootObservation", "tool_calls": "toolCalls",
    "tool_call_names": "toolCallNames", "tool_definitions": "toolDefinitions",
    "observation_id": "observationId", "data_type": "dataType", "string_value": "stringValue",
    "long_string_value": "longStringValue", "dataset_run_id": "datasetRunId",
    "internal_model_id": "internalModelId", "author_user_id": "authorUserId",
}  # fmt: skip
_MAP_PAIR = re.compile(r"""['"]([^'"]{1,128})['"]\s*:\s*(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)""")
_UNITS: Final = ((1e11, 1_000_000_000), (1e14, 1_000_000), (1e17, 1000))


def camel(row: Mapping[str, Json]) -> Mapping[str, Json]:
    """The row under the names of the API; a row that has them already is given back."""
    if "trace_id" in row or "start_time" in row or "created_at" in row:
        return {_CAMEL.get(key, key): value for key, value in row.items()}
    return row


def time_ns(value: Json) -> int | None:
    """A time as Unix nanoseconds; one without a zone is in UTC, as every Langfuse column is."""
    if isinstance(value, str):
        try:
            when = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
        try:
            aware = when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
            return as_ns((aware - _EPOCH) // timedelta(microseconds=1) * 1000)
        except OverflowError:
            return None
    number = as_float(value)
    if number is None or number <= 0:
        return None
    scale = next((scale for below, scale in _UNITS if number < below), 1)
    return as_ns((as_int(value) or 0) * scale if number == int(number) else int(number * scale))


def text(value: Json) -> str:
    """The text, or nothing: Langfuse writes an unset column as "" or null."""
    return value if isinstance(value, str) else ""


def is_unset(value: Json) -> bool:
    """Whether nothing was recorded in this column."""
    return value is None or (isinstance(value, str) and value in ("", "null"))


def parsed(value: Json) -> Json:
    """JSON that stands in a string; anything else, and what is no JSON, as it is."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            found: Json = orjson.loads(value.encode("utf-8", "surrogatepass"))
        except (ValueError, RecursionError):
            return value
        return found
    return value


def mapping(value: Json) -> dict[str, Json]:
    """An object, however it is written: as one, as JSON text, or as pairs."""
    found = parsed(value)
    if isinstance(found, dict):
        return found
    if isinstance(found, str) or not isinstance(found, Sequence):
        return {}
    out: dict[str, Json] = {}
    for pair in found:
        if isinstance(pair, dict) and isinstance(pair.get("key"), str):
            out[str(pair["key"])] = pair.get("value")
        elif isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str):
            out[pair[0]] = pair[1]
    return out


def numbers(value: Json) -> dict[str, float]:
    """A map of names to numbers that are not negative; numbers may be text."""
    found = mapping(value)
    if not found and isinstance(value, str) and value.startswith("{"):
        found = dict(_MAP_PAIR.findall(value[:4096]))
    out = {key: as_float(item) for key, item in found.items()}
    return {key: number for key, number in out.items() if number is not None and number >= 0}


def strings(value: Json) -> list[str]:
    """A list of texts, also one written as JSON; empty ones are left out."""
    found = parsed(value)
    if isinstance(found, str) or not isinstance(found, Sequence):
        return []
    return [item for item in found if isinstance(item, str) and item]


def flag(value: Json) -> bool | None:
    """A truth value, also one written as text or as 0 and 1."""
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower() if isinstance(value, str | int | float) else ""
    return {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}.get(
        word
    )
