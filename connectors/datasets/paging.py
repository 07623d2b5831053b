"""Read every row of a dataset once, though others write to it while its pages are read."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Final

from connectors.datasets.items import DatasetError
from contracts.json_types import Json

Rows = Sequence[Mapping[str, Json]]
Pages = Callable[[], AsyncGenerator[Rows]]
"""Starts reading at the first page."""

_RESTARTS: Final = 2


async def rows_once(
    pages: Pages, *, backend: str, dataset: str
) -> AsyncGenerator[Mapping[str, Json]]:
    """Every row once, by its `id`. A row that came twice says that pages have shifted.

    Then another one may have slipped to a page that was read before, so all is read again.

    Raises:
        DatasetError: pages shifted each time.
    """
    seen: set[str] = set()
    for _ in range(_RESTARTS + 1):
        again, on_pages = 0, set[str]()
        async with aclosing(pages()) as listed:
            async for page in listed:
                for row in page:
                    key = str(row.get("id"))
                    again += key in on_pages
                    on_pages.add(key)
                    if key not in seen:
                        seen.add(key)
                        yield row
        if not again:
            return
    why = f"dataset {dataset!r} changed whenever it was read; read it again later"
    raise DatasetError(backend, "read", why, later=True)
