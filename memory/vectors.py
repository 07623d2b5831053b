"""Vectors of lessons and findings: the record that every index over them can be made of again."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    and_,
    bindparam,
    delete,
    func,
    insert,
    select,
)

from memory.database import Database, rfc3339
from memory.schema import vectors

VectorKind = Literal["lesson", "finding"]
VECTOR_KINDS: tuple[VectorKind, ...] = ("lesson", "finding")

_TICK = timedelta(microseconds=1)
_MINE = and_(
    vectors.c.project == bindparam("project"),
    vectors.c.kind == bindparam("kind"),
    vectors.c.embedder == bindparam("embedder"),
)
# Two questions: SQLite reads the newest off the index's end, but not beside a count.
_STAMP = select(
    select(func.count()).select_from(vectors).where(_MINE).scalar_subquery(),
    select(func.max(vectors.c.at)).where(_MINE).scalar_subquery(),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """A unit vector (float32, little endian) of one lesson or finding."""

    kind: VectorKind
    id: str
    embedder: str
    """Name of the embedder; vectors of two names are never compared."""
    text_hash: str
    """SHA-256 of the text that it was made of: another text needs another vector."""
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """How far the vectors of one kind and embedder are. Two equal stamps: nothing changed."""

    count: int
    newest: str
    """Of the vector that was kept last; empty where there is none."""


class Vectors:
    """The vectors of one project."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def put(self, tx: Connection, made: Sequence[Vector]) -> None:
        """Keep vectors; one of the same kind, id and embedder takes the place of the older.

        Each gets a time later than all before it, whatever the clock says: by that an index knows
        what it has not seen.
        """
        groups: dict[tuple[VectorKind, str], dict[str, Vector]] = {}
        for one in made:
            groups.setdefault((one.kind, one.embedder), {})[one.id] = one
        for (kind, embedder), group in groups.items():
            at = self._stamp(tx, kind, embedder).newest
            mine = self._of(kind) & (vectors.c.embedder == embedder)
            tx.execute(delete(vectors).where(mine, vectors.c.id.in_(group)))
            rows = []
            for one in group.values():
                at = max(self._db.now(), _after(at) if at else "")
                row = {"kind": kind, "id": one.id, "embedder": embedder, "at": at}
                text = {"text_hash": one.text_hash, "data": one.data}
                rows.append({"project": self._db.project, **row, **text})
            tx.execute(insert(vectors), rows)

    def listed(self, kind: VectorKind, embedder: str) -> list[Vector]:
        """All of one kind and embedder, by id."""
        rows = self._db.find(vectors, kind=kind, embedder=embedder)
        return sorted((_vector(row) for row in rows), key=lambda one: one.id)

    def stamp(self, kind: VectorKind, embedder: str) -> Stamp:
        """How far they are; answered by an index of the database."""
        with self._db.read() as tx:
            return self._stamp(tx, kind, embedder)

    def since(
        self, kind: VectorKind, embedder: str, after: str, limit: int
    ) -> list[tuple[str, Vector]]:
        """Those kept after a time, oldest first, each with its time; all where it is empty."""
        mine = self._db.mine(vectors, kind=kind, embedder=embedder).where(vectors.c.at > after)
        with self._db.read() as tx:
            rows = self._db.rows(tx, mine.order_by(vectors.c.at).limit(limit))
        return [(row["at"], _vector(row)) for row in rows]

    def hashes(self, kind: VectorKind, embedder: str) -> dict[str, str]:
        """The hash of the text of each, by id."""
        c = vectors.c
        asked = select(c.id, c.text_hash).where(
            c.project == self._db.project, c.kind == kind, c.embedder == embedder
        )
        with self._db.read() as tx:
            return {row.id: row.text_hash for row in tx.execute(asked)}

    def forget(self, tx: Connection, kind: VectorKind, owner: str) -> None:
        """Remove the vectors of one lesson or finding, of every embedder."""
        tx.execute(delete(vectors).where(self._of(kind), vectors.c.id == owner))

    def _stamp(self, tx: Connection, kind: VectorKind, embedder: str) -> Stamp:
        which = {"project": self._db.project, "kind": kind, "embedder": embedder}
        count, newest = tx.execute(_STAMP, which).one()
        return Stamp(count=count, newest=newest or "")

    def _of(self, kind: VectorKind) -> ColumnElement[bool]:
        return (vectors.c.project == self._db.project) & (vectors.c.kind == kind)


def _after(moment: str) -> str:
    """The next time that a ledger can hold."""
    return rfc3339(datetime.fromisoformat(moment) + _TICK)


def _vector(row: RowMapping) -> Vector:
    return Vector(
        kind=row["kind"], id=row["id"], embedder=row["embedder"], text_hash=row["text_hash"],
        data=row["data"],
    )  # fmt: skip
