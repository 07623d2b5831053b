"""The scores of traces and of their sessions, asked for beside the spans.

Source: Langfuse 4.16, `GET /api/public/v3/scores` (cursor, at most 100 a page, lists of ids joined
by commas), and `GET /api/public/v2/scores` on servers without it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from connectors.traces.calls import BudgetSpent, NotThere
from connectors.traces.collect import Collector
from connectors.traces.langfuse.fields import text
from connectors.traces.langfuse.notes import score_note, score_of, score_session_id, score_trace_id
from connectors.traces.langfuse.paging import GENERAL, Api, cursor_pages, numbered_pages, portions
from connectors.traces.raw import Raw, RawNote, as_id
from contracts.errors import SourceError
from contracts.json_types import Json
from contracts.traces import Score

V3: Final = "/api/public/v3/scores"
V2: Final = "/api/public/v2/scores"
PAGE_ROWS = 100
IDS_AT_ONCE = 100
MAX_SESSIONS = 10_000  # whose scores are kept at hand


class Scores:
    """Reads scores; where that fails, says so once and leaves them out."""

    def __init__(self, api: Api, collector: Collector) -> None:
        self._api = api
        self._collector = collector
        self._sessions: dict[str, tuple[Score, ...]] = {}
        self._gone = False

    async def of(self, rows: Mapping[str, Sequence[Mapping[str, Json]]]) -> dict[str, list[Raw]]:
        """Notes by trace id, for traces given with their rows.

        Raises:
            BudgetSpent: the time of the job is over.
        """
        notes: dict[str, list[Raw]] = {}
        if self._gone:
            return notes
        sessions = {
            key: next((session for row in found if (session := text(row.get("sessionId")))), "")
            for key, found in rows.items()
        }
        try:
            for part in portions([key for key, found in rows.items() if found], IDS_AT_ONCE):
                for row in await self._asked("traceId", part):
                    note = score_note(row)
                    if note is not None:
                        notes.setdefault(score_trace_id(row) or "", []).append(note)
            await self._learn([s for s in dict.fromkeys(sessions.values()) if s])
        except BudgetSpent:
            raise
        except SourceError as error:
            self._gone = True
            self._collector.skip("scores", f"were not all read: {error}", partial=False)
        for key, session in sessions.items():
            found, trace_id = self._sessions.get(session, ()), as_id(key, 16)
            if found and trace_id is not None:
                notes.setdefault(key, []).append(RawNote(trace_id=trace_id, scores=found))
        return notes

    async def _learn(self, sessions: Sequence[str]) -> None:
        """Scores of whole sessions, each session asked for once."""
        if len(self._sessions) > MAX_SESSIONS:
            self._sessions.clear()
        new = [session for session in sessions if session not in self._sessions]
        for part in portions(new, IDS_AT_ONCE):
            found: dict[str, list[Score]] = {}
            for row in await self._asked("sessionId", part):
                score, session = score_of(row), score_session_id(row)
                if score is not None and session is not None:
                    found.setdefault(session, []).append(score)
            self._sessions |= {session: tuple(found.get(session, ())) for session in part}

    async def _asked(self, column: str, keys: Sequence[str]) -> list[Mapping[str, Json]]:
        params: dict[str, str | int] = {
            column: ",".join(keys), "fields": "details,subject", "limit": PAGE_ROWS,
        }  # fmt: skip
        try:
            pages = cursor_pages(self._api, V3, params)
            return [row async for page in pages for row in page]
        except NotThere:
            old: list[Mapping[str, Json]] = []
            for key in keys:
                numbered = numbered_pages(
                    self._api, V2, {column: key}, limit=PAGE_ROWS, klass=GENERAL
                )
                old += [row async for page in numbered for row in page]
            return old
