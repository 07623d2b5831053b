"""All cases of a project as they stand now: from files and from traces, with what each is for."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import cast

from contracts.gate import Case, CaseTag
from memory.cases import assign_families, fingerprint, keep_apart, read_cases
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
    cases = {case.id: case for case in read_cases(ws.root, ws.settings.cases)}
    for origin, tag, case in ws.ledger.knowledge.mined():
        if tag == "target" and origin == finding:
            cases[case.id] = replace(case, family="", tags=frozenset({"target"}))
        elif case.id not in cases:
            now = tag if tag == "sealed" else "training"
            cases[case.id] = replace(case, family="", tags=frozenset({cast("CaseTag", now)}))
        elif tag != "sealed" and "sealed" in cases[case.id].tags:  # an editor saw the very input
            seen = cases[case.id]
            cases[case.id] = replace(seen, tags=(seen.tags - {"sealed"}) | {"training"})
    reasons: Counter[str] = Counter()
    retired = _retired(ws)
    for case in list(cases.values()):
        why = retired.get(case.id) or retired.get(fingerprint(case))
        if "sealed" in case.tags and why is not None:
            cases[case.id] = replace(case, tags=(case.tags - {"sealed"}) | {"training"})
            reasons[why] += 1
    kept, apart = keep_apart(assign_families(tuple(cases.values())))
    return Casebook(cases=kept, notes=(*_retired_notes(reasons), *apart))


def _retired(ws: Workspace) -> Mapping[str, str]:
    """Why a case was retired, by its id and by its fingerprint: new assertions seal nothing."""
    found: dict[str, str] = {}
    for line in ws.ledger.sealed.listed():
        if line.retired_at is not None:
            for name in (line.case, line.fingerprint):
                found[name] = line.why or "no reason is kept"
    return found


def _retired_notes(reasons: Counter[str]) -> tuple[str, ...]:
    """One sentence for all of them: after some gates they are many."""
    if not reasons:
        return ()
    count = sum(reasons.values())
    what = "; ".join(f"{n} {why}" for why, n in sorted(reasons.items()))
    subject = "1 case that was sealed is" if count == 1 else f"{count} cases that were sealed are"
    return (f"{subject} retired and only train now ({what}).",)


def members(cases: Iterable[Case]) -> tuple[Member, ...]:
    """Sealed cases as lines of the manifest."""
    return tuple(
        Member(fingerprint=fingerprint(case), case=case.id, family=case.family) for case in cases
    )
