"""What the ledger says of past releases: old files, audit entries, what was watched."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

import orjson
import zstandard
from sqlalchemy import select

from contracts.harness import Revision
from contracts.json_types import JsonObject
from contracts.proposals import ReleaseId
from memory.artifacts import HARNESS, MANIFEST
from memory.database import Database
from memory.schema import artifacts, audit, releases, steps

_AT_ONCE = 500
"""Values of one condition; SQLite takes some thousands."""

Listing = Mapping[str, str]
"""SHA-256 of a file's bytes, by its path in the harness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlace:
    """Where the audit log stood when a release was recorded."""

    seq: int | None
    """None: the log has no such entry; `tracemend audit verify` says so as well."""
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What one look after a release saw."""

    at: str
    body: JsonObject


def listings(db: Database, revisions: Collection[Revision]) -> dict[Revision, Listing]:
    """What the harness held at each revision; a revision that was not kept is left out."""
    found = _blobs(db, MANIFEST, revisions)
    return {
        Revision(revision): {path: digest for path, (_, digest) in orjson.loads(data).items()}
        for revision, data in found.items()
    }


def file_bytes(db: Database, digests: Collection[str]) -> dict[str, bytes]:
    """Exact bytes of harness files, by their SHA-256; what was not kept is left out."""
    return _blobs(db, HARNESS, digests)


def audit_place(db: Database, release: ReleaseId) -> AuditPlace | None:
    """The audit log's head that a release names; None: there is no such release."""
    head = select(releases.c.audit_head).where(
        releases.c.project == db.project, releases.c.id == release
    )
    with db.read() as tx:
        digest: str | None = tx.execute(head).scalar_one_or_none()
        if digest is None:
            return None
        entry = select(audit.c.seq).where(audit.c.project == db.project, audit.c.hash == digest)
        seq: int | None = tx.execute(entry).scalar_one_or_none()
    return AuditPlace(seq=seq, hash=digest)


def watched(db: Database, release: ReleaseId) -> list[Watched]:
    """What the looks after a release saw, oldest first."""
    with db.read() as tx:
        rows = db.rows(tx, db.mine(steps, step=f"watch:{release}").order_by(steps.c.at))
    return [Watched(at=row["at"], body=cast("JsonObject", row["body"])) for row in rows]


def _blobs(db: Database, kind: str, names: Collection[str]) -> dict[str, bytes]:
    unpack = zstandard.ZstdDecompressor().decompress
    found: dict[str, bytes] = {}
    with db.read() as tx:
        for some in _portions(sorted(set(names))):
            statement = db.mine(artifacts, kind=kind).where(artifacts.c.sha256.in_(some))
            for row in db.rows(tx, statement):
                found[row["sha256"]] = unpack(row["data"], max_output_size=row["size"] or 1)
    return found


def _portions(names: list[str]) -> Iterator[list[str]]:
    for at in range(0, len(names), _AT_ONCE):
        yield names[at : at + _AT_ONCE]
