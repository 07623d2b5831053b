"""What the ledger counts, as metrics: by queries that count, cached for some seconds."""

import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from threading import Lock

from prometheus_client.core import GaugeMetricFamily, Metric
from sqlalchemy import ColumnElement, Connection, Integer, Select, and_, case, func, or_, select
from sqlalchemy import cast as as_type

from contracts.alerts import HOOK_SOURCES
from memory.database import Database
from memory.ledger import Ledger
from memory.schema import alerts, blocks, circuits, decisions, incidents, proposals, reports

CACHE_SECONDS = 5.0
"""Of one project: however many ask, the ledger is counted once in this time."""

Samples = Iterable[tuple[tuple[str, ...], float]]
"""Label values, without the project, and the number."""
Counted = Mapping[str, Samples]
"""By the name of the metric."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One metric: its labels beside the project, and what it says."""

    labels: tuple[str, ...]
    help: str
    count: Callable[[Database, Connection], Samples]


class LedgerCache:
    """Counts of each project's ledger, not older than `CACHE_SECONDS`."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[float, Counted]] = {}
        self._lock = Lock()

    def counted(self, ledger: Ledger) -> Counted:
        """All metrics of a project, in one consistent view. Blocking."""
        with self._lock:
            held = self._held.get(ledger.db.project)
            if held is not None and time.monotonic() - held[0] < CACHE_SECONDS:
                return held[1]
            with ledger.db.read() as tx:
                now = {name: list(shape.count(ledger.db, tx)) for name, shape in SHAPES.items()}
            self._held[ledger.db.project] = (time.monotonic(), now)
            return now


class Families:
    """The metrics of several projects, put together by name."""

    def __init__(self) -> None:
        self._up = GaugeMetricFamily(
            "tracemend_project_up", "1: its settings and its ledger can be opened.",
            labels=("project",),
        )  # fmt: skip
        self._made = {
            name: GaugeMetricFamily(name, shape.help, labels=("project", *shape.labels))
            for name, shape in SHAPES.items()
        }

    def add(self, project: str, counted: Counted | None) -> None:
        """Enter a project; None: it cannot be opened, and nothing of it is known."""
        self._up.add_metric((project,), float(counted is not None))
        for name, samples in (counted or {}).items():
            for labels, number in samples:
                self._made[name].add_metric((project, *labels), number)

    def all(self) -> list[Metric]:
        """Every metric that has a value."""
        return [family for family in (self._up, *self._made.values()) if family.samples]


def build_info() -> Metric:
    """Which release runs, on which Python."""
    try:
        release = version("tracemend")
    except PackageNotFoundError:  # a checkout that was never installed
        release = "unknown"
    family = GaugeMetricFamily(
        "tracemend_build_info", "Always 1; the labels say which release runs.",
        labels=("version", "python"),
    )  # fmt: skip
    family.add_metric((release, platform.python_version()), 1.0)
    return family


def _by(
    db: Database, tx: Connection, columns: Sequence[ColumnElement[str]], *where: ColumnElement[bool]
) -> Samples:
    """How many rows, by these columns."""
    statement = select(*columns, func.count()).where(*where).group_by(*columns)
    for *labels, number in tx.execute(statement):
        yield tuple(str(label) for label in labels), float(number)


_SOURCES = frozenset({*HOOK_SOURCES, "schedule"})


def _alerts(db: Database, tx: Connection) -> Samples:
    """A client of the Agent Protocol names its source as it likes; those are one: `other`."""
    c = alerts.c
    counts: dict[tuple[str, ...], float] = {}
    for (source, state), n in _by(db, tx, (c.source, c.state), c.project == db.project):
        labels = (source if source in _SOURCES else "other", state)
        counts[labels] = counts.get(labels, 0.0) + n
    return sorted(counts.items())


def _incidents(db: Database, tx: Connection) -> Samples:
    c = incidents.c
    return _by(db, tx, (c.kind, c.state), c.project == db.project)


def _proposals(db: Database, tx: Connection) -> Samples:
    """The newest revision of each counts."""
    c = proposals.c
    newest = (
        select(c.id, func.max(c.revision).label("revision"))
        .where(c.project == db.project)
        .group_by(c.id)
        .subquery()
    )
    is_newest = and_(c.id == newest.c.id, c.revision == newest.c.revision)
    return _by(db, tx, (c.state,), c.project == db.project, is_newest)


def _decisions(db: Database, tx: Connection) -> Samples:
    c = decisions.c
    return _by(db, tx, (c.body["via"].as_string(), c.type), c.project == db.project)


def _verdicts(db: Database, tx: Connection) -> Samples:
    c = reports.c
    return _by(db, tx, (c.verdict,), c.project == db.project)


def _due(db: Database) -> ColumnElement[bool]:
    """Runs of ours that there is something to do for now; waiting ones whose card expired too."""
    c, now = incidents.c, db.now()
    reached = or_(and_(c.state == "running", c.due_at.is_(None)), c.due_at <= now)
    return and_(
        c.project == db.project, c.driver == "local", c.state.in_(("running", "waiting")), reached
    )


def _queue(db: Database, tx: Connection) -> Samples:
    yield (), float(tx.execute(select(func.count()).where(_due(db))).scalar_one())


def _oldest(db: Database, tx: Connection) -> Samples:
    c = incidents.c
    since = func.min(func.coalesce(c.due_at, c.at))
    found = tx.execute(select(since).where(_due(db))).scalar_one()
    waited = (db.clock() - datetime.fromisoformat(found)).total_seconds() if found else 0.0
    yield (), max(0.0, waited)


def _paused(db: Database, tx: Connection) -> Samples:
    c, now = circuits.c, db.now()
    for row in tx.execute(select(c.backend, c.open_until).where(c.project == db.project)):
        yield (row.backend,), float(row.open_until is not None and row.open_until > now)


_ARMS = ("baseline", "candidate")


def _arm_numbers(db: Database, key: str) -> Iterable[Select[int, float, int]]:
    """For each arm: runs whose number is known, their sum, and runs without it."""
    c = blocks.c
    for arm in _ARMS:
        ran = c.body[arm]["result"].as_string().is_not(None)
        value = c.body[arm][key].as_float()
        yield select(
            func.coalesce(func.sum(case((value.is_not(None), 1), else_=0)), 0),
            func.coalesce(func.sum(value), 0.0),
            func.coalesce(func.sum(as_type(value.is_(None), Integer)), 0),
        ).where(c.project == db.project, ran)


def _gate_runs(db: Database, tx: Connection) -> Samples:
    c = blocks.c
    counts: dict[str, float] = {}
    for arm in _ARMS:
        result = c.body[arm]["result"].as_string()
        for (label,), n in _by(db, tx, (result,), c.project == db.project, result.is_not(None)):
            counts[label] = counts.get(label, 0.0) + n
    return [((label,), n) for label, n in sorted(counts.items())]


def _known(db: Database, tx: Connection, key: str) -> tuple[int, float, int]:
    known, total, unknown = 0, 0.0, 0
    for statement in _arm_numbers(db, key):
        more_known, more, more_unknown = tx.execute(statement).one()
        known, total, unknown = known + more_known, total + more, unknown + more_unknown
    return known, total, unknown


def _gate_cost(db: Database, tx: Connection) -> Samples:
    known, total, _ = _known(db, tx, "cost_usd")
    if known:
        yield (), total


def _gate_unknown_cost(db: Database, tx: Connection) -> Samples:
    yield (), float(_known(db, tx, "cost_usd")[2])


def _gate_tokens(db: Database, tx: Connection) -> Samples:
    for direction in ("input", "output"):
        known, total, _ = _known(db, tx, f"{direction}_tokens")
        if known:
            yield (direction,), total


SHAPES: Mapping[str, Shape] = {
    "tracemend_alerts": Shape(
        labels=("source", "state"), count=_alerts,
        help="Deliveries that are kept, by who sent them and what became of them.",
    ),
    "tracemend_incidents": Shape(
        labels=("kind", "state"), count=_incidents, help="Runs, by where they stand."
    ),
    "tracemend_proposals": Shape(
        labels=("state",), count=_proposals, help="Proposals, by the state of the newest revision."
    ),
    "tracemend_decisions": Shape(
        labels=("door", "type"), count=_decisions, help="Decisions of people, and expiries."
    ),
    "tracemend_queue_depth": Shape(
        labels=(), count=_queue, help="Runs that there is something to do for now."
    ),
    "tracemend_queue_oldest_seconds": Shape(
        labels=(), count=_oldest, help="How long the oldest of them has been due; 0 without any."
    ),
    "tracemend_gate_runs": Shape(
        labels=("result",), count=_gate_runs,
        help="Runs of the agent in gates; missing: it could not be observed.",
    ),
    "tracemend_gate_verdicts": Shape(
        labels=("verdict",), count=_verdicts, help="Gates that were concluded."
    ),
    "tracemend_gate_cost_usd": Shape(
        labels=(), count=_gate_cost,
        help="What the agent's runs in gates cost, of those that said it; no series: none did.",
    ),
    "tracemend_gate_runs_without_cost": Shape(
        labels=(), count=_gate_unknown_cost, help="Runs in gates whose cost is unknown, not zero."
    ),
    "tracemend_gate_tokens": Shape(
        labels=("direction",), count=_gate_tokens,
        help="Tokens of the agent's runs in gates, of those that said it.",
    ),
    "tracemend_backend_paused": Shape(
        labels=("backend",), count=_paused,
        help="1: runs wait for this backend; 0: it failed last time and is tried.",
    ),
}  # fmt: skip
