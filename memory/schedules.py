"""Which slot of each schedule a run was started for: a slot starts one run, whoever is first."""

from collections.abc import Mapping

from sqlalchemy import update

from memory.database import Database
from memory.schema import schedules


class Schedules:
    """Schedules of one project."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def last_slots(self) -> Mapping[str, str]:
        """Name to the last slot (RFC 3339 UTC) that was taken."""
        return {row["name"]: row["slot"] for row in self._db.find(schedules)}

    def take(self, name: str, slot: str, *, thread: str | None = None) -> bool:
        """Take a slot. False: it, or a later one, was taken before."""
        with self._db.write() as tx:
            row = {"name": name, "slot": slot, "thread": thread, "at": self._db.now()}
            if self._db.insert_once(tx, schedules, row):
                return True
            mine = (schedules.c.project == self._db.project) & (schedules.c.name == name)
            later = update(schedules).where(mine, schedules.c.slot < slot)
            return (
                tx.execute(later.values(slot=slot, thread=thread, at=self._db.now())).rowcount > 0
            )
