"""A dataset in a file: one item a line, such as an export of Langfuse or LangSmith.

Keys: `input`, `expected`, `metadata`, `id`, `source_trace`; and those of the vendors' exports,
`inputs`, `expectedOutput`, `expected_output`, `outputs`, `sourceTraceId`, `source_run_id`. An item
whose `status` is ARCHIVED is left out; one without an id gets one made of its input.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from connectors.datasets.items import DatasetError, sendable
from contracts.datasets import DatasetItem
from contracts.json_types import Json, canonical_json, content_id

MOST_BYTES: Final = 256 << 20
_INPUT: Final = ("input", "inputs")
_EXPECTED: Final = ("expected", "expectedOutput", "expected_output", "outputs")
_SOURCE: Final = ("source_trace", "sourceTraceId", "source_trace_id", "source_run_id")


class LinesDataset:
    """A JSONL file; implements `contracts.datasets.Dataset`."""

    def __init__(self, path: Path, *, name: str | None = None) -> None:
        """Nothing is opened before the first call. `name` stands in messages."""
        self.name = name or path.name
        self._path = path

    async def read(self) -> AsyncIterator[DatasetItem]:
        """All active items, in the order of the file.

        Raises:
            SourceError: the file cannot be read, or a line of it is no item.
        """
        for item, archived in await asyncio.to_thread(self._all):
            if not archived:
                yield item

    async def add(self, items: Sequence[DatasetItem]) -> int:
        """Append the items whose ids are not there. The file appears whole or stays as it was.

        Raises:
            SourceError: the file cannot be read or written.
        """
        return await asyncio.to_thread(self._add, [sendable(item) for item in items])

    def _add(self, items: Sequence[DatasetItem]) -> int:
        there = self._path.exists()
        held = {item.id for item, _ in self._all()} if there else set()
        new = {item.id: item for item in reversed(items) if item.id not in held}
        lines = [canonical_json(_written(new[i.id])) for i in _once(items) if i.id in new]
        if not lines:
            return 0
        beside = self._path.with_name(f".{self._path.name}.{os.getpid()}.new")
        try:
            before = self._path.read_bytes() if there else b""
            if before and not before.endswith(b"\n"):
                before += b"\n"
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with beside.open("wb") as file:
                file.write(before + b"\n".join(lines) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._path)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise self._error("add", f"cannot be written: {error.strerror}") from error
        return len(lines)

    def _all(self) -> list[tuple[DatasetItem, bool]]:
        """(item, whether it is archived)."""
        try:
            if self._path.stat().st_size > MOST_BYTES:
                raise self._error("read", f"is larger than {MOST_BYTES >> 20} MB; split it")
            text = self._path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise self._error("read", "is not UTF-8 text") from error
        except OSError as error:
            raise self._error("read", f"cannot be read: {error.strerror}") from error
        return list(self._items(text))

    def _items(self, text: str) -> Iterator[tuple[DatasetItem, bool]]:
        # Not splitlines(): a JSON text may hold U+2028 and its like as they are.
        for number, line in enumerate(text.split("\n"), start=1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise self._error("read", f"line {number} is not JSON") from error
            if not isinstance(value, dict) or not any(key in value for key in _INPUT):
                why = f"line {number} is no item: it needs an object with `input`"
                raise self._error("read", why)
            yield _read(value), value.get("status") == "ARCHIVED"

    def _error(self, operation: str, why: str) -> DatasetError:
        return DatasetError(self.name, operation, why)


def _once(items: Sequence[DatasetItem]) -> list[DatasetItem]:
    return list({item.id: item for item in items}.values())


def _read(value: Mapping[str, Json]) -> DatasetItem:
    case_input = _first(value, _INPUT)
    found, source, metadata = value.get("id"), _first(value, _SOURCE), value.get("metadata")
    made = content_id("i-", canonical_json(case_input).decode("utf-8", "replace"))
    return DatasetItem(
        id=found if isinstance(found, str) and found else made,
        input=case_input,
        expected=_first(value, _EXPECTED),
        metadata=metadata if isinstance(metadata, dict) else {},
        source_trace=source if isinstance(source, str) and source else None,
    )


def _first(value: Mapping[str, Json], keys: Sequence[str]) -> Json:
    return next((value[key] for key in keys if value.get(key) is not None), None)


def _written(item: DatasetItem) -> dict[str, Json]:
    line: dict[str, Json] = {"id": item.id, "input": item.input}
    if item.expected is not None:
        line["expected"] = item.expected
    if item.metadata:
        line["metadata"] = dict(item.metadata)
    if item.source_trace is not None:
        line["source_trace"] = item.source_trace
    return line
