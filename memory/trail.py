"""What people said to a proposal that decides nothing: questions to its author, and deferrals."""

from dataclasses import dataclass
from typing import Literal

from contracts.json_types import content_id
from contracts.proposals import Proposal, Via
from memory.audit import AuditLog
from memory.database import Database
from memory.schema import trail

RemarkKind = Literal["ask", "defer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """One remark. `until` is of a deferral: not shown as waiting before (RFC 3339 UTC)."""

    id: str
    proposal: str
    revision: int
    kind: RemarkKind
    by: str
    via: Via
    text: str | None
    until: str | None
    at: str


class Trail:
    """Remarks of one project; append-only."""

    def __init__(self, db: Database, log: AuditLog) -> None:
        self._db = db
        self._log = log

    def add(
        self, proposal: Proposal, kind: RemarkKind, *, by: str, via: Via, key: str,
        text: str | None = None, until: str | None = None,
    ) -> tuple[Remark, bool]:  # fmt: skip
        """Append a remark; one with the same author and key is kept once. True: it is new."""
        said = Remark(
            id=content_id("t-", proposal.id, str(proposal.revision), kind, by, key),
            proposal=proposal.id, revision=proposal.revision, kind=kind, by=by, via=via,
            text=text, until=until, at=self._db.now(),
        )  # fmt: skip
        row = {name: getattr(said, name) for name in Remark.__slots__}
        with self._db.write() as tx:
            first = self._db.insert_once(tx, trail, row)
            if first:
                self._log.append(
                    tx, f"proposal.{kind}",
                    {"proposal": proposal.id, "revision": proposal.revision, "by": by, "via": via},
                )  # fmt: skip
            stands = self._db.rows(tx, self._db.mine(trail, id=said.id))[0]
        return _remark(stands), first

    def of(self, proposal_id: str) -> list[Remark]:
        """All remarks on a proposal, oldest first."""
        with self._db.read() as tx:
            statement = self._db.mine(trail, proposal=proposal_id).order_by(trail.c.at)
            return [_remark(row) for row in self._db.rows(tx, statement)]


def _remark(row: object) -> Remark:
    columns = dict(row)  # type: ignore[call-overload]  # a SQLAlchemy RowMapping
    columns.pop("project")
    return Remark(**columns)
