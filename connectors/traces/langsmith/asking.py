"""What is asked of LangSmith, whichever generation of its API answers, and pages read to the end.

Traps that are closed here: a page may be short or empty and still carry a cursor, a cursor may
repeat, and a page that is full without a cursor may be a silent loss.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeVar

import orjson

from connectors.traces.langsmith.values import as_time_ns
from connectors.traces.normalise import when
from connectors.traces.raw import as_objects
from contracts.errors import SourceError
from contracts.json_types import Json

Run = Mapping[str, Json]
What = Literal["steps", "payloads", "all"]
"""steps: everything but inputs, outputs and parameters; payloads: those, by run id; all: both."""

MAX_PAGES: Final = 20_000  # of one question; far above what fits into a window that can be held
MAX_TEXT_BYTES: Final = 64 << 20
"""Of the payloads of a listing that are held at once, where it can be made shorter."""
MAX_EMPTY_PAGES: Final = 500  # one after another


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Runs that start in [start_ns, end_ns), of these traces or with these ids where given."""

    start_ns: int
    end_ns: int
    what: What
    trace_ids: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    roots_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One answer, in whatever order."""

    runs: list[Run]
    cursor: str | None


class Reader(Protocol):
    """One generation of the API."""

    name: str
    """As the report names it."""
    page_size: int
    most_ids: int
    """Ids that fit into one question."""
    listed: What
    """What a listing of a window asks for: payloads at once where a second question costs more."""

    async def page(self, ask: Ask, *, size: int, cursor: str | None = None) -> Page:
        """One page of what is asked for."""
        ...


class Unpaged(SourceError):
    """The pages do not end, or do not hold together: what was read cannot be trusted whole."""


class TooMany(Exception):
    """More runs than the caller can hold. `lasting_ns`: how much time those it saw cover."""

    def __init__(self, lasting_ns: int) -> None:
        super().__init__(lasting_ns)
        self.lasting_ns = lasting_ns


async def read_all(reader: Reader, ask: Ask, *, size: int, most: int = 1 << 40) -> dict[str, Run]:
    """Every run that is asked for, by id.

    Raises:
        TooMany: there are more than `most`, or more of their text than `MAX_TEXT_BYTES`.
        Unpaged: the pages do not hold together.
        CallError: see `connectors.traces.answers`.
    """
    try:
        return await _read(reader, ask, size=size, most=most)
    except _FullWithoutCursor as error:
        # Pages of another size end elsewhere: an honest last page is not full this time.
        other = next((n for n in range(size - 1, 1, -1) if error.runs % n), None)
        if other is None:
            raise
    return await _read(reader, ask, size=other, most=most)


async def any_runs(reader: Reader, ask: Ask) -> bool:
    """Whether there is a run at all, which costs little to ask.

    Raises:
        CallError: see `connectors.traces.answers`.
    """
    cursor: str | None = None
    for _ in range(MAX_EMPTY_PAGES):
        page = await reader.page(ask, size=1, cursor=cursor)
        if page.runs or page.cursor is None or page.cursor == cursor:
            return bool(page.runs)
        cursor = page.cursor
    return False


class _FullWithoutCursor(Unpaged):
    """The last page was as long as a page may be."""

    runs = 0


async def _read(reader: Reader, ask: Ask, *, size: int, most: int) -> dict[str, Run]:
    runs: dict[str, Run] = {}
    seen: set[str] = set()
    empty = weight = 0
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await reader.page(ask, size=size, cursor=cursor)
        for run in page.runs:
            key = run.get("id")
            if isinstance(key, str):
                runs[key] = run
        weight += _text_bytes(page.runs) if most < 1 << 40 else 0
        if len(runs) > most or weight > MAX_TEXT_BYTES:
            raise TooMany(_covered_ns(runs))
        if page.cursor is None:
            if len(page.runs) < size or (ask.ids and runs.keys() >= set(ask.ids)):
                return runs
            full = _failure(_FullWithoutCursor, reader, "gave a full page without a cursor")
            full.runs = len(runs)
            raise full
        if page.cursor in seen:
            raise _failure(Unpaged, reader, "gave the same cursor twice")
        seen.add(page.cursor)
        cursor = page.cursor
        empty = 0 if page.runs else empty + 1
        if empty > MAX_EMPTY_PAGES:
            break
    raise _failure(Unpaged, reader, "gave pages without an end")


_U = TypeVar("_U", bound=Unpaged)


def _failure(kind: type[_U], reader: Reader, why: str) -> _U:
    return kind(f"{reader.name}: the server {why}", backend=reader.name, operation="query")


def _covered_ns(runs: Mapping[str, Run]) -> int:
    starts = [ns for run in runs.values() if (ns := as_time_ns(run.get("start_time")))]
    return max(starts) - min(starts) if starts else 0


def _text_bytes(runs: list[Run]) -> int:
    """About what the payloads of these runs weigh."""
    try:
        return sum(len(orjson.dumps((run.get("inputs"), run.get("outputs")))) for run in runs)
    except TypeError:  # numbers beyond 64 bits
        return sum(len(str(run)) for run in runs)


def iso(ns: int) -> str:
    """RFC 3339 in UTC."""
    return when(ns).isoformat().replace("+00:00", "Z")


def page_of(answer: Json, rows: str, cursor: Json, reader: str) -> Page:
    """A parsed answer as a page.

    Raises:
        Unpaged: it is no page.
    """
    found = answer.get(rows) if isinstance(answer, dict) else None
    if not isinstance(found, list):
        raise Unpaged(
            f"{reader}: the answer has no list {rows!r}; is the base URL right?",
            backend=reader,
            operation="query",
        )
    return Page(runs=as_objects(found), cursor=cursor if isinstance(cursor, str) else None)


def in_traces(trace_ids: tuple[str, ...]) -> str:
    """A filter for the runs of several traces; whatever could not be an id is left out."""
    plain = [one for one in trace_ids if one.replace("-", "").isalnum()]
    return f"in(trace_id, {json.dumps(plain)})"
