"""Findings and lessons by meaning: vectors in the ledger, compared one by one or by an index.

The ledger's vectors are the record. Below `INDEX_FROM` of them, or without an index, all are
compared (exact). Above, Chroma is asked: a server where `memory.chroma_url` names one, else the
folder `chroma/<project>` of the installation, which one process owns at a time by a file lock.
Whoever does not own it compares exactly, and says so. What is missing or stale is mended a little
at every search; `reindex` mends all.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import delete

from contracts.errors import TracemendError, UsageError
from contracts.protocols import Embedder
from memory.ledger import Ledger
from memory.schema import lessons
from memory.semantic_chroma import Place, Served
from memory.semantic_keep import Keeper, lessons_of
from memory.semantic_texts import Document, embedded
from memory.vectors import VECTOR_KINDS, Stamp, Vector, VectorKind

INDEX_FROM = 10_000
"""Vectors of one kind; with fewer, comparing all is faster than Chroma (docs/memory.md)."""
MEND_S = 1.0
"""What one search may spend on vectors that are missing."""
LOOKED_OVER = 2_000
"""Up to so many documents, the first search of a process compares the text of each."""

_log = logging.getLogger("tracemend.memory")


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """One finding or lesson that is like what was asked for."""

    kind: VectorKind
    id: str
    likeness: float
    """Dot product of the unit vectors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """What a search found, the best first, and how it was done."""

    near: tuple[Near, ...]
    how: str
    """For a person, such as `exact, over 312 lessons (hash-3-5-512)`."""
    missing: int = 0
    """Documents without a vector yet, which it could not find."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How one kind of document is remembered."""

    kind: VectorKind
    documents: int
    vectors: int
    stale: int
    """Documents without a vector, or with one of another text."""
    indexed: int | None
    """None: there is no index, or another process owns it."""


@dataclass(frozen=True, slots=True)
class _Matrix:
    """All vectors of one kind in memory, as of a stamp."""

    stamp: Stamp
    ids: list[str]
    rows: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Checked:
    """What a count of documents and vectors gave, and the ledger's mark then."""

    mark: tuple[str, str]
    stamp: Stamp
    left: int


@dataclass(slots=True)
class _Seen:
    """What this process knows of one project's memory and embedder."""

    matrices: dict[VectorKind, _Matrix]
    indexed: dict[VectorKind, Stamp]
    looked_over: set[VectorKind]
    checked: dict[VectorKind, _Checked]


_seen: dict[tuple[str, str, str], _Seen] = {}


