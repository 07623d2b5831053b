"""Datasets of a vendor: where cases are read from, and written back to."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from contracts.json_types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetItem:
    """One example of a dataset."""

    id: str
    """The vendor's; of one to be written, ours, so that a second write adds nothing."""
    input: Json
    expected: Json = None
    metadata: Mapping[str, Json] = field(default_factory=dict)
    source_trace: str | None = None


class Dataset(Protocol):
    """One dataset of one vendor, by name. Contract suite: `tests/contract/test_dataset.py`."""

    name: str

    def read(self) -> AsyncIterator[DatasetItem]:
        """All active items, page by page.

        Raises:
            SourceError: there is no such dataset, or the backend cannot be reached.
        """
        ...

    async def add(self, items: Sequence[DatasetItem]) -> int:
        """Write items under their ids; made when it is new. How many were not there before.

        Raises:
            SourceError: the backend refused, or cannot be reached; what was written stays written.
        """
        ...
