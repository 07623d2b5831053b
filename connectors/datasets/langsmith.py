"""A dataset of LangSmith, read page by page and added to in bulk.

Source: LangSmith API as langsmith 0.15.1 asks it: `GET /datasets` by name, `POST /datasets`,
`GET /examples` (offset and limit, at most 100), `POST /examples/bulk` (which servers without the
multipart endpoint also have). Not by the SDK's `Client`: it reads the environment and a profile in
the home folder, so that two projects in one process could write to each other's workspace.
"""

import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Final

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
from connectors.traces.calls import Budget, CallError, Calls, Limit
from connectors.traces.langsmith.server import Server, access_of, find_server, root_of
from contracts.datasets import DatasetItem
from contracts.errors import SourceError
from contracts.json_types import Json

PAGE_ITEMS: Final = 100
BULK_ITEMS: Final = 50
LIMITS: Final[Mapping[str, Limit]] = {"datasets": Limit(requests=1000, seconds=60)}
_KLASS: Final = "datasets"
_MAX_PAGES: Final = 10_000
_CONFLICT: Final = 409
_ONLY: Final = "value"
"""Under which an input or output stands that is no object: LangSmith takes objects only."""


@dataclass(frozen=True, slots=True)
class _Opened:
    calls: Calls
    server: Server

    async def get(self, path: str, params: Mapping[str, str | int]) -> Json:
        return await self.calls.get(f"{self.server.prefix}{path}", params, klass=_KLASS)

    async def post(self, path: str, body: Json) -> Json:
        return await self.calls.post(f"{self.server.prefix}{path}", body, klass=_KLASS)


class LangSmithDataset:
    """One dataset of one LangSmith workspace; implements `contracts.datasets.Dataset`."""

    def __init__(
        self,
        *,
        name: str,
        api_url: str,
        api_key: SecretStr,
        workspace_id: str | None = None,
        limits: Mapping[str, Limit] = LIMITS,
        budget_s: float = 300,
        timeout_s: float = 60,
    ) -> None:
        """Nothing is asked before the first call.

        Args:
            name: of the dataset.
            api_url: of a region or of a self-hosted server, with or without `/api` or `/api/v1`.
            api_key: a workspace's key, or an organization's together with `workspace_id`.
            workspace_id: sent as `X-Tenant-Id`.
            limits: of the class `datasets`.
            budget_s: wall-clock time of one read or of one `add`.
            timeout_s: of one call.
        """
        self.name = name
        self._api_url = api_url
        self._key = api_key
        self._workspace = workspace_id
        self._limits = limits
        self._budget_s = budget_s
        self._timeout_s = timeout_s

    async def read(self) -> AsyncIterator[DatasetItem]:
        """All examples.

        Raises:
            SourceError: there is no such dataset, or the backend cannot be reached.
        """
        async with self._open() as opened:
            dataset = await self._found(opened)
            if dataset is None:
                why = f"there is no dataset {self.name!r} in this workspace; check its name"
                raise DatasetError("langsmith", "read", why)
            async with aclosing(self._rows(opened, dataset)) as rows:
                async for row in rows:
                    yield _item(row, self.name)

    async def add(self, items: Sequence[DatasetItem]) -> int:
        """Write the items that are not there; one that is stays as people left it.

        Raises:
            SourceError: the backend refused, or cannot be reached; what was written stays written.
        """
        wanted = {vendor_id(self.name, item.id): sendable(item) for item in items}
        async with self._open() as opened:
            dataset = await self._found(opened)
            if dataset is None:
                dataset = _id(await opened.post("/datasets", self._made()), "POST /datasets")
            before = await self._held(opened, dataset)
            missing = {
                key: item for key, item in wanted.items()
                if key not in before and item.id not in before
            }  # fmt: skip
            keys, written = list(missing), 0
            for at in range(0, len(keys), BULK_ITEMS):
                part = [_body(missing[key], key, dataset) for key in keys[at : at + BULK_ITEMS]]
                try:
                    await self._write(opened, dataset, part)
                except SourceError as error:
                    done = len(wanted) - len(missing) + written
                    raise in_part("langsmith", error, done, len(wanted)) from error
                written += len(part)
            return written

    async def _write(
        self, opened: _Opened, dataset: str, part: Sequence[Mapping[str, Json]]
    ) -> None:
        """One bulk. Where an answer was lost and it is sent twice, the second is a conflict."""
        try:
            await opened.post("/examples/bulk", list(part))
        except CallError as error:
            if error.status != _CONFLICT:
                raise
            held = await self._held(opened, dataset)
            for body in part:
                if body["id"] not in held:
                    await opened.post("/examples/bulk", [body])

    async def _held(self, opened: _Opened, dataset: str) -> frozenset[str]:
        async with aclosing(self._rows(opened, dataset)) as rows:
            return frozenset([str(row.get("id")) async for row in rows])

    def _made(self) -> dict[str, Json]:
        return {"name": self.name, "data_type": "kv"}

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[_Opened]:
        key = self._key.get_secret_value()
        headers, hint = access_of(key, self._workspace)
        calls = Calls(
            backend="langsmith",
            base_url=root_of(self._api_url),
            headers=headers,
            key=key,
            budget=Budget(self._budget_s),
            limits=self._limits,
            timeout_s=self._timeout_s,
            hint=hint,
        )
        try:
            yield _Opened(calls, await find_server(calls, self._api_url))
        finally:
            await calls.aclose()

    async def _found(self, opened: _Opened) -> str | None:
        """The dataset's id; None: there is none of this name."""
        answer = await opened.get("/datasets", {"name": self.name, "limit": 1})
        found = answer if isinstance(answer, list) else []
        named = [row for row in found if isinstance(row, dict) and row.get("name") == self.name]
        return _id(named[0], "GET /datasets") if named else None

    def _rows(self, opened: _Opened, dataset: str) -> AsyncGenerator[Mapping[str, Json]]:
        async def pages() -> AsyncGenerator[Rows]:
            for number in range(_MAX_PAGES):
                asked: dict[str, str | int] = {
                    "dataset": dataset, "offset": number * PAGE_ITEMS, "limit": PAGE_ITEMS,
                    "inline_s3_urls": "true",
                }  # fmt: skip
                page = await opened.get("/examples", asked)
                if not isinstance(page, list):
                    why = "GET /examples: answers with something that is no page of examples"
                    raise DatasetError("langsmith", "read", why)
                yield [one for one in page if isinstance(one, dict)]
                if len(page) < PAGE_ITEMS:
                    return

        return rows_once(pages, backend="langsmith", dataset=self.name)