class SemanticMemory:
    """The memory of one project."""

    def __init__(
        self,
        ledger: Ledger,
        embedder: Embedder,
        home: Path,
        *,
        chroma_url: str | None = None,
        index_from: int = INDEX_FROM,
    ) -> None:
        """Open nothing yet.

        Args:
            ledger: where documents and vectors are.
            embedder: makes vectors of texts.
            home: the installation's folder, which holds `chroma/`.
            chroma_url: a Chroma server in place of that folder.
            index_from: vectors from which on the index is asked.
        """
        self._ledger = ledger
        self._embedder = embedder
        self._index_from = index_from
        folder = home / "chroma" / ledger.db.project
        fresh = _Seen(matrices={}, indexed={}, looked_over=set(), checked={})
        key = (str(folder), str(ledger.db.engine.url), f"{embedder.name} {chroma_url}")
        self._seen = _seen.setdefault(key, fresh)
        self._keeper = Keeper(ledger, embedder)
        place = Place(
            ledger=ledger, embedder=embedder.name, dim=embedder.dim, folder=folder, url=chroma_url
        )
        self.index = Served(place, self._seen.indexed)

    def search(
        self, text: str, *, kind: VectorKind, limit: int = 20, mend: bool = True
    ) -> Searched:
        """The documents of a kind that are most like a text.

        Args:
            text: what to look for; without a single word nothing is found.
            kind: findings or lessons.
            limit: how many at most.
            mend: whether vectors that are missing may be made and kept on the way.
        """
        stamp, missing = self._mended(kind, mend=mend)
        asked = np.asarray(self._embedder.embed([text])[0], dtype=np.float32)
        if not asked.any() or not stamp.count:
            return Searched(near=(), how=self._exactly(kind, stamp), missing=missing)
        why_not = ""
        if stamp.count >= self._index_from:
            found, why_not = self._by_index(kind, stamp, asked, limit)
            if found is not None:
                how = f"Chroma, over {stamp.count} {kind}s ({self._embedder.name})"
                return Searched(near=_nearest(kind, found), how=how, missing=missing)
        matrix = self._matrix(kind, stamp)
        # Not by `@`: its threads wait for each other where other work has the cores.
        likeness = np.einsum("ij,j->i", matrix.rows, asked)
        pairs = [(matrix.ids[at], float(likeness[at])) for at in _best(likeness, limit)]
        how = self._exactly(kind, stamp) + (f"; {why_not}" if why_not else "")
        return Searched(near=_nearest(kind, pairs), how=how, missing=missing)

    def vectors(self, documents: Sequence[Document]) -> list[Vector]:
        """Vectors of those documents whose text is new, to be kept with what they belong to."""
        known = {
            kind: self._ledger.vectors.hashes(kind, self._embedder.name)
            for kind in {one.kind for one in documents}
        }
        new = [one for one in documents if known[one.kind].get(one.id) != one.text_hash]
        return embedded(new, self._embedder)

    def status(self) -> list[Standing]:
        """How each kind is remembered; reads every document."""
        return [self._standing(kind) for kind in VECTOR_KINDS]

    def reindex(self, said: Callable[[VectorKind, int], None] | None = None) -> list[Standing]:
        """Make every vector that is missing or stale, then the index anew where one is used.

        Raises:
            UsageError: another process owns the index.
        """
        self._seen.checked.clear()
        for kind in VECTOR_KINDS:
            self._keeper.mend(kind, self._keeper.stale(kind))
        counts = [self._ledger.vectors.stamp(kind, self._embedder.name) for kind in VECTOR_KINDS]
        large = any(stamp.count >= self._index_from for stamp in counts)
        if (large or self.index.in_use()) and not self.index.rebuild(said):
            raise UsageError(
                "the vectors are up to date; the index is another process's: stop it first, or "
                "let it catch up at its next searches"
            )
        return self.status()

    def forget(self, lesson: str, *, by: str) -> bool:
        """Remove a lesson and its vectors, from the index with its files. False: the index stays.

        Raises:
            UsageError: there is no such lesson.
        """
        if not lessons_of(self._ledger, [lesson]):
            raise UsageError(f"{lesson}: no such lesson in project {self._ledger.db.project!r}")
        mine = (lessons.c.project == self._ledger.db.project) & (lessons.c.id == lesson)
        with self._ledger.db.write() as tx:
            tx.execute(delete(lessons).where(mine))
            self._ledger.vectors.forget(tx, "lesson", lesson)
            self._ledger.audit.append(tx, "lesson.forgotten", {"lesson": lesson, "by": by})
        self._seen.matrices.clear()
        self._seen.checked.clear()
        return not self.index.in_use() or self.index.rebuild()

    def _mended(self, kind: VectorKind, *, mend: bool) -> tuple[Stamp, int]:
        """How far the vectors are, after what is missing was made for a moment; what is left."""
        mark = self._keeper.mark(kind)
        known = self._seen.checked.get(kind)
        if known is not None and known.mark == mark and not (mend and known.left):
            return known.stamp, known.left
        stamp = self._ledger.vectors.stamp(kind, self._embedder.name)
        count = self._keeper.count(kind)
        first = mend and kind not in self._seen.looked_over
        left = max(0, count - stamp.count)
        if mend:
            self._seen.looked_over.add(kind)
        if mend and (count != stamp.count or (first and count <= LOOKED_OVER)):
            small = first and count <= LOOKED_OVER
            wrong = self._keeper.stale(kind) if small else self._keeper.missing(kind)
            left = self._keeper.mend(kind, wrong, within_s=MEND_S) if any(wrong) else 0
            stamp = self._ledger.vectors.stamp(kind, self._embedder.name)
            mark = (mark[0], stamp.newest)
        if kind in self._seen.looked_over:
            self._seen.checked[kind] = _Checked(mark, stamp, left)
        return stamp, left

    def _by_index(
        self, kind: VectorKind, stamp: Stamp, asked: NDArray[np.float32], limit: int
    ) -> tuple[list[tuple[str, float]] | None, str]:
        """What the index answers, or None and why it is not asked."""
        try:
            return self.index.near(kind, stamp, asked.tolist(), limit)
        except Exception as error:  # noqa: BLE001  # Chroma's errors share no class; nothing is lost
            _log.warning("index failed", extra={"project": self._ledger.db.project}, exc_info=True)
            self._seen.indexed.pop(kind, None)
            said = str(error) if isinstance(error, TracemendError) else type(error).__name__
            return None, f"the index cannot be used: {said}"

    def _standing(self, kind: VectorKind) -> Standing:
        stale, _ = self._keeper.stale(kind)
        return Standing(
            kind=kind, documents=self._keeper.count(kind),
            vectors=self._ledger.vectors.stamp(kind, self._embedder.name).count,
            stale=len(stale), indexed=self.index.standing(kind) if self.index.in_use() else None,
        )  # fmt: skip

    def _matrix(self, kind: VectorKind, stamp: Stamp) -> _Matrix:
        known = self._seen.matrices.get(kind)
        if known is not None and known.stamp == stamp:
            return known
        listed = self._ledger.vectors.listed(kind, self._embedder.name)
        rows = np.frombuffer(b"".join(one.data for one in listed), dtype="<f4")
        made = _Matrix(stamp, [one.id for one in listed], rows.reshape(len(listed), -1))
        self._seen.matrices[kind] = made
        return made

    def _exactly(self, kind: VectorKind, stamp: Stamp) -> str:
        return f"exact, over {stamp.count} {kind}s ({self._embedder.name})"


def _best(likeness: NDArray[np.float32], limit: int) -> list[int]:
    """Places of the greatest, in no order that matters."""
    if len(likeness) <= limit:
        return list(range(len(likeness)))
    return [int(at) for at in np.argpartition(-likeness, limit)[:limit]]


def _nearest(kind: VectorKind, pairs: Iterable[tuple[str, float]]) -> tuple[Near, ...]:
    """Pairs as results; what points the other way is like nothing here."""
    listed = sorted(pairs, key=lambda pair: (-pair[1], pair[0]))
    return tuple(Near(kind=kind, id=one, likeness=how) for one, how in listed if how > 0)
