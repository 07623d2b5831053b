"""Records to JSON and back, for the ledger, the state and the command line."""

from collections.abc import Hashable
from functools import lru_cache
from typing import TypeVar, cast

from pydantic import TypeAdapter

from contracts.json_types import Json, JsonObject

T = TypeVar("T")


@lru_cache(maxsize=128)
def _adapter(kind: Hashable) -> TypeAdapter[object]:
    return TypeAdapter(cast("type[object]", kind))


def to_json(record: object) -> dict[str, Json]:
    """A record as JSON values only; times as RFC 3339 UTC."""
    value = _adapter(cast("Hashable", type(record))).dump_python(record, mode="json")
    return cast("dict[str, Json]", value)  # a dataclass is always an object


def from_json(kind: type[T], value: JsonObject) -> T:
    """The record that `to_json` made `value` of.

    Raises:
        ValueError: `value` is not one.
    """
    return cast("T", _adapter(cast("Hashable", kind)).validate_python(value))