def _id(row: Json, what: str) -> str:
    found = row.get("id") if isinstance(row, dict) else None
    if not isinstance(found, str):
        raise DatasetError("langsmith", "read", f"{what}: answers without the dataset's id")
    return found


def _body(item: DatasetItem, key: str, dataset: str) -> dict[str, Json]:
    """An example. A source that is no run of LangSmith is kept in the metadata alone."""
    run = _run_id(item.source_trace)
    kept: dict[str, Json] = {}
    if item.source_trace is not None and run is None:
        kept["source"] = item.source_trace
    if not isinstance(item.input, Mapping):
        kept["plain_input"] = True
    if item.expected is not None and not isinstance(item.expected, Mapping):
        kept["plain_expected"] = True
    body: dict[str, Json] = {
        "id": key,
        "dataset_id": dataset,
        "inputs": item.input if isinstance(item.input, Mapping) else {_ONLY: item.input},
        "metadata": with_kept(item, **kept),
    }
    if item.expected is not None:
        plain = "plain_expected" in kept
        body["outputs"] = {_ONLY: item.expected} if plain else item.expected
    if run is not None:
        body["source_run_id"] = run
    return body


def _run_id(trace: str | None) -> str | None:
    """A trace id as LangSmith writes it; ids of other backends are hex digits without dashes."""
    try:
        return trace if trace is not None and str(uuid.UUID(trace)) == trace.lower() else None
    except ValueError:
        return None


def _item(row: Mapping[str, Json], dataset: str) -> DatasetItem:
    metadata, kept = without_kept(row.get("metadata"))
    run, source = row.get("source_run_id"), kept.get("source")
    return DatasetItem(
        id=own_id(kept, dataset, str(row.get("id"))),
        input=_value(row.get("inputs"), kept.get("plain_input")),
        expected=_value(row.get("outputs"), kept.get("plain_expected")),
        metadata={k: v for k, v in metadata.items() if k != "dataset_split"},
        source_trace=next((one for one in (run, source) if isinstance(one, str) and one), None),
    )


def _value(recorded: Json, plain: Json) -> Json:
    only = isinstance(recorded, Mapping) and set(recorded) == {_ONLY}
    return recorded[_ONLY] if plain is True and only and isinstance(recorded, Mapping) else recorded
