"""What all datasets share: the ids of items in a vendor, and values that every vendor takes."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from contracts.datasets import DatasetItem
from contracts.errors import SourceError
from contracts.json_types import Json

KEPT: Final = "tracemend_kept"
"""Key of an item's metadata under which a connector keeps what the vendor has no place for."""

_SPACE: Final = uuid.UUID("6f0d3c1e-4a57-5b52-9d0c-2f6f2f7a5c10")
_TOO_DEEP: Final = 200


class DatasetError(SourceError):
    """A dataset could not be read, or not all of it could be written."""

    def __init__(self, backend: str, operation: str, why: str, *, later: bool = False) -> None:
        super().__init__(f"{backend}: {why}", backend=backend, operation=operation, retryable=later)


def in_part(backend: str, error: SourceError, written: int, asked: int) -> DatasetError:
    """What to say where writing broke off: what is there stays, a second call writes the rest."""
    said = str(error).removeprefix(f"{backend}: ")
    why = f"{said}; {written} of {asked} items are written, add them again for the rest"
    return DatasetError(backend, "add", why, later=error.retryable)


def vendor_id(dataset: str, item_id: str) -> str:
    """The id of an item of ours in a vendor's dataset: a UUID, the same for every write.

    Vendors want ids that no other dataset of the project has, and one case may be in several.
    """
    return str(uuid.uuid5(_SPACE, f"{dataset}\n{item_id}".encode("utf-8", "replace").decode()))


def with_kept(item: DatasetItem, **more: Json) -> dict[str, Json]:
    """The item's metadata as it is written, with our id and what else the vendor cannot hold."""
    return {**item.metadata, KEPT: {"id": item.id, **more}}


def without_kept(metadata: Json) -> tuple[dict[str, Json], Mapping[str, Json]]:
    """(metadata as it was given, what a connector kept in it). Metadata may be any JSON."""
    if metadata is None:
        return {}, {}
    if not isinstance(metadata, Mapping):
        return {"value": metadata}, {}
    kept = metadata.get(KEPT)
    rest = {key: value for key, value in metadata.items() if key != KEPT}
    return rest, kept if isinstance(kept, Mapping) else {}


def own_id(kept: Mapping[str, Json], dataset: str, vendors: str) -> str:
    """Our id of an item that we wrote, else the vendor's.

    Others can write metadata too: what they say counts only where it leads to the vendor's id.
    """
    ours = kept.get("id")
    return ours if isinstance(ours, str) and vendor_id(dataset, ours) == vendors else vendors


def sendable(item: DatasetItem) -> DatasetItem:
    """The item with characters that databases refuse replaced: half surrogates and NUL.

    Raises:
        DatasetError: it is nested deeper than a vendor takes.
    """
    metadata = _plain(dict(item.metadata), item.id)
    return replace(
        item,
        input=_plain(item.input, item.id),
        expected=_plain(item.expected, item.id),
        metadata=metadata if isinstance(metadata, Mapping) else {},
    )


def _plain(value: Json, item_id: str, depth: int = 0) -> Json:
    if depth > _TOO_DEEP:
        why = f"item {item_id[:64]!r} is nested more than {_TOO_DEEP} deep; leave it out"
        raise DatasetError("dataset", "add", why)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return {_text(str(k)): _plain(v, item_id, depth + 1) for k, v in value.items()}
    if isinstance(value, Sequence):
        return [_plain(one, item_id, depth + 1) for one in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), -float("inf"))):  # noqa: PLR0124  # NaN
        return str(value)
    return value


def _text(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
