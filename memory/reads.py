"""Where a read of traces stood, so that a run that was killed goes on from there."""

from dataclasses import dataclass
from typing import cast

from sqlalchemy import Delete, delete

from contracts.json_types import Json, JsonObject
from memory.database import Database
from memory.schema import reads


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The last saved standing of one part of a thread's reading."""

    cursor: str
    body: JsonObject


class Reads:
    """Standings of one project: the newest replaces the one before, and the last step clears."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def get(self, thread: str, part: str) -> Standing | None:
        """What was saved last; None when nothing was."""
        row = self._db.first(reads, thread=thread, part=part)
        if row is None:
            return None
        return Standing(cursor=cast("str", row["cursor"]), body=cast("JsonObject", row["body"]))

    def put(self, thread: str, part: str, cursor: str, body: Json) -> None:
        """Replace what was saved of this part."""
        with self._db.write() as tx:
            tx.execute(self._gone(thread, part))
            row = {"thread": thread, "part": part, "cursor": cursor, "body": body}
            self._db.insert_once(tx, reads, {**row, "at": self._db.now()})

    def clear(self, thread: str) -> None:
        """Forget the thread's standings: its analysis is in the ledger now."""
        with self._db.write() as tx:
            for part in ("window", "baseline"):
                tx.execute(self._gone(thread, part))

    def _gone(self, thread: str, part: str) -> Delete:
        mine = reads.c.project == self._db.project
        return delete(reads).where(mine, reads.c.thread == thread, reads.c.part == part)
