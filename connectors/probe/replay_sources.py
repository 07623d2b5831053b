"""Where recordings come from: files, and the traces that cases were made of."""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from connectors.probe.replay_recording import Recording, record
from connectors.probe.replay_shelf import MAX_RECORDINGS, Shelf, input_id, request_of
from connectors.traces.files import FilesSource
from connectors.traces.plain import find_files
from contracts.errors import ConfigError, TracemendError, UsageError
from contracts.json_types import Json
from contracts.traces import Trace, TraceId, TraceQuery

FetchTrace = Callable[[TraceId], Awaitable[Trace]]
"""One whole trace by its id; raises SourceError where it cannot be read."""

_KEPT: Final = 512
"""Fetched recordings that are kept in the process: a gate opens its probe every minute."""
_Stamp = tuple[tuple[str, int, int], ...]


class Recordings(Protocol):
    """Finds the recording that a run lives in."""

    async def choose(self, case_input: Json) -> Recording | None:
        """The same for equal inputs, whatever the arm; None: nothing was recorded that is near.

        Raises:
            ConfigError: the recordings cannot be read at all.
        """
        ...


class KnownRecordings:
    """Recordings of files by input, and of a case's own trace by its id."""

    def __init__(
        self, *, root: Path, traces: Sequence[str], writes: Collection[str],
        origins: Mapping[str, TraceId], fetch: FetchTrace,
    ) -> None:  # fmt: skip
        """Read nothing yet.

        Args:
            root: the operator's repository.
            traces: files, folders, globs from there; none: only the traces of cases.
            writes: tools that change something.
            origins: from which trace a case was made, by `input_id` of its input.
            fetch: reads a trace that the files do not hold.
        """
        self._root = root
        self._patterns = tuple(str(root / pattern) for pattern in traces)
        self._writes = frozenset(writes)
        self._origins = dict(origins)
        self._fetch = fetch
        self._lock = asyncio.Lock()
        self._shelf: Shelf | None = None

    async def choose(self, case_input: Json) -> Recording | None:
        """See the protocol. A source that cannot be reached has no recording."""
        origin = self._origins.get(input_id(case_input))
        async with self._lock:
            if self._shelf is None:
                self._shelf = await read_shelf(self._patterns, self._writes)
            if origin is not None and not self._shelf.holds(origin):
                fetched = await self._fetched(origin, case_input)
                if fetched is not None:
                    return fetched
        return self._shelf.choose(case_input, origin)

    async def _fetched(self, origin: TraceId, case_input: Json) -> Recording | None:
        key = (self._root, origin, input_id(case_input), self._writes)
        if key not in _FETCHED:
            try:
                trace = await self._fetch(origin)
            except TracemendError:
                return None
            _FETCHED[key] = await asyncio.to_thread(record, trace, case_input, self._writes)
            while len(_FETCHED) > _KEPT:
                _FETCHED.popitem(last=False)
        return _FETCHED[key]


_FETCHED: OrderedDict[tuple[Path, TraceId, str, frozenset[str]], Recording] = OrderedDict()
_SHELVES: dict[tuple[tuple[str, ...], frozenset[str]], tuple[_Stamp, Shelf]] = {}


async def read_shelf(patterns: tuple[str, ...], writes: frozenset[str]) -> Shelf:
    """The recordings in files, read again when a file changed; none for no patterns.

    Raises:
        ConfigError: nothing there can be read.
    """
    if not patterns:
        return Shelf()
    try:
        stamp = await asyncio.to_thread(_stamp, patterns)
        known = _SHELVES.get((patterns, writes))
        if known is None or known[0] != stamp:
            known = stamp, await _read(patterns, writes)
            _SHELVES.clear()  # one is kept: it may be large
            _SHELVES[patterns, writes] = known
    except UsageError as error:
        raise ConfigError(f"probe.replay.traces: {error}") from None
    return known[1]


async def _read(patterns: tuple[str, ...], writes: frozenset[str]) -> Shelf:
    shelf = Shelf()
    async for batch in FilesSource(patterns).window(TraceQuery()):
        for trace in batch.traces:
            if len(shelf) < MAX_RECORDINGS:
                _put(shelf, trace, writes)
    return shelf


def _put(shelf: Shelf, trace: Trace, writes: frozenset[str]) -> None:
    request = request_of(trace)
    if request is not None:
        with contextlib.suppress(RecursionError):  # JSON nested deeper than anything real
            shelf.add(record(trace, request, writes))


def _stamp(patterns: Sequence[str]) -> _Stamp:
    """Names, sizes and times of the files."""
    found = ((path, path.stat()) for path in find_files(patterns))
    return tuple((str(path), seen.st_size, seen.st_mtime_ns) for path, seen in found)
