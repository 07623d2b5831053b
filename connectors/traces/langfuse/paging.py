"""Pages of the Langfuse API: followed by their cursor or number, never by how many rows came.

Source: Langfuse 4.16 public API. A page may be short or empty and still carry a cursor (changelog
of 3 Nov 2026); a cursor that comes back, or a full page that names no next one, is an error, not
an end.
"""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import quote

from connectors.traces.calls import Calls, Params, TooMuch
from connectors.traces.raw import as_int, as_objects
from contracts.errors import SourceError
from contracts.json_types import Json

GENERAL: Final = "general"
DEPRECATED: Final = "deprecated"
MAX_PAGES = 100_000
MAX_ADDRESS_CHARS = 6000  # proxies take an address of 8 kB
MAX_FAILED = 150  # halving all that is asked for at once, down to one row, takes fewer
IN_FLIGHT = 6  # calls at once: at 50 ms each, enough for the largest rate limit of the vendor
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class PagingError(SourceError):
    """The pages do not lead to their end, so that rows are missing."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"langfuse: GET {path}: {why}", backend="langfuse", operation="window")


class ServerDown(SourceError):
    """The server answers nothing any more, however little it is asked for."""


class Api:
    """Calls with a bound on how many are under way, and on how many fail in a row."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self._room = asyncio.Semaphore(IN_FLIGHT)
        self._failed = 0

    async def get(self, path: str, params: Params | None = None, *, klass: str = GENERAL) -> Json:
        """The answer.

        Raises:
            ServerDown: too many calls in a row were too much, so that asking for less is no help.
            CallError: this call failed.
        """
        async with self._room:
            try:
                answer = await self.calls.get(path, params, klass=klass)
            except TooMuch as error:
                self._failed += 1
                if self._failed < MAX_FAILED:
                    raise
                why = f"{error}; so said the last {self._failed} answers"
                raise ServerDown(why, backend="langfuse", operation=path, retryable=True) from error
            self._failed = 0
            return answer


async def cursor_pages(
    api: Api, path: str, params: Params
) -> AsyncGenerator[list[Mapping[str, Json]]]:
    """The rows of every page, until one carries no cursor.

    Raises:
        PagingError: a cursor comes back, or there is no end.
        CallError: a call failed.
    """
    asked: dict[str, str | int | list[str]] = {
        key: value if isinstance(value, str | int) else list(value) for key, value in params.items()
    }
    seen: set[int] = set()
    for _ in range(MAX_PAGES):
        rows, meta = _page(await api.get(path, asked), path)
        yield rows
        cursor = meta.get("cursor")
        if not isinstance(cursor, str) or not cursor:
            return
        if hash(cursor) in seen:
            raise PagingError(path, "gives the same cursor again; the rows after it are missing")
        seen.add(hash(cursor))
        asked["cursor"] = cursor
    raise PagingError(path, f"has no end after {MAX_PAGES} pages")


async def numbered_pages(
    api: Api, path: str, params: Params, *, limit: int, klass: str
) -> AsyncGenerator[list[Mapping[str, Json]]]:
    """The rows of every numbered page.

    Raises:
        PagingError: a full page does not say how many there are.
        CallError: a call failed.
    """
    for number in range(1, MAX_PAGES):
        rows, meta = _page(
            await api.get(path, {**params, "page": number, "limit": limit}, klass=klass), path
        )
        yield rows
        total = as_int(meta.get("totalPages"))
        if total is None and len(rows) >= limit:
            raise PagingError(path, f"a full page of {len(rows)} rows does not say what follows")
        if total is None or number >= total:
            return
    raise PagingError(path, f"has no end after {MAX_PAGES} pages")


def _page(answer: Json, path: str) -> tuple[list[Mapping[str, Json]], Mapping[str, Json]]:
    if not isinstance(answer, dict) or not isinstance(answer.get("data"), list):
        raise PagingError(path, "answers with something that is no page of rows")
    meta = answer.get("meta")
    return as_objects(answer["data"]), meta if isinstance(meta, dict) else {}


async def together(work: Iterable[Coroutine[None, None, None]]) -> None:
    """Run all of it at once; when all have ended, the first error is raised."""
    ended = await asyncio.gather(*work, return_exceptions=True)
    for error in ended:
        if isinstance(error, BaseException):
            raise error


def portions(ids: Sequence[str], at_once: int) -> list[list[str]]:
    """The ids in parts of at most so many that fit into an address."""
    parts: list[list[str]] = []
    size = 0
    for one in ids:
        cost = len(quote(one, safe="")) + 9
        if not parts or len(parts[-1]) >= at_once or size + cost > MAX_ADDRESS_CHARS:
            parts.append([])
            size = 0
        parts[-1].append(one)
        size += cost
    return parts


def iso(ns: int) -> str:
    """Unix nanoseconds as the API takes times: RFC 3339 in UTC, microseconds."""
    when = _EPOCH + timedelta(microseconds=ns // 1000)
    return when.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def to_ns(when: datetime | None) -> int | None:
    """Unix nanoseconds of an aware time."""
    if when is None:
        return None
    return (when - _EPOCH) // timedelta(microseconds=1) * 1000
