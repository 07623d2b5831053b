"""What is known of an agent: findings, lessons, and cases mined from its traces."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

from sqlalchemy import Connection, RowMapping, update

from contracts.codec import from_json, to_json
from contracts.errors import UsageError
from contracts.findings import Finding
from contracts.gate import Case, Lesson
from contracts.json_types import Json, JsonObject
from memory.audit import AuditLog
from memory.database import Database
from memory.schema import cases, findings, lessons

FindingState = Literal["open", "ready", "watching", "closed", "reopened"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFinding:
    """A finding and where it stands."""

    finding: Finding
    """As the last analysis that saw it counted it; first and last seen are of all of them."""
    state: FindingState
    opened_at: str = ""
    """RFC 3339, UTC."""
    unseen_at: str | None = None
    """The first analysis since when no unit had it; None: the latest one counted it."""


class Knowledge:
    """Findings, lessons and mined cases of one project."""

    def __init__(self, db: Database, log: AuditLog) -> None:
        self._db = db
        self._log = log

    def put_finding(self, tx: Connection, finding: Finding) -> None:
        """Insert, or bring the counts of a known finding up to date; its state stays.

        When it was seen first and last is kept over analyses.
        """
        row = {"id": finding.id, "signature": finding.signature, "state": "open"}
        values = {**row, "body": to_json(finding), "at": self._db.now()}
        if self._db.insert_once(tx, findings, values):
            self._log.append(tx, "finding.opened", {"finding": finding.id})
            return
        kept = self._db.rows(tx, self._db.mine(findings, id=finding.id))[0]
        body = to_json(_over_time(from_json(Finding, kept["body"]), finding))
        self._update(tx, finding.id, body=body, unseen_at=None)

    def put_unseen(self, tx: Connection, counted: Collection[str]) -> None:
        """Note of every other finding than those counted that this analysis did not see it.

        Nothing is closed by that: a window may be quiet, or short.
        """
        mine = self._db.mine(findings).where(findings.c.unseen_at.is_(None))
        for row in self._db.rows(tx, mine):
            if row["id"] not in counted:
                self._update(tx, row["id"], unseen_at=self._db.now())

    def put_evidence(self, tx: Connection, finding_id: str, evidence: JsonObject) -> None:
        """Keep what a card quotes of a finding; newer evidence takes the place of older."""
        self._update(tx, finding_id, evidence=dict(evidence))

    def evidence(self, finding_id: str) -> JsonObject:
        """What cards quote of a finding; empty where nothing was kept."""
        row = self._db.first(findings, id=finding_id)
        return cast("JsonObject", row["evidence"] or {}) if row is not None else {}

    def set_finding(
        self,
        tx: Connection,
        finding_id: str,
        state: FindingState,
        *,
        why: Mapping[str, Json] | None = None,
    ) -> None:
        """Move a finding on; `why` goes into the audit log: codes, names and numbers only."""
        ready = {"ready_at": self._db.now()} if state == "ready" else {}
        self._update(tx, finding_id, state=state, **ready)
        said: dict[str, Json] = {"finding": finding_id, "state": state, **(why or {})}
        self._log.append(tx, "finding.state", said)

    def finding(self, finding_id: str) -> StoredFinding:
        """One finding.

        Raises:
            UsageError: there is no such finding in this project.
        """
        row = self._db.first(findings, id=finding_id)
        if row is None:
            raise UsageError(
                f"{finding_id}: no such finding in project {self._db.project!r}; "
                "run `tracemend improve` without --finding to analyse first"
            )
        return _found(row)

    def findings(self) -> list[StoredFinding]:
        """All findings, best first."""
        stored = map(_found, self._db.find(findings))
        return sorted(stored, key=lambda s: (-s.finding.score, s.finding.id))

    def oldest_ready(self) -> StoredFinding | None:
        """The finding that has waited longest for its turn."""
        oldest = self._db.mine(findings, state="ready").order_by(findings.c.ready_at)
        with self._db.read() as tx:
            rows = self._db.rows(tx, oldest.limit(1))
        return _found(rows[0]) if rows else None

    def put_lesson(self, tx: Connection, lesson: Lesson) -> None:
        """Keep a lesson; one with this id is kept once."""
        row = {"id": lesson.id, "signature": lesson.signature, "body": to_json(lesson)}
        if self._db.insert_once(tx, lessons, {**row, "at": self._db.now()}):
            said = {"lesson": lesson.id, "finding": lesson.finding_id, "outcome": lesson.outcome}
            self._log.append(tx, "lesson.kept", said)

    def lessons(self, signature: str | None = None) -> list[Lesson]:
        """Lessons, oldest first; of one signature when it is given."""
        with self._db.read() as tx:
            which = {} if signature is None else {"signature": signature}
            statement = self._db.mine(lessons, **which).order_by(lessons.c.at)
            return [from_json(Lesson, row["body"]) for row in self._db.rows(tx, statement)]

    def put_cases(self, tx: Connection, finding_id: str, mined: Iterable[Case]) -> None:
        """Keep cases mined for a finding; one with a known id stays as it was."""
        for case in mined:
            tag = next((t for t in ("target", "sealed") if t in case.tags), "training")
            row = {"id": case.id, "finding": finding_id, "tag": tag, "body": to_json(case)}
            self._db.insert_once(tx, cases, {**row, "at": self._db.now()})

    def targets(self, finding_id: str) -> Sequence[Case]:
        """Mined cases of a finding that are targets now, by id."""
        rows = self._db.find(cases, finding=finding_id, tag="target")
        return sorted((from_json(Case, row["body"]) for row in rows), key=lambda c: c.id)

    def all_cases(self, finding_id: str) -> Sequence[Case]:
        """All mined cases of a finding, whatever they are used for now, by id."""
        rows = self._db.find(cases, finding=finding_id)
        return sorted((from_json(Case, row["body"]) for row in rows), key=lambda c: c.id)

    def mined(self) -> Sequence[tuple[str, str, Case]]:
        """Every mined case with its finding (or "ordinary") and what it is used for now."""
        rows = self._db.find(cases)
        return [(row["finding"], row["tag"], from_json(Case, row["body"])) for row in rows]

    def seal_mined(self, tx: Connection, case_ids: Collection[str]) -> None:
        """Training cases that no editor saw are sealed from now on."""
        mine = (cases.c.project == self._db.project) & cases.c.id.in_(case_ids)
        tx.execute(update(cases).where(mine & (cases.c.tag == "training")).values(tag="sealed"))

    def targets_to_training(self, tx: Connection, finding_id: str) -> None:
        """The drafter saw these cases; from now on they only train."""
        mine = (cases.c.project == self._db.project) & (cases.c.finding == finding_id)
        tx.execute(update(cases).where(mine & (cases.c.tag == "target")).values(tag="training"))

    def training_to_targets(self, tx: Connection, finding_id: str) -> None:
        """For a new proposal: the cases that were mined as targets are targets again.

        The level that earlier gates of this finding spent on them stays spent.
        """
        for row in self._db.rows(tx, self._db.mine(cases, finding=finding_id)):
            if "target" in row["body"]["tags"]:
                mine = (cases.c.project == self._db.project) & (cases.c.id == row["id"])
                mine &= cases.c.finding == finding_id
                tx.execute(update(cases).where(mine).values(tag="target"))

    def _update(self, tx: Connection, finding_id: str, **values: object) -> None:
        mine = (findings.c.project == self._db.project) & (findings.c.id == finding_id)
        tx.execute(update(findings).where(mine).values(**values))


def _found(row: RowMapping) -> StoredFinding:
    return StoredFinding(
        finding=from_json(Finding, row["body"]), state=row["state"], opened_at=row["at"],
        unseen_at=row["unseen_at"],
    )  # fmt: skip


def _over_time(earlier: Finding, now: Finding) -> Finding:
    """What is counted now, seen first and last over both."""
    firsts = [f.first_seen for f in (earlier, now) if f.first_seen is not None]
    lasts = [f.last_seen for f in (earlier, now) if f.last_seen is not None]
    return replace(now, first_seen=min(firsts, default=None), last_seen=max(lasts, default=None))
