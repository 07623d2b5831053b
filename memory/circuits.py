"""Failures in a row of one outside system, across runs: after three, runs wait for it."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from contracts.json_types import Json
from memory.audit import AuditLog
from memory.database import Database, rfc3339
from memory.schema import circuits

FAILURES = 3
"""Of different runs in a row; one run that fails for itself alone never stops the others."""
FIRST_PAUSE = timedelta(minutes=1)
LONGEST_PAUSE = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """One backend. Paused while `open_until` (RFC 3339 UTC) is ahead; then one run tries it."""

    backend: str
    failures: int
    open_until: str | None
    problem: str | None


class Circuits:
    """The outside systems of one project."""

    def __init__(self, db: Database, log: AuditLog) -> None:
        self._db = db
        self._log = log

    def listed(self) -> list[Circuit]:
        """All that failed last time they were used."""
        return [
            Circuit(
                backend=row["backend"], failures=row["failures"], open_until=row["open_until"],
                problem=row["problem"],
            )
            for row in self._db.find(circuits)
        ]  # fmt: skip

    def paused(self, now: datetime) -> list[Circuit]:
        """Those that runs wait for now."""
        at = rfc3339(now)
        return [c for c in self.listed() if c.open_until is not None and c.open_until > at]

    def failed(self, backend: str, thread: str, problem: str, now: datetime) -> Circuit:
        """Note a failure of this backend in this run; opens the circuit at the third run."""
        with self._db.write() as tx:
            rows = self._db.rows(tx, self._db.mine(circuits, backend=backend))
            seen: list[Json] = list(rows[0]["failed"]) if rows else []
            if thread not in seen:
                seen.append(thread)
            failures = (rows[0]["failures"] if rows else 0) + 1
            pause = _pause(failures) if len(seen) >= FAILURES else None
            until = rfc3339(now + pause) if pause is not None else None
            values = {
                "failures": failures, "failed": seen[-FAILURES:], "open_until": until,
                "problem": problem, "at": self._db.now(),
            }  # fmt: skip
            if not rows:
                self._db.insert_once(tx, circuits, {"backend": backend, **values})
            else:
                mine = (circuits.c.project == self._db.project) & (circuits.c.backend == backend)
                tx.execute(circuits.update().where(mine).values(**values))
            if until is not None and (not rows or rows[0]["open_until"] is None):
                self._log.append(tx, "backend.paused", {"backend": backend, "until": until})
        return Circuit(backend=backend, failures=failures, open_until=until, problem=problem)

    def probe(self, circuit: Circuit, until: datetime) -> bool:
        """Take the one try after a pause: others wait until then. False: somebody has it."""
        with self._db.write() as tx:
            mine = (circuits.c.project == self._db.project) & (
                circuits.c.backend == circuit.backend
            )
            mine &= circuits.c.open_until == circuit.open_until
            taken = circuits.update().where(mine).values(open_until=rfc3339(until))
            return tx.execute(taken).rowcount == 1

    def worked(self, backend: str) -> None:
        """It answered: nothing is held against it any more."""
        with self._db.write() as tx:
            mine = (circuits.c.project == self._db.project) & (circuits.c.backend == backend)
            if tx.execute(circuits.delete().where(mine)).rowcount:
                self._log.append(tx, "backend.works", {"backend": backend})


def _pause(failures: int) -> timedelta:
    """One minute at the third failure, doubled with each further one, an hour at most."""
    doubled: int = 2 ** min(failures - FAILURES, 10)
    return min(FIRST_PAUSE * doubled, LONGEST_PAUSE)
