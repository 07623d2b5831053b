"""Vectors of lessons and findings: the record that every index over them can be made of again."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection, delete

from memory.database import Database
from memory.schema import vectors

VectorKind = Literal["lesson", "finding"]


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


class Vectors:
    """The vectors of one project."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def put(self, tx: Connection, made: Sequence[Vector]) -> None:
        """Keep vectors; one of the same kind, id and embedder takes the place of the older."""
        for one in made:
            self._delete(tx, one.kind, one.id, one.embedder)
            self._db.insert_once(
                tx, vectors,
                {"kind": one.kind, "id": one.id, "embedder": one.embedder,
                 "text_hash": one.text_hash, "data": one.data, "at": self._db.now()},
            )  # fmt: skip

    def listed(self, kind: VectorKind, embedder: str) -> list[Vector]:
        """All of one kind and embedder, by id."""
        rows = self._db.find(vectors, kind=kind, embedder=embedder)
        found = [
            Vector(kind=kind, id=row["id"], embedder=embedder, text_hash=row["text_hash"],
                   data=row["data"])
            for row in rows
        ]  # fmt: skip
        return sorted(found, key=lambda one: one.id)

    def forget(self, tx: Connection, kind: VectorKind, owner: str) -> None:
        """Remove the vectors of one lesson or finding, of every embedder."""
        self._delete(tx, kind, owner, None)

    def _delete(self, tx: Connection, kind: VectorKind, owner: str, embedder: str | None) -> None:
        mine = (vectors.c.project == self._db.project) & (vectors.c.kind == kind)
        mine &= vectors.c.id == owner
        if embedder is not None:
            mine &= vectors.c.embedder == embedder
        tx.execute(delete(vectors).where(mine))
