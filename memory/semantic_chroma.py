"""Bring the index up to what the ledger holds, ask it, and make it anew."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select

from contracts.json_types import sha256_hex
from memory.ledger import Ledger
from memory.schema import audit
from memory.semantic_index import ChromaIndex, open_folder, open_server, own, rebuilt, within
from memory.vectors import VECTOR_KINDS, Stamp, Vector, VectorKind

MEND_ROWS = 500
"""Rows that one search writes to an index that is behind: half a second."""
READ_ROWS = 2_000
SERVER_S = 5.0
"""For one search over a server, catching up included; then all is compared here."""

NOT_OURS = "another process owns the index"
BEHIND = "the index is behind; `tracemend memory reindex` brings it up to date"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Which vectors are indexed, and where."""

    ledger: Ledger
    embedder: str
    dim: int
    folder: Path
    url: str | None


class Served:
    """The index of one project and embedder.

    Attributes:
        seen: up to which stamp of the ledger this process knows each kind to be indexed.
    """

    def __init__(self, place: Place, seen: dict[VectorKind, Stamp]) -> None:
        self._at = place
        self.seen = seen

    def near(
        self, kind: VectorKind, stamp: Stamp, asked: Sequence[float], limit: int
    ) -> tuple[list[tuple[str, float]] | None, str]:
        """Ids and likeness, or None and why the index cannot be asked."""
        if self._at.url is None:
            return self._near(kind, stamp, asked, limit)
        return within(SERVER_S, lambda: self._near(kind, stamp, asked, limit))

    def _near(
        self, kind: VectorKind, stamp: Stamp, asked: Sequence[float], limit: int
    ) -> tuple[list[tuple[str, float]] | None, str]:
        index = self.open()
        if index is None:
            return None, NOT_OURS
        if not self._caught_up(index, kind, stamp):
            return None, BEHIND
        return index.near(self.name(kind), asked, limit), ""

    def standing(self, kind: VectorKind) -> int | None:
        """How many vectors are indexed; None where there is no index, or it is not ours."""
        index = self.open()
        at = index.standing(self.name(kind)) if index is not None else None
        return None if at is None else at.count

    def in_use(self) -> bool:
        """Whether there is an index at all."""
        return self._at.url is not None or any(self._at.folder.glob("g-*"))

    def open(self) -> ChromaIndex | None:
        """The index, if this process may use it."""
        if self._at.url:
            return open_server(self._at.url)
        return open_folder(self._at.folder) if own(self._at.folder) else None

    def rebuild(self, said: Callable[[VectorKind, int], None] | None = None) -> bool:
        """Make the index anew from the ledger's vectors, then use it. False: it is not ours.

        Killed in the middle, the old one is still in use.
        """
        self.seen.clear()
        if self._at.url:
            index = open_server(self._at.url)
            for kind in VECTOR_KINDS:
                index.drop(self.name(kind, "-new"))
                self._fill(index, kind, "-new", said)
                index.rename(self.name(kind, "-new"), self.name(kind))
            return True
        if not own(self._at.folder):
            return False
        with rebuilt(self._at.folder) as index:
            for kind in VECTOR_KINDS:
                self._fill(index, kind, "", said)
        return True

    def _fill(
        self,
        index: ChromaIndex,
        kind: VectorKind,
        tag: str,
        said: Callable[[VectorKind, int], None] | None,
    ) -> None:
        newest, done = "", 0
        while rows := self._after(kind, newest, READ_ROWS):
            index.put(self.name(kind, tag), rows)
            newest, done = rows[-1][0], done + len(rows)
            if said is not None:
                said(kind, done)

    def _caught_up(self, index: ChromaIndex, kind: VectorKind, stamp: Stamp) -> bool:
        """Whether the index holds what the ledger holds, after writing a few rows at most."""
        if self.seen.get(kind) == stamp:
            return True
        name = self.name(kind)
        at = index.standing(name) or Stamp(count=0, newest="")
        if at.newest < stamp.newest:
            index.put(name, self._after(kind, at.newest, MEND_ROWS))
            at = index.standing(name) or at
        if at.newest >= stamp.newest and at.count != stamp.count:
            hashes = self._at.ledger.vectors.hashes(kind, self._at.embedder)
            index.keep_only(name, set(hashes))
            at = index.standing(name) or at
        if at != stamp:
            return False
        self.seen[kind] = stamp
        return True

    def _after(self, kind: VectorKind, newest: str, limit: int) -> list[tuple[str, Vector]]:
        return self._at.ledger.vectors.since(kind, self._at.embedder, newest, limit)

    def name(self, kind: VectorKind, tag: str = "") -> str:
        """Of a collection: by the ledger's first entry, so that no two installations share one."""
        db = self._at.ledger.db
        with db.read() as tx:
            first = tx.execute(
                select(audit.c.hash).where(audit.c.project == db.project, audit.c.seq == 1)
            ).scalar_one_or_none()
        whole = "|".join((first or "", db.project, kind, self._at.embedder))
        return f"tm-{sha256_hex(whole.encode())[:40]}{tag}"
