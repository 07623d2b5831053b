"""Keep a vector for every finding and lesson of the ledger: what is missing or stale is made."""

import time
from collections.abc import Callable, Iterator, Sequence

from sqlalchemy import bindparam, func, select

from contracts.codec import from_json
from contracts.findings import Finding
from contracts.gate import Lesson
from contracts.protocols import Embedder
from memory.knowledge import StoredFinding
from memory.ledger import Ledger
from memory.schema import audit_heads, findings, lessons, vectors
from memory.semantic_texts import Document, embedded, finding_document, lesson_document
from memory.vectors import VectorKind

CHUNK = 512
"""Documents that are read, embedded and kept at once; a process killed between loses one chunk."""


# Made once: making a statement takes longer than running it.
_COUNT = {
    kind: select(func.count()).select_from(table).where(table.c.project == bindparam("project"))
    for kind, table in (("finding", findings), ("lesson", lessons))
}
# The project is compared as an expression, so that SQLite takes the key of `id` and does not read
# all of the project's lessons by the index over signatures.
_BY_ID = select(lessons.c.body).where(
    lessons.c.id.in_(bindparam("ids", expanding=True)),
    lessons.c.project.concat("") == bindparam("project"),
)
_MARK = select(
    select(audit_heads.c.hash)
    .where(audit_heads.c.project == bindparam("project"))
    .scalar_subquery(),
    select(func.max(vectors.c.at))
    .where(
        vectors.c.project == bindparam("project"),
        vectors.c.kind == bindparam("kind"),
        vectors.c.embedder == bindparam("embedder"),
    )
    .scalar_subquery(),
)
_RANKED = (
    select(
        lessons.c.id,
        func.row_number()
        .over(partition_by=lessons.c.signature, order_by=lessons.c.at.desc())
        .label("rank"),
    )
    .where(
        lessons.c.project == bindparam("project"),
        lessons.c.signature.in_(bindparam("signatures", expanding=True)),
    )
    .subquery()
)
_ABOUT = (
    select(lessons.c.body)
    .join(_RANKED, _RANKED.c.id == lessons.c.id)
    .where(_RANKED.c.rank <= bindparam("newest"))
)


class Keeper:
    """The documents of one project and their vectors of one embedder."""

    def __init__(self, ledger: Ledger, embedder: Embedder) -> None:
        self._ledger = ledger
        self._embedder = embedder

    def count(self, kind: VectorKind) -> int:
        """How many documents there are."""
        project = self._ledger.db.project
        with self._ledger.db.read() as tx:
            return int(tx.execute(_COUNT[kind], {"project": project}).scalar_one())

    def mark(self, kind: VectorKind) -> tuple[str, str]:
        """Equal marks: no document came or went, and no vector came; told without counting.

        Documents come and go with an entry of the audit log.
        """
        which = {"project": self._ledger.db.project, "kind": kind, "embedder": self._embedder.name}
        with self._ledger.db.read() as tx:
            head, newest = tx.execute(_MARK, which).one()
        return head or "", newest or ""

    def stale(self, kind: VectorKind) -> tuple[list[str], list[str]]:
        """Ids whose vector is missing or was made of another text, and vectors without a document.

        Reads every document.
        """
        known = self._ledger.vectors.hashes(kind, self._embedder.name)
        made = {one.id: one.text_hash for one in self.documents(kind, self._ids(kind))}
        stale = [one for one, text in made.items() if known.get(one) != text]
        return stale, [one for one in known if one not in made]

    def missing(self, kind: VectorKind) -> tuple[list[str], list[str]]:
        """Ids without a vector, and vectors without a document. Reads no text."""
        known = set(self._ledger.vectors.hashes(kind, self._embedder.name))
        ids = self._ids(kind)
        return [one for one in ids if one not in known], sorted(known - set(ids))

    def mend(
        self,
        kind: VectorKind,
        wrong: tuple[Sequence[str], Sequence[str]],
        *,
        within_s: float | None = None,
        said: Callable[[int], None] | None = None,
    ) -> int:
        """Make vectors of documents, and remove those without one. How many are left to make.

        Args:
            kind: of both lists.
            wrong: ids to make, and ids to remove, as `stale` and `missing` give them.
            within_s: stop after the chunk in which it is over; None: make all.
            said: is told how many were made, after each chunk.
        """
        todo, gone = wrong
        until = None if within_s is None else time.monotonic() + within_s
        if gone:
            with self._ledger.db.write() as tx:
                for one in gone:
                    self._ledger.vectors.forget(tx, kind, one)
        made = 0
        for start in range(0, len(todo), CHUNK):
            if until is not None and start and time.monotonic() > until:
                break
            documents = list(self.documents(kind, todo[start : start + CHUNK]))
            new = embedded(documents, self._embedder)  # not inside the transaction: it may wait
            with self._ledger.db.write() as tx:
                self._ledger.vectors.put(tx, new)
            made = min(start + CHUNK, len(todo))
            if said is not None:
                said(made)
        return len(todo) - made

    def documents(self, kind: VectorKind, ids: Sequence[str]) -> Iterator[Document]:
        """Documents as texts, those that are still there."""
        for start in range(0, len(ids), CHUNK):
            part = ids[start : start + CHUNK]
            if kind == "finding":
                for found in findings_of(self._ledger, part):
                    yield finding_document(found.finding)
            else:
                for lesson in lessons_of(self._ledger, part):
                    yield lesson_document(lesson)

    def _ids(self, kind: VectorKind) -> list[str]:
        table = findings if kind == "finding" else lessons
        project = self._ledger.db.project
        with self._ledger.db.read() as tx:
            asked = select(table.c.id).where(table.c.project == project)
            return list(tx.execute(asked).scalars())


def lessons_of(ledger: Ledger, ids: Sequence[str]) -> list[Lesson]:
    """Lessons by id; those that are gone are left out."""
    with ledger.db.read() as tx:
        rows = tx.execute(_BY_ID, {"project": ledger.db.project, "ids": list(ids)})
        return [from_json(Lesson, row.body) for row in rows]


def lessons_about(ledger: Ledger, signatures: Sequence[str], newest: int) -> list[Lesson]:
    """The newest lessons of each of these signatures."""
    asked = {"project": ledger.db.project, "signatures": list(signatures), "newest": newest}
    with ledger.db.read() as tx:
        return [from_json(Lesson, row.body) for row in tx.execute(_ABOUT, asked)]


def findings_of(ledger: Ledger, ids: Sequence[str]) -> list[StoredFinding]:
    """Findings by id, with where they stand; those that are gone are left out."""
    mine = ledger.db.mine(findings).where(findings.c.id.in_(list(ids)))
    with ledger.db.read() as tx:
        rows = ledger.db.rows(tx, mine)
    return [
        StoredFinding(finding=from_json(Finding, row["body"]), state=row["state"]) for row in rows
    ]
