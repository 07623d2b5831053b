"""Inputs and outputs of the runs that need them: asked for by id, or fetched from where they stand.

Most bytes of a LangGraph trace are the state that inner chains hand on; nothing reads those. A
presigned address is fetched only when it stands where the API puts it and its host is allowed.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from connectors.traces.calls import BadRequest, CallError, Calls, NotThere, TooMuch
from connectors.traces.langsmith.asking import Ask, Reader, Run, read_all
from connectors.traces.langsmith.values import as_object, parsed, within
from connectors.traces.raw import RawSpan
from connectors.traces.salvage import load
from contracts.json_types import Json

MISSING: Final = "tracemend.payload_missing"
"""Marks a step whose input and output are recorded but could not be read."""
LAST_TRIES: Final = 5  # runs in a row that fail one by one; then the server is what fails
GROW_AFTER: Final = 8  # answers that came well, before more is asked for at once again
_LOCAL: Final = ("127.0.0.1", "::1", "localhost")
_FIELDS: Final = ("inputs", "outputs", "extra", "inputs_s3_urls", "outputs_s3_urls")


def needing(spans: Iterable[RawSpan]) -> list[RawSpan]:
    """Those of a trace's steps whose payloads are read: all but inner chains that worked."""
    known = list(spans)
    parents = {span.parent_id for span in known}
    return [
        span
        for span in known
        if span.parent_id is None
        or span.span_id not in parents
        or span.status == "error"
        or span.attributes.get("openinference.span.kind") != "CHAIN"
    ]


class Payloads:
    """Asks one reader for payloads, as many at once as its server has been able to give."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._chunk = reader.most_ids
        self._well = 0

    async def read(
        self, ids: Sequence[str], start_ns: int, end_ns: int
    ) -> tuple[dict[str, Run], list[str]]:
        """(payload rows by run id, ids that are too large to be read).

        Raises:
            CallError: the server fails run by run, or in another way.
        """
        found: dict[str, Run] = {}
        large: list[str] = []
        failures = at = 0
        while at < len(ids):
            some = tuple(ids[at : at + self._chunk])
            ask = Ask(start_ns=start_ns, end_ns=end_ns, what="payloads", ids=some)
            try:
                found.update(await read_all(self._reader, ask, size=self._reader.page_size))
            except (TooMuch, BadRequest):
                self._chunk, self._well = max(1, len(some) // 2), 0
                if len(some) > 1:
                    continue
                failures += 1
                if failures >= LAST_TRIES:
                    raise
                large += some
            else:
                failures = 0
                self._went_well()
            at += len(some)
        return found, large

    def _went_well(self) -> None:
        """One heavy run must not keep all later questions short."""
        self._well += 1
        if self._well >= GROW_AFTER:
            self._chunk, self._well = min(self._reader.most_ids, self._chunk * 2), 0


def joined(run: Run, payload: Run | None) -> dict[str, Json]:
    """A run with its payloads."""
    out = dict(run)
    for key in _FIELDS:
        if payload is not None and payload.get(key) is not None:
            out[key] = payload[key]
    return out


class Blobs:
    """Payloads behind presigned addresses."""

    def __init__(
        self, calls: Calls, root: str, allowed_hosts: Sequence[str], *, max_bytes: int
    ) -> None:
        self._calls = calls
        self._root = root
        self._hosts = {urlsplit(root).hostname or "", *(host.lower() for host in allowed_hosts)}
        self._max_bytes = max_bytes
        self.refused: str | None = None
        """The first host that was not asked, since it is not allowed."""
        self.said = False

    async def opened(self, run: Mapping[str, Json]) -> tuple[dict[str, Json], bool]:
        """The run with what stands elsewhere, and whether all of it could be read."""
        out = dict(run)
        whole = True
        for side in ("inputs", "outputs"):
            address = within(parsed(run.get(f"{side}_s3_urls")), "ROOT", "presigned_url")
            if not isinstance(address, str) or as_object(run.get(side)):
                continue
            data = await self._fetched(address)
            if data is None:
                whole = False
            else:
                out[side] = load(data).value
        return out, whole

    async def _fetched(self, address: str) -> bytes | None:
        url = f"{self._root}{address}" if address.startswith("/") else address
        if not self._may(url):
            return None
        try:
            return await self._calls.raw(url, klass="blobs", max_bytes=self._max_bytes)
        except (TooMuch, NotThere, BadRequest):
            return None
        except CallError as error:
            if error.retryable:
                raise
            return None

    def _may(self, url: str) -> bool:
        try:
            parts = urlsplit(url)
            host = (parts.hostname or "").lower()
        except ValueError:
            return False
        plain = host in _LOCAL or url.startswith(f"{self._root}/")
        safe = parts.scheme == "https" or (parts.scheme == "http" and plain)
        if host in self._hosts and safe and not parts.username:
            return True
        self.refused = self.refused or host[:128]
        return False
