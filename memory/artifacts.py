"""Content-addressed blobs in the ledger: exact harness files, and condensed texts for people.

Two kinds with two rules. `harness` blobs are exact: undo must restore every byte, so they are never
cut and never masked. Everything else is masked and cut at a cap before it is stored, and marked.
"""

from collections.abc import Collection

import zstandard
from sqlalchemy import Connection

from configs.redaction import redact
from contracts.errors import TracemendError
from contracts.harness import HarnessFile, HarnessSnapshot, Revision
from contracts.json_types import Json, canonical_json, sha256_hex
from memory.database import Database
from memory.schema import artifacts

TEXT_CAP_BYTES = 64 * 1024
"""A condensed trace of 200 steps with 300 characters each fits; a whole transcript does not."""

HARNESS, MANIFEST = "harness", "manifest"
"""Kinds of exact blobs: a file's bytes, and the list of a revision's paths."""


class Artifacts:
    """Blobs of one project."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def put_snapshot(self, tx: Connection, snapshot: HarnessSnapshot) -> Revision:
        """Keep every file of a harness, and its list of paths and modes under the revision."""
        for file in snapshot.files.values():
            self._put(tx, file.sha256, HARNESS, file.data)
        listing: dict[str, Json] = {
            path: [f"{file.mode:04o}", file.sha256] for path, file in snapshot.files.items()
        }
        self._put(tx, snapshot.revision, MANIFEST, canonical_json(listing))
        return snapshot.revision

    def snapshot(self, revision: Revision) -> HarnessSnapshot:
        """The harness at a revision that was kept.

        Raises:
            TracemendError: the revision or one of its files is not there or was damaged.
        """
        import orjson  # noqa: PLC0415  # only undo and the gate read snapshots back

        listing: dict[str, list[str]] = orjson.loads(self._get(revision, MANIFEST))
        data = self._get_all({digest for _, digest in listing.values()}, HARNESS)
        files = {
            path: HarnessFile(data=data[digest], mode=int(mode, 8))
            for path, (mode, digest) in listing.items()
        }
        snapshot = HarnessSnapshot(files=files)
        if snapshot.revision != revision:
            raise TracemendError(f"the stored harness of revision {revision[:12]} is damaged")
        return snapshot

    def put_text(self, tx: Connection, kind: str, text: str) -> str:
        """Keep a masked text, cut at the cap; returns its SHA-256 as the name to read it by."""
        masked = redact(text).encode("utf-8", "replace")
        kept = masked[:TEXT_CAP_BYTES]
        digest = sha256_hex(kept)
        self._put(tx, digest, kind, kept, truncated=len(kept) < len(masked))
        return digest

    def text(self, digest: str, kind: str) -> str:
        """A text that was kept."""
        return self._get(digest, kind).decode("utf-8", "replace")

    def _put(
        self, tx: Connection, digest: str, kind: str, data: bytes, *, truncated: bool = False
    ) -> None:
        packed = zstandard.ZstdCompressor(level=3).compress(data)
        row = {"sha256": digest, "kind": kind, "size": len(data), "truncated": truncated}
        self._db.insert_once(tx, artifacts, {**row, "data": packed})

    def _get(self, digest: str, kind: str) -> bytes:
        return self._get_all({digest}, kind)[digest]

    def _get_all(self, digests: Collection[str], kind: str) -> dict[str, bytes]:
        statement = self._db.mine(artifacts, kind=kind).where(artifacts.c.sha256.in_(digests))
        with self._db.read() as tx:
            rows = self._db.rows(tx, statement)
        unpack = zstandard.ZstdDecompressor().decompress
        found = {
            row["sha256"]: unpack(row["data"], max_output_size=row["size"] or 1) for row in rows
        }
        for digest in digests:
            if digest not in found:
                raise TracemendError(f"the ledger has no {kind} blob {digest[:12]}")
        return found
