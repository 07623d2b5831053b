"""What the gate has opened, run and concluded."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from contracts.codec import from_json, to_json
from contracts.gate import Block, GateReport
from contracts.json_types import Json
from memory.audit import AuditLog
from memory.database import Database
from memory.schema import blocks, openings, reports


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The opening entry of one gate: which use of the sealed set it is, and at which level."""

    proposal_hash: str
    finding: str
    use: int
    issue_use: int
    alpha: float
    use_taken: bool
    """The ledger's use is not the one that the approved plan assumed."""


class GateLedger:
    """Openings, blocks and reports of one project."""

    def __init__(self, db: Database, log: AuditLog) -> None:
        self._db = db
        self._log = log

    def issue_uses(self, finding: str) -> int:
        """Gates of this finding that ran at least one target block."""
        with self._db.read() as tx:
            mine = (blocks.c.project == self._db.project) & (blocks.c.phase == "target")
            ran = {
                row.proposal_hash
                for row in tx.execute(select(blocks.c.proposal_hash).where(mine).distinct())
            }
        opened = {row["proposal_hash"] for row in self._db.find(openings, finding=finding)}
        return len(ran & opened)

    def open(self, tx: Connection, opening: Opening) -> None:
        """Write the opening entry, once."""
        row = {
            "proposal_hash": opening.proposal_hash, "finding": opening.finding,
            "use": opening.use, "issue_use": opening.issue_use, "alpha": opening.alpha,
            "use_taken": opening.use_taken, "at": self._db.now(),
        }  # fmt: skip
        if self._db.insert_once(tx, openings, row):
            said: dict[str, Json] = {"use": opening.use, "alpha": opening.alpha}
            said["proposal_hash"] = opening.proposal_hash
            self._log.append(tx, "gate.opened", said)

    def opening(self, proposal_hash: str) -> Opening | None:
        """The opening entry of a gate."""
        row = self._db.first(openings, proposal_hash=proposal_hash)
        if row is None:
            return None
        return Opening(
            proposal_hash=row["proposal_hash"], finding=row["finding"], use=row["use"],
            issue_use=row["issue_use"], alpha=row["alpha"], use_taken=row["use_taken"],
        )  # fmt: skip

    def put_block(
        self, proposal_hash: str, block: Block, also: Callable[[Connection], None] | None = None
    ) -> bool:
        """Store a finished block whole; False when this attempt is there already.

        `also` writes in the same transaction what belongs to the block, and only with it.
        """
        with self._db.write() as tx:
            mine = (blocks.c.project == self._db.project) & (
                blocks.c.proposal_hash == proposal_hash
            )
            seq = tx.execute(select(func.count()).select_from(blocks).where(mine)).scalar_one()
            row = {
                "proposal_hash": proposal_hash, "phase": block.phase, "case": block.case,
                "idx": block.index, "attempt": block.attempt, "body": to_json(block),
                "seq": seq, "at": self._db.now(),
            }  # fmt: skip
            stored = self._db.insert_once(tx, blocks, row)
            if stored and also is not None:
                also(tx)
            return stored

    def blocks(self, proposal_hash: str) -> Sequence[Block]:
        """All blocks of a gate, in the order in which they were stored."""
        with self._db.read() as tx:
            statement = self._db.mine(blocks, proposal_hash=proposal_hash).order_by(blocks.c.seq)
            return [from_json(Block, row["body"]) for row in self._db.rows(tx, statement)]

    def put_report(
        self, tx: Connection, proposal_hash: str, report: GateReport, digest: str
    ) -> None:
        """Keep the verdict; the first one stands."""
        row = {
            "proposal_hash": proposal_hash, "verdict": report.verdict, "hash": digest,
            "body": to_json(report), "at": self._db.now(),
        }  # fmt: skip
        if self._db.insert_once(tx, reports, row):
            said = {"proposal_hash": proposal_hash, "verdict": report.verdict}
            self._log.append(tx, "gate.decided", {**said, "report_hash": digest})

    def report(self, proposal_hash: str) -> tuple[GateReport, str] | None:
        """The report and its hash, once there is a verdict."""
        row = self._db.first(reports, proposal_hash=proposal_hash)
        return None if row is None else (from_json(GateReport, row["body"]), row["hash"])
