"""Which project a thread belongs to, across the projects of one database.

A client of the Agent Protocol makes a thread before it says what for. Such a thread belongs to
nobody's project (the empty slug, which no project can have) until its first input names one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Engine, and_, select, update

from memory.database import Clock, Database, utc_now
from memory.incidents import IncidentState
from memory.protocol import ProtocolRows
from memory.schema import incidents, leases, threads

NOBODY = ""
_CHUNK = 400
"""Values in one `IN (...)`; far below what either database takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the incident of a thread stands now. `held`: some process drives it."""

    state: IncidentState
    problem: str | None
    held: bool


class Bindings:
    """Threads and their projects."""

    def __init__(self, engine: Engine, *, clock: Clock = utc_now) -> None:
        self.unbound = ProtocolRows(Database(engine, project=NOBODY, clock=clock))
        self._engine = engine

    def project_of(self, thread: str) -> str | None:
        """The project of a thread; `NOBODY` before its first input, None: there is no such one."""
        with self._engine.connect() as tx:
            found: str | None = tx.execute(
                select(threads.c.project).where(threads.c.thread == thread)
            ).scalar_one_or_none()
        return found

    def bind(self, thread: str, project: str) -> bool:
        """Give an unbound thread to a project. False: it has one already."""
        free = (threads.c.thread == thread) & (threads.c.project == NOBODY)
        with self._engine.begin() as tx:
            return tx.execute(update(threads).where(free).values(project=project)).rowcount == 1


def places(db: Database, wanted: Sequence[str]) -> Mapping[str, Place]:
    """Where the incidents of these threads stand, by thread; those without one are left out."""
    now = db.clock().timestamp()
    i, held = incidents.c, leases.alias()
    driving = and_(
        held.c.project == i.project, held.c.name == "thread:" + i.thread,
        held.c.owner.is_not(None), held.c.expires_at > now,
    )  # fmt: skip
    joined = incidents.outerjoin(held, driving)
    statement = select(i.thread, i.state, i.problem, held.c.owner).select_from(joined)
    found: dict[str, Place] = {}
    with db.read() as tx:
        for chunk in _chunks(wanted):
            mine = (i.project == db.project) & i.thread.in_(chunk)
            for thread, state, problem, owner in tx.execute(statement.where(mine)):
                found[thread] = Place(state=state, problem=problem, held=owner is not None)
    return found


def _chunks(wanted: Sequence[str]) -> Iterator[Sequence[str]]:
    for begin in range(0, len(wanted), _CHUNK):
        yield wanted[begin : begin + _CHUNK]
