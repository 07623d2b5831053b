"""All cases as a person lists them: what each is for now, and how its runs went."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from connectors.review.clean import one_line
from contracts.errors import TracemendError
from contracts.gate import Case
from contracts.harness import Revision
from contracts.json_types import JsonObject
from memory.case_runs import Passes
from memory.cases import fingerprint
from memory.sealed import SealedCase
from memory.workspace import Workspace
from nodes.casebook import members, read_casebook
from nodes.cases.stats import CaseStats, Rules, SetState, case_stats
from nodes.gate.flaky import stability
from nodes.ports import open_harness

_NONE = Passes(passes=0, runs=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One case that may be shown."""

    case: Case
    runs: Passes
    """Stored runs of the harness as it is now."""

    @property
    def json(self) -> JsonObject:
        """Its line of `cases list --json`."""
        case = self.case
        return {
            "id": case.id, "fingerprint": fingerprint(case), "tags": [*sorted(case.tags)],
            "family": case.family, "origin": case.origin, "issue": case.issue, "weak": case.weak,
            "assert": [*case.assertions],
            "runs": {
                "passes": self.runs.passes, "runs": self.runs.runs,
                "stability": stability(self.runs),
            },
        }  # fmt: skip

    @property
    def line(self) -> str:
        """The same for a terminal."""
        case = self.case
        tags = ",".join(sorted(case.tags)) + (" weak" if case.weak else "")
        runs = f"{self.runs.passes}/{self.runs.runs}" if self.runs.runs else "-"
        issue = f"  {case.issue}" if case.issue else ""
        name, family = one_line(case.id, 40), one_line(case.family, 40)
        return f"{name:<16} {tags:<18} {runs:>7}  {family:<16} {one_line(case.origin + issue)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """The casebook for people."""

    revision: Revision | None
    """Of the harness as it is now; None: it cannot be read."""
    rows: tuple[Row, ...]
    """All but the sealed ones."""
    sealed_cases: int
    sealed_families: int
    epoch: int
    manifest_hash: str
    manifest: tuple[SealedCase, ...]
    notes: tuple[str, ...]

    @property
    def summary(self) -> str:
        """Counts, in one line."""
        sealed = f"{self.sealed_cases} sealed in {self.sealed_families} families"
        return (
            f"{len(self.rows)} cases, and {sealed} (epoch {self.epoch}, manifest"
            f" {self.manifest_hash[:12]})"
        )


def list_all(ws: Workspace) -> Listed:
    """Read everything; whatever is sealed, or was not entered before, is in the manifest after.

    Raises:
        ConfigError: a case file cannot be used.
    """
    book = read_casebook(ws)
    sealed = book.tagged("sealed")
    with ws.ledger.db.write() as tx:
        ws.ledger.sealed.seal(tx, members(sealed))
    revision, problem = revision_now(ws)
    runs = ws.ledger.case_runs.counts(revision) if revision else {}
    return Listed(
        revision=revision,
        rows=tuple(
            Row(case=case, runs=runs.get(fingerprint(case), _NONE))
            for case in book.cases
            if "sealed" not in case.tags
        ),
        sealed_cases=len(sealed), sealed_families=len({case.family for case in sealed}),
        epoch=ws.ledger.sealed.epoch(), manifest_hash=ws.ledger.sealed.manifest_hash(),
        manifest=tuple(ws.ledger.sealed.listed()),
        notes=(*book.notes, *((problem,) if problem else ())),
    )  # fmt: skip


def revision_now(ws: Workspace) -> tuple[Revision | None, str | None]:
    """The revision of the harness as it is, or why it cannot be told."""
    try:
        return asyncio.run(open_harness(ws).read()).revision, None
    except TracemendError as error:
        return None, one_line(f"the harness cannot be read, so no run counts: {error}", 300)


def stats_now(ws: Workspace) -> tuple[CaseStats, Sequence[str]]:
    """What the cases can prove as things stand, and notes.

    Raises:
        ConfigError: a case file cannot be used.
    """
    book = read_casebook(ws)
    revision, problem = revision_now(ws)
    runs: Mapping[str, Passes] = ws.ledger.case_runs.counts(revision) if revision else {}
    gate, sealed = ws.settings.gate, ws.ledger.sealed
    named = members(book.tagged("sealed"))
    fresh = sealed.never_used(named)
    state = SetState(
        epoch=sealed.epoch(), manifest=sealed.manifest_hash(), listed=sealed.listed(),
        uses=sealed.uses_of(named),
        unused=len({one.family for one in named if one.fingerprint in fresh}),
    )  # fmt: skip
    rules = Rules(profile=gate.profile, margin=gate.margin, uses=gate.uses, max_runs=gate.max_runs)
    notes = (*book.notes, *((problem,) if problem else ()))
    return case_stats(book.cases, state, runs, rules), notes
