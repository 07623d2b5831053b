"""Effects and releases: what was done to a target, exactly once."""

from dataclasses import replace
from typing import cast

from sqlalchemy import Connection, update

from contracts.codec import from_json, to_json
from contracts.errors import UsageError
from contracts.harness import Effect, EffectKind, EffectState, Revision
from contracts.proposals import Release, ReleaseId
from memory.audit import AuditLog
from memory.database import Database
from memory.leases import Lease, Leases
from memory.schema import effects, releases


class Effects:
    """Effect rows and releases of one project."""

    def __init__(self, db: Database, log: AuditLog, leases: Leases) -> None:
        self._db = db
        self._log = log
        self._leases = leases

    def intend(self, tx: Connection, effect: Effect) -> Effect:
        """Insert the intent, or return the one that is there.

        One is there with the same key, or with the same kind, proposal hash and target, whatever
        decision it was made for (an undo that was refused does not count).
        """
        row = {
            "key": effect.key, "kind": effect.kind, "proposal_hash": effect.proposal_hash,
            "decision_id": effect.decision_id, "target": effect.target, "before": effect.before,
            "after": effect.after, "state": "intended", "fence": 0,
            "updated_at": self._db.now(),
        }  # fmt: skip
        if self._db.insert_once(tx, effects, row):
            said = {"effect": effect.key, "kind": effect.kind, "decision": effect.decision_id}
            self._log.append(tx, "effect.intended", said)
            return effect
        same = {"kind": effect.kind, "proposal_hash": effect.proposal_hash}
        found = self._db.rows(tx, self._db.mine(effects, target=effect.target, **same))
        # Several are there only after refused undos; then the one that stands goes first.
        return self._record(max(found, key=lambda row: row["state"] in ("intended", "done")))

    def find(self, *, kind: str, proposal_hash: str) -> Effect | None:
        """The newest effect of this kind for a proposal hash, if one was intended."""
        found = self._db.find(effects, kind=kind, proposal_hash=proposal_hash)
        newest = max(found, key=lambda row: str(row["updated_at"]), default=None)
        return None if newest is None else self._record(newest)

    def of(self, *, kind: str, proposal_hash: str) -> list[Effect]:
        """All effects of this kind for a proposal hash: one a changed target, by target.

        Undos that were refused are among them, beside the one that was asked for again.
        """
        found = self._db.find(effects, kind=kind, proposal_hash=proposal_hash)
        return [self._record(row) for row in sorted(found, key=lambda row: str(row["target"]))]

    def unfinished(self) -> list[Effect]:
        """Effects that were begun and have no end: a run was killed, or cannot go on."""
        return [self._record(row) for row in self._db.find(effects, state="intended")]

    def claim(self, effect: Effect, lease: Lease) -> None:
        """Note who works on it, with the fencing number of the target's lease."""
        with self._db.write() as tx:
            self._leases.check(tx, lease)
            self._set(tx, effect, owner=lease.owner, fence=lease.fence)

    def finish(
        self,
        tx: Connection,
        effect: Effect,
        lease: Lease,
        *,
        state: EffectState,
        reason: str | None,
    ) -> Effect:
        """Move an intended effect to its end state.

        Raises:
            LeaseLost: another process has the target now, so this one must not record anything.
        """
        self._leases.check(tx, lease)
        self._set(tx, effect, state=state, reason=reason)
        said = {"effect": effect.key, "state": state, "reason": reason}
        self._log.append(tx, f"effect.{state}", said)
        return replace(effect, state=state, reason=reason)

    def put_release(self, tx: Connection, release: Release) -> None:
        """Record a release with the audit head of its time; marks what it undoes."""
        said = {"release": release.id, "before": release.before, "after": release.after}
        head = self._log.append(tx, "release.made", {**said, "undoes": release.undoes})
        row = {
            "id": release.id, "proposal": release.proposal, "proposal_hash": release.proposal_hash,
            "undoes": release.undoes, "audit_head": head, "body": to_json(release),
            "at": self._db.now(),
        }  # fmt: skip
        self._db.insert_once(tx, releases, row)
        if release.undoes is not None:
            undone = replace(self.release(release.undoes), undone_by=release.id)
            mine = (releases.c.project == self._db.project) & (releases.c.id == release.undoes)
            tx.execute(update(releases).where(mine).values(body=to_json(undone)))

    def release(self, release_id: str) -> Release:
        """One release.

        Raises:
            UsageError: there is no such release in this project.
        """
        row = self._db.first(releases, id=release_id)
        if row is None:
            raise UsageError(f"{release_id}: no such release in project {self._db.project!r}")
        return from_json(Release, row["body"])

    def releases(self) -> list[Release]:
        """All releases, oldest first."""
        with self._db.read() as tx:
            rows = self._db.rows(tx, self._db.mine(releases).order_by(releases.c.at))
        return [from_json(Release, row["body"]) for row in rows]

    def release_of(self, proposal_hash: str) -> Release | None:
        """The release that applied a proposal."""
        row = self._db.first(releases, proposal_hash=proposal_hash, undoes=None)
        return None if row is None else from_json(Release, row["body"])

    def undo_of(self, release_id: ReleaseId) -> Release | None:
        """The release that took another one back."""
        row = self._db.first(releases, undoes=release_id)
        return None if row is None else from_json(Release, row["body"])

    def _set(self, tx: Connection, effect: Effect, **values: object) -> None:
        mine = (effects.c.project == self._db.project) & (effects.c.key == effect.key)
        tx.execute(update(effects).where(mine).values(updated_at=self._db.now(), **values))

    def _record(self, row: object) -> Effect:
        columns = cast("dict[str, str]", dict(cast("dict[str, str]", row)))
        return Effect(
            key=columns["key"], kind=cast("EffectKind", columns["kind"]),
            project=columns["project"], proposal_hash=columns["proposal_hash"],
            decision_id=columns["decision_id"], target=columns["target"],
            before=Revision(columns["before"]), after=Revision(columns["after"]),
            state=cast("EffectState", columns["state"]), reason=columns["reason"],
        )  # fmt: skip
