"""The audit log: append-only and hash-chained, one chain a project.

Entries hold ids, hashes, names of deciders and codes, never trace text. An entry is appended in the
transaction of what it records. Each entry's hash covers its predecessor's, the chain's end is kept
beside it, and every release holds the hash at its time: a changed, missing, reordered or cut-off
entry is found.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, select, update

from contracts.json_types import Json, canonical_json, sha256_hex
from memory.database import Database
from memory.schema import audit, audit_heads, releases

GENESIS = "0" * 64
"""What the first entry names as its predecessor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditState:
    """Result of a verification. `first_bad` is the sequence number where the chain breaks."""

    entries: int
    head: str
    ok: bool
    first_bad: int | None
    why: str | None = None


def entry_hash(previous: str, seq: int, at: str, event: str, body: Json) -> str:
    """SHA-256 over the predecessor's hash and everything the entry says."""
    return sha256_hex(canonical_json([previous, seq, at, event, body]))


class AuditLog:
    """Appends to and verifies one project's chain."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def append(self, tx: Connection, event: str, body: Mapping[str, Json]) -> str:
        """Add an entry inside the caller's transaction; returns its hash, the new head."""
        head = tx.execute(
            select(audit_heads.c.seq, audit_heads.c.hash).where(
                audit_heads.c.project == self._db.project
            )
        ).one_or_none()
        seq, previous = (head.seq + 1, head.hash) if head else (1, GENESIS)
        at = self._db.now()
        digest = entry_hash(previous, seq, at, event, body)
        row = {"seq": seq, "event": event, "body": dict(body), "at": at}
        tx.execute(
            audit.insert().values(project=self._db.project, previous=previous, hash=digest, **row)
        )
        if head is None:
            values = {"project": self._db.project, "seq": seq, "hash": digest}
            tx.execute(audit_heads.insert().values(values))
        else:
            mine = audit_heads.c.project == self._db.project
            tx.execute(update(audit_heads).where(mine).values(seq=seq, hash=digest))
        return digest

    def verify(self) -> AuditState:
        """Walk the whole chain, then compare its end and every release with it."""
        with self._db.read() as tx:
            ordered = self._db.mine(audit).order_by(audit.c.seq)
            previous, seq, hashes = GENESIS, 0, {GENESIS}
            for row in tx.execute(ordered).mappings():
                seq += 1
                digest = entry_hash(previous, seq, row["at"], row["event"], row["body"])
                if (row["seq"], row["previous"], row["hash"]) != (seq, previous, digest):
                    return AuditState(
                        entries=seq, head=previous, ok=False, first_bad=seq,
                        why=f"entry {seq} was changed, moved or removed",
                    )  # fmt: skip
                previous = digest
                hashes.add(digest)
            end = self._db.rows(tx, self._db.mine(audit_heads))
            expected = (end[0]["seq"], end[0]["hash"]) if end else (0, GENESIS)
            if expected != (seq, previous):
                why = f"the log ends at entry {seq}, entry {expected[0]} was the last written"
                return AuditState(entries=seq, head=previous, ok=False, first_bad=seq + 1, why=why)
            for release in self._db.rows(tx, self._db.mine(releases)):
                if release["audit_head"] not in hashes:
                    why = f"release {release['id']} names an entry that is not in the log"
                    return AuditState(
                        entries=seq, head=previous, ok=False, first_bad=seq + 1, why=why
                    )
        return AuditState(entries=seq, head=previous, ok=True, first_bad=None)
