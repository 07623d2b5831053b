"""What the gate found about itself: self-tests, planted edits, how far a judge is to be trusted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection

from contracts.json_types import JsonObject, canonical_json, content_id
from memory.audit import AuditLog
from memory.database import Database
from memory.schema import gate_checks

CheckKind = Literal["self_test", "back_to_back", "planted", "anchor", "judge", "regrade"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCheck:
    """One check. `subject` is whose: the judge's id, the planted edit's name, else empty."""

    kind: CheckKind
    subject: str
    ok: bool
    body: JsonObject
    at: str


class GateChecks:
    """Checks of one project's gate; the newest of a kind and subject holds."""

    def __init__(self, db: Database, log: AuditLog) -> None:
        self._db = db
        self._log = log

    def put(
        self, tx: Connection, kind: CheckKind, *, ok: bool, body: JsonObject, subject: str = ""
    ) -> None:
        """Keep a check."""
        at = self._db.now()
        said = canonical_json(dict(body)).decode("utf-8", "surrogatepass")
        row = {
            "id": content_id("g-", self._db.project, kind, subject, said, at), "kind": kind,
            "subject": subject, "ok": ok, "body": dict(body), "at": at,
        }  # fmt: skip
        if self._db.insert_once(tx, gate_checks, row):
            self._log.append(tx, f"gate.{kind}", {"subject": subject, "ok": ok})

    def last(self, kind: CheckKind, subject: str = "") -> GateCheck | None:
        """The newest of its kind and subject; None: it was never made."""
        found = [check for check in self.listed(kind) if check.subject == subject]
        return found[-1] if found else None

    def listed(self, kind: CheckKind) -> Sequence[GateCheck]:
        """All of a kind, oldest first."""
        rows = sorted(self._db.find(gate_checks, kind=kind), key=lambda row: (row["at"], row["id"]))
        return [
            GateCheck(
                kind=row["kind"], subject=row["subject"], ok=row["ok"], body=row["body"],
                at=row["at"],
            )
            for row in rows
        ]  # fmt: skip
