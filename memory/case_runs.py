"""Runs of the baseline, kept case by case: which cases pass stably, and how often runs differ."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection

from contracts.codec import from_json, to_json
from contracts.gate import Graded
from contracts.harness import Revision
from contracts.json_types import content_id
from memory.database import Database
from memory.schema import case_runs

RunSource = Literal["gate", "precheck", "cases"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """Observed runs of one case with one revision; missing ones are left out."""

    passes: int
    runs: int


class CaseRuns:
    """Baseline runs of one project. They plan and classify; no verdict ever counts them."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def add(
        self,
        tx: Connection,
        source: RunSource,
        fingerprint: str,
        revision: Revision,
        graded: Graded,
        *,
        key: str,
    ) -> bool:
        """Keep one run once under its key, such as `proposal hash|phase|case|index`."""
        row = {
            "id": self._id(source, key), "source": source,
            "fingerprint": fingerprint, "revision": revision, "result": graded.result,
            "body": to_json(graded), "at": self._db.now(),
        }  # fmt: skip
        return self._db.insert_once(tx, case_runs, row)

    def known(self, source: RunSource, revision: Revision, keys: Collection[str]) -> frozenset[str]:
        """Those of the keys under which a run with this revision is kept, also a missing one."""
        rows = self._db.find(case_runs, source=source, revision=revision)
        there = {row["id"] for row in rows}
        return frozenset(key for key in keys if self._id(source, key) in there)

    def _id(self, source: RunSource, key: str) -> str:
        return content_id("u-", self._db.project, source, key)

    def counts(self, revision: Revision) -> Mapping[str, Passes]:
        """Passes and observed runs of each case (by fingerprint) with exactly this revision."""
        seen: dict[str, tuple[int, int]] = {}
        for row in self._db.find(case_runs, revision=revision):
            if row["result"] != "missing":
                passes, runs = seen.get(row["fingerprint"], (0, 0))
                seen[row["fingerprint"]] = (passes + (row["result"] == "pass"), runs + 1)
        return {name: Passes(passes=passes, runs=runs) for name, (passes, runs) in seen.items()}

    def listed(
        self, fingerprint: str, revision: Revision, source: RunSource | None = None
    ) -> Sequence[Graded]:
        """The runs of one case, oldest first."""
        rows = self._db.find(case_runs, fingerprint=fingerprint, revision=revision)
        kept = [row for row in rows if source in (None, row["source"])]
        kept.sort(key=lambda row: (row["at"], row["id"]))
        return [from_json(Graded, row["body"]) for row in kept]
