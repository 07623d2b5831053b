"""The sealed set: which cases nobody who drafts may see, how often each was used, until when."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, func, select, update

from contracts.gate import CaseId
from contracts.json_types import Json, canonical_json, sha256_hex
from memory.audit import AuditLog
from memory.database import Database
from memory.schema import sealed_cases, sealed_epochs, sealed_uses


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A case as it is sealed; the case itself stays in its file or in the mined cases."""

    fingerprint: str
    case: CaseId
    family: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedCase:
    """One line of the manifest."""

    fingerprint: str
    case: CaseId
    family: str
    epoch: int
    sealed_at: str
    uses: int
    """Gates that ran a sealed block of it or of its family."""
    retired_at: str | None
    why: str | None
    """Why it was retired."""


class SealedSet:
    """The manifest of one project's sealed cases. Ids and fingerprints only, never a text."""

    def __init__(self, db: Database, log: AuditLog) -> None:
        self._db = db
        self._log = log

    def epoch(self) -> int:
        """The epoch now, from 1; every accept ends one."""
        with self._db.read() as tx:
            return self._epoch(tx)

    def _epoch(self, tx: Connection) -> int:
        mine = sealed_epochs.c.project == self._db.project
        ended = tx.execute(select(func.count()).select_from(sealed_epochs).where(mine))
        return 1 + int(ended.scalar_one())

    def seal(self, tx: Connection, members: Iterable[Member]) -> None:
        """Enter cases into the manifest in the epoch of now; one that is there stays as it is."""
        epoch = self._epoch(tx)
        for one in members:
            self._db.insert_once(
                tx, sealed_cases,
                {"fingerprint": one.fingerprint, "case": one.case, "family": one.family,
                 "epoch": epoch, "at": self._db.now(), "retired_at": None, "why": None},
            )  # fmt: skip

    def retire(self, tx: Connection, fingerprints: Collection[str], why: str) -> None:
        """From now on these cases only train. The first reason stands."""
        for fingerprint in sorted(fingerprints):
            mine = (sealed_cases.c.project == self._db.project) & (
                sealed_cases.c.fingerprint == fingerprint
            )
            mine &= sealed_cases.c.retired_at.is_(None)
            ended = update(sealed_cases).where(mine).values(retired_at=self._db.now(), why=why)
            if tx.execute(ended.returning(sealed_cases.c.project)).first() is not None:
                said: dict[str, Json] = {"fingerprint": fingerprint, "why": why}
                self._log.append(tx, "sealed.retired", said)

    def used(self, tx: Connection, proposal_hash: str, member: Member) -> None:
        """A gate ran a sealed block of this case; written with the block."""
        row = {"proposal_hash": proposal_hash, "case": member.case, "family": member.family}
        row |= {"fingerprint": member.fingerprint, "at": self._db.now()}
        self._db.insert_once(tx, sealed_uses, row)

    def uses_of(self, members: Iterable[Member], *, but: str | None = None) -> int:
        """Gates, but the one of hash `but`, that ran any of these cases or of their families."""
        ran = self._ran()
        return len({gate for one in members for gate in _gates_of(ran, one)} - {but})

    def never_used(self, members: Iterable[Member]) -> frozenset[str]:
        """Fingerprints of those of which no gate ran a case, nor one of its family."""
        ran = self._ran()
        return frozenset(one.fingerprint for one in members if not _gates_of(ran, one))

    def _ran(self) -> Mapping[tuple[str, str], set[str]]:
        """The gates (by proposal hash) that ran what goes by a name."""
        found: dict[tuple[str, str], set[str]] = defaultdict(set)
        for row in self._db.find(sealed_uses):
            for name in _names(row["fingerprint"], row["case"], row["family"]):
                found[name].add(row["proposal_hash"])
        return found

    def rotate(self, tx: Connection, proposal_hash: str) -> bool:
        """An accept ends the epoch, once. Cases sealed from now on start at the full level."""
        began = self._epoch(tx)
        row = {"proposal_hash": proposal_hash, "epoch": began, "at": self._db.now()}
        ended = self._db.insert_once(tx, sealed_epochs, row)
        if ended:
            self._log.append(tx, "sealed.epoch", {"ended": began, "proposal_hash": proposal_hash})
        return ended

    def listed(self) -> Sequence[SealedCase]:
        """The manifest, retired ones too, by epoch and fingerprint."""
        ran = self._ran()
        found = []
        for row in self._db.find(sealed_cases):
            one = Member(
                fingerprint=row["fingerprint"], case=CaseId(row["case"]), family=row["family"]
            )
            found.append(
                SealedCase(
                    fingerprint=one.fingerprint, case=one.case, family=one.family,
                    epoch=row["epoch"], sealed_at=row["at"], uses=len(_gates_of(ran, one)),
                    retired_at=row["retired_at"], why=row["why"],
                )
            )  # fmt: skip
        return sorted(found, key=lambda case: (case.epoch, case.fingerprint))

    def retired(self) -> frozenset[str]:
        """Fingerprints of the retired cases."""
        return frozenset(
            row["fingerprint"] for row in self._db.find(sealed_cases) if row["retired_at"]
        )

    def manifest_hash(self) -> str:
        """SHA-256 over epoch, fingerprint and state of every line: two equal sets have one."""
        lines: list[Json] = [
            [case.epoch, case.fingerprint, case.retired_at is None] for case in self.listed()
        ]
        return sha256_hex(canonical_json(lines))


def _gates_of(ran: Mapping[tuple[str, str], set[str]], one: Member) -> set[str]:
    names = _names(one.fingerprint, one.case, one.family)
    return {gate for name in names for gate in ran.get(name, ())}


def _names(fingerprint: str, case: str, family: str) -> frozenset[tuple[str, str]]:
    """What makes two lines speak of one case; uses before the manifest knew the case id alone."""
    named = (("fingerprint", fingerprint), ("case", case), ("family", family))
    return frozenset(one for one in named if one[1])
