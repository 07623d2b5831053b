"""A dataset of Langfuse, read page by page and added to item by item.

Source: Langfuse 4.16 public API (OpenAPI, recorded answers) and SDK 5.0.4: `v2/datasets/{name}`,
`POST v2/datasets` (made, or found by its name), `GET dataset-items` (page and limit; archived ones
are in it), `POST dataset-items` (one at a time; an id that is there is replaced). Answers are read
as plain JSON: the SDK's models want `mediaReferences`, which older servers do not send.
"""

import base64
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Final
from urllib.parse import quote

from pydantic import SecretStr

from connectors.datasets.items import (
    DatasetError,
    in_part,
    own_id,
    sendable,
    vendor_id,
    with_kept,
    without_kept,
)
from connectors.datasets.paging import Rows, rows_once
from connectors.traces.calls import Budget, Calls, Limit, NotThere
from connectors.traces.langfuse.paging import Api, numbered_pages
from contracts.datasets import DatasetItem
from contracts.errors import SourceError
from contracts.json_types import Json

PAGE_ITEMS: Final = 100
A_MINUTE: Final = 1000
"""Calls to datasets on the vendor's paid plans; where fewer are allowed the server says so."""
_KLASS: Final = "datasets"
_HINT: Final = "check LANGFUSE_PUBLIC_KEY, LANGFUSE_SECRET_KEY and the base URL"
_DATASETS: Final = "/api/public/v2/datasets"
_ITEMS: Final = "/api/public/dataset-items"


class LangfuseDataset:
    """One dataset of one Langfuse project; implements `contracts.datasets.Dataset`."""

    def __init__(
        self,
        *,
        name: str,
        base_url: str,
        public_key: SecretStr,
        secret_key: SecretStr,
        a_minute: int = A_MINUTE,
        budget_s: float = 300,
        timeout_s: float = 60,
    ) -> None:
        """Nothing is opened before the first call.

        Args:
            name: of the dataset; one with slashes lies in folders.
            base_url: of Langfuse Cloud's region or of a server of one's own.
            public_key: of the project, `pk-lf-...`.
            secret_key: of the project, `sk-lf-...`.
            a_minute: calls that the plan allows.
            budget_s: wall-clock time of one read or of one `add`.
            timeout_s: of one call.
        """
        self.name = name
        self._base_url = base_url
        self._public = public_key
        self._secret = secret_key
        self._limits = {_KLASS: Limit(requests=a_minute, seconds=60)}
        self._budget_s = budget_s
        self._timeout_s = timeout_s

    async def read(self) -> AsyncIterator[DatasetItem]:
        """All active items.

        Raises:
            SourceError: there is no such dataset, or the backend cannot be reached.
        """
        async with self._open() as calls:
            if not await self._there(calls):
                why = f"there is no dataset {self.name!r} in this project; check its name"
                raise DatasetError("langfuse", "read", why)
            async with aclosing(self._rows(calls)) as rows:
                async for row in rows:
                    if row.get("status") != "ARCHIVED":
                        yield _item(row, self.name)

    async def add(self, items: Sequence[DatasetItem]) -> int:
        """Write the items that are not there; one that is stays as people left it.

        Raises:
            SourceError: the backend refused, or cannot be reached; what was written stays written.
        """
        wanted = [sendable(item) for item in items]
        async with self._open() as calls:
            held: set[str] = set()
            if await self._there(calls):
                held = {str(row.get("id")) async for row in self._rows(calls)}
            else:
                await calls.post(_DATASETS, {"name": self.name}, klass=_KLASS)
            written = 0
            for item in wanted:
                key = vendor_id(self.name, item.id)
                if item.id in held or key in held:
                    continue
                try:
                    await calls.post(_ITEMS, self._body(item, key), klass=_KLASS)
                except SourceError as error:
                    raise in_part("langfuse", error, written, len(wanted)) from error
                held.add(key)
                written += 1
            return written

    def _body(self, item: DatasetItem, key: str) -> dict[str, Json]:
        return {
            "datasetName": self.name,
            "id": key,
            "input": item.input,
            "expectedOutput": item.expected,
            "metadata": with_kept(item),
            "sourceTraceId": item.source_trace,
        }

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Calls]:
        public, secret = self._public.get_secret_value(), self._secret.get_secret_value()
        basic = base64.b64encode(f"{public}:{secret}".encode()).decode()
        calls = Calls(
            backend="langfuse",
            base_url=self._base_url,
            headers={"authorization": f"Basic {basic}"},
            key=public,
            budget=Budget(self._budget_s),
            limits=self._limits,
            timeout_s=self._timeout_s,
            hint=_HINT,
        )
        try:
            yield calls
        finally:
            await calls.aclose()

    async def _there(self, calls: Calls) -> bool:
        try:
            await calls.get(f"{_DATASETS}/{quote(self.name, safe='')}", klass=_KLASS)
        except NotThere as missing:
            if missing.html:
                raise  # no Langfuse at all, or one before datasets had names
            return False
        return True

    def _rows(self, calls: Calls) -> AsyncGenerator[Mapping[str, Json]]:
        def pages() -> AsyncGenerator[Rows]:
            params = {"datasetName": self.name}
            return numbered_pages(Api(calls), _ITEMS, params, limit=PAGE_ITEMS, klass=_KLASS)

        return rows_once(pages, backend="langfuse", dataset=self.name)


def _item(row: Mapping[str, Json], dataset: str) -> DatasetItem:
    metadata, kept = without_kept(row.get("metadata"))
    source = row.get("sourceTraceId")
    return DatasetItem(
        id=own_id(kept, dataset, str(row.get("id"))),
        input=row.get("input"),
        expected=row.get("expectedOutput"),
        metadata=metadata,
        source_trace=source if isinstance(source, str) and source else None,
    )
