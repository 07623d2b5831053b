"""All cases of a project as they stand now: from files and from traces, with what each is for."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import cast

from contracts.gate import Case, CaseTag
from memory.cases import assign_families, fingerprint, keep_apart, load_cases
from memory.sealed import Member
from memory.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Casebook:
    """Every case once, with its family and the tags that it has now."""

    cases: tuple[Case, ...]
    notes: tuple[str, ...]
    """Why a case is not what its file says, one sentence each."""

    def tagged(self, tag: CaseTag) -> tuple[Case, ...]:
        """The cases with this tag."""
        return tuple(case for case in self.cases if tag in case.tags)


def read_casebook(ws: Workspace, finding: str | None = None) -> Casebook:
    """The operator's files and the mined cases together.

    Targets are those of `finding` alone; those of others are training cases, since an editor saw
    them. A retired sealed case is a training case, whatever its file says. Families are drawn over
    all cases, so that no sibling of a case that an editor saw stays sealed.

    Raises:
        ConfigError: a case file cannot be used.
    """
    cases = {case.id: case for case in load_cases(ws.root, ws.settings.cases)}
    for origin, tag, case in ws.ledger.knowledge.mined():
        if tag == "target" and origin == finding:
            cases[case.id] = replace(case, family="", tags=frozenset({"target"}))
        elif case.id not in cases:
            now = tag if tag == "sealed" else "training"
            cases[case.id] = replace(case, family="", tags=frozenset({cast("CaseTag", now)}))
    retired = ws.ledger.sealed.retired()
    notes: list[str] = []
    for case in list(cases.values()):
        if "sealed" in case.tags and fingerprint(case) in retired:
            cases[case.id] = replace(case, tags=(case.tags - {"sealed"}) | {"training"})
            notes.append(f"{case.id} is no longer sealed: it was retired")
    kept, why = keep_apart(assign_families(tuple(cases.values())))
    return Casebook(cases=kept, notes=(*notes, *why))


def members(cases: Iterable[Case]) -> tuple[Member, ...]:
    """Sealed cases as lines of the manifest."""
    return tuple(
        Member(fingerprint=fingerprint(case), case=case.id, family=case.family) for case in cases
    )
