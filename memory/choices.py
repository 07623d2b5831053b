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
    """Of merge `{"into": signature, "template": text}`, split `{"from": signature}` (a merge that
    shall not be, whether chosen or made by likeness), rename `{"title": text}`, close and reopen
    `{"reason": text, "units": n, "units_total": n}`: how often it was seen then."""
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
        """Keep a choice; one that stands already is returned, whoever made it.

        What it contradicts no longer stands: an earlier merge or name of the signature, a close by
        a reopen and the other way round, a merge by the split of the same two.
        """
        said = canonical_json(dict(body))
        all_standing = self._listed(tx)
        for standing in all_standing:
            same = (standing.kind, standing.signature) == (kind, signature)
            if same and canonical_json(dict(standing.body)) == said:
                return standing
        at = self._db.now()
        made = Choice(
            id=content_id("h-", self._db.project, kind, signature, said.decode(), by, at),
            kind=kind, signature=signature, body=dict(body), by=by, at=at,
        )  # fmt: skip
        row = {"id": made.id, "kind": kind, "signature": signature, "body": dict(body)}
        if not self._db.insert_once(tx, choices, {**row, "by": by, "at": at}):
            self._again(tx, made.id)
        replaced: list[Json] = [one.id for one in all_standing if _replaces(made, one)]
        for one in replaced:
            self._end(tx, str(one))
        said_of: dict[str, Json] = {
            "choice": made.id, "kind": kind, "by": by, "body": sha256_hex(said),
            "replaces": replaced,
        }  # fmt: skip
        self._log.append(tx, "finding.choice", said_of)
        return made

    def revoke(self, tx: Connection, choice: str, *, by: str) -> bool:
        """Take a choice back. False: there is none that stands."""
        ended = self._end(tx, choice)
        if ended:
            self._log.append(tx, "finding.choice_revoked", {"choice": choice, "by": by})
        return ended

    def listed(self) -> list[Choice]:
        """Everything that stands."""
        with self._db.read() as tx:
            return self._listed(tx)

    def _again(self, tx: Connection, choice: str) -> None:
        """Said, ended and said again at one moment of the clock: it is the same row."""
        mine = (choices.c.project == self._db.project) & (choices.c.id == choice)
        tx.execute(update(choices).where(mine).values(revoked_at=None))

    def _end(self, tx: Connection, choice: str) -> bool:
        mine = (choices.c.project == self._db.project) & (choices.c.id == choice)
        standing = mine & choices.c.revoked_at.is_(None)
        changed = tx.execute(update(choices).where(standing).values(revoked_at=self._db.now()))
        return bool(changed.rowcount)

    def _listed(self, tx: Connection) -> list[Choice]:
        mine = self._db.mine(choices).where(choices.c.revoked_at.is_(None))
        rows = self._db.rows(tx, mine.order_by(choices.c.at, choices.c.id))
        return [_choice(row) for row in rows]


def _replaces(new: Choice, old: Choice) -> bool:
    """Whether the old one cannot stand beside the new one."""
    if {new.kind, old.kind} == {"merge", "split"}:
        pair = {new.signature, new.body.get("into") or new.body.get("from")}
        return pair == {old.signature, old.body.get("into") or old.body.get("from")}
    if new.signature != old.signature:
        return False
    if new.kind in ("close", "reopen"):
        return old.kind in ("close", "reopen")
    return new.kind == old.kind and new.kind != "split"


def _choice(row: RowMapping) -> Choice:
    return Choice(
        id=row["id"], kind=cast("ChoiceKind", row["kind"]), signature=row["signature"],
        body=row["body"], by=row["by"], at=row["at"],
    )  # fmt: skip
