"""What people said about findings: merge, split, rename, close, reopen. It lasts until revoked."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

from sqlalchemy import Connection, RowMapping, update

from contracts.json_types import Json, JsonObject, canonical_json, content_id, sha256_hex
from memory.audit import AuditLog
from memory.database import Database
from memory.schema import choices

ChoiceKind = Literal["merge", "split", "rename", "close", "reopen"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One thing that one person said about one signature."""

    id: str
    kind: ChoiceKind
    signature: str
    body: JsonObject
    """Of merge `{"into": signature}`, split `{"from": signature}` (a merge, chosen or made by
    likeness, that shall not be), rename `{"title": text}`, close and reopen `{"reason": text}`."""
    by: str
    at: str


class Choices:
    """The choices of one project, oldest first; the newest of one kind and signature holds."""

    def __init__(self, db: Database, log: AuditLog) -> None:
        self._db = db
        self._log = log

    def put(
        self,
        tx: Connection,
        kind: ChoiceKind,
        signature: str,
        body: Mapping[str, Json],
        *,
        by: str,
    ) -> Choice:
        """Keep a choice; one that stands already is returned, whoever made it."""
        said = canonical_json(dict(body))
        for standing in self._listed(tx):
            same = (standing.kind, standing.signature) == (kind, signature)
            if same and canonical_json(dict(standing.body)) == said:
                return standing
        at = self._db.now()
        made = Choice(
            id=content_id("h-", self._db.project, kind, signature, said.decode(), by, at),
            kind=kind, signature=signature, body=dict(body), by=by, at=at,
        )  # fmt: skip
        row = {"id": made.id, "kind": kind, "signature": signature, "body": dict(body)}
        self._db.insert_once(tx, choices, {**row, "by": by, "at": at})
        said_of = {"choice": made.id, "kind": kind, "by": by, "body": sha256_hex(said)}
        self._log.append(tx, "finding.choice", said_of)
        return made

    def revoke(self, tx: Connection, choice: str, *, by: str) -> bool:
        """Take a choice back. False: there is none that stands."""
        mine = (choices.c.project == self._db.project) & (choices.c.id == choice)
        standing = mine & choices.c.revoked_at.is_(None)
        changed = tx.execute(update(choices).where(standing).values(revoked_at=self._db.now()))
        if changed.rowcount:
            self._log.append(tx, "finding.choice_revoked", {"choice": choice, "by": by})
        return bool(changed.rowcount)

    def listed(self) -> list[Choice]:
        """Everything that stands."""
        with self._db.read() as tx:
            return self._listed(tx)

    def _listed(self, tx: Connection) -> list[Choice]:
        mine = self._db.mine(choices).where(choices.c.revoked_at.is_(None))
        rows = self._db.rows(tx, mine.order_by(choices.c.at, choices.c.id))
        return [_choice(row) for row in rows]


def _choice(row: RowMapping) -> Choice:
    return Choice(
        id=row["id"], kind=cast("ChoiceKind", row["kind"]), signature=row["signature"],
        body=row["body"], by=row["by"], at=row["at"],
    )  # fmt: skip
